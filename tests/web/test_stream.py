"""The event stream: nothing lost, nothing repeated, whatever breaks in between; and how the service stands."""

from __future__ import annotations

import random
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import anyio
import pytest

from sortie.core.policy import Spent
from sortie.engine.report import LiveReport
from sortie.store.connect import connect_writer, migrate
from sortie.store.lock import held
from sortie.web.feed import Position, _Watch
from sortie.web.heartbeat import Heartbeat
from sortie.web.log_window import BATCH, KEPT, Entry, LogWindow
from sortie.web.site import Site
from tests.store.sample import noted, seen

from .event_reader import PATH, EventReader, listening
from .live_server import DEADLINE, LiveServer, append, new_store, served


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return new_store(tmp_path / "sortie.db", noted("first"), noted("second"))


def seqs(reader: EventReader, count: int) -> list[int | None]:
    return [one.seq for one in reader.changes(count)]


def report(**more: object) -> LiveReport:
    fields: dict[str, object] = {
        "now": time.time(),
        "running": (),
        "waiting": (),
        "parked": (),
        "ready": 3,
        "slots": 5,
        "today": Spent(),
        **more,
    }
    return LiveReport(**fields)  # type: ignore[arg-type]


def test_what_happens_is_told_as_it_happens(store):
    with served(store) as server, listening(server) as reader:
        reader.until("stale")  # it is listened to from here on
        append(store, noted("third", issue="7", run="r"))
        (told,) = reader.changes(1)
        assert told.seq == 3
        assert told.data["seq"] == 3
        assert {name: told.data[name] for name in ("kind", "issue_id", "run_id", "text")} == {
            "kind": "note",
            "issue_id": "7",
            "run_id": "r",
            "text": "third",
        }
        assert reader.headers["content-type"].startswith("text/event-stream")
        assert reader.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("how", [{"query": "?after=1"}, {"Last_Event_ID": "1"}])
def test_it_goes_on_after_the_number_that_is_named(store, how):
    with served(store) as server, listening(server, **how) as reader:
        append(store, noted("third"))
        assert seqs(reader, 2) == [2, 3]


def test_a_browser_that_comes_back_goes_on_where_it_was_not_where_it_began(store):
    with served(store) as server, listening(server, "?after=0", Last_Event_ID="1") as reader:
        assert seqs(reader, 1) == [2]


@pytest.mark.parametrize("how", ["x", "-1", "1.5", "null", "9" * 19, "9" * 30, "9" * 9000, "²"])
def test_what_is_no_number_is_refused(store, how):
    with served(store) as server:
        in_address = server.get(f"{PATH}?after={how.replace('²', '%C2%B2')}")
        in_header = server.get(PATH, Last_Event_ID=how)
        for answer in (in_address, in_header):
            assert (answer.status, answer.code) == (400, "invalid_parameter")


@pytest.mark.parametrize("how", ["?colour=red", "?after=1&after=2", "?issue=7&limit=3"])
def test_what_is_no_parameter_is_refused_as_elsewhere(store, how):
    with served(store) as server:
        answer = server.get(PATH + how)
        assert (answer.status, answer.code) == (400, "invalid_parameter")


def test_more_than_memory_holds_comes_from_the_store(tmp_path):
    store = new_store(tmp_path / "sortie.db", *(noted(f"n{number}") for number in range(KEPT + BATCH + 7)))
    with served(store) as server, listening(server, "?after=0") as reader:
        append(store, *(noted("more") for _ in range(BATCH + 1)))
        total = KEPT + 2 * BATCH + 8
        assert seqs(reader, total) == list(range(1, total + 1))


def test_of_one_issue_only_its_own_events_are_told(store):
    append(store, seen("7"), noted("a", issue="7"), seen("8"), noted("b", issue="8"))
    with served(store) as server:
        for named in ("7", "DEMO-7"):
            with listening(server, f"?after=0&issue={named}") as reader:
                append(store, noted("c", issue="8"), noted("d", issue="7"))
                told = reader.changes(3)
                assert {one.data["issue_id"] for one in told} == {"7"}
        assert server.get(f"{PATH}?issue=nobody").code == "issue_not_found"


def test_numbers_of_another_store_are_told_to_be_none(store):
    with served(store) as server, listening(server, "?after=4000") as reader:
        assert next(reader.messages()).event == "reset"
        append(store, noted("third"))
        assert seqs(reader, 1) == [3]


def test_who_breaks_off_before_anything_happened_goes_on_where_it_began(store):
    with served(store) as server:
        with listening(server) as reader:
            reader.until("stale")
        assert reader.last_id == "2"
        append(store, noted("third"))
        with listening(server, Last_Event_ID=reader.last_id) as reader:
            append(store, noted("fourth"))
            assert seqs(reader, 2) == [3, 4]


