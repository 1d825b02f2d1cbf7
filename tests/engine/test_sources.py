"""Sources without a tracker go the way of all others: on several hosts, killed, recovered, told by the log."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncGenerator, Collection
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from sortie import Orchestrator
from sortie.core import events as ev
from sortie.core.conclude import Outcome
from sortie.core.model import AgentChoice, Blocker, Issue, Limits
from sortie.core.records import Claim
from sortie.core.replay import replay
from sortie.core.schedule import Schedule
from sortie.engine.clock import Clock
from sortie.errors import TrackerError
from sortie.hosts.local_host import LocalHost
from sortie.runs.messages import AnyAnswer, AnyMessage, Ended, TurnAsked, TurnCompleted
from sortie.runs.spec import RunSpec
from sortie.sources.issues import IssueSource
from sortie.sources.source import RunFacts
from sortie.store.commands import add_commands
from sortie.testing.fake_host import FakeHost
from sortie.testing.fakes import EventCollector, MemoryTracker
from sortie.testing.list_source import STATES, ListSource, TaskFolderSource
from sortie.trackers.tracker import FETCHES_AT_ONCE, Candidates
from sortie.workflow.reloader import Reloader

from .two_hosts import TwoHosts, end_of

NAMES = [f"t{number}" for number in range(1, 8)]


@pytest.fixture
def scene(tmp_path):
    made: list[TwoHosts] = []

    def make(*arguments: str, **options: Any) -> TwoHosts:
        made.append(TwoHosts(tmp_path, *arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def assert_each_was_done_once(scene: TwoHosts, *names: str) -> None:
    assert scene.told("twice") == {}
    assert scene.told("end") == Counter(names)
    log = scene.log()
    assert list(replay(log)) == []
    claimed = [event.run_id for event in log if isinstance(event, ev.Claimed)]
    assert sorted(claimed) == sorted(event.run_id for event in log if isinstance(event, ev.Settled))
    assert not (scene.schedule().running or scene.schedule().waiting or scene.schedule().effects)
    assert {name: scene.schedule().spent_on(name).sessions for name in names} == dict.fromkeys(names, 1)


def crashed(scene: TwoHosts) -> Counter[str]:
    return Counter(e.issue_id for e in scene.log() if isinstance(e, ev.RunEnded) and e.stop == "crash")


async def test_a_list_on_two_hosts_is_killed_and_recovered(scene):
    """Runs of this machine are ended and begun again; those of the other one go on, started once."""
    names = [*NAMES, "last"]
    items = f"[*map(item, {NAMES}), item('last', 't1')]"
    its = scene(f"ListSource({items}, home / 'work', agent)", *names)
    first = its.start()
    await its.diary("start", 6)
    first.kill()
    first.communicate()
    before = its.claims()
    assert Counter(host for hosts in before.values() for host in hosts) == {"local": 3, "worker": 3}
    here, there = ([name for name in before if before[name] == [host]] for host in ("local", "worker"))

    second = its.start()
    await its.diary("start", 9)
    assert its.told("start") == {**dict.fromkeys(here, 2), **dict.fromkeys(there, 1)}
    its.open()
    assert await end_of(second) == ""
    assert_each_was_done_once(its, *names)
    assert crashed(its) == Counter(here)
    assert {name: hosts for name, hosts in its.claims().items() if name in there} == {n: ["worker"] for n in there}
    assert {view.state for view in its.schedule().issues.values()} == {"done"}


async def test_tasks_that_end_while_nobody_is_there_are_heard_by_the_next_orchestrator(scene):
    """The worker's agents say in status.json how they ended, after one orchestrator and before the next."""
    names = [*NAMES[:6], "next"]
    items = f"[*map(item, {NAMES[:6]}), item('next', *{NAMES[:6]})]"
    then = 'test -d inbox && echo "{\\"state\\": \\"completed\\"}" > status.json\n'
    its = scene(f"TaskFolderSource({items}, home / 'work', agent)", *names, then=then)
    first = its.start()
    await its.diary("start", 6)
    first.kill()
    first.communicate()
    here, there = ([n for n, hosts in its.claims().items() if hosts == [host]] for host in ("local", "worker"))
    its.open(*there)
    await its.diary("end", 3)

    second = its.start()
    await its.diary("start", 9)
    its.open()
    assert await end_of(second) == ""
    assert_each_was_done_once(its, *names)
    assert crashed(its) == Counter(here)
    assert {name: len(hosts) for name, hosts in its.claims().items() if name in there} == dict.fromkeys(there, 1)
    assert {view.state for view in its.schedule().issues.values()} == {"done"}


