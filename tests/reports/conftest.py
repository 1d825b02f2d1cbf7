"""Stores to report on: one that a test fills with events, and large ones that are made once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection

import pytest
from bench.large_store import Large, make_large_store

from sortie.core import events as ev
from sortie.core.schedule import Schedule
from sortie.store.connect import connect_readonly, connect_writer, migrate
from sortie.store.tables import apply, write
from sortie.workflow.config import Config
from sortie.workflow.loader import examine

from .scene import NOW, SECRET, WORKFLOW, Fill


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Fill]:
    """Writes events as a service does, and gives what a report reads."""
    path, opened, schedule = tmp_path / "sortie.db", list[Connection](), Schedule()

    def fill(events: Iterable[ev.AnyEvent]) -> Connection:
        with closing(connect_writer(path)) as db:
            migrate(db, path)
            db.execute("BEGIN")
            write(db, [apply(schedule, event) for event in events])
            db.execute("COMMIT")
        opened.append(connect_readonly(path))
        return opened[-1]

    yield fill
    for db in opened:
        db.close()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "WORKFLOW.md"
    path.write_text(WORKFLOW % (SECRET, SECRET))
    return examine(path, environ={}, trial=False).config


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same issues with few and with many runs."""
    root = tmp_path_factory.mktemp("stores")
    made = []
    for runs in (60, 600):
        path = root / f"{runs}.db"
        make_large_store(path, Large(runs=runs, issues=60, running=3, waiting=4, parked=5, days=20, now=NOW))
        made.append(path)
    return made[0], made[1]


@pytest.fixture
def many(stores: tuple[Path, Path]) -> Iterator[Connection]:
    with closing(connect_readonly(stores[1])) as db:
        yield db
