"""A project whose service a browser looks at, and what its store and its tracker say for comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sortie.core.observe import mark_of
from sortie.store.connect import connect_readonly
from sortie.store.load import load

from .server_scene import ServerScene, Started, free_port


class BrowsedScene(ServerScene):
    """`at_work` is its service while it is browsed."""

    at_work: Started

    @contextmanager
    def browsed(self) -> Iterator[BrowsedScene]:
        with self.running(free_port()) as self.at_work:
            yield self

    @property
    def url(self) -> str:
        return self.at_work.url()

    @property
    def store(self) -> Path:
        return self.directory / ".sortie.db"

    def events(self, after: int = 0) -> dict[int, float]:
        """When each event happened, by its number."""
        with closing(connect_readonly(self.store)) as db:
            return dict(db.execute("SELECT seq, at FROM events WHERE seq > ? ORDER BY seq", (after,)).fetchall())

    def parked(self) -> set[str]:
        with closing(connect_readonly(self.store)) as db:
            return {one.identifier for one in load(db).schedule.parked.values()}

    def commands(self) -> list[tuple[str, str]]:
        """Everything that people asked the service for."""
        with closing(connect_readonly(self.store)) as db:
            return db.execute("SELECT verb, issue FROM commands ORDER BY id").fetchall()

    def tracker_issue(self, identifier: str) -> dict[str, Any]:
        issues: list[dict[str, Any]] = json.loads((self.directory / "issues.json").read_text())
        return next(one for one in issues if one["identifier"] == identifier)

    def answers_in_tracker(self, identifier: str) -> list[str]:
        bodies = [comment["body"] for comment in self.tracker_issue(identifier).get("comments", ())]
        return [body for body in bodies if (mark_of(body) or "").endswith(".answer")]
