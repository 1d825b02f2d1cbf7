"""A store of the release before this one: what it holds is read, brought up to date, and gone on with.

`earlier_store.sql` is a dump of a store that version 0.1 wrote (its schema is 5): two open runs, one of them with
its verdict in and a hand-off owed, retries, a parked issue, a limit and a fault, and workspaces of every kind.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sortie.core import events as ev
from sortie.core.model import Usage
from sortie.core.policy import Spent
from sortie.core.records import Claim, ParkedIssue, Pause, Waiting
from sortie.core.schedule import Schedule
from sortie.store import Store
from sortie.store.commands import pending_commands
from sortie.store.connect import connect_readonly, schema_version
from sortie.store.load import load
from sortie.store.queries import events, history, tool_calls, totals
from sortie.store.schema import MIGRATIONS

from .sample import DAY, RETRY, START, claimed, ended, settled

DUMP = Path(__file__).with_name("earlier_store.sql").read_text()


@pytest.fixture
def earlier(path):
    """A store of the release before, at the place of the store."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(DUMP)
        assert schema_version(db, path) == 5 < len(MIGRATIONS)
    return path


@pytest.fixture
async def store(earlier):
    async with Store.open(earlier, holder={}) as opened:
        assert opened.unreadable == []
        yield opened


def test_it_can_be_looked_at_before_it_is_brought_up_to_date(earlier):
    unchanged = earlier.read_bytes()
    with closing(connect_readonly(earlier)) as db:
        looked = load(db)
        assert sorted(looked.schedule.running) == ["1", "4"]
        assert looked.schedule.workspaces["DEMO-1"].used
        assert looked.unreadable == []
    assert earlier.read_bytes() == unchanged


async def test_open_runs_are_there_with_everything_that_is_needed_to_find_what_is_left_of_them(store):
    verdict = ev.RunEnded(
        at=START + 60,
        issue_id="4",
        run_id="r4",
        status="succeeded",
        turns=1,
        session_id="s4",
        usage=Usage(1, 2),
        handoff_planned=True,
    )
    assert store.schedule.running == {
        "1": Claim(
            issue_id="1",
            run_id="r1",
            identifier="DEMO-1",
            attempt=1,
            agent="codex",
            session_id="s1",
            workspace="/w/DEMO-1",
            claimed_at=START,
            pid=4711,
            start_ticks=99,
            boot_id="b",
            turn=2,
            inode=11,
        ),
        "4": Claim(
            issue_id="4",
            run_id="r4",
            identifier="DEMO-4",
            attempt=1,
            agent="codex",
            workspace="/w/DEMO-4",
            claimed_at=START,
            pid=4712,
            start_ticks=99,
            boot_id="b",
            turn=1,
            turn_done=True,
            stop="shutdown",
            stop_detail="asked",
            ending=verdict,
            inode=41,
        ),
    }


async def test_what_waits_is_parked_paused_or_owed_is_there(store):
    retry = ev.Retry(kind="error", attempt=2, due_at=START + 80, failures=1, error="exit 1", session_id="s2")
    freed = ev.Retry(kind="unparked", attempt=2, due_at=START)
    park = ev.Park(kind="signal", reason="needs a key", fingerprint="f00d", attempt=1, session_id="s3")
    schedule = store.schedule
    assert schedule.waiting == {
        "2": Waiting(issue_id="2", identifier="DEMO-2", retry=retry),
        "9": Waiting(issue_id="9", identifier="DEMO-9", retry=freed),
    }
    assert schedule.parked == {"3": ParkedIssue(issue_id="3", identifier="DEMO-3", park=park, since=START + 61)}
    assert schedule.pauses == {
        "claude-code": Pause(until=START + 600, error_kind="rate_limited", detail="usage limit"),
        "codex": Pause(
            until=START + 70, error_kind="agent_auth", detail="Log in.", tries=1, issue_id="6", since=START + 60
        ),
    }
    assert schedule.effects == {
        "r4.handoff": ev.EffectPlanned(
            effect_id="r4.handoff",
            issue_id="4",
            run_id="r4",
            verb="transition",
            argument="review",
            at=START + 60,
        )
    }
    assert schedule.issues["8"] == ev.View(
        id="8", identifier="DEMO-8", title="Mend it", state="todo", priority=2, blocked_by=("DEMO-1",)
    )
    assert schedule.skips == {"8": ("blocked-by", "DEMO-1")}
    assert schedule.spent["1"] == Spent(sessions=1, turns=2, tokens=120, usd=0.25)
    assert schedule.days == {DAY: Spent(sessions=7, turns=7, tokens=120, usd=0.25)}


async def test_workspaces_know_what_had_to_be_looked_up_in_the_log(store):
    """Which directory it is, and whether an agent had a turn in that one."""
    known = {key: (record.inode, record.used) for key, record in store.schedule.workspaces.items()}
    assert known == {
        "DEMO-1": (11, True),
        "DEMO-2": (22, False),  # another directory took the place of the one that was used
        "DEMO-3": (31, True),
        "DEMO-4": (41, True),
        "DEMO-5": (0, True),  # not recorded at the time
        "DEMO-6": (61, False),
    }
    assert {(record.host, record.path) for record in store.schedule.workspaces.values()} == {
        ("", f"/w/{key}") for key in known
    }


async def test_the_tables_are_what_the_log_says_to_this_version(store):
    log = [logged.event for logged in await store.read(events)]
    folded = Schedule()
    for event in log:
        folded.apply(event)
    folded.policy = store.schedule.policy
    assert store.schedule == folded


async def test_history_totals_and_commands_are_kept(store):
    assert len(await store.read(history)) == 7
    assert (await store.read(totals)).runs == {"failed": 3, "succeeded": 4}
    assert await store.read(tool_calls) == {"tracker_api": {"success": 1}}
    assert [command.issue for command in await store.read(pending_commands)] == ["DEMO-1"]


async def test_the_work_goes_on_and_is_remembered(earlier):
    async with Store.open(earlier, holder={}) as store:
        await store.append(ended("1", "r1"), settled("1", "r1", retry=RETRY), claimed("3", "new", host="build-1"))
        expected = store.schedule
    async with Store.open(earlier, holder={}) as store:
        expected.policy = store.schedule.policy
        assert store.schedule == expected
        assert sorted(store.schedule.running) == ["3", "4"]


async def test_a_log_line_that_is_no_json_does_not_stop_the_migration(earlier):
    """What cannot be read is told where it is read; it must not keep a service from starting."""
    with closing(sqlite3.connect(earlier)) as db:
        for kind in ("workspace", "turn", "claim"):
            db.execute(
                "INSERT INTO events (at, kind, issue_id, run_id, data) VALUES (1.0, ?, '1', 'r1', '{broken')",
                (kind,),
            )
        db.commit()
    async with Store.open(earlier, holder={}) as store:
        assert store.schedule.workspaces["DEMO-1"].inode == 11
        assert store.schedule.running["1"].inode == 11
