"""What each event does to the tables."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from sortie.core import events as ev
from sortie.core.model import Usage
from sortie.core.operator import Reply
from sortie.core.policy import Policy, Spent
from sortie.core.records import Claim, ParkedIssue, Pause, Waiting, WorkspaceRecord
from sortie.core.schedule import Schedule
from sortie.errors import StoreError
from sortie.store import Store
from sortie.store.commands import add_commands, pending_commands, reply_to
from sortie.store.load import load
from sortie.store.queries import events, history
from sortie.store.tables import TABLES

from .sample import DAY, PARK, RETRY, START, charged, claimed, ended, noted, seen, settled, turn, unseen

NEXT_DAY = "2026-03-31"


async def loaded(store: Store) -> Schedule:
    """What the tables hold, which is what the store keeps in memory."""
    found = await store.read(load)
    assert found.unreadable == []
    found.schedule.policy = store.schedule.policy  # is not in the tables: it comes from the workflow at each start
    assert found.schedule == store.schedule
    return found.schedule


def test_rows_leave_out_nothing_of_what_an_event_says():
    issue = {"issue_id", "identifier"}
    assert set(TABLES["waiting"].columns) == issue | set(ev.Retry.__struct_fields__)
    assert set(TABLES["parked"].columns) == issue | set(ev.Park.__struct_fields__) | {"since"}
    assert set(TABLES["running"].columns) >= set(ev.Claimed.__struct_fields__) - {"at", "day"}
    assert len(TABLES["running"].columns) == len(Claim.__struct_fields__)
    assert set(TABLES["pauses"].columns) == set(ev.ProviderPaused.__struct_fields__) - {"at", "run_id"} | {"since"}


async def test_a_claim_is_an_open_run_and_charges_one_session(store):
    await store.append(claimed(failures=2, cause="error", session_id="old", host="build-1", provider="command/a"))
    now = await loaded(store)
    [claim] = now.running.values()
    assert (claim.issue_id, claim.run_id, claim.identifier) == ("1", "r1", "DEMO-1")
    assert (claim.attempt, claim.failures, claim.cause, claim.agent) == (1, 2, "error", "command")
    assert (claim.session_id, claim.workspace, claim.claimed_at) == ("old", "", START)
    assert (claim.pid, claim.turn, claim.turn_done, claim.stop, claim.ending) == (None, 0, False, "", None)
    assert (claim.host, claim.provider) == ("build-1", "command/a")
    assert now.spent == {"1": Spent(sessions=1)}
    assert now.days == {DAY: Spent(sessions=1)}


async def test_a_claim_ends_retry_park_and_skip_of_its_issue_alone(store):
    for issue in ("1", "2"):
        await store.append(
            seen(issue),
            ev.Skipped(at=START, issue_id=issue, identifier="x", rule="slots", detail="10 of 10"),
            claimed(issue, f"a{issue}"),
            settled(issue, f"a{issue}", retry=RETRY),
            ev.Skipped(at=START, issue_id=issue, identifier="x", rule="retry"),
        )
    await store.append(claimed("1", "b1"))
    now = await loaded(store)
    assert [*now.waiting] == ["2"]
    assert now.skips == {"2": ("retry", "")}

    await store.append(settled("1", "b1", park=PARK), claimed("1", "c1"))
    assert (await loaded(store)).parked == {}


async def test_an_issue_cannot_be_claimed_twice(store):
    await store.append(claimed("1", "r1"))
    with pytest.raises(StoreError, match=r"contradicts.*claims\.issue_id"):
        await store.write(unseen(claimed("1", "r2")))
    now = await loaded(store)
    assert [claim.run_id for claim in now.running.values()] == ["r1"]
    assert now.spent["1"].sessions == 1
    with pytest.raises(AssertionError, match="at most one live run"):
        await store.append(claimed("1", "r2"))


async def test_a_run_may_follow_another_of_its_issue_in_the_same_transaction(store):
    await store.append(claimed("1", "r1"), settled("1", "r1"), claimed("1", "r2"), turn(1, run="r2"))
    [claim] = (await loaded(store)).running.values()
    assert (claim.run_id, claim.turn) == ("r2", 1)


async def test_a_run_id_cannot_be_claimed_twice_or_left_out(store):
    await store.append(claimed("1", "r1"))
    with pytest.raises(StoreError):
        await store.write(unseen(claimed("2", "r1")))
    with pytest.raises(StoreError):
        await store.write(unseen(claimed("3", "")))
    assert [*(await loaded(store)).running] == ["1"]


def made(run: str, **more: Any) -> ev.WorkspaceMade:
    fields: dict[str, Any] = {"at": START, "identifier": "DEMO-1", "key": "k", "path": "/w/k", "inode": 7, **more}
    return ev.WorkspaceMade(issue_id="1", run_id=run, **fields)


def workspace(**more: Any) -> WorkspaceRecord:
    fields: dict[str, Any] = {"path": "/w/k", "created_at": START, "inode": 7, **more}
    return WorkspaceRecord(key="k", issue_id="1", identifier="DEMO-1", **fields)


async def test_workspace_process_and_session_belong_to_the_claim(store):
    await store.append(
        claimed(host="build-1"),
        made("r1", number=1),
        ev.ProcessStarted(at=START, issue_id="1", run_id="r1", pid=4711, start_ticks=99, boot_id="b", number=2),
        ev.SessionStarted(at=START, issue_id="1", run_id="r1", session_id="s9", number=3),
    )
    now = await loaded(store)
    [claim] = now.running.values()
    assert (claim.workspace, claim.session_id) == ("/w/k", "s9")
    assert (claim.pid, claim.start_ticks, claim.boot_id) == (4711, 99, "b")
    assert (claim.inode, claim.seen) == (7, 3)
    assert now.workspaces == {"k": workspace(host="build-1")}

    await store.append(ev.WorkspaceGone(at=START, issue_id="1", key="k"))
    assert (await loaded(store)).workspaces == {}


async def test_a_workspace_used_again_keeps_its_age(store):
    await store.append(made("r1"), made("r2", at=START + 60, path="/v/k"))
    assert (await loaded(store)).workspaces == {"k": workspace(path="/v/k")}


async def test_a_workspace_is_used_from_the_first_turn_in_it_until_another_takes_its_place(store):
    await store.append(claimed(), made("r1"))
    assert (await loaded(store)).workspaces == {"k": workspace()}
    await store.append(turn(1))
    assert (await loaded(store)).workspaces == {"k": workspace(used=True)}
    await store.append(settled(), claimed("1", "r2"), made("r2"))
    assert (await loaded(store)).workspaces == {"k": workspace(used=True)}
    await store.append(settled("1", "r2"), claimed("1", "r3"), made("r3", inode=8))
    assert (await loaded(store)).workspaces == {"k": workspace(inode=8)}


async def test_a_turn_is_charged_when_it_starts_and_done_when_it_ends(store):
    await store.append(claimed(), turn(1))
    [claim] = (await loaded(store)).running.values()
    assert (claim.turn, claim.turn_done) == (1, False)

    await store.append(ev.TurnEnded(at=START, issue_id="1", run_id="r1", turn=1))
    [claim] = (await loaded(store)).running.values()
    assert (claim.turn, claim.turn_done) == (1, True)

    await store.append(turn(2))
    now = await loaded(store)
    assert (now.running["1"].turn, now.running["1"].turn_done) == (2, False)
    assert now.spent["1"] == now.days[DAY] == Spent(sessions=1, turns=2)


async def test_usage_is_charged_to_the_issue_and_to_its_day(store):
    await store.append(claimed(), charged(), charged(day=NEXT_DAY))
    now = await loaded(store)
    assert now.spent["1"] == Spent(sessions=1, tokens=240, usd=0.5)
    assert now.days == {DAY: Spent(sessions=1, tokens=120, usd=0.25), NEXT_DAY: Spent(tokens=120, usd=0.25)}
    assert now.spent_today("2026-04-01") == Spent()


async def test_our_own_stop_is_kept_with_the_claim(store):
    await store.append(
        claimed(), ev.Stopping(at=START, issue_id="1", run_id="r1", cause="stalled", detail="300 s silent")
    )
    [claim] = (await loaded(store)).running.values()
    assert (claim.stop, claim.stop_detail) == ("stalled", "300 s silent")


async def test_a_planned_effect_is_pending_until_it_is_done(store):
    plan = ev.EffectPlanned(
        at=START, issue_id="1", run_id="r1", effect_id="e1", verb="transition", argument="review"
    )
    await store.append(plan, plan)
    assert (await loaded(store)).effects == {"e1": plan}
    await store.append(ev.EffectDone(at=START, issue_id="1", effect_id="e1", verb="transition", ok=True))
    assert (await loaded(store)).effects == {}


async def test_a_verdict_is_history_and_stays_with_the_claim_until_it_is_settled(store):
    verdict = ended(status="failed", error="turn timeout", session_id="s2", usage=Usage(10, 5, 2, 0.5))
    await store.append(claimed(session_id="s1"), verdict)
    assert (await loaded(store)).running["1"].ending == verdict
    [row] = await store.read(history)
    assert (row.started_at, row.completed_at) == ("2026-03-30T14:20:00Z", "2026-03-30T14:35:12Z")
    assert (row.status, row.error, row.session_id, row.agent) == ("failed", "turn timeout", "s2", "command")

    await store.append(settled())
    assert (await loaded(store)).running == {}
    assert len(await store.read(history)) == 1


async def test_the_first_verdict_stands(store):
    await store.append(claimed(), ended(status="stalled"), ended(status="succeeded"))
    assert [row.status for row in await store.read(history)] == ["stalled"]
    assert (await loaded(store)).running["1"].ending == ended(status="stalled")


async def test_history_falls_back_on_the_session_of_the_claim_and_shows_no_error_as_null(store):
    await store.append(claimed(session_id="s1"), ended(soft_stop="blocked", reason="no key"))
    [row] = await store.read(history)
    assert (row.session_id, row.error, row.soft_stop, row.reason) == ("s1", None, "blocked", "no key")


async def test_settling_can_leave_a_retry(store):
    await store.append(claimed(), settled(retry=RETRY))
    now = await loaded(store)
    assert now.running == {}
    assert now.waiting == {"1": Waiting(issue_id="1", identifier="DEMO-1", retry=RETRY)}

    await store.append(ev.RetryDue(at=START, issue_id="1", due_at=START + 1, why="asked"))
    assert (await loaded(store)).waiting["1"].retry.due_at == START + 1

    await store.append(ev.RetryDropped(at=START, issue_id="1", identifier="DEMO-1", why="gone"))
    assert (await loaded(store)).waiting == {}


async def test_settling_can_park(store):
    """A2O-09: the park and its fingerprint are committed with the end of the run."""
    await store.append(claimed(), settled(park=PARK))
    now = await loaded(store)
    assert now.parked == {"1": ParkedIssue(issue_id="1", identifier="DEMO-1", park=PARK, since=START + 913)}

    await store.append(ev.Unparked(at=START, issue_id="1", identifier="DEMO-1", why="changed"))
    now = await loaded(store)
    assert (now.parked, now.spent["1"].sessions) == ({}, 1)


async def test_parking_a_waiting_issue_ends_its_retry(store):
    park = ev.Park(kind="budget", reason="3 of 3", fingerprint="")
    await store.append(
        claimed(),
        settled(retry=RETRY),
        ev.Parked(at=START + 5, issue_id="1", identifier="DEMO-1", park=park),
    )
    now = await loaded(store)
    assert now.waiting == {}
    assert now.parked == {"1": ParkedIssue(issue_id="1", identifier="DEMO-1", park=park, since=START + 5)}


async def test_a_run_that_a_person_asked_for_has_a_time_and_ends_the_parking(store):
    asked = ev.Retry(kind="started", attempt=3, due_at=START, session_id="s3")
    await store.append(claimed(), settled(park=PARK))
    await store.append(ev.Requested(at=START, issue_id="1", identifier="DEMO-1", retry=asked))
    now = await loaded(store)
    assert now.parked == {}
    assert now.waiting == {"1": Waiting(issue_id="1", identifier="DEMO-1", retry=asked)}


async def test_unparking_can_give_the_issue_a_new_budget_and_leaves_the_day_alone(store):
    await store.append(claimed(), turn(1), settled(park=PARK))
    await store.append(ev.Unparked(at=START, issue_id="1", identifier="DEMO-1", why="asked", reset_budget=True))
    now = await loaded(store)
    assert now.spent == {}
    assert now.days == {DAY: Spent(sessions=1, turns=1)}


async def test_a_refund_returns_the_session_and_never_goes_below_nothing(store):
    await store.append(claimed("1", "r1"), settled("1", "r1", refund=DAY))
    now = await loaded(store)
    assert (now.spent["1"], now.days[DAY]) == (Spent(), Spent())
    await store.append(settled("1", "r1", refund=DAY))
    assert (await loaded(store)).days[DAY] == Spent()


async def test_a_pause_of_a_provider_is_replaced_by_the_next(store):
    await store.append(
        ev.ProviderPaused(at=START, provider="command", until=START + 60, detail="usage limit"),
        ev.ProviderPaused(at=START, provider="command", until=START + 90, detail="again"),
    )
    assert (await loaded(store)).pauses == {
        "command": Pause(until=START + 90, error_kind="rate_limited", detail="again")
    }


async def test_a_fault_of_an_agent_is_remembered_until_it_is_gone(store):
    fault = ev.ProviderPaused(
        at=START,
        issue_id="1",
        provider="codex",
        until=START + 5,
        detail="Log in.",
        error_kind="agent_auth",
        tries=2,
    )
    await store.append(fault)
    assert (await loaded(store)).pauses == {
        "codex": Pause(
            until=START + 5, error_kind="agent_auth", detail="Log in.", tries=2, issue_id="1", since=START
        )
    }

    await store.append(ev.ProviderResumed(at=START, provider="codex", why="a run of it works"))
    assert (await loaded(store)).pauses == {}


async def test_a_command_waits_until_it_is_answered(store, path):
    (number,) = add_commands(path, "unpark", ["DEMO-1"])
    [command] = await store.read(pending_commands)
    assert (command.id, command.verb, command.issue) == (number, "unpark", "DEMO-1")
    outcome = functools.partial(reply_to, command_id=number)
    assert await store.read(outcome) is None

    await store.append(
        ev.Commanded(at=START, command_id=number, verb="unpark", outcome="it is not parked", ok=False)
    )
    assert await store.read(outcome) == Reply(ok=False, outcome="it is not parked")
    assert await store.read(pending_commands) == []


async def test_issues_are_kept_as_seen_last_with_the_reason_they_did_not_start(store):
    skip = ev.Skipped(at=START, issue_id="1", identifier="DEMO-1", rule="blocked", detail="by DEMO-2")
    changed = seen(title="Mend it all", blocked_by=("DEMO-2",), priority=3)
    await store.append(seen(), skip, changed)
    now = await loaded(store)
    assert now.issues == {"1": changed.view}
    assert now.skips == {"1": ("blocked", "by DEMO-2")}

    await store.append(ev.IssueLeft(at=START, issue_id="1", identifier="DEMO-1"))
    now = await loaded(store)
    assert (now.issues, now.skips) == ({}, {})


async def test_other_events_are_history_and_change_no_table(store):
    policy = Policy(active_states=("todo",))
    before = await loaded(store)
    happened = [
        ev.Opened(at=START, pid=1, version="0.1.0", workflow="WORKFLOW.md"),
        ev.PolicySet(at=START, policy=policy),
        ev.Ticked(at=START, candidates_known=True, decided=1),
        noted("hello", "1", "r1"),
    ]
    await store.append(*happened)
    after = await loaded(store)
    assert after.policy == policy
    after.policy = before.policy
    assert after == before
    assert [logged.event for logged in await store.read(events)] == happened


async def test_late_events_of_a_settled_run_do_not_bring_it_back(store):
    await store.append(claimed(), ended(), settled())
    await store.append(charged(), ended(status="failed"), turn(2))
    now = await loaded(store)
    assert now.running == {}
    assert now.spent["1"] == Spent(sessions=1, turns=1, tokens=120, usd=0.25)
    assert [row.status for row in await store.read(history)] == ["succeeded"]
