"""What each event does to the tables."""

from __future__ import annotations

import functools

import pytest
from sortie.core.actions import Skip

from sortie.core import events as ev
from sortie.core.budget import Spent
from sortie.core.model import Usage
from sortie.core.policy import Policy
from sortie.errors import StoreError
from sortie.store import Store
from sortie.store.commands import CommandOutcome, add_commands, command_outcome
from sortie.store.load import ClaimRow, EffectRow, Loaded, ParkedRow, PauseRow, RetryRow, WorkspaceRow, load
from sortie.store.queries import events, history

from .sample import DAY, PARK, RETRY, START, charged, claimed, ended, noted, seen, settled, turn


async def loaded(store: Store, day: str = DAY) -> Loaded:
    return await store.read(functools.partial(load, day=day))


def test_rows_leave_out_nothing_of_what_an_event_says():
    issue = {"issue_id", "identifier"}
    assert set(RetryRow.__struct_fields__) == issue | set(ev.Retry.__struct_fields__)
    assert set(ParkedRow.__struct_fields__) == issue | set(ev.Park.__struct_fields__) | {"since"}
    assert set(ClaimRow.__struct_fields__) >= set(ev.Claimed.__struct_fields__) - {"at", "day"}


async def test_a_claim_is_an_open_run_and_charges_one_session(store):
    await store.append(claimed(failures=2, cause="error", session_id="old"))
    now = await loaded(store)
    [claim] = now.claims
    assert (claim.issue_id, claim.run_id, claim.identifier) == ("1", "r1", "DEMO-1")
    assert (claim.attempt, claim.failures, claim.cause, claim.agent) == (1, 2, "error", "command")
    assert (claim.session_id, claim.workspace, claim.claimed_at) == ("old", "", START)
    assert (claim.pid, claim.turn, claim.turn_done, claim.stop_cause, claim.ending) == (None, 0, False, "", None)
    assert now.spent == {"1": Spent(sessions=1)}
    assert (now.day, now.day_spent) == (DAY, Spent(sessions=1))


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
    assert [row.issue_id for row in now.retries] == ["2"]
    assert now.skips == {"2": ("retry", "")}

    await store.append(settled("1", "b1", park=PARK), claimed("1", "c1"))
    assert (await loaded(store)).parked == []


async def test_an_issue_cannot_be_claimed_twice(store):
    await store.append(claimed("1", "r1"))
    with pytest.raises(StoreError, match=r"contradicts.*claims\.issue_id"):
        await store.append(claimed("1", "r2"))
    now = await loaded(store)
    assert [claim.run_id for claim in now.claims] == ["r1"]
    assert now.spent["1"].sessions == 1


async def test_a_run_id_cannot_be_claimed_twice_or_left_out(store):
    await store.append(claimed("1", "r1"))
    with pytest.raises(StoreError):
        await store.append(claimed("2", "r1"))
    with pytest.raises(StoreError):
        await store.append(claimed("3", ""))


async def test_workspace_process_and_session_belong_to_the_claim(store):
    await store.append(
        claimed(),
        ev.WorkspaceMade(at=START, issue_id="1", run_id="r1", identifier="DEMO-1", key="DEMO-1", path="/w/DEMO-1"),
        ev.ProcessStarted(at=START, issue_id="1", run_id="r1", pid=4711, start_ticks=99, boot_id="b"),
        ev.SessionStarted(at=START, issue_id="1", run_id="r1", session_id="s9"),
    )
    now = await loaded(store)
    [claim] = now.claims
    assert (claim.workspace, claim.session_id) == ("/w/DEMO-1", "s9")
    assert (claim.pid, claim.start_ticks, claim.boot_id) == (4711, 99, "b")
    assert now.workspaces == [WorkspaceRow("DEMO-1", "1", "DEMO-1", "/w/DEMO-1", START)]

    await store.append(ev.WorkspaceGone(at=START, issue_id="1", key="DEMO-1"))
    assert (await loaded(store)).workspaces == []


