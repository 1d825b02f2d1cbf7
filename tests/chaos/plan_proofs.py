"""What must be true of a plan once its last orchestrator has ended, however many were killed before."""

from __future__ import annotations

from collections import Counter

from sortie.core import events as ev
from sortie.core.replay import replay
from sortie.core.schedule import Schedule
from sortie.plans.progress import Memo

from .plan_graphs import COMPLETED, ESCALATED
from .plan_scene import PlanScene
from .proofs import assert_crashes_are_free, assert_tables_follow_the_log

Log = list[ev.AnyEvent]


def assert_same(scene: PlanScene, undisturbed: PlanScene) -> None:
    """BOX-12: every task came to the same, and what was delivered is the same to the byte."""
    assert scene.states() == undisturbed.states()
    for name in _completed(scene):
        assert scene.outbox(name) == undisturbed.outbox(name), name


def assert_sound(scene: PlanScene) -> None:
    """Everything that can be said of one plan alone."""
    log, schedule = scene.log()
    assert scene.states() == scene.graph.ends()
    assert_nothing_left(scene, schedule)
    assert_order(scene)
    assert_finished_work_is_not_repeated(scene, log)
    assert_records_are_what_is_there(scene, schedule)
    assert_failures_are_told_once(scene, log)
    assert_no_more_at_once_than_allowed(scene, log)
    assert_tables_follow_the_log(log, schedule)
    assert_crashes_are_free(log, schedule)
    assert list(replay(log)) == []


def assert_nothing_left(scene: PlanScene, schedule: Schedule) -> None:
    """No process, no lock that was found taken, nothing half-done in the store or in a folder."""
    assert scene.survivors() == []
    assert [line for line in scene.lines() if line.what == "VIOLATION"] == []
    assert (schedule.running, schedule.effects, schedule.waiting) == ({}, {}, {})
    hidden = [*scene.root.glob("t*/.*"), *scene.root.glob("t*/attempts/.*")]
    left = [str(path.relative_to(scene.root)) for path in hidden if path.name != ".sortie"]
    assert left == [], f"half-done in a folder: {left}"


def assert_order(scene: PlanScene) -> None:
    """BOX-08: when the first agent of a task starts, the last one of all that it waits for is gone for good."""
    first, last = dict[str, int](), dict[str, int]()
    for place, line in enumerate(scene.lines()):
        first.setdefault(line.task, place)
        last[line.task] = place
    for name, other in scene.graph.waits():
        if name in first and other in last:
            assert last[other] < first[name], f"{name} started before {other} was over"


def assert_finished_work_is_not_repeated(scene: PlanScene, log: Log) -> None:
    """BOX-12: a task is claimed only after all that it waits for is over, and never once it is completed."""
    over: dict[str, str] = {}
    edges: dict[str, list[str]] = {}
    for name, other in scene.graph.waits():
        edges.setdefault(name, []).append(other)
    for event in log:
        if isinstance(event, ev.IssueSeen):
            over[event.issue_id] = event.view.state
        elif isinstance(event, ev.Claimed):
            assert over.get(event.issue_id) == "pending", f"{event.issue_id} was {over.get(event.issue_id)}"
            assert [other for other in edges.get(event.issue_id, []) if over.get(other) == "pending"] == []
    done = Counter(name for (name,) in scene.query("SELECT identifier FROM run_history WHERE status = 'succeeded'"))
    assert done == Counter(_completed(scene))


def assert_records_are_what_is_there(scene: PlanScene, schedule: Schedule) -> None:
    for name in _completed(scene):
        recorded = Memo.decode(schedule.issues[name].memo).files
        assert {path.removeprefix("outbox/"): sha256 for path, _, sha256 in recorded} == scene.outbox(name), name


def assert_failures_are_told_once(scene: PlanScene, log: Log) -> None:
    """BOX-06, BOX-07: whoever failed has a report in the outbox; whoever needs a person stands on the page once."""
    planned = {event.effect_id for event in log if isinstance(event, ev.EffectPlanned)}
    done = [event.effect_id for event in log if isinstance(event, ev.EffectDone) and event.ok]
    assert sorted(done) == sorted(planned)
    ran = {line.task for line in scene.lines()}
    states = scene.states()
    for name in ran:
        if states[name] != COMPLETED:
            assert "error_report.md" in scene.outbox(name), name
    page = scene.root / "ESCALATIONS.md"
    headings = page.read_text().splitlines() if page.exists() else []
    told = Counter(line.split()[1].rstrip(":") for line in headings if line.startswith("## "))
    assert told == Counter(name for name, state in states.items() if state == ESCALATED)


def assert_no_more_at_once_than_allowed(scene: PlanScene, log: Log) -> None:
    claimed = set[str]()
    for event in log:
        if isinstance(event, ev.Claimed):
            claimed.add(event.run_id)
        elif isinstance(event, ev.Settled):
            claimed.discard(event.run_id)
        assert len(claimed) <= scene.graph.parallel


def _completed(scene: PlanScene) -> list[str]:
    return [name for name, state in scene.states().items() if state == COMPLETED]