async def test_the_word_of_an_agent_that_was_done_outlives_the_orchestrator(scene):
    """Killed between the end of the turn and the verdict: what status.json says counts, nothing is done again."""
    source = """type("Slow", (TaskFolderSource,), {"spec_for": lambda self, issue, run: replace(
        TaskFolderSource.spec_for(self, issue, run), hooks=HooksSpec(after_run=f"cat {home}/wait")
    )})([item("t")], home / "work", agent)"""
    then = 'echo "{\\"state\\": \\"completed\\"}" > status.json\n'
    its = scene(source, "t", then=then)
    os.mkfifo(its.home / "wait")
    its.open()
    first = its.start()
    await its.diary("end", 1)
    await its.logged(ev.TurnEnded)
    first.kill()
    first.communicate()
    assert not any(isinstance(event, ev.RunEnded) for event in its.log())
    assert await end_of(its.start()) == ""
    assert_each_was_done_once(its, "t")
    assert its.told("start") == {"t": 1}


# -- one process, one host ------------------------------------------------------------------------------------


def item(name: str, *after: str, **fields: Any) -> Issue:
    blockers = tuple(Blocker(one, one) for one in after)
    return Issue(
        **{"id": name, "identifier": name, "title": name, "state": "todo", "blocked_by": blockers, **fields}
    )


@pytest.fixture
def heard():
    return EventCollector()


@pytest.fixture
def orchestrator(tmp_path, heard):
    def make(source: ListSource, clock: Clock | None = None) -> Orchestrator:
        host = LocalHost(tmp_path / "store.db")
        return Orchestrator(source, [host], tmp_path / "store.db", listeners=[heard], clock=clock)

    return make


def ended(heard: EventCollector) -> dict[str, str]:
    """The last state that became known of each item."""
    return {event.issue_id: event.view.state for event in heard.all(ev.IssueSeen)}


async def test_a_failed_dependency_is_not_a_finished_one(tmp_path, heard, orchestrator):
    fails = """echo '{"state": "failed", "error": {"message": "no table", "recoverable": false}}' > status.json"""
    works = """echo '{"state": "completed"}' > status.json"""
    scripts = {"bad": fails, "good": works, "after-good": works, "after-bad": works, "mute": "true"}
    items = [item("bad"), item("good"), item("after-good", "good"), item("after-bad", "bad"), item("mute")]
    with anyio.fail_after(30):
        source = TaskFolderSource(items, tmp_path / "work", scripts)
        summary = await orchestrator(source).run(until_idle=True)
    assert ended(heard) == {
        "bad": "failed", "good": "done", "after-good": "done", "after-bad": "todo", "mute": "todo"
    }  # fmt: skip
    assert [view.blocked_by for view in summary.blocked] == [("bad (failed)",)]
    assert [(parked.issue_id, parked.park.reason) for parked in summary.parked] == [
        ("mute", "its agent left no word")
    ]
    assert [event.error for event in heard.of(ev.RunEnded, "bad")] == ["no table"]


async def test_a_blocked_item_is_parked_with_its_reason_and_the_next_start_remembers_what_is_done(
    tmp_path, heard, orchestrator
):
    blocked = "mkdir -p .sortie; printf 'blocked\\nreason: no password\\n' > .sortie/status"

    def source() -> ListSource:
        return ListSource([item("a"), item("b")], tmp_path / "work", {"a": "true", "b": blocked})

    with anyio.fail_after(30):
        summary = await orchestrator(source()).run(until_idle=True)
        assert [parked.park.reason for parked in summary.parked] == ["no password"]
        again = await orchestrator(source()).run(until_idle=True)
    assert [parked.park.reason for parked in again.parked] == ["no password"]
    assert Counter(event.issue_id for event in heard.all(ev.Claimed)) == {"a": 1, "b": 1}


