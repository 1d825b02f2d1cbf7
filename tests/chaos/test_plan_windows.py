"""Plans whose orchestrator is killed at exact points: what was written counts, what was not is done again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from .plan_graphs import Edge, Graph, Task
from .plan_orchestrators import Forge
from .plan_proofs import assert_same, assert_sound
from .plan_scene import PlanScene

STEPS = ("claim", "workspace", "process", "turn", "turn_end", "end", "effect_done", "settle")
# One task of each conduct, and one behind it that gets what it delivers.
EVERYTHING = Graph(
    tuple(
        Task(2 * place, tells=tells, misdeeds=misdeeds, turns=turns, daemon=daemon)
        for place, (tells, misdeeds, turns, daemon) in enumerate(
            (
                ("full", (), 1, True),
                ("plainly", (), 2, False),
                ("nothing", (), 1, False),
                ("full", ("lies",), 1, False),
                ("nothing", ("fails",), 1, False),
                ("plainly", ("says-failed",), 1, False),
            )
        )
    )
    + tuple(Task(2 * place + 1, edges=(Edge(2 * place, "depends_on"),)) for place in range(6))
    + (Task(12, at_last="gives-up", escalates=True),),
    parallel=4,
)

MakeScene = Callable[[Graph], PlanScene]


@pytest.fixture(scope="module")
def forge(tmp_path_factory) -> Iterator[Forge]:
    made = Forge(tmp_path_factory.mktemp("agent"))
    yield made
    made.close()


@pytest.fixture
def scene_of(tmp_path, forge) -> MakeScene:
    return lambda graph: PlanScene(tmp_path / "scene", graph, forge)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, forge) -> PlanScene:
    scene = PlanScene(tmp_path_factory.mktemp("undisturbed") / "scene", EVERYTHING, forge)
    scene.run_to_the_end()
    assert_sound(scene)
    return scene


@pytest.mark.parametrize("kind", STEPS)
def test_a_kill_before_a_step_is_written_down_changes_nothing(scene_of, undisturbed, kind):
    """BOX-12."""
    scene = scene_of(EVERYTHING)
    scene.kill_before(kind)
    scene.run_to_the_end()
    assert_sound(scene)
    assert_same(scene, undisturbed)


def test_what_a_completed_task_said_and_delivered_counts_without_another_run_of_its_agent(scene_of):
    """BOX-12: the verdict was not written down any more; the agent had said that it is completed."""
    scene = scene_of(Graph((Task(0),), 1))
    scene.kill_before("end")
    scene.run_to_the_end()
    assert [line.what for line in scene.lines()] == ["start", "end"]
    assert_sound(scene)


def test_who_said_completed_without_delivering_begins_anew_after_a_kill(scene_of):
    """TBX-13: what the attempt before left is not mixed with the outbox of the next."""
    scene = scene_of(Graph((Task(0, misdeeds=("lies",)),), 1))
    scene.kill_before("end")
    assert "stale.txt" in scene.outbox("t00")

    scene.run_to_the_end()

    assert "stale.txt" not in scene.outbox("t00")
    assert (scene.root / "t00" / "attempts" / "001" / "outbox" / "stale.txt").exists()
    assert_sound(scene)


def test_who_said_completed_too_early_may_say_that_it_failed_after_a_kill(scene_of):
    """BOX-02: the last word of an attempt is not held against the next one."""
    scene = scene_of(Graph((Task(0, misdeeds=("lies",), at_last="gives-up"),), 1))
    scene.kill_before("end")
    scene.run_to_the_end()
    status = json.loads((scene.root / "t00" / "status.json").read_bytes())
    assert status["error"]["message"] == "never"
    assert [line.what for line in scene.lines()] == ["start", "end", "start", "end"]
    assert_sound(scene)
