"""Looks at a source that tells what changed: nothing is missed that our own events outdated."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from sortie.core import events as ev
from sortie.core.model import Issue, Retry
from sortie.core.observe import Look
from sortie.core.policy import Policy
from sortie.core.records import Waiting
from sortie.core.redact import Redactor
from sortie.engine.context import Context
from sortie.engine.ledger import Ledger
from sortie.engine.looker import Looker, pause_for_calls
from sortie.engine.report import live_report
from sortie.errors import SortieError, TrackerError, WorkspaceError
from sortie.store import Store
from sortie.testing.fakes import ManualClock
from sortie.trackers.rate_limits import CallBudget
from sortie.trackers.tracker import CallUse

ISSUE = Issue(id="1", identifier="D-1", title="Mend it", state="Todo")


class Telling:
    """A source in memory; `changed` is what it tells of the next look, `meanwhile` is called while it is asked."""

    poll_interval = 1.0

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.issues: dict[str, Issue] = {"1": ISSUE}
        self.changed: frozenset[str] | None = None
        self.meanwhile: Any = lambda: None
        self.trouble: SortieError | None = None
        self.cost: int | None = None
        self.made = self.looks = 0
        self.has_looked, self.was_asked_for_use = anyio.Event(), anyio.Event()

    def call_use(self):
        self.was_asked_for_use.set()
        if self.looks:
            self.has_looked.set()
        return None if self.cost is None else CallUse(made=self.made, per_minute=120)

    async def look(self, schedule):
        if self.trouble:
            raise self.trouble
        self.looks, self.made = self.looks + 1, self.made + (self.cost or 0)
        found = Look(issues=dict(self.issues), changed=self.changed)
        self.changed = frozenset()
        self.meanwhile()
        return found

    def warnings(self, look):
        return []


@pytest.fixture
def source():
    return Telling(Policy(active_states=("Todo",), terminal_states=("Done",)))


@pytest.fixture
async def looker(tmp_path, source):
    nowhere: Any = None  # a look needs no host
    async with Store.open(tmp_path / "sortie.db", holder={}) as store:
        context = Context(
            ledger=Ledger(store),
            clock=ManualClock(),
            source=source,
            hosts=nowhere,
            redactor=Redactor([]),
            fence="f",
        )
        context.ledger.post(ev.PolicySet(at=0.0, policy=source.policy))
        made = Looker(context, verify=lambda: None)
        await made.look()
        assert "1" in context.schedule.issues
        yield made


def run_ends(looker: Looker, *, gone: bool = False, moved: str = "Review") -> None:
    post = looker._context.ledger.post
    post(ev.Claimed(at=1.0, issue_id="1", run_id="r1", identifier="D-1", attempt=1))
    post(ev.RunEnded(at=2.0, issue_id="1", run_id="r1", status="succeeded", turns=1))
    if gone:
        post(ev.IssueLeft(at=2.0, issue_id="1", identifier="D-1"))
    else:
        post(ev.IssueSeen(at=2.0, issue_id="1", view=replace(state(looker), state=moved)))
    post(ev.Settled(at=2.0, issue_id="1", run_id="r1", identifier="D-1", why="done"))


def state(looker: Looker) -> ev.View:
    return looker._context.schedule.issues["1"]


@pytest.mark.parametrize("gone", [True, False])
async def test_an_issue_that_a_run_saw_elsewhere_and_that_is_back_unchanged_is_seen(looker, gone):
    """Moved away and back between two looks: the source has nothing to tell, we have."""
    run_ends(looker, gone=gone)
    await looker.look()
    assert state(looker).state == "Todo"


async def test_what_ended_while_the_source_was_asked_is_compared_at_the_next_look(looker, source):
    source.issues["1"] = replace(ISSUE, title="Mend it all")
    source.changed = frozenset({"1"})
    source.meanwhile = lambda: run_ends(looker, moved="Todo")
    await looker.look()
    assert state(looker).title == "Mend it", "what it said may be older than the end of the run"
    assert looker._asked.is_set(), "that one must not wait until a poll is due"
    source.meanwhile = lambda: None
    await looker.look()
    assert (state(looker).title, state(looker).state) == ("Mend it all", "Todo")


async def test_what_ended_while_the_source_was_asked_and_is_as_it_said_needs_no_further_look(looker, source):
    source.meanwhile = lambda: run_ends(looker, moved="Todo")
    await looker.look()
    assert not looker._asked.is_set()


async def test_a_run_that_is_asked_for_while_the_source_is_asked_is_not_lost(looker, source):
    """Its issue is not an active one, so the look knows nothing of it."""
    retry = ev.Retry(kind="started", attempt=1, due_at=1.0)
    view = ev.View(id="2", identifier="D-2", title="Later", state="Backlog")

    def ask() -> None:
        post = looker._context.ledger.post
        post(
            ev.IssueSeen(at=1.0, issue_id="2", view=view),
            ev.Requested(at=1.0, issue_id="2", identifier="D-2", retry=retry),
        )

    source.changed = None
    source.meanwhile = ask
    await looker.look()
    assert looker._context.schedule.issues["2"] == view


async def test_after_a_change_of_the_rules_everything_is_compared(looker, source):
    source.issues["1"] = replace(ISSUE, title="Mend it all")
    other = Telling(source.policy)
    other.issues, other.changed = source.issues, frozenset()
    looker._context.source = other
    await looker.look()
    assert state(looker).title == "Mend it all"


@pytest.mark.parametrize(("cost", "is_taken"), [(None, True), (0, True), (2000, False)])
async def test_after_a_look_that_took_many_calls_nobody_gets_one_for_the_asking(looker, source, cost, is_taken):
    source.cost, source.looks, source.poll_interval = cost, 0, 3600.0
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(looker.run_forever)
            await source.has_looked.wait()
            asked = looker.ask()
            if is_taken:
                await looker.looked(asked - 1)
            await anyio.wait_all_tasks_blocked()
            looker.stop()
    assert source.looks == 1 + is_taken


async def test_while_many_calls_are_used_nobody_gets_a_look_for_the_asking(looker, source):
    """Whoever used them: the rest is for the runs, and for looks that are due."""
    source.cost, source.made, source.looks, source.poll_interval = 0, 60, 0, 3600.0
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(looker.run_forever)
            await source.has_looked.wait()
            asked = looker.ask()
            source.was_asked_for_use = anyio.Event()
            await source.was_asked_for_use.wait()
            assert source.looks == 1
            source.made = 59
            await looker.looked(asked - 1)
            looker.stop()


async def test_a_look_that_is_due_waits_for_nothing(looker, source):
    source.cost, source.made, source.poll_interval = 2000, 2000, 0.01
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(looker.run_forever)
            await looker.looked(looker.ask() + 1)
            looker.stop()


@pytest.mark.parametrize("cost", [1, 2, 5, 10, 45])
def test_looks_that_are_asked_for_without_end_leave_calls_to_those_that_are_due(cost):
    """As by the webhooks of a busy tracker. GitHub allows 30 searches in a minute."""
    now = 0.0
    budget = CallBudget(120, lambda: now)

    def use() -> CallUse:
        return CallUse(made=budget.made, per_minute=120)

    for _ in range(500):
        before = use()
        assert [budget.take(look=True) for _ in range(cost)] == [0.0] * cost
        assert use().made <= max(30, 2 * cost)
        now += 0.3 + pause_for_calls(before, use())


REFUSED = TrackerError(TrackerError.AUTH, "The tracker refuses the token.")
AWAY = TrackerError(TrackerError.TRANSPORT, "The tracker does not answer.")
UNREADABLE = TrackerError(TrackerError.PAYLOAD, "The issue file is no JSON.")
BUSY = TrackerError(TrackerError.RATE_LIMITED, "Too many calls.", until=1e12)
TOO_SMALL = TrackerError(TrackerError.RATE_LIMITED, "One look takes more calls than there are.", until=1e12)
TOO_SMALL.passing = False
DENIED = TrackerError(TrackerError.TRANSPORT, "The issue file issues.json cannot be used: permission denied.")
DENIED.__cause__ = PermissionError(13, "permission denied")


@pytest.fixture
def outage(looker, source):
    """Lets looks fail, so many seconds after the first one each; the levels of what was noted meanwhile."""

    began = looker._context.clock.now()

    async def happen(trouble: SortieError | None, *looks_after: float) -> list[str]:
        notes: list[str] = []
        heard = looker._context.ledger.listen
        heard(lambda event: notes.append(event.level) if isinstance(event, ev.Noted) else None)
        source.trouble = trouble
        clock: Any = looker._context.clock
        for seconds in looks_after:
            clock.advance(began + seconds - clock.now())
            await looker.look()
        return notes

    return happen


@pytest.mark.parametrize(
    ("trouble", "looks", "levels"),
    [
        (REFUSED, (0, 30, 600), ["error"]),
        (UNREADABLE, (0, 30, 600), ["warning", "error"]),
        (DENIED, (0, 1, 600), ["warning", "error"]),
        (WorkspaceError("The place is gone."), (0, 1), ["warning", "error"]),
        (AWAY, (0, 30, 200, 299), ["warning"]),
        (AWAY, (0, 30, 200, 300, 400, 4000), ["warning", "error"]),
        (BUSY, (0, 400, 4000), ["warning"]),
        (BUSY, (0, 4000, 4600), ["warning", "warning"]),
        (TOO_SMALL, (0, 60, 600, 6000), ["warning", "error"]),
    ],
)
async def test_an_outage_that_lasts_is_told_to_people_once(outage, trouble, looks, levels):
    """At once where nobody is let in; with the second look where the same call cannot work without a person."""
    assert await outage(trouble, *looks) == levels


async def test_a_limit_that_ends_mends_nothing_else(looker, outage):
    """What is for people stays so, and is not told anew after each."""
    levels = await outage(UNREADABLE, 0)
    for at, trouble in enumerate((BUSY, UNREADABLE, BUSY, UNREADABLE, BUSY)):
        await outage(trouble, at)
    assert live_report(looker._context, []).look_needs_person
    await outage(None, 6)
    assert levels == ["warning", "warning", "error", "info"]


async def test_the_next_outage_is_told_again(looker, source, outage):
    assert await outage(REFUSED, 0, 1) == ["error"]
    source.trouble = None
    await looker.look()
    assert await outage(REFUSED, 2, 3) == ["error"]


async def test_when_it_looked_last_is_told_by_the_calendar(looker):
    """People and boards compare it with theirs, which may have been set since the service started."""
    clock = looker._context.clock
    looked = clock.now()
    clock.set_ahead(7200)
    clock.advance(3)
    assert live_report(looker._context, []).last_look_at == looked + 7200


async def test_of_what_waits_and_is_parked_the_first_are_reported_and_how_many(looker):
    schedule = looker._context.schedule
    for number in range(100):
        retry = Retry(kind="error", attempt=2, due_at=float(1000 - number), error="")
        schedule.waiting[f"w{number}"] = Waiting(issue_id=f"w{number}", identifier=f"W-{number}", retry=retry)
    report = live_report(looker._context, [])
    assert [one.identifier for one in report.waiting] == ["W-99", "W-98", "W-97", "W-96", "W-95"]
    assert (report.waiting_count, report.parked, report.parked_count) == (100, (), 0)


@pytest.mark.parametrize(
    ("trouble", "looks", "reported"),
    [
        (REFUSED, (0,), (0.0, True)),
        (AWAY, (0, 59), (59.0, False)),
        (UNREADABLE, (0,), (0.0, False)),
        (UNREADABLE, (0, 2), (2.0, True)),
        (BUSY, (0, 400), (0.0, False)),
        (TOO_SMALL, (0,), (0.0, False)),
        (TOO_SMALL, (0, 60), (60.0, True)),
    ],
)
async def test_how_long_looks_have_failed_is_reported(looker, source, outage, trouble, looks, reported):
    await outage(trouble, *looks)
    report = live_report(looker._context, [])
    assert report.last_look_error == str(trouble)
    assert (report.looks_failing_for, report.look_needs_person) == reported
    source.trouble = None
    await looker.look()
    report = live_report(looker._context, [])
    assert (report.last_look_error, report.looks_failing_for, report.look_needs_person) == ("", 0.0, False)
