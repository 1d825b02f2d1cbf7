"""A repository on loopback that behaves like one on GitHub, people who work in it, and trackers on it."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sortie.trackers.github.github import GitHubTracker
from sortie.trackers.tracker import TrackerSettings

from .. import npm
from .emulate import NAME, OWNER, REPOSITORY, Emulate
from .fault_proxy import FaultProxy
from .github_overlay import GitHubOverlay
from .github_schema import GitHubSchema

TOKEN = "ghp_0123456789abcdefSECRET"

ISSUES = f"/repos/{REPOSITORY}/issues"


class GitHubScene:
    """`server` is what trackers ask; `people` act behind it."""

    def __init__(self, server: FaultProxy, overlay: GitHubOverlay, emulate: Emulate) -> None:
        self.server = server
        self.overlay = overlay
        self.emulate = emulate

    def settings(self, **fields: Any) -> TrackerSettings:
        given: dict[str, Any] = {
            "kind": "github",
            "project": f"{OWNER}/{NAME}",
            "api_key": TOKEN,
            "endpoint": self.server.url,
            "active_states": ("Todo", "In Progress"),
            "in_progress_state": "In Progress",
            "terminal_states": ("Done", "Wontfix"),
            "failed_states": ("Wontfix",),
            "handoff_state": "In Review",
            "calls_per_minute": 100_000,
            "base": Path(),
        }
        return TrackerSettings(**(given | fields))

    def tracker(self, **fields: Any) -> GitHubTracker:
        settings = self.settings(**fields)
        assert GitHubTracker.check(settings) == []
        return GitHubTracker.from_settings(settings)

    def open(self, title: str = "Add retry logic", *labels: str, by: str = OWNER, **fields: Any) -> int:
        """A new issue; its number."""
        body = {"title": title, "labels": list(labels), **fields}
        number: int = self.emulate.call("POST", ISSUES, body, by=by)["number"]
        return number

    def edit(self, number: int, **fields: Any) -> None:
        self.emulate.call("PATCH", f"{ISSUES}/{number}", fields)

    def comment(self, number: int, body: str, by: str = OWNER) -> None:
        self.emulate.call("POST", f"{ISSUES}/{number}/comments", {"body": body}, by=by)

    def record(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = self.emulate.call("GET", f"{ISSUES}/{number}")
        return found

    def labels(self, number: int) -> list[str]:
        return sorted(label["name"] for label in self.record(number)["labels"])

    def comments(self, number: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.emulate.call("GET", f"{ISSUES}/{number}/comments?per_page=100")
        return found


@functools.cache
def emulate() -> Emulate:
    """One for each process that runs tests."""
    found = Emulate()
    atexit.register(found.stop)
    return found


@contextmanager
def running() -> Iterator[GitHubScene]:
    """As it is at the start: a repository without issues. At the end, everything that was asked has to be something
    that GitHub's own description knows."""
    schema = GitHubSchema()
    try:
        behind = emulate()
    except npm.NotInstalled as problem:
        npm.not_tested(problem)
    behind.reset()
    overlay = GitHubOverlay(behind)
    with FaultProxy.running(behind.url, overlay, schema) as server:
        yield GitHubScene(server, overlay, behind)
    assert not server.problems, "\n".join(server.problems)


@pytest.fixture(name="scene")
def github() -> Iterator[GitHubScene]:
    with running() as scene:
        yield scene
