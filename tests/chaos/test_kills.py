"""Orchestrators killed at any moment, many times over hundreds of issues, lose nothing and do nothing twice.

SORTIE_CHAOS_SEED repeats a run with the same choices; the timing of the machine stays its own.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import time
from collections import Counter

import pytest

from .proofs import assert_sound, ends_by_conduct
from .scene import DEADLINE, Scene, until

WITH_HANDOFF = ("review", "turns-2", "turns-3", "blocked", "stumbles", "family-20", "silent", "family-80")
WITHOUT_HANDOFF = ("review", "turns-2", "blocked", "stumbles", "family-20", "turns-5", "silent")

LATEST = 0.9  # seconds after its start at which an orchestrator is killed
MOST_EVENTS = 120  # or events that it is allowed to write


@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    ("conducts", "handoff", "issues", "kills"),
    [(WITH_HANDOFF, True, 128, 34), (WITHOUT_HANDOFF, False, 84, 20)],
    ids=["handoff", "continuation"],
)
def test_kills_at_any_moment_change_no_result(tmp_path, conducts, handoff, issues, kills):
    seed = os.environ.get("SORTIE_CHAOS_SEED") or secrets.token_hex(4)
    print(f"SORTIE_CHAOS_SEED={seed}")
    undisturbed = Scene(tmp_path / "undisturbed", [f"{conduct}_0" for conduct in conducts], handoff=handoff)
    undisturbed.run_to_the_end()
    assert_sound(undisturbed)

    scene = Scene(
        tmp_path / "disturbed", [f"{conducts[n % len(conducts)]}_{n}" for n in range(issues)], handoff=handoff
    )
    hits = _kill_again_and_again(scene, random.Random(seed), kills)
    print(f"{hits.total()} kills, by the last event before: {dict(hits.most_common())}")
    crashed = scene.query("SELECT count(*) FROM run_history WHERE status = 'cancelled'")[0][0]
    orphans = scene.query("SELECT count(*) FROM events WHERE kind = 'note' AND data LIKE '%left behind%'")[0][0]
    print(f"{crashed} runs cut short, {orphans} orphans ended")
    scene.run_to_the_end(deadline=200.0)

    assert_sound(scene)
    assert ends_by_conduct(scene) == ends_by_conduct(undisturbed)
    assert hits.total() >= kills // 2, "the work was done too soon for a test worth its name"


def _kill_again_and_again(scene: Scene, chance: random.Random, kills: int) -> Counter[str]:
    hits: Counter[str] = Counter()
    for _ in range(kills):
        before = scene.last_seq()
        with scene.orchestrator() as process:
            if chance.random() < 0.4:
                _wait_some_time(process, chance.uniform(0.05, LATEST))
            else:
                _wait_some_events(process, scene, chance.randint(1, MOST_EVENTS))
            if process.poll() is not None:
                assert process.returncode in (0, 3), scene.what_was_said()
                break
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE)
        hits[scene.kinds()[-1] if scene.last_seq() > before else "nothing yet"] += 1
    return hits


def _wait_some_time(process: subprocess.Popen[bytes], seconds: float) -> None:
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() > end or process.poll() is not None, "a moment to pass")


def _wait_some_events(process: subprocess.Popen[bytes], scene: Scene, count: int) -> None:
    goal = scene.last_seq() + count
    until(lambda: scene.last_seq() >= goal or process.poll() is not None, f"{count} events")
