"""Standard input and output as a channel of lines that belongs to the protocol alone.

After `claim` nothing else in this process can take a byte from the client or send it one: file descriptor 0 reads
as empty, and what is written to 1 lands on standard error.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from .json_text import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LINE_LIMIT = 10 * 1024 * 1024

_CHUNK = 65536


class StdioChannel:
    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._sending = allocate_lock()

    @classmethod
    def claim(cls) -> StdioChannel:
        channel = cls(os.dup(0), os.dup(1))
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        try:
            os.dup2(2, 1)
        except OSError:  # started without a standard error
            os.dup2(nothing, 2)
            os.dup2(nothing, 1)
        os.close(nothing)
        os.set_blocking(channel._source, True)
        os.set_blocking(channel._sink, True)
        return channel

    def lines(self) -> Iterator[bytes | None]:
        """Each line until the client closes its end; None for one that is too long, which costs no memory."""
        line = bytearray()
        too_long = False
        while chunk := self._read():
            for number, piece in enumerate(chunk.split(b"\n")):
                if number:
                    yield None if too_long else bytes(line)
                    line.clear()
                    too_long = False
                too_long = too_long or len(line) + len(piece) > LINE_LIMIT
                if too_long:
                    line.clear()
                else:
                    line += piece
        if line:
            yield bytes(line)

    def send(self, message: object) -> None:
        """ASCII only, so that no character of a text can end a line for any client."""
        data = memoryview(encode(message).encode("ascii") + b"\n")
        with self._sending:
            while data:
                try:
                    data = data[os.write(self._sink, data) :]
                except OSError:
                    # The client is gone, perhaps while the main thread still waits for its next line.
                    os._exit(0)

    def is_client_gone(self) -> bool:
        """Whether nobody can read an answer any more."""
        import select

        watch = select.poll()
        watch.register(self._sink, 0)
        return any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in watch.poll(0))

    def _read(self) -> bytes:
        try:
            return os.read(self._source, _CHUNK)
        except OSError:  # a socket whose other end died
            return b""


def log_line(text: str) -> None:
    """One line on standard error, or nothing where nobody empties it: a log line must never hold up an answer.

    It says whose it is: to an agent that is a script this is its own standard error too.
    """
    import select

    line = f"sortie-tools: {' '.join(text.split())}".encode("utf-8", "backslashreplace")
    watch = select.poll()
    watch.register(2, select.POLLOUT)
    if any(event & select.POLLOUT for _, event in watch.poll(0)):
        try:
            os.write(2, line[: select.PIPE_BUF - 1] + b"\n")
        except OSError:  # closed in this moment; there is nowhere to report that to
            return