async def test_a_workspace_used_again_keeps_its_age(store):
    made = ev.WorkspaceMade(at=START, issue_id="1", run_id="r1", identifier="DEMO-1", key="k", path="/w/k")
    again = ev.WorkspaceMade(at=START + 60, issue_id="1", run_id="r2", identifier="DEMO-1", key="k", path="/v/k")
    await store.append(made, again)
    assert (await loaded(store)).workspaces == [WorkspaceRow("k", "1", "DEMO-1", "/v/k", START)]


async def test_a_turn_is_charged_when_it_starts_and_done_when_it_ends(store):
    await store.append(claimed(), turn(1))
    [claim] = (await loaded(store)).claims
    assert (claim.turn, claim.turn_done) == (1, False)

    await store.append(ev.TurnEnded(at=START, issue_id="1", run_id="r1", turn=1))
    [claim] = (await loaded(store)).claims
    assert (claim.turn, claim.turn_done) == (1, True)

    await store.append(turn(2))
    now = await loaded(store)
    assert (now.claims[0].turn, now.claims[0].turn_done) == (2, False)
    assert now.spent["1"] == now.day_spent == Spent(sessions=1, turns=2)


async def test_usage_is_charged_to_the_issue_and_to_its_day(store):
    await store.append(claimed(), charged(), charged(day="2026-03-31"))
    now = await loaded(store)
    assert now.spent["1"] == Spent(sessions=1, tokens=240, usd=0.5)
    assert now.day_spent == Spent(sessions=1, tokens=120, usd=0.25)
    assert (await loaded(store, "2026-03-31")).day_spent == Spent(tokens=120, usd=0.25)
    assert (await loaded(store, "2026-04-01")).day_spent == Spent()


async def test_our_own_stop_is_kept_with_the_claim(store):
    await store.append(
        claimed(), ev.Stopping(at=START, issue_id="1", run_id="r1", cause="stalled", detail="300 s silent")
    )
    [claim] = (await loaded(store)).claims
    assert (claim.stop_cause, claim.stop_detail) == ("stalled", "300 s silent")


async def test_a_planned_effect_is_pending_until_it_is_done(store):
    plan = ev.EffectPlanned(
        at=START, issue_id="1", run_id="r1", effect_id="e1", verb="transition", argument="review"
    )
    await store.append(plan, plan)
    assert (await loaded(store)).effects == [EffectRow("e1", "1", "r1", "transition", "review", START)]
    await store.append(ev.EffectDone(at=START, issue_id="1", effect_id="e1", verb="transition", ok=True))
    assert (await loaded(store)).effects == []


async def test_a_verdict_is_history_and_stays_with_the_claim_until_it_is_settled(store):
    verdict = ended(status="failed", error="turn timeout", session_id="s2", usage=Usage(10, 5, 2, 0.5))
    await store.append(claimed(session_id="s1"), verdict)
    assert (await loaded(store)).claims[0].ending == verdict
    [row] = await store.read(history)
    assert (row.started_at, row.completed_at) == ("2026-03-30T14:20:00Z", "2026-03-30T14:35:12Z")
    assert (row.status, row.error, row.session_id, row.agent) == ("failed", "turn timeout", "s2", "command")

    await store.append(settled())
    assert (await loaded(store)).claims == []
    assert len(await store.read(history)) == 1


async def test_the_first_verdict_stands(store):
    await store.append(claimed(), ended(status="stalled"), ended(status="succeeded"))
    assert [row.status for row in await store.read(history)] == ["stalled"]
    assert (await loaded(store)).claims[0].ending == ended(status="stalled")


async def test_history_falls_back_on_the_session_of_the_claim_and_shows_no_error_as_null(store):
    await store.append(claimed(session_id="s1"), ended(soft_stop="blocked", reason="no key"))
    [row] = await store.read(history)
    assert (row.session_id, row.error, row.soft_stop, row.reason) == ("s1", None, "blocked", "no key")


async def test_settling_can_leave_a_retry(store):
    await store.append(claimed(), settled(retry=RETRY))
    now = await loaded(store)
    assert now.claims == []
    assert now.retries == [RetryRow("1", "DEMO-1", "error", 2, 1, START + 20, "exit 1", "s1")]

    await store.append(ev.RetryDue(at=START, issue_id="1", due_at=START + 1, why="asked"))
    assert (await loaded(store)).retries[0].due_at == START + 1

    await store.append(ev.RetryDropped(at=START, issue_id="1", identifier="DEMO-1", why="gone"))
    assert (await loaded(store)).retries == []


