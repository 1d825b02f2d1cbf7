"""The body of a request, as a whole: so large at most, and within a time."""

from __future__ import annotations

import anyio
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

# An answer of a person, or a webhook: these are text, and a tracker's server sends an issue with all its fields.
MOST_BYTES = 1024 * 1024
# What is a little too large is read to its end and thrown away: who is cut off while sending sees no answer.
MOST_DISCARDED = 10 * MOST_BYTES
WITHIN = 10.0


class BodyTooLarge(Exception):
    pass


class BodyTooSlow(Exception):
    pass


async def gathered(connection: Scope, receive: Receive) -> bytes:
    """All of it, or an error."""
    declared = dict(connection["headers"]).get(b"content-length", b"")
    if declared.isdigit() and int(declared) > MOST_DISCARDED:
        raise _too_large()
    try:
        with anyio.fail_after(WITHIN):
            return await _read(receive)
    except TimeoutError as error:
        raise BodyTooSlow(f"The body of the request did not come within {WITHIN:g} s.") from error


async def _read(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size <= MOST_DISCARDED:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        size += len(piece)
        if size <= MOST_BYTES:
            pieces.append(piece)
        if not message.get("more_body", False):
            break
    if size > MOST_BYTES:
        raise _too_large()
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


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"The body of the request is larger than {MOST_BYTES // 1024 // 1024} MiB.")
