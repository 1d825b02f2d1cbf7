"""A GitHub of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.github_scene import GitHubScene, github


@pytest.fixture
def scene() -> Iterator[GitHubScene]:
    with github() as found:
        yield found
