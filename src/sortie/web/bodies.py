"""Reads the whole body of a request, with a limit of size and time."""

from __future__ import annotations

import anyio
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

# An answer of a person, or a webhook: these are text, and a tracker's server sends an issue with all its fields.
MOST_BYTES = 1024 * 1024
# A token, and the address to go on to.
MOST_BYTES_OF_LOGIN = 8 * 1024


class BodyLimits(Struct, frozen=True, kw_only=True):
    """What is a little too large is read to its end and thrown away, up to `most_discarded`: who is cut off while
    sending sees no answer. All of it has to come `within` so many seconds."""

    most_bytes: int = MOST_BYTES
    most_discarded: int = 10 * MOST_BYTES
    within: float = 10.0

    def of_login(self) -> BodyLimits:
        """For what anybody may send, who has no token yet."""
        return replace(self, most_bytes=min(self.most_bytes, MOST_BYTES_OF_LOGIN))


class BodyTooLarge(Exception):
    pass


class BodyTooSlow(Exception):
    pass


async def gathered(connection: Scope, receive: Receive, limits: BodyLimits) -> bytes:
    """All of it, or an error."""
    declared = dict(connection["headers"]).get(b"content-length", b"")
    if declared.isdigit() and int(declared) > limits.most_discarded:
        raise _too_large(limits)
    try:
        with anyio.fail_after(limits.within):
            return await _read(receive, limits)
    except TimeoutError as error:
        raise BodyTooSlow(f"The body of the request did not arrive within {limits.within:g} s.") from error


async def _read(receive: Receive, limits: BodyLimits) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size <= limits.most_discarded:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        size += len(piece)
        if size <= limits.most_bytes:
            pieces.append(piece)
        if not message.get("more_body", False):
            break
    if size > limits.most_bytes:
        raise _too_large(limits)
    return b"".join(pieces)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Gives the body once, then whatever else comes."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _too_large(limits: BodyLimits) -> BodyTooLarge:
    kib = limits.most_bytes >> 10
    return BodyTooLarge(
        f"The body of the request is larger than {f'{kib >> 10} MiB' if kib >> 10 else f'{kib} KiB'}."
    )
