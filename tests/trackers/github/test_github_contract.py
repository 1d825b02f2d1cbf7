"""The GitHub tracker keeps what every tracker keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from sortie.core.model import Issue
from sortie.testing.tracker_contract import ACTIVE_STATES, HANDOFF_STATE, TERMINAL_STATES, TrackerContract
from sortie.trackers.github.github import GitHubTracker
from tests.npm import TIME_TO_INSTALL
from tests.servers.emulate import REPOSITORY
from tests.servers.github_scene import GitHubScene


@TIME_TO_INSTALL
class TestGitHubTracker(TrackerContract):
    keeps_names: ClassVar[bool] = False
    scene: GitHubScene
    numbers: dict[str, int]

    @pytest.fixture(autouse=True)
    def _server(self, scene: GitHubScene) -> None:
        self.scene = scene
        self.numbers = {}

    async def store(self, directory: Path, issues: Sequence[Issue]) -> Mapping[str, str] | None:
        """What is there already is edited, what is not named is deleted."""
        named = {issue.id for issue in issues}
        self.scene.overlay.gone |= {number for key, number in self.numbers.items() if key not in named}
        for issue in issues:
            if issue.id not in self.numbers:
                self.numbers[issue.id] = self.scene.open(issue.title)
                for comment in issue.comments or ():
                    self.scene.comment(self.numbers[issue.id], comment.body)
            state = "closed" if issue.state in TERMINAL_STATES else "open"
            fields = {
                "title": issue.title,
                "body": issue.description,
                "state": state,
                "labels": [issue.state, *issue.labels],
            }
            self.scene.edit(self.numbers[issue.id], **fields)
        for issue in issues:
            places = [f"{REPOSITORY}#{self.numbers[blocker.id]}" for blocker in issue.blocked_by]
            self.scene.overlay.blocked_by[self.numbers[issue.id]] = places
        return {key: str(number) for key, number in self.numbers.items()}

    def tracker(self, directory: Path) -> GitHubTracker:
        return self.scene.tracker(
            active_states=ACTIVE_STATES,
            terminal_states=TERMINAL_STATES,
            failed_states=(),
            in_progress_state="",
            handoff_state=HANDOFF_STATE,
            base=directory,
        )
