"""What people and tools read, while an orchestrator writes and when none is there."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import anyio
import msgspec
import pytest

from sortie.core.events import ActedOn, AnyEvent, RunStatus
from sortie.core.model import Usage
from sortie.store import Store
from sortie.store.commands import add_commands, pending_commands
from sortie.store.connect import connect_readonly
from sortie.store.load import load, snapshot
from sortie.store.queries import (
    LoggedEvent,
    Tokens,
    Totals,
    events,
    find_issue,
    history,
    last_run_of,
    totals,
)

from .sample import DAY, PARK, RETRY, claimed, ended, messages, noted, output_of, seen, settled, start_python, turn


def run_of(issue: str, run: str, status: RunStatus = "succeeded", **more: Any) -> tuple[AnyEvent, ...]:
    return claimed(issue, run), ended(issue, run, status, **more), settled(issue, run)


async def test_the_last_run_of_an_issue_is_the_one_that_goes_on_or_else_ended_last(store):
    async def last() -> str | None:
        found: str | None = await store.read(lambda db: last_run_of(db, "42"))
        return found

    await store.append(*run_of("7", "r0"))
    assert await last() is None
    for run in ("r1", "r2"):
        await store.append(*run_of("42", run))
        assert await last() == run
    await store.append(claimed("42", "r3"))
    assert await last() == "r3"


async def test_a_history_row_is_exactly_what_the_command_prints(store):
    await store.append(*run_of("42", "r1", "failed", error="boom", usage=Usage(100, 20, 7, 0.25), turns=3))
    rows = await store.read(history)
    assert msgspec.json.decode(msgspec.json.encode(rows)) == [
        {
            "run_id": "r1",
            "issue_id": "42",
            "identifier": "DEMO-42",
            "attempt": 1,
            "agent": "command",
            "workspace": "",
            "started_at": "2026-03-30T14:20:00Z",
            "completed_at": "2026-03-30T14:35:12Z",
            "status": "failed",
            "error": "boom",
            "turns": 3,
            "soft_stop": "",
            "reason": "",
            "session_id": "",
            "tokens": {"input": 100, "output": 20, "cache_read": 7, "total": 120},
            "cost_usd": 0.25,
            "model": "",
            "measured": True,
        }
    ]


async def test_history_is_newest_first_bounded_and_of_one_issue_or_all(store):
    for number in range(6):
        await store.append(*run_of("ab"[number % 2], f"r{number}", reason=str(number)))

    async def reasons(*question: Any) -> list[str]:
        return [row.reason for row in await store.read(lambda db: history(db, *question))]

    assert await reasons() == ["5", "4", "3", "2", "1", "0"]
    assert await reasons("a") == ["4", "2", "0"]
    assert await reasons("b", 1) == ["5"]
    assert await reasons("nobody") == []


async def test_events_are_read_in_order_a_page_at_a_time_and_from_the_end(store):
    await store.append(*[noted(str(number), issue="ab"[number % 2], run="r") for number in range(10)])

    async def said(question: Callable[..., list[LoggedEvent]], **which: Any) -> list[str]:
        return messages(await store.read(functools.partial(question, **which)))

    assert await said(events, issue_id="a") == ["0", "2", "4", "6", "8"]
    assert await said(events, issue_id="a", run_id="r", limit=2) == ["0", "2"]
    assert await said(events, issue_id="a", after_seq=3) == ["4", "6", "8"]
    assert await said(events, run_id="r", after_seq=8) == ["8", "9"]
    assert await said(events, run_id="other") == []
    assert await said(events, limit=3, last=True) == ["7", "8", "9"]
    assert await said(events, issue_id="b", limit=2, last=True) == ["7", "9"]


async def test_an_issue_is_found_by_id_or_identifier_wherever_it_is_known(store):
    await store.append(
        seen("seen"),
        claimed("running", "r1"),
        *run_of("over", "r2"),
        claimed("waiting", "r3"),
        settled("waiting", "r3", retry=RETRY),
        claimed("aside", "r4"),
        settled("aside", "r4", park=PARK),
        ActedOn(at=1.0, issue_id="moved", identifier="DEMO-moved", by="X-1", by_run="r1", tool="t", state="Done"),
    )
    with closing(connect_readonly(store.path)) as db:
        for issue in ("seen", "running", "over", "waiting", "aside", "moved"):
            assert find_issue(db, issue) == issue
            assert find_issue(db, f"DEMO-{issue}") == issue
        assert find_issue(db, "DEMO-unknown") is None


async def test_an_id_wins_over_an_identifier_and_the_newest_over_older_ones(store):
    await store.append(*run_of("DEMO-2", "r1"), *run_of("2", "r2"))
    await store.append(claimed("old", "r3", identifier="X-1"), ended("old", "r3"), settled("old", "r3"))
    await store.append(claimed("new", "r4", identifier="X-1"), ended("new", "r4"), settled("new", "r4"))
    with closing(connect_readonly(store.path)) as db:
        assert find_issue(db, "DEMO-2") == "DEMO-2"
        assert find_issue(db, "X-1") == "new"


async def test_a_number_is_found_with_its_sign_too_unless_something_is_called_so(store):
    await store.append(*run_of("7", "r1"), *run_of("8", "r2"))
    await store.append(claimed("nine", "r3", identifier="#8"), ended("nine", "r3"), settled("nine", "r3"))
    with closing(connect_readonly(store.path)) as db:
        assert find_issue(db, "#7") == "7"
        assert find_issue(db, "#8") == "nine"
        assert find_issue(db, "##") is None


async def test_a_key_is_found_in_small_letters_too_unless_something_is_called_so(store):
    await store.append(*run_of("1", "r1"), *run_of("2", "r2"))
    await store.append(claimed("other", "r3", identifier="demo-2"), ended("other", "r3"), settled("other", "r3"))
    with closing(connect_readonly(store.path)) as db:
        assert find_issue(db, "demo-1") == find_issue(db, "#demo-1") == "1"
        assert find_issue(db, "demo-2") == "other"
        assert find_issue(db, "DEMO-2") == "2"
        assert find_issue(db, "demo-3") is None


async def test_totals_add_up_all_finished_runs(store):
    nothing = await store.read(totals)
    assert nothing == Totals(runs={}, turns=0, seconds=0, tokens=Tokens(0, 0, 0, 0), cost_usd=0)
    used: dict[str, Any] = {"usage": Usage(100, 20, 7, 0.25), "turns": 2}
    await store.append(*run_of("1", "r1", **used), *run_of("2", "r2", **used), *run_of("1", "r3", "failed", **used))
    assert await store.read(totals) == Totals(
        runs={"failed": 1, "succeeded": 2},
        turns=6,
        seconds=3 * 912,
        tokens=Tokens(300, 60, 21, 360),
        cost_usd=0.75,
    )


@pytest.mark.parametrize(
    "question",
    [
        functools.partial(history, issue_id="7", limit=10),
        functools.partial(events, issue_id="7"),
        functools.partial(events, issue_id="7", after_seq=5),
        functools.partial(events, run_id="r7"),
        functools.partial(events, issue_id="7", run_id="r7"),
        functools.partial(events, issue_id="7", last=True),
        functools.partial(find_issue, text="DEMO-7"),
        functools.partial(find_issue, text="demo-7"),
        functools.partial(events, issue_id="7", kind="acted", after_seq=5),
        pending_commands,
    ],
)
async def test_questions_about_one_issue_never_walk_a_growing_table(store, question):
    asked: list[str] = []
    with closing(connect_readonly(store.path)) as db:
        db.set_trace_callback(asked.append)
        question(db)
        db.set_trace_callback(None)
        plans = [row[3] for sql in asked for row in db.execute(f"EXPLAIN QUERY PLAN {sql}")]
    growing = [plan for plan in plans if any(t in plan for t in ("events", "run_history", "commands"))]
    assert growing
    for plan in growing:
        # The primary key alone would be a walk over everybody's events.
        assert "USING INDEX" in plan or "USING COVERING INDEX" in plan, plan
    assert not [plan for plan in plans if "TEMP B-TREE" in plan]


async def test_a_snapshot_is_one_moment(store, path):
    with closing(connect_readonly(path)) as db, snapshot(db):
        before = load(db)
        await store.append(claimed())
        assert load(db) == before
    with closing(connect_readonly(path)) as db:
        assert len(load(db).schedule.running) == 1


# Looks again and again; each look must be consistent in itself. Ends when it has seen enough.
LOOKS = f"""
import sys
from pathlib import Path
from sortie.store.connect import connect_readonly
from sortie.store.load import load, snapshot

