"""A network of loopback for all tests of a worker, and a scene for each agent in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .network import LoopbackWorld
from .recipes import ONE_OF_EACH_KIND, RECIPES
from .scene import Scene


@pytest.fixture(scope="session")
def world() -> Iterator[LoopbackWorld]:
    made = LoopbackWorld()
    if made.reason:
        print(f"NOT ISOLATED: the agents see the whole network, because {made.reason}")
    yield made
    made.close()


@pytest.fixture
def scene_of(tmp_path: Path, world: LoopbackWorld) -> Iterator[Callable[[str], Scene]]:
    made: list[Scene] = []

    def scene_of(name: str) -> Scene:
        made.append(Scene(RECIPES[name], tmp_path, world))
        return made[-1]

    yield scene_of
    for scene in made:
        scene.close()


@pytest.fixture(params=sorted(ONE_OF_EACH_KIND))
def scene(request: pytest.FixtureRequest, scene_of: Callable[[str], Scene]) -> Scene:
    """Each kind of agent in turn."""
    return scene_of(request.param)


@pytest.fixture(params=list(RECIPES))
def any_scene(request: pytest.FixtureRequest, scene_of: Callable[[str], Scene]) -> Scene:
    """Each kind in turn, and those that can be driven in several ways in each of them."""
    return scene_of(request.param)
