"""The one writer: together, whole, answered after the commit, and in working order after a failure."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread
import pytest

from sortie.errors import StoreError
from sortie.store import Store
from sortie.store.connect import connect_readonly, connect_writer, migrate
from sortie.store.queries import events
from sortie.store.writer import Writer

from .sample import charged, claimed, messages, noted, seen, start_python, turn, unseen


async def test_fifty_callers_at_once_are_all_on_disk_and_in_their_own_order(store, path):
    async def caller(number):
        for step in range(20):
            await store.append(noted(f"{number}.{step}", issue=str(number)))

    async with anyio.create_task_group() as callers:
        for number in range(50):
            callers.start_soon(caller, number)

    with closing(connect_readonly(path)) as db:
        for number in range(50):
            of_caller = messages(events(db, issue_id=str(number)))
            assert of_caller == [f"{number}.{step}" for step in range(20)]


class HeldUp(NamedTuple):
    writer: Writer
    connection: sqlite3.Connection
    rival: sqlite3.Connection
    statements: list[str]


@asynccontextmanager
async def held_up(path: Path) -> AsyncIterator[HeldUp]:
    """A writer with its first job in hand that waits for another program to end its transaction.

    Whatever is appended from here on waits in the queue and makes up the next batch.
    """
    with closing(connect_writer(path)) as connection, closing(connect_writer(path)) as rival:
        migrate(connection, path)
        started = threading.Event()
        statements: list[str] = []

        def watch(statement: str) -> None:
            statements.append(statement)
            started.set()

        connection.set_trace_callback(watch)
        rival.execute("BEGIN IMMEDIATE")
        writer = Writer(connection, path)
        async with anyio.create_task_group() as callers:
            callers.start_soon(writer.append, unseen(claimed("held", "held")))
            assert await anyio.to_thread.run_sync(started.wait, 10)
            yield HeldUp(writer, connection, rival, statements)
        await anyio.to_thread.run_sync(writer.close)


async def test_whatever_waits_is_committed_together(path):
    async with held_up(path) as held:
        async with anyio.create_task_group() as callers:
            for number in range(200):
                callers.start_soon(held.writer.append, unseen(noted(str(number))))
            await anyio.wait_all_tasks_blocked()
            held.rival.execute("COMMIT")
        assert messages(events(held.connection)) == [str(number) for number in range(200)]
        assert held.statements.count("COMMIT") == 2


async def test_events_of_one_call_are_kept_together_or_not_at_all(store):
    await store.append(claimed("1", "r1"))
    with pytest.raises(StoreError):
        await store.write(unseen(noted("lost"), turn(1), claimed("1", "r2")))
    assert len(await store.read(events)) == 1


async def test_a_failing_job_among_good_ones_fails_alone(path):
    failed: list[int] = []
    async with held_up(path) as held:

        async def caller(number: int, issue: str) -> None:
            try:
                await held.writer.append(unseen(noted(str(number)), claimed(issue, f"r{number}")))
            except StoreError:
                failed.append(number)

        async with anyio.create_task_group() as callers:
            for number in range(10):
                callers.start_soon(caller, number, "held" if number == 5 else f"i{number}")
            await anyio.wait_all_tasks_blocked()
            held.rival.execute("COMMIT")
        assert failed == [5]
        assert held.statements.count("COMMIT") == 2
        assert messages(events(held.connection)) == [str(number) for number in range(10) if number != 5]


async def test_text_that_cannot_be_stored_is_replaced_and_nobodys_failure(store):
    await store.append(noted("half a \ud83d pair"))
    await store.append(noted("fine"))
    assert messages(await store.read(events)) == ["half a ? pair", "fine"]


async def test_a_cancelled_caller_does_not_take_its_events_back(path):
    async with held_up(path) as held:
        async with anyio.create_task_group() as callers:
            callers.start_soon(held.writer.append, unseen(noted("cancelled")))
            await anyio.wait_all_tasks_blocked()
            callers.cancel_scope.cancel()
        held.rival.execute("COMMIT")
        await held.writer.append(unseen(noted("next")))
        assert messages(events(held.connection)) == ["cancelled", "next"]


async def test_closing_commits_what_waits(path):
    async with held_up(path) as held:
        async with anyio.create_task_group() as callers:
            for number in range(100):
                callers.start_soon(held.writer.append, unseen(noted(str(number))))
            await anyio.wait_all_tasks_blocked()
            callers.start_soon(anyio.to_thread.run_sync, held.writer.close)
            await anyio.wait_all_tasks_blocked()
            held.rival.execute("COMMIT")
        assert messages(events(held.connection)) == [str(number) for number in range(100)]


async def test_a_closed_store_says_so(path):
    async with Store.open(path, holder={}) as store:
        await store.append()
    with pytest.raises(StoreError, match="is closed"):
        await store.append(noted("late"))


async def test_a_store_that_is_kept_busy_fails_every_waiting_caller_and_then_works_again(path):
    with closing(connect_writer(path)) as connection, closing(connect_writer(path)) as rival:
        migrate(connection, path)
        connection.execute("PRAGMA busy_timeout = 1")
        writer = Writer(connection, path)
        rival.execute("BEGIN IMMEDIATE")
        for number in range(3):
            with pytest.raises(StoreError, match="kept busy by another program"):
                await writer.append(unseen(noted(str(number))))
        rival.execute("COMMIT")
        await writer.append(unseen(noted("after")))
        writer.close()
        assert messages(events(connection)) == ["after"]


async def test_reading_never_changes_anything(store):
    with pytest.raises(StoreError, match="cannot be written"):
        await store.read(lambda db: db.execute("DELETE FROM meta"))


async def test_events_are_never_changed_or_removed(store, path):
    await store.append(seen(), charged())
    with closing(connect_writer(path)) as db:
        for statement in ("UPDATE events SET at = 0", "DELETE FROM events WHERE seq = 1"):
            with pytest.raises(Exception, match="append-only"):
                db.execute(statement)


async def test_no_room_for_one_change_leaves_room_for_smaller_ones(path):
    with closing(connect_writer(path)) as connection:
        migrate(connection, path)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        writer = Writer(connection, path)
        with pytest.raises(StoreError, match="The disk is full"):
            await writer.append(unseen(noted("first"), noted("x" * 50_000)))
        await writer.append(unseen(noted("second")))
        writer.close()
        assert messages(events(connection)) == ["second"]


# A limit on the size of files is as good as a full disk, and needs no disk.
ON_A_FULL_DISK = """
import json, os, resource, sys
from pathlib import Path
import anyio
from sortie.core.events import Noted
from sortie.errors import StoreError
from sortie.store import Store
from sortie.store.connect import connect_writer
from sortie.store.queries import events