async def test_only_the_account_that_met_its_limit_is_paused(tmp_path, heard, orchestrator):
    """The limit is that of an agent kind and an account: others of the same kind go on."""
    turns = [{"status": "needs-human-review"}]
    mock = {"turns": turns, "by_issue": {"a1": [{"outcome": "rate_limited", "reset_seconds": 900}]}}
    items = [item(f"{key}{n}", agent=AgentChoice(kind="mock", credential=key)) for n in (1, 2) for key in "ab"]
    policy = replace(STATES, max_concurrent=1)
    source = ListSource([*items, item("c")], tmp_path / "work", "true", options={"mock": mock}, policy=policy)
    its = orchestrator(source)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(its.run)
            for name in ("a1", "b1", "b2", "c"):
                await heard.wait(ev.Settled, name)
            await heard.wait(ev.Skipped, "a2")
            its.drain()
    (paused,) = heard.all(ev.ProviderPaused)
    assert (paused.provider, paused.issue_id, paused.error_kind) == ("mock/a", "a1", "rate_limited")
    claims = {event.issue_id: (event.agent, event.provider) for event in heard.all(ev.Claimed)}
    assert claims == {
        "a1": ("mock", "mock/a"), "b1": ("mock", "mock/b"), "b2": ("mock", "mock/b"), "c": ("command", "")
    }  # fmt: skip
    assert [(event.rule, event.detail) for event in heard.of(ev.Skipped, "a2")][-1] == ("provider-paused", "mock/a")
    assert heard.of(ev.Settled, "a1")[0].refund


async def test_an_item_may_have_turns_and_a_budget_of_its_own(tmp_path, heard, orchestrator):
    mock = {"turns": [{"input_tokens": 100}]}
    items = [
        item("short", agent=AgentChoice(kind="mock")),
        item("long", agent=AgentChoice(kind="mock", max_turns=3)),
        item("poor", agent=AgentChoice(kind="mock", max_turns=9, limits=Limits(tokens=150))),
    ]
    with anyio.fail_after(30):
        source = ListSource(items, tmp_path / "work", options={"mock": mock})
        summary = await orchestrator(source).run(until_idle=True)
    ends = {event.issue_id: (event.turns, event.usage.total, event.stop) for event in heard.all(ev.RunEnded)}
    assert ends == {"short": (1, 100, ""), "long": (3, 300, ""), "poor": (2, 200, "budget")}
    assert [(parked.issue_id, parked.park.kind) for parked in summary.parked] == [("poor", "budget")]


def test_an_item_may_choose_its_model(tmp_path):
    source = ListSource([], tmp_path, options={"claude-code": {"effort": "high"}})
    chosen = item("a", agent=AgentChoice(kind="claude-code", model="small"))
    claim = Claim(issue_id="a", run_id="r", identifier="a", attempt=1, claimed_at=0.0)
    spec = source.spec_for(chosen, RunFacts(store_id="s", claim=claim))
    assert (spec.agent.kind, spec.agent.options) == ("claude-code", {"effort": "high", "model": "small"})


async def test_a_person_starts_a_run_that_no_look_would_start(tmp_path, heard, orchestrator):
    source = ListSource([item("later", state="backlog"), item("now")], tmp_path / "work", "true")
    its = orchestrator(source)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(its.run)
            await heard.wait(ev.Settled, "now")
            assert heard.of(ev.Claimed, "later") == []
            add_commands(tmp_path / "store.db", "start", ["later", "nowhere"])
            settled = await heard.wait(ev.Settled, "later")
            its.drain()
    (claim,) = heard.of(ev.Claimed, "later")
    assert (claim.cause, settled.retry, settled.park) == ("started", None, None)
    assert [(event.issue_id, event.ok) for event in heard.all(ev.Commanded)] == [("later", True), ("", False)]
    assert [event.status for event in heard.of(ev.RunEnded, "later")] == ["succeeded"]


# -- looking is separate from deciding ------------------------------------------------------------------------


class Counting(ListSource):
    """Looks when it is told to, and counts; `trouble` is raised instead of an answer."""

    looks = 0
    trouble: TrackerError | None = None

    async def look(self, schedule):
        self.looks += 1
        if self.trouble:
            raise self.trouble
        return await super().look(schedule)


async def test_runs_that_end_are_no_reason_to_look(tmp_path, heard, orchestrator):
    names = [f"t{number}" for number in range(12)]
    policy = replace(STATES, max_concurrent=2)
    choice = AgentChoice(kind="mock")
    items = [item(name, agent=choice) for name in names]
    mock: dict[str, Any] = {"mock": {"turns": [{}]}}
    source = Counting(items, tmp_path / "work", options=mock, policy=policy, poll_interval=3600.0)
    its = orchestrator(source)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(its.run)
            for name in names:
                await heard.wait(ev.Settled, name)
            its.drain()
    assert source.looks == 1
    assert {name for name, state in ended(heard).items() if state == "done"} == {*names}