def test_in_an_empty_store_too(tmp_path):
    store = new_store(tmp_path / "sortie.db")
    with served(store) as server:
        with listening(server) as reader:
            reader.until("stale")
        assert reader.last_id == "0"
        append(store, noted("first"))
        with listening(server, Last_Event_ID=reader.last_id) as reader:
            append(store, noted("second"))
            assert seqs(reader, 2) == [1, 2]


def test_who_breaks_off_after_a_reset_goes_on_behind_it(store):
    with served(store) as server:
        with listening(server, Last_Event_ID="4000") as reader:
            first = reader.block() or b""
            assert b"event: reset" in first, "no number comes before it: who has one would not be told any more"
            assert b"id: 2" in first.split(b"\n")
        append(store, noted("third"))
        with listening(server, Last_Event_ID="2") as reader:
            append(store, noted("fourth"))
            assert seqs(reader, 2) == [3, 4]


def test_text_of_strangers_cannot_begin_a_message_of_its_own(store):
    hostile = "x\n\nevent: live\ndata: {}\n\n\r\rid: 99\r\n\u2028\x1b[31m<script>"
    with served(store) as server, listening(server) as reader:
        reader.until("stale")
        append(store, noted(hostile), noted("y" * 1_000_000), noted("after"))
        first, long, after = reader.changes(3)
        assert (first.seq, first.data["text"]) == (3, hostile)
        assert len(long.data["text"]) <= 2000
        assert after.data["text"] == "after"


def test_secrets_of_the_workflow_are_not_told(tmp_path):
    (tmp_path / "WORKFLOW.md").write_text(
        "---\ntracker: {kind: file, api_key: sesame-sesame, active_states: [a], terminal_states: [b]}\n"
        "agent: {kind: command}\n---\nx\n"
    )
    store = new_store(tmp_path / "sortie.db", noted("the key is sesame-sesame"))
    with served(store) as server, listening(server, "?after=0") as reader:
        (told,) = reader.changes(1)
        assert told.data["text"] == "the key is [redacted]"


def test_readers_that_break_off_at_any_moment_lose_and_repeat_nothing(store):
    """A writer commits in bursts of any size; readers come and go at random, each with its last number."""
    chance = random.Random(20)
    total, readers = 1500, 6
    written = threading.Thread(target=_write, args=(store, total - 2, random.Random(21)))
    with served(store) as server:
        written.start()
        heard: list[list[int]] = [[] for _ in range(readers)]
        threads = [
            threading.Thread(target=_read, args=(server, numbers, total, random.Random(chance.random())))
            for numbers in heard
        ]
        for thread in threads:
            thread.start()
        for thread in (*threads, written):
            thread.join(DEADLINE)
    for numbers in heard:
        assert numbers == list(range(1, total + 1))


def _write(store: Path, count: int, chance: random.Random) -> None:
    while count:
        burst = min(chance.choice([1, 1, 2, 5, 40, 300]), count)
        append(store, *(noted("x" * chance.choice([1, 50, 3000])) for _ in range(burst)))
        count -= burst


def _read(server: LiveServer, numbers: list[int], total: int, chance: random.Random) -> None:
    while len(numbers) < total:
        last = numbers[-1] if numbers else 0
        how = {"Last_Event_ID": str(last)} if last and chance.random() < 0.5 else {"query": f"?after={last}"}
        with listening(server, **how) as reader:
            wanted = min(chance.choice([1, 7, 100, 700]), total - len(numbers))
            numbers += [one.seq or 0 for one in reader.changes(wanted)]


@contextmanager
def service_of(store: Path, server: LiveServer) -> Iterator[None]:
    """Somebody holds the store and tells how things stand."""
    with held(store, {}):
        server.live.hear(report())
        yield


def test_once_a_second_it_is_told_how_things_stand(store):
    with served(store) as server, service_of(store, server), listening(server) as reader:
        first, second = reader.until("live"), reader.until("live")
        for told in (first, second):
            assert told.seq is None
            assert told.data["counts"] == {"running": 0, "waiting": 0, "parked": 0, "ready": 3, "slots": 5}
            assert told.data["draining"] is False


def test_a_service_that_dies_is_told_with_the_time_of_its_last_word(store):
    """Its lock goes with it, however it ends: nobody waits until its last word is old."""
    with served(store) as server, ExitStack() as service:
        service.enter_context(service_of(store, server))
        server.live.believed_until += 10 * DEADLINE
        with listening(server) as reader:
            reader.until("live")
            service.close()
            assert reader.until("stale").data == {"since": server.live.heard_at}