async def main(path):
    outcomes = {}
    async with Store.open(path, holder={}) as store:
        async def append(name, size):
            try:
                await store.append(Noted(at=1.0, level="info", message=name, detail="x" * size),
                                   Noted(at=1.0, level="info", message=name, detail="x" * size))
            except StoreError as error:
                outcomes[name] = str(error)
            else:
                outcomes[name] = ""

        await append("before", 10)
        rival = connect_writer(path)
        rival.execute("BEGIN IMMEDIATE")
        full = os.stat(f"{path}-wal").st_size + 20_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
        async with anyio.create_task_group() as callers:
            for number in range(6):
                callers.start_soon(append, f"small {number}", 10)
            callers.start_soon(append, "large", int(sys.argv[2]))
            for number in range(6, 12):
                callers.start_soon(append, f"small {number}", 10)
            await anyio.wait_all_tasks_blocked()
            rival.execute("COMMIT")
        rival.close()
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        async with anyio.create_task_group() as callers:
            for number in range(6):
                callers.start_soon(append, f"after {number}", 30_000)
        kept = [row.event.message for row in await store.read(events)]
    print(json.dumps([outcomes, kept]))

anyio.run(main, Path(sys.argv[1]))
"""


# Small changes fail at the commit; large ones already before, when SQLite gives up the transaction by itself.
@pytest.mark.parametrize("size", [30_000, 3_000_000])
def test_a_full_disk_fails_the_callers_keeps_nothing_half_done_and_is_survived(path, size):
    with start_python(ON_A_FULL_DISK, path, str(size)) as child:
        printed, _ = child.communicate(timeout=30)
    outcomes, kept = json.loads(printed)
    assert not any(outcomes[name] for name in ("before", *(f"after {number}" for number in range(6))))
    assert sorted(kept) == sorted(2 * [name for name, outcome in outcomes.items() if not outcome])
    assert "sortie.db" in outcomes["large"]
    assert "disk" in outcomes["large"]