async def test_a_source_that_says_until_when_it_wants_to_be_left_alone_is_left_alone(tmp_path, heard, orchestrator):
    """By our clock, not by a timer: a computer that slept has come closer to that time than a timer knows."""
    time = [1_000_000.0]
    source = Counting([item("a")], tmp_path / "work", "true", poll_interval=0.01)
    source.trouble = TrackerError(TrackerError.RATE_LIMITED, "too often.", until=time[0] + 3600)
    its = orchestrator(source, Clock(wall=lambda: time[0], steady=lambda: time[0]))
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(its.run)
            await heard.wait(ev.Noted)
            for number, minutes in enumerate((0, 59), start=1):
                time[0] = 1_000_000.0 + minutes * 60
                add_commands(tmp_path / "store.db", "retry", ["a"])  # what else is to be done goes on
                while len(heard.all(ev.Commanded)) < number:
                    await anyio.sleep(0.01)
                assert source.looks == 1
            source.trouble = None
            time[0] += 61
            await heard.wait(ev.Settled, "a")
            its.drain()
    assert source.looks > 1
    assert ended(heard) == {"a": "done"}


class WithoutComments(MemoryTracker):
    """Its list has no comments. Single issues are answered when so many are asked for; some cannot be had."""

    def __init__(self, issues: Collection[Issue], at_once: int, refused: Collection[str]) -> None:
        super().__init__(issues, ["todo"], ["done"])
        self._at_once = at_once
        self._refused = refused
        self._enough = anyio.Event()
        self.asked: list[str] = []

    async def fetch_candidates(self) -> Candidates:
        return Candidates(tuple(item(issue.id) for issue in self.issues.values()))

    async def fetch_issue(self, issue_id: str) -> Issue:
        self.asked.append(issue_id)
        if len(self.asked) == self._at_once:
            self._enough.set()
        await self._enough.wait()
        if issue_id in self._refused:
            raise TrackerError(TrackerError.TRANSPORT, "no answer.")
        return await super().fetch_issue(issue_id)


async def test_parked_issues_are_fetched_together_and_one_that_fails_spoils_no_other(tmp_path):
    workflow = tmp_path / "WORKFLOW.md"
    workflow.write_text("---\ntracker: {kind: file, active_states: [todo]}\nagent: {kind: mock}\n---\nGo\n")
    names = [f"t{number}" for number in range(FETCHES_AT_ONCE)]
    tracker = WithoutComments([item(name) for name in [*names, "free"]], FETCHES_AT_ONCE, ["t3"])
    source = IssueSource(Reloader(workflow, environ={}), {}, tracker=tracker)
    schedule = Schedule(source.policy)
    park = ev.Park(kind="signal", reason="a question", fingerprint="")
    for name in names:
        schedule.apply(ev.Parked(at=0.0, issue_id=name, identifier=name, park=park))
    with anyio.fail_after(10):
        look = await source.look(schedule)
    assert tracker.asked == names
    assert [key for key, issue in look.issues.items() if issue.comments is None] == ["t3", "free"]


# -- what the source is told ------------------------------------------------------------------------------------


async def test_an_item_that_somebody_moved_during_its_turn_is_not_put_in_progress(tmp_path):
    """Also where the end of that turn is the first sign that its agent works, and the item was looked at first."""

    class Progressing(ListSource):
        def progress_state(self, issue: Issue) -> str:
            return "doing"

        async def transition(self, issue_id: str, state: str) -> None:
            moves.append(state)
            await super().transition(issue_id, state)

    async def moved_meanwhile(spec: RunSpec) -> AsyncGenerator[AnyMessage, AnyAnswer | None]:
        yield TurnAsked(turn=1)
        await source.transition("a", "review")
        yield TurnCompleted(turn=1)
        yield Ended(outcome=Outcome(status="succeeded", turns=1))

    moves: list[str] = []
    policy = replace(STATES, active_states=("todo", "doing", "review"))
    source = Progressing(
        [Issue(id="a", identifier="a", title="Task a", state="todo")], tmp_path / "work", policy=policy
    )
    with anyio.fail_after(20):
        await Orchestrator(source, [FakeHost(moved_meanwhile)], tmp_path / "store.db").run(until_idle=True)
    assert moves == ["review", "done"]
