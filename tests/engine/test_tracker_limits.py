"""A tracker that wants no calls for a while, or does not answer: nothing is lost, begun unread, or said twice."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import anyio
import pytest

from sortie.core import events as ev
from sortie.core.conclude import Outcome
from sortie.core.model import Blocker
from sortie.engine.clock import Clock
from sortie.engine.tracker_limit import TrackerLimit
from sortie.errors import TrackerError
from sortie.runs.messages import ConversationNamed, Ended, TurnAsked, TurnCompleted, WorkspaceReady
from sortie.store.commands import add_commands
from sortie.testing.fake_host import FakeHost

from ..sources.listing_tracker import issue

# -- before a run begins ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        TrackerError(TrackerError.TRANSPORT, "the line is cut."),
        TrackerError(TrackerError.RATE_LIMITED, "slow down."),
        TimeoutError(),
    ],
    ids=["transport", "limit without a time", "no answer"],
)
async def test_no_agent_works_on_an_issue_that_could_not_be_read(tracked, failure):
    """It is tried again later, as the same attempt, and charged once."""
    its = tracked(issue("a", description="all of it"))
    its.tracker.limit = failure
    async with its.running():
        settled = await its.heard.wait(ev.Settled, "a")
        assert its.host.specs == {}
        assert (settled.retry and settled.retry.attempt, bool(settled.refund)) == (1, True)
        await its.asked("list")
        assert "the tracker could not be asked: " in its.why("a")
        its.tracker.limit = None
        its.clock.advance(10.0)
        await its.heard.wait(ev.Settled, "a", 2)
    assert [spec.issue.description for spec in its.host.specs.values()] == ["all of it"]
    assert [(claim.attempt, claim.cause) for claim in its.heard.all(ev.Claimed)] == [(1, "new"), (1, "error")]
    assert its.stored().spent_on("a").sessions == 1
    assert [body.splitlines()[0] for key, body in its.tracker.written if "failed" in body] == []


async def test_tries_get_rarer_while_nobody_answers(tracked):
    its = tracked(issue("a"))
    its.tracker.limit = TrackerError(TrackerError.TRANSPORT, "the line is cut.")
    async with its.running():
        delays = []
        for number in range(1, 4):
            settled = await its.heard.wait(ev.Settled, "a", number)
            assert settled.retry
            delays.append(settled.retry.due_at - its.clock.now())
            its.clock.advance(delays[-1])
    assert delays[0] < delays[1] < delays[2]


async def test_a_limit_holds_whatever_has_not_begun_until_it_ends_and_is_said_once(tracked):
    its = tracked(*(issue(name, description="all of it") for name in "abcde"))
    its.limited(3600.0, "full")
    async with its.running():
        for number in (1, 2):
            settled = await its.heard.wait(ev.Settled, None, number)
            assert settled.retry and settled.retry.due_at == its.clock.now() + 3600
        add_commands(its.directory / "store.db", "retry", ["nobody"])
        await its.heard.wait(ev.Commanded)  # decisions are made all the time
        its.clock.advance(3599.0)
        add_commands(its.directory / "store.db", "retry", ["nobody"])
        await its.heard.wait(ev.Commanded, None, 2)
        assert len(its.heard.all(ev.Claimed)) == 2
        assert its.tracker.calls == {"list": 1, "full": 2}
        its.limit_ends(1.0)
        for name in "abcde":
            await its.heard.wait(ev.EffectDone, name, 3)
    assert len(its.host.specs) == 5
    assert len(its.notes("rate limit is reached")) == 1
    assert its.notes("could not be asked") == its.notes("can be used again") == []


async def test_a_refusal_that_stays_is_a_failure_that_is_charged(tracked):
    """Else an issue that cannot be read would be tried for ever, whatever its budget."""
    its = tracked(issue("a"))
    its.tracker.limit = TrackerError(TrackerError.PAYLOAD, "it cannot be read.")
    async with its.running():
        settled = await its.heard.wait(ev.Settled, "a")
    assert (its.host.specs, settled.refund, settled.retry and settled.retry.attempt) == ({}, "", 2)


@pytest.mark.parametrize("blocked", [True, False])
async def test_the_conversation_is_not_forgotten_for_a_run_that_did_not_begin(tracked, blocked):
    async def talk(spec):
        yield WorkspaceReady(key=spec.workspace.key, path=f"{spec.workspace.root}/{spec.workspace.key}")
        yield ConversationNamed(session_id="s1")
        yield TurnAsked(turn=1)
        yield TurnCompleted(turn=1, signal="needs-human-review")
        yield Ended(outcome=Outcome(status="succeeded", turns=1, soft_stop="needs-human-review", session_id="s1"))

    its = tracked(issue("a"), issue("b", state="backlog"))
    its.host = FakeHost(talk)
    async with its.running():
        await its.heard.wait(ev.Settled, "a")
        if blocked:
            its.tracker.change("a", state="todo", blocked_by=(Blocker("b", "B"),))
        else:
            its.tracker.limit = TrackerError(TrackerError.TRANSPORT, "the line is cut.")
            its.tracker.change("a", state="todo")
        await its.heard.wait(ev.Settled, "a", 2)
        its.tracker.change("b", state="done")
        its.tracker.limit = None
        its.clock.advance(10.0)
        await its.heard.wait(ev.Settled, "a", 3)
    assert [spec.resume.session_id for spec in its.host.specs.values()] == ["", "s1"]


async def test_a_later_turn_goes_on_with_what_is_known(tracked):
    """Limits hold the looking, not the running."""

    async def two_turns(spec):
        yield TurnAsked(turn=1)
        its.limited(3600.0)
        yield TurnCompleted(turn=1)
        yield TurnAsked(turn=2)
        its.limit_ends(3600.0)
        yield TurnCompleted(turn=2, signal="needs-human-review")
        yield Ended(outcome=Outcome(status="succeeded", turns=2, soft_stop="needs-human-review"))

    its = tracked(issue("a", description="all of it"))
    its.host = FakeHost(two_turns)
    async with its.running():
        await its.heard.wait(ev.Settled, "a")
    (answers,) = its.host.answers.values()
    assert [answer.issue.description for answer in answers if getattr(answer, "issue", None)] == ["all of it"]
    assert its.tracker.issues["a"].state == "review"
    assert len(its.notes("rate limit is reached")) == 1


async def test_a_limit_that_no_look_gets_along_with_is_for_people_and_still_heeded(tracked):
    """Else nothing ever starts, and nobody hears why."""
    its = tracked(issue("a", description="all of it"))
    its.limited(60.0, "list")
    its.tracker.limit.passing = False
    async with its.running():
        await its.asked("list")
        its.clock.advance(59.0)
        add_commands(its.directory / "store.db", "retry", ["nobody"])
        await its.heard.wait(ev.Commanded)
        assert its.tracker.calls["list"] == 1, "another look would come no further before that"
        its.clock.advance(1.0)
        await its.asked("list")
        its.limit_ends(60.0)
        await its.heard.wait(ev.Settled, "a")
    said = [(note.level, note.message) for note in its.heard.all(ev.Noted) if "tracker" in note.message]
    assert said == [
        ("warning", "the tracker cannot be used; nothing new starts"),
        ("error", "the tracker still cannot be used; nothing new starts"),
        ("info", "the tracker can be used again"),
    ]


# -- the time that a tracker names ------------------------------------------------------------------------------


def test_the_time_is_the_calendars_also_after_somebody_set_the_clock():
    """Else a limit of a minute holds everything for an hour."""
    set_forward = 0.0
    clock = Clock(wall=lambda: 1000.0 + set_forward, steady=lambda: 1000.0)
    limit = TrackerLimit(clock, asyncio.Event(), lambda *_: None)
    set_forward = 3600.0
    assert limit.is_met(TrackerError(TrackerError.RATE_LIMITED, "slow down.", until=4660.0))
    assert limit.left() == 60.0


@pytest.mark.parametrize("until", [None, "soon", datetime(2026, 3, 20, tzinfo=UTC)])
def test_what_is_no_time_is_no_limit_and_costs_nothing_else(until):
    """Trackers come from other packages too."""
    limit = TrackerLimit(Clock(), asyncio.Event(), lambda *_: None)
    assert not limit.is_met(TrackerError(TrackerError.RATE_LIMITED, "slow down.", until=until))
    assert limit.left() == 0.0


def test_a_limit_that_goes_on_is_said_again_after_a_while():
    now = 1000.0
    said: list[str] = []
    clock = Clock(wall=lambda: now, steady=lambda: now)
    limit = TrackerLimit(clock, asyncio.Event(), lambda what, _: said.append(what))
    for _ in range(31):
        assert limit.is_met(TrackerError(TrackerError.RATE_LIMITED, "slow down.", until=now + 60.0))
        now += 60.0
    assert len(said) == 3, "every eleven minutes: not with each of them, and not never"


# -- writes at the end of a run ---------------------------------------------------------------------------------


async def test_a_hand_off_waits_for_the_end_of_a_limit(tracked):
    its = tracked(issue("a"))
    its.limited(3600.0, "move")
    async with its.running():
        await its.asked("move")
        its.clock.advance(1800.0)
        assert its.heard.all(ev.Settled) == []
        its.limit_ends(1800.0)
        await its.heard.wait(ev.Settled, "a")
    assert its.tracker.issues["a"].state == "review"
    assert its.tracker.calls["move"] == 2
    assert len(its.heard.all(ev.Claimed)) == 1
    assert all(done.ok for done in its.heard.all(ev.EffectDone))
    assert len(its.notes("rate limit is reached")) == 1


async def test_who_is_asked_to_stop_waits_for_no_limit_and_the_next_start_writes_once(tracked):
    """Neither the hand-off nor a comment is lost or made twice; the agent is not started again."""
    its = tracked(issue("a"))
    its.limited(3600.0, "move")
    async with its.running():
        await its.asked("move")
    assert [claim.ended for claim in its.stored().running.values()] == [True]
    assert [effect.verb for effect in its.stored().effects.values()] == ["transition", "comment"]
    its.limited(3600.0)
    async with its.running():  # the limit is still there, and holds up neither the start nor the end of it
        await its.asked("list")
    assert len(its.stored().effects) == 2
    its.limited(3600.0)
    async with its.running():
        await its.asked("full")
        its.limit_ends()
        await its.heard.wait(ev.Settled, "a")
    moves = [said for _, said in its.tracker.written if said == "review"]
    assert (len(moves), len(its.tracker.written), len(its.host.specs)) == (1, 3, 1)
    assert not (its.stored().running or its.stored().effects)


async def test_a_service_that_ends_when_all_is_done_waits_for_what_it_could_not_write(tracked):
    its = tracked(issue("a"))
    its.limited(3600.0, "move")
    async with its.running():
        await its.asked("move")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            its.limited(3600.0, "full")
            tasks.start_soon(lambda: its.run(until_idle=True))
            await its.asked("full")
            its.limit_ends()
    assert its.tracker.issues["a"].state == "review"
    assert not its.stored().running


async def test_what_follows_a_write_that_was_late_is_done_before_such_a_service_ends(tracked):
    """The hand-off is refused in the end, so the agent goes on; looks and decisions are made until then."""

    async def silent(_):
        yield TurnAsked(turn=1)
        yield TurnCompleted(turn=1)
        yield Ended(outcome=Outcome(status="succeeded", turns=1))

    async def wait_for_looks() -> None:
        await its.asked("list", 3)
        if len(its.host.specs) == 1:
            raise TrackerError(TrackerError.PAYLOAD, "there is no such state.")

    its = tracked(issue("a"))
    its.host = FakeHost(silent)
    its.limited(3600.0, "move")
    async with its.running():
        await its.asked("move")
    its.tracker.before_move = wait_for_looks
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            its.limited(3600.0, "full")
            tasks.start_soon(lambda: its.run(until_idle=True))
            await its.asked("full")
            its.limit_ends()
            await its.heard.wait(ev.Settled, "a")
            its.clock.advance(1.0)
    assert len(its.host.specs) == 2
    assert its.tracker.issues["a"].state == "review"


async def test_a_limit_without_end_is_not_waited_for_without_end(tracked):
    its = tracked(issue("a"))
    its.limited(3600.0, "move")
    async with its.running():
        while len(its.heard.all(ev.EffectDone)) < 2:  # the first is what was said when it began
            its.limited(1e15, "move")
            its.clock.advance(1000.0)
            await anyio.sleep(0.01)
    assert [(done.verb, done.ok) for done in its.heard.all(ev.EffectDone)][:2] == [
        ("comment", True),
        ("transition", False),
    ]


@pytest.mark.parametrize("unsettled", [False, True])
async def test_a_limit_without_end_keeps_no_service_from_ending_when_all_is_done(tracked, unsettled):
    its = tracked(issue("a"))
    ended = anyio.Event()

    async def run_until_idle() -> None:
        with pytest.raises(BaseExceptionGroup) as failure:
            await its.run(until_idle=True)
        assert failure.group_contains(TrackerError, match="slow down.")
        ended.set()

    with anyio.fail_after(30):
        if unsettled:
            async with anyio.create_task_group() as tasks:
                its.limited(3600.0, "move")
                its.start(tasks)
                await its.asked("move")
                its.orchestrator.drain()
        async with anyio.create_task_group() as tasks:
            its.limited(1e15)
            tasks.start_soon(run_until_idle)
            while not ended.is_set():
                its.clock.advance(100.0)
                await anyio.sleep(0.01)
    assert not its.stored().running


async def test_what_is_said_of_the_start_of_work_is_said_at_its_end_where_it_could_not_be_said_earlier(tracked):
    its = tracked(issue("a"))
    its.limited(3600.0, "comment")
    async with its.running():
        await its.asked("comment", 2)
        its.limit_ends()
        await its.heard.wait(ev.Settled, "a")
    first, move, last = (said for _, said in its.tracker.written)
    assert ("dispatch" in first, move, "completion" in last) == (True, "review", True)