def test_a_service_that_says_nothing_any_more_is_told_too(store):
    with served(store) as server, held(store, {}):
        server.live.hear(report())
        server.live.heard_at += 3600.0  # somebody set the clock back since
        server.live.believed_until = 0.0
        with listening(server) as reader:
            assert reader.until("stale").data == {"since": server.live.heard_at}
            server.live.hear(report())
            reader.until("live")


def test_a_store_that_another_service_speaks_for_is_not_called_stale(store):
    with served(store, read_only=True) as server, held(store, {}), listening(server, "?after=1") as reader:
        append(store, noted("third"))
        messages = reader.messages()
        assert [next(messages).event for _ in range(2)] == ["change", "change"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_that_goes_away_ends_the_stream_and_not_the_server(store, replaced):
    with served(store) as server:
        with listening(server) as reader:
            reader.until("stale")
            other = new_store(store.with_name("other.db"), noted("another store"))
            for part in ("", "-wal", "-shm"):
                store.with_name(store.name + part).unlink(missing_ok=True)
            if replaced:
                shutil.copy(other, store)
            last = list(reader.messages())[-1]
            assert last.event == "failed"
            assert ("replaced" if replaced else "deleted") in last.data["message"]
        if replaced:
            with listening(server, Last_Event_ID="2") as reader:
                assert next(reader.messages()).event == "reset"
        else:
            answer = server.get(PATH)
            assert (answer.status, answer.headers["retry-after"]) == (503, "2")
            assert answer.code == server.get("/api/v2/status").code == "store_unavailable"


def test_while_there_is_nothing_to_tell_a_comment_shows_that_somebody_is_there(store):
    (store.parent / "WORKFLOW.md").write_text("---\n---\n")
    heartbeat = Heartbeat(Site(store, store.parent / "WORKFLOW.md"), silence=0.0)
    assert heartbeat.beat() and heartbeat.last.startswith(b"event: stale")
    assert heartbeat.beat() and heartbeat.last.startswith(b":")
    patient = Heartbeat(Site(store, store.parent / "WORKFLOW.md"))
    assert [patient.beat(), patient.beat()] == [True, False]
    assert patient.standing.startswith(b"event: stale"), "whoever joins later is told as well"


def test_a_store_of_an_earlier_version_is_refused_until_it_is_brought_up_to_date(tmp_path):
    store = tmp_path / "sortie.db"
    with closing(sqlite3.connect(store)) as db:
        db.executescript((Path(__file__).parents[1] / "store" / "earlier_store.sql").read_text())
        db.commit()
    with served(store, read_only=True) as server:
        for path in (PATH, "/api/v2/status"):
            answer = server.get(path)
            assert (answer.status, "not up to date" in answer.text) == (503, True)
        with closing(connect_writer(store)) as db:
            migrate(db, store)
        with listening(server, "?after=0") as reader:
            assert reader.changes(3)


def test_a_head_request_ends(store):
    with served(store) as server:
        assert server.request("HEAD", PATH).status == 200


class Meanwhile(_Watch):
    """While the store is read for somebody, something happens."""

    async def read(self, after: int, issue_id: str | None) -> tuple[list[Entry], int]:
        found = await super().read(after, issue_id)
        append(self.log._path, noted("meanwhile", issue="7"))
        self.log.extend(self.log.look())
        self._tell()
        return found


async def test_what_happens_while_the_store_is_read_is_not_told_late(store):
    (store.parent / "WORKFLOW.md").write_text("---\n---\n")
    site = Site(store, store.parent / "WORKFLOW.md")
    with closing(LogWindow(site)) as log:
        reader = await Position.found(Meanwhile(site, log), after=0, issue_id="7")
        with anyio.fail_after(DEADLINE):
            assert await reader.next() == b"id: 0\n\n"
            assert b"meanwhile" in await reader.next()


@pytest.mark.parametrize("after", [3, 4])
async def test_a_number_that_was_read_in_the_store_is_none_of_another_store(store, after):
    """What all readers share may be a moment behind the store, where `GET /api/v2/events` looks for its `next`."""
    (store.parent / "WORKFLOW.md").write_text("---\n---\n")
    site = Site(store, store.parent / "WORKFLOW.md")
    with closing(LogWindow(site)) as log:
        append(store, noted("third"))
        watch = _Watch(site, log)  # which has not looked since
        reader = await Position.found(watch, after=after, issue_id=None)
        append(store, noted("fourth"))
        log.extend(log.look())
        with anyio.fail_after(DEADLINE):
            told = await reader.next() + await reader.next()
    assert (b'event: reset\ndata: {"seq":3}' in told) is (after > 3)
    assert (b"third" in told, b"fourth" in told) == (False, True)
