"""A stream of bytes cut into lines. Memory stays bounded whatever the other side writes."""

from __future__ import annotations

LINE_LIMIT = 1024 * 1024
TRUNCATED = " …[truncated]".encode()

_CARRIAGE_RETURN = 0x0D


class LineSplitter:
    """Cuts a stream into lines at 0x0A, without the 0x0A and one 0x0D before it.

    A line over `limit` is delivered once, cut and marked, as soon as it is over; the rest of it is not kept.
    """

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._held = bytearray()
        self._dropping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for piece in ended:
            self._hold(piece, lines)
            if not self._dropping:
                lines.append(self._take())
            self._dropping = False
        self._hold(rest, lines)
        return lines

    def finish(self) -> list[bytes]:
        """The last line, if it had no newline."""
        return [self._take()] if self._held else []

    def _hold(self, piece: bytes, lines: list[bytes]) -> None:
        if self._dropping:
            return
        # One byte more than the limit, because a 0x0D at the end of a line does not count.
        room = self._limit + 1 - len(self._held)
        self._held += piece[:room]
        if len(piece) > room or (len(self._held) > self._limit and self._held[-1] != _CARRIAGE_RETURN):
            lines.append(bytes(self._held[: self._limit]) + TRUNCATED)
            self._held.clear()
            self._dropping = True

    def _take(self) -> bytes:
        line = bytes(self._held).removesuffix(b"\r")
        self._held.clear()
        return line
