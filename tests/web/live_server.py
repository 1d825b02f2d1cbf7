"""The real application behind a real socket: uvicorn in a thread, on a free port of loopback, for a given store."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import uvicorn
from msgspec import Struct

from sortie.core import events as ev
from sortie.core.schedule import Schedule
from sortie.store.connect import connect_existing, connect_writer, migrate
from sortie.store.load import load
from sortie.store.tables import apply, write
from sortie.store.web_tokens import Scope
from sortie.web.server import configured
from sortie.web.site import Live, Site
from sortie.web.tokens import new_token
from sortie.workflow.config import ServerConfig

DEADLINE = 30.0

WORKFLOW = """\
---
tracker: {kind: file, active_states: [To Do], terminal_states: [Done], handoff_state: In Review}
agent: {kind: command}
---
Do {{ issue.title }}
"""


class Answer(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of an error."""
        return str(self.json["error"]["code"])


class LiveServer:
    """`url` has no slash at its end."""

    def __init__(self, site: Site, port: int) -> None:
        self.site = site
        self.live = site.live
        self.host = "::1" if ":" in site.host else "127.0.0.1"
        self.port = port
        self.authority = f"[::1]:{port}" if ":" in self.host else f"{self.host}:{port}"
        self.url = f"http://{self.authority}"

    def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | str | None = None
    ) -> Answer:
        """One request over a connection of its own; no redirect is followed. Header names of the answer are lower
        case, and of several with one name the last counts."""
        with closing(http.client.HTTPConnection(self.host, self.port, timeout=DEADLINE)) as connection:
            connection.request(method, path, body=body, headers=dict(headers or {}))
            answer = connection.getresponse()
            said = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, said, answer.read())

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, {name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path: str, body: bytes | str = b"", **headers: str) -> Answer:
        return self.request("POST", path, {name.replace("_", "-"): value for name, value in headers.items()}, body)

    def bearer(self, scope: Scope = "operate") -> str:
        """The header `Authorization` of a new token."""
        return f"Bearer {new_token(self.site.database, scope)}"

    def cookie(self, scope: Scope = "operate") -> str:
        """The header `Cookie` of who logged in with a new token."""
        answer = self.get(f"/login?token={new_token(self.site.database, scope)}")
        assert answer.status == 303, answer
        return answer.headers["set-cookie"].partition(";")[0]

    def raw(self, data: bytes) -> bytes:
        """What is answered to exactly these bytes, until the server closes the connection."""
        with socket.create_connection((self.host, self.port), timeout=DEADLINE) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@contextmanager
def served(
    database: Path,
    *,
    place: Path | None = None,
    host: str = "127.0.0.1",
    is_plan: bool = False,
    read_only: bool = False,
    live: Live | None = None,
    server: ServerConfig | None = None,
) -> Iterator[LiveServer]:
    """Serve a store, with the workflow beside it unless another `place` is named; one is written if need be."""
    place = place or database.parent / "WORKFLOW.md"
    if not place.exists():
        place.write_text(WORKFLOW)
    site = Site(database, place, is_plan=is_plan, live=live, host=host, read_only=read_only, server=server)
    with serving(site) as started:
        yield started


@contextmanager
def serving(site: Site, config: uvicorn.Config | None = None) -> Iterator[LiveServer]:
    """Listens where the site says, on a port that is free; `config` is another than the usual one."""
    family = socket.AF_INET6 if ":" in site.host else socket.AF_INET
    with socket.create_server((site.host, 0), family=family, backlog=2048) as listening:
        server = uvicorn.Server(config or configured(site))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="live server")
        thread.start()
        try:
            _until_started(server, thread)
            yield LiveServer(site, listening.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(DEADLINE)
            assert not thread.is_alive(), "the server does not end"


def _until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + DEADLINE
    while not server.started:
        assert thread.is_alive() and time.monotonic() < deadline, "the server did not start"
        time.sleep(0.005)


def new_store(path: Path, *events: ev.AnyEvent) -> Path:
    """A store that nobody owns, with these events in it."""
    with closing(connect_writer(path)) as db:
        migrate(db, path)
        _commit(db, Schedule(), events)
    return path


def append(path: Path, *events: ev.AnyEvent) -> None:
    """What a service would add, in one commit."""
    with closing(connect_existing(path)) as db:
        _commit(db, load(db).schedule, events)


def _commit(db: Connection, schedule: Schedule, events: Sequence[ev.AnyEvent]) -> None:
    db.execute("BEGIN IMMEDIATE")
    write(db, [apply(schedule, event) for event in events])
    db.execute("COMMIT")
