"""The body of a request, read to its end and no further, whatever way the client chose to send it."""

from __future__ import annotations

import json
import zlib
from email.message import Message
from io import BufferedIOBase

from .wire import Json

LIMIT = 64 * 1024 * 1024
LINE_LIMIT = 4096

# To zlib: either header, gzip's or its own; and no header at all, which some clients call deflate too.
WITH_HEADER, WITHOUT_HEADER = 47, -15


class BadBody(Exception):
    """A body that cannot be used; `status` is the answer to it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read(headers: Message, stream: BufferedIOBase) -> bytes:
    if "chunked" in headers.get("Transfer-Encoding", "").lower():
        raw = _chunks(stream)
    else:
        raw = _exactly(stream, _size(headers.get("Content-Length", "0"), 10))
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if encoding == "identity":
        return raw
    if encoding not in ("gzip", "deflate"):
        raise BadBody(415, f"the encoding {encoding!r} is not known here; send gzip, deflate or none")
    return _unpacked(raw)


def parsed(raw: bytes) -> Json:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadBody(400, f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadBody(400, "the body is not a JSON object")
    return body


def _chunks(stream: BufferedIOBase) -> bytes:
    body = bytearray()
    while size := _size(_line(stream).partition(b";")[0].decode("latin-1"), 16):
        if len(body) + size > LIMIT:
            raise BadBody(413, f"the body is larger than {LIMIT} bytes")
        body += _exactly(stream, size)
        if _line(stream):
            raise BadBody(400, "a chunk is longer than it said")
    while _line(stream):
        pass
    return bytes(body)


def _line(stream: BufferedIOBase) -> bytes:
    line = stream.readline(LINE_LIMIT)
    if not line.endswith(b"\n"):
        raise ConnectionResetError("the client left in the middle of its request")
    return line.rstrip(b"\r\n")


def _size(text: str, base: int) -> int:
    try:
        size = int(text.strip(), base)
    except ValueError:
        size = -1
    if size < 0:
        raise BadBody(400, "the length of the body is not a number")
    if size > LIMIT:
        raise BadBody(413, f"the body is larger than {LIMIT} bytes")
    return size


def _exactly(stream: BufferedIOBase, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise ConnectionResetError("the client left in the middle of its request")
    return data


def _unpacked(raw: bytes) -> bytes:
    for window in (WITH_HEADER, WITHOUT_HEADER):
        unpacking = zlib.decompressobj(window)
        try:
            data = unpacking.decompress(raw, LIMIT + 1)
        except zlib.error:
            continue
        if len(data) > LIMIT:
            raise BadBody(413, f"the body is larger than {LIMIT} bytes")
        if unpacking.eof:
            return data
    raise BadBody(400, "the compressed body is damaged")
