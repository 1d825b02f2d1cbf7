"""Orchestrators killed at any moment: what they tell in the work log is there once, and complete.

SORTIE_CHAOS_SEED repeats a run with the same choices; the timing of the machine stays its own.
"""

from __future__ import annotations

import os
import random
import re
import secrets
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from sortie.core import events as ev
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.parse import parse
from sortie.store.connect import connect_readonly
from sortie.store.queries import events

from .proofs import assert_sound
from .scene import Scene
from .test_kills import _kill_again_and_again

CONDUCTS = ("review", "turns-2", "blocked", "stumbles", "silent")
EVENT_TYPES = {
    "log-claimed": ("task.claimed",),
    "log-completed": ("task.completed",),
    "log-handoff": ("task.completed", "handoff.posted"),
    "log-escalated": ("escalation.requested",),
    "log-ended": ("note",),
}


def log_of(scene: Scene) -> list[ev.AnyEvent]:
    with closing(connect_readonly(scene.db_path)) as db:
        return [entry.event for entry in events(db, limit=1_000_000)]


def written(path: Path) -> Counter[tuple[str, str]]:
    """Each event by its run, or where there was none by its issue."""
    log = parse(path.read_bytes())
    assert not log.remarks
    texts = {entry.entry_id: entry.text for entry in log.entries}
    found: Counter[tuple[str, str]] = Counter()
    for event in events_of(log):
        run = re.search(r"\bRun ([0-9a-f]+-[0-9a-f]{8}),", texts[event.entry_id])
        issue = f"id-{event.subject.partition(':')[0]}"
        found[run[1] if run else issue, event.event_type] += 1
    return found


def assert_the_story_is_whole(scene: Scene) -> None:
    log = log_of(scene)
    planned = [event for event in log if isinstance(event, ev.EffectPlanned) and event.verb == "record"]
    names = Counter(event.effect_id for event in planned)
    assert max(names.values()) == 1
    told = {(event.run_id or event.issue_id, event.effect_id.rpartition(".")[2]) for event in planned}
    assert written(scene.base / "WORKLOG.md") == Counter(
        (who, kind) for who, name in told for kind in EVENT_TYPES[name]
    )
    settled = [event for event in log if isinstance(event, ev.Settled)]
    ends = {event.run_id: event for event in log if isinstance(event, ev.RunEnded)}
    for event in settled:
        ended = {name for who, name in told if who == event.run_id and name != "log-claimed"}
        assert len(ended) == (0 if event.retry else 1), f"{event} and {ended}"
        if ends[event.run_id].status == "succeeded":
            assert (event.run_id, "log-claimed") in told, f"{event.run_id} is over and was never claimed"


@pytest.mark.timeout(200)
def test_every_event_is_in_the_work_log_once_whoever_is_killed_when(tmp_path):
    """LOG-14 LOG-06"""
    seed = os.environ.get("SORTIE_CHAOS_SEED") or secrets.token_hex(4)
    print(f"SORTIE_CHAOS_SEED={seed}")
    names = [f"{CONDUCTS[n % len(CONDUCTS)]}_{n}" for n in range(60)]
    scene = Scene(tmp_path / "scene", names, more="worklog: WORKLOG.md")
    hits = _kill_again_and_again(scene, random.Random(seed), 24)
    print(f"{hits.total()} kills, by the last event before: {dict(hits.most_common())}")
    scene.run_to_the_end(deadline=120.0)
    assert_sound(scene)
    assert_the_story_is_whole(scene)
    assert hits.total() >= 20, "the work was done too soon for a test worth its name"


@pytest.mark.parametrize("kind", ["effect", "effect_done", "settle"])
def test_a_kill_beside_the_write_itself_changes_nothing(tmp_path, kind):
    """LOG-14: planned and not written, written and not ticked off, ended and not settled."""
    scene = Scene(tmp_path / "scene", ["review_0", "blocked_1", "silent_2"], more="worklog: WORKLOG.md")
    for _ in range(3):
        scene.kill_before(kind)
    scene.run_to_the_end()
    assert_sound(scene)
    assert_the_story_is_whole(scene)
