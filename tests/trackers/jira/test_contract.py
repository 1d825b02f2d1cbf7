"""The contract of all trackers, kept by the Jira tracker; also while Jira's search lags behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from sortie.core.model import Issue
from sortie.testing import TrackerContract
from sortie.trackers.jira.jira import JiraTracker
from tests import npm
from tests.servers.jira_fake import JiraFake
from tests.servers.jira_store import User, paragraph

from .conftest import schema, settings


class TestJira(TrackerContract):
    pytestmark = npm.TIME_TO_INSTALL
    keeps_names = False

    @pytest.fixture(autouse=True)
    def _site(self) -> Iterator[None]:
        with JiraFake(schema()).running() as self.jira:
            self._ids: dict[str, int] = {}
            yield
        assert self.jira.problems == []

    async def store(self, directory: Path, issues: Sequence[Issue]) -> Mapping[str, str]:
        """Issues stay the ones they were as long as they are stored under the same id."""
        store = self.jira.store
        with store.lock:
            was_late, store.is_late = store.is_late, False
            kept = {self._ids[issue.id] for issue in issues if issue.id in self._ids}
            store.issues = {number: stored for number, stored in store.issues.items() if number in kept}
            for issue in issues:
                if issue.id not in self._ids:
                    self._ids[issue.id] = store.add().id
                stored = store.issues[self._ids[issue.id]]
                stored.summary, stored.updated = issue.title, store.now()
                stored.labels = [*issue.labels]
                stored.description = paragraph(issue.description) if issue.description else None
                store.move(stored, issue.state)
                for comment in issue.comments or ():
                    store.comment(stored, comment.body, User(comment.author, comment.author))
            store.links = [
                ("Blocks", self._ids[blocker.id], self._ids[issue.id])
                for issue in issues
                for blocker in issue.blocked_by
            ]
            store.indexed()
            store.is_late = was_late
        return {ours: str(number) for ours, number in self._ids.items()}

    def tracker(self, directory: Path) -> JiraTracker:
        return JiraTracker.from_settings(settings(self.jira.url, handoff_state="In Review"))


class TestJiraWhoseSearchIsLate(TestJira):
    """What we wrote shows at once all the same; what others write is shown when the search knows it."""

    @pytest.fixture(autouse=True)
    def _late(self, _site: None) -> None:
        self.jira.store.is_late = True
