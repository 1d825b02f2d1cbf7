"""A reader of the event stream over a socket of its own: each message as its name, number and data."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from .live_server import DEADLINE, LiveServer

PATH = "/api/v2/events/stream"


class Told(Struct, frozen=True):
    event: str
    seq: int | None
    data: Any


class EventReader:
    """`status` and `headers` of the answer are known at once; messages come one by one. `last_id` is what a browser
    would come back with."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._pieces = b""
        self._ended = False
        head, _, self._pieces = self._until(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._text = b""
        self.last_id = ""

    def messages(self) -> Iterator[Told]:
        """Until the server ends the stream; comments are messages without a name."""
        while (block := self.block()) is not None:
            fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if not line.startswith(":"))
            self.last_id = fields.get("id", self.last_id)
            if "data" in fields or not fields:
                seq = int(fields["id"]) if "id" in fields else None
                yield Told(fields.get("event", ""), seq, json.loads(fields.get("data", "null")))

    def until(self, event: str) -> Told:
        return next(one for one in self.messages() if one.event == event)

    def changes(self, count: int) -> list[Told]:
        found = (one for one in self.messages() if one.event == "change")
        return [next(found) for _ in range(count)]

    def block(self) -> bytes | None:
        """The next message as it was sent, without the empty line at its end; None where the stream ends."""
        while b"\n\n" not in self._text:
            piece = self._chunk()
            if not piece:
                return None
            self._text += piece
        block, _, self._text = self._text.partition(b"\n\n")
        return block

    def _chunk(self) -> bytes:
        size, _, self._pieces = self._until(b"\r\n")
        if not size:
            return b""
        wanted = int(size, 16)
        while len(self._pieces) < wanted + 2 and self._read():
            pass
        piece, self._pieces = self._pieces[:wanted], self._pieces[wanted + 2 :]
        return piece

    def _until(self, mark: bytes) -> tuple[bytes, bytes, bytes]:
        while mark not in self._pieces and self._read():
            pass
        return self._pieces.partition(mark)

    def _read(self) -> bool:
        if not self._ended:
            piece = self.connection.recv(65536)
            self._pieces += piece
            self._ended = not piece
        return not self._ended


@contextmanager
def listening(server: LiveServer, query: str = "", **headers: str) -> Iterator[EventReader]:
    with socket.create_connection((server.host, server.port), timeout=DEADLINE) as connection:
        ask(connection, server, query, **headers)
        yield EventReader(connection)


def ask(connection: socket.socket, server: LiveServer, query: str = "", **headers: str) -> None:
    lines = [f"GET {PATH}{query} HTTP/1.1", f"Host: {server.authority}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