db = connect_readonly(Path(sys.argv[1]))
looks, most = 0, 0
while most < 300:
    with snapshot(db):
        turns = load(db).schedule.spent_today("{DAY}").turns
        (events,) = db.execute("SELECT count(*) FROM events WHERE kind = 'turn'").fetchone()
    assert turns == events >= most, (turns, events, most)
    if turns > most:
        looks, most = looks + 1, turns
db.close()
print(looks)
"""


async def test_another_process_reads_while_this_one_writes(store, path):
    with start_python(LOOKS, path) as reader, anyio.fail_after(40):
        for number in range(100_000):
            await store.append(turn(number))
            if reader.poll() is not None:
                break
        assert reader.wait(10) == 0
        assert int(output_of(reader).read()) >= 1


async def test_other_processes_leave_commands_while_this_one_writes(store, path):
    script = """
import sys
from pathlib import Path
from sortie.store.commands import add_commands
for number in range(25):
    add_commands(Path(sys.argv[1]), "stop", [f"DEMO-{number}"])
"""
    with start_python(script, path) as one, start_python(script, path) as other, anyio.fail_after(40):
        number = 0
        while one.poll() is None or other.poll() is None:
            number += 1
            await store.append(turn(number))
        assert (one.returncode, other.returncode) == (0, 0)
    waiting = await store.read(pending_commands)
    assert sorted(row.issue for row in waiting) == sorted(2 * [f"DEMO-{number}" for number in range(25)])
    assert [row.id for row in waiting] == list(range(1, 51))


async def test_a_closed_store_can_be_read_and_given_commands(path):
    async with Store.open(path, holder={}) as store:
        await store.append(*run_of("1", "r1"))
    assert add_commands(path, "retry", ["DEMO-1"]) == [1]
    with closing(connect_readonly(path)) as db:
        assert len(history(db, "1")) == 1
        assert [command.issue for command in pending_commands(db)] == ["DEMO-1"]


def test_reading_does_not_load_the_async_half():
    code = "import sys, sortie.store.queries; sys.exit('anyio' in sys.modules or 'asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 0
