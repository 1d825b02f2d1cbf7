"""What must be true of a scene once its last orchestrator has ended, however many were killed before."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

from sortie.core import events as ev
from sortie.core.observe import mark_of
from sortie.core.replay import replay
from sortie.core.schedule import Schedule
from sortie.store.connect import connect_readonly
from sortie.store.load import load
from sortie.store.queries import events

from .scene import Scene

End = tuple[str, tuple[str, str] | None, tuple[str, str, str]]


def conduct_of(name: str) -> str:
    return name.split("_")[0]


def ends_by_conduct(scene: Scene) -> dict[str, End]:
    """How issues of each conduct ended: their state, why they are parked, and the verdict on their last run."""
    ends: dict[str, set[End]] = {}
    for name, end in _ends(scene).items():
        ends.setdefault(conduct_of(name), set()).add(end)
    several = {conduct: found for conduct, found in ends.items() if len(found) > 1}
    assert not several, f"issues of one conduct ended differently: {several}"
    return {conduct: found.pop() for conduct, found in ends.items()}


def _ends(scene: Scene) -> dict[str, End]:
    parked = {
        name: (kind, reason) for name, kind, reason in scene.query("SELECT identifier, kind, reason FROM parked")
    }
    last = {
        name: (status, soft_stop, reason)
        for name, status, soft_stop, reason in scene.query(
            "SELECT identifier, status, soft_stop, reason FROM run_history ORDER BY id"
        )
    }
    return {
        name: (issue["state"], _nameless(parked.get(name), name), _nameless(last[name], name))
        for name, issue in scene.issues().items()
    }


def _nameless(words: Any, name: str) -> Any:
    return words and tuple(word.replace(name, "NAME") for word in words)


def assert_sound(scene: Scene) -> None:
    """Everything but the way in which the issues ended, which `ends_by_conduct` tells."""
    log, schedule = _read(scene)
    assert_no_overlap(scene)
    assert_nothing_left(scene, schedule)
    assert_told_once(scene, log)
    assert_one_verdict_for_each_run(scene, log)
    assert_tables_follow_the_log(log, schedule)
    assert_crashes_are_free(log, schedule)
    assert list(replay(log)) == []


def _read(scene: Scene) -> tuple[list[ev.AnyEvent], Schedule]:
    with closing(connect_readonly(scene.db_path)) as db:
        log = [entry.event for entry in events(db, limit=1_000_000)]
        loaded = load(db)
    assert loaded.unreadable == []
    return log, loaded.schedule


def _fold(log: list[ev.AnyEvent]) -> Schedule:
    policies = [event.policy for event in log if isinstance(event, ev.PolicySet)]
    schedule = Schedule(policies[0])
    for event in log:
        schedule.apply(event)
    return schedule


def assert_no_overlap(scene: Scene) -> None:
    """An agent holds the lock of its issue as long as anything of it lives, and says so where it is taken."""
    assert scene.diary_lines("VIOLATION") == []


def assert_nothing_left(scene: Scene, schedule: Schedule) -> None:
    assert scene.survivors() == []
    assert schedule.running == {}
    assert schedule.effects == {}
    assert schedule.waiting == {}


def assert_told_once(scene: Scene, log: list[ev.AnyEvent]) -> None:
    """Every planned write to the tracker was made, none twice."""
    planned = {event.effect_id: event for event in log if isinstance(event, ev.EffectPlanned)}
    ticked_off = [event.effect_id for event in log if isinstance(event, ev.EffectDone) and event.ok]
    assert sorted(ticked_off) == sorted(planned)
    marks = Counter(mark_of(comment["body"]) for issue in scene.issues().values() for comment in issue["comments"])
    comments = {effect_id for effect_id, event in planned.items() if event.verb == "comment"}
    assert marks == Counter(comments)
    moves = Counter(map(tuple, scene.journal("transition")))
    assert {move: count for move, count in moves.items() if count > 1} == {}


def assert_one_verdict_for_each_run(scene: Scene, log: list[ev.AnyEvent]) -> None:
    claimed = [event.run_id for event in log if isinstance(event, ev.Claimed)]
    settled = [event.run_id for event in log if isinstance(event, ev.Settled)]
    ended = {event.run_id: event for event in log if isinstance(event, ev.RunEnded)}
    history = [run_id for (run_id,) in scene.query("SELECT run_id FROM run_history")]
    assert sorted(history) == sorted(claimed) == sorted(settled) == sorted(ended)
    planned = {event.effect_id for event in log if isinstance(event, ev.EffectPlanned)}
    owed = {f"{run_id}.completion" for run_id, end in ended.items() if end.status == "succeeded"}
    owed |= {f"{run_id}.failure" for run_id, end in ended.items() if end.status == "failed"}
    assert owed <= planned


def assert_tables_follow_the_log(log: list[ev.AnyEvent], schedule: Schedule) -> None:
    folded = _fold(log)
    schedule.policy = folded.policy  # is not in the tables
    assert schedule == folded


def assert_crashes_are_free(log: list[ev.AnyEvent], schedule: Schedule) -> None:
    crashed = {
        event.run_id for event in log if isinstance(event, ev.RunEnded) and event.stop in ("crash", "shutdown")
    }
    paid = Counter(event.issue_id for event in log if isinstance(event, ev.Claimed) and event.run_id not in crashed)
    assert Counter({issue_id: spent.sessions for issue_id, spent in schedule.spent.items()}) == paid
