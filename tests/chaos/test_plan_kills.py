"""Plans whose orchestrators and agents are killed at any moment come to what an undisturbed run comes to.

SORTIE_CHAOS_SEED repeats a run with the same plans and choices; the timing of the machine stays its own.
SORTIE_CHAOS_PLANS is how many plans are drawn for each of the tests here, where more than usual are wanted.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .plan_graphs import Graph, draw, smaller
from .plan_orchestrators import Forge
from .plan_proofs import assert_same, assert_sound
from .plan_scene import PlanScene

PLANS = int(os.environ.get("SORTIE_CHAOS_PLANS", "34"))
PARTS = 6
AT_ONCE = 3  # most of the time they wait
MOST_KILLS = 4
TRIES = 3  # a smaller plan counts as sound if nothing is found so often
LONGEST_SEARCH = 25  # smaller plans that are tried


class Unsound(Exception):
    def __init__(self, graph: Graph, why: str) -> None:
        super().__init__(why)
        self.graph = graph


@pytest.fixture(scope="module")
def forge(tmp_path_factory) -> Iterator[Forge]:
    made = Forge(tmp_path_factory.mktemp("agent"))
    yield made
    made.close()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_plan_comes_to_the_same_whoever_is_killed_when(tmp_path, forge, part):
    """BOX-12: nothing is lost, nothing that is finished is done again, nothing starts early, nobody is left."""
    seed = os.environ.get("SORTIE_CHAOS_SEED") or secrets.token_hex(4)
    print(f"SORTIE_CHAOS_SEED={seed}")

    def one(number: int) -> PlanScene:
        chance = random.Random(f"{seed} {part} {number}")
        graph = draw(chance)
        base = tmp_path / f"{number}"
        try:
            return _disturbed(base, graph, chance, forge)
        except AssertionError as error:
            raise Unsound(graph, f"plan {number} of part {part}, seed {seed}, in {base}:\n{error}") from error

    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            scenes = list(pool.map(one, range(PLANS)))
        except Unsound as found:
            pool.shutdown(cancel_futures=True)
            least = _least(tmp_path / "smaller", found.graph, forge)
            raise AssertionError(f"{found}\nthe least: {least}") from found
    tasks, agents = sum(len(scene.graph.tasks) for scene in scenes), sum(scene.agents_killed for scene in scenes)
    hits = Counter(kind for scene in scenes for kind in scene.kills)
    print(f"{PLANS} plans, {tasks} tasks, {agents} agents killed, {hits.total()} orchestrators: {dict(hits)}")
    assert hits.total() >= PLANS, "the work was done too soon for a test worth its name"


def _disturbed(base: Path, graph: Graph, chance: random.Random, forge: Forge) -> PlanScene:
    undisturbed = PlanScene(base / "undisturbed", graph, forge)
    undisturbed.run_to_the_end()
    assert_sound(undisturbed)
    scene = PlanScene(base / "disturbed", graph, forge)
    scene.disturb(chance, chance.randint(1, MOST_KILLS))
    assert_sound(scene)
    assert_same(scene, undisturbed)
    shutil.rmtree(base)
    return scene


def _least(base: Path, graph: Graph, forge: Forge) -> Graph:
    """The smallest plan found that still fails; what it says of itself is a plan that can be put into a test."""
    found, searched = graph, 0
    while searched < LONGEST_SEARCH:
        for candidate in smaller(found):
            searched += 1
            if _fails(base, candidate, forge):
                found = candidate
                break
            if searched >= LONGEST_SEARCH:
                break
        else:
            break
    return found


def _fails(base: Path, graph: Graph, forge: Forge) -> bool:
    for attempt in range(TRIES):
        shutil.rmtree(base, ignore_errors=True)
        try:
            _disturbed(base, graph, random.Random(attempt), forge)
        except AssertionError:
            return True
    return False