async def test_settling_can_park(store):
    """A2O-09: the park and its fingerprint are committed with the end of the run."""
    await store.append(claimed(), settled(park=PARK))
    now = await loaded(store)
    assert now.parked == [ParkedRow("1", "DEMO-1", "signal", "needs a key", "f00d", 2, "s3", START + 913)]

    await store.append(ev.Unparked(at=START, issue_id="1", identifier="DEMO-1", why="changed"))
    now = await loaded(store)
    assert (now.parked, now.spent["1"].sessions) == ([], 1)


async def test_parking_a_waiting_issue_ends_its_retry(store):
    await store.append(
        claimed(),
        settled(retry=RETRY),
        ev.Parked(
            at=START + 5,
            issue_id="1",
            identifier="DEMO-1",
            park=ev.Park(kind="budget", reason="3 of 3", fingerprint=""),
        ),
    )
    now = await loaded(store)
    assert now.retries == []
    assert now.parked == [ParkedRow("1", "DEMO-1", "budget", "3 of 3", "", 0, "", START + 5)]


async def test_unparking_can_give_the_issue_a_new_budget_and_leaves_the_day_alone(store):
    await store.append(claimed(), turn(1), settled(park=PARK))
    await store.append(ev.Unparked(at=START, issue_id="1", identifier="DEMO-1", why="asked", reset_budget=True))
    now = await loaded(store)
    assert now.spent == {}
    assert now.day_spent == Spent(sessions=1, turns=1)


async def test_a_refund_returns_the_session_and_never_goes_below_nothing(store):
    await store.append(claimed("1", "r1"), settled("1", "r1", refund=DAY))
    now = await loaded(store)
    assert (now.spent["1"], now.day_spent) == (Spent(), Spent())
    await store.append(settled("1", "r1", refund=DAY))
    assert (await loaded(store)).day_spent == Spent()


async def test_a_pause_of_a_provider_is_replaced_by_the_next(store):
    await store.append(
        ev.ProviderPaused(at=START, provider="command", until=START + 60, detail="usage limit"),
        ev.ProviderPaused(at=START, provider="command", until=START + 90, detail="again"),
    )
    assert (await loaded(store)).pauses == [PauseRow("command", START + 90, "again", "rate_limited", 0, "")]


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
    assert (await loaded(store)).pauses == [PauseRow("codex", START + 5, "Log in.", "agent_auth", 2, "1")]

    await store.append(ev.ProviderResumed(at=START, provider="codex", why="a run of it works"))
    assert (await loaded(store)).pauses == []


async def test_a_command_waits_until_it_is_answered(store, path):
    (number,) = add_commands(path, "unpark", ["DEMO-1"])
    [command] = (await loaded(store)).commands
    assert (command.id, command.verb, command.issue) == (number, "unpark", "DEMO-1")
    outcome = functools.partial(command_outcome, command_id=number)
    assert await store.read(outcome) is None

    await store.append(
        ev.Commanded(at=START, command_id=number, verb="unpark", outcome="it is not parked", ok=False)
    )
    assert await store.read(outcome) == CommandOutcome(ok=False, outcome="it is not parked", done_at=START)
    assert (await loaded(store)).commands == []


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
        ev.Ticked(
            at=START, candidates_known=True, actions=(Skip(issue_id="1", identifier="DEMO-1", rule="slots"),)
        ),
        noted("hello", "1", "r1"),
    ]
    await store.append(*happened)
    assert await loaded(store) == before
    assert [logged.event for logged in await store.read(events)] == happened


async def test_late_events_of_a_settled_run_do_not_bring_it_back(store):
    await store.append(claimed(), ended(), settled())
    await store.append(charged(), ended(status="failed"), turn(2))
    now = await loaded(store)
    assert now.claims == []
    assert now.spent["1"] == Spent(sessions=1, turns=1, tokens=120, usd=0.25)
    assert [row.status for row in await store.read(history)] == ["succeeded"]
