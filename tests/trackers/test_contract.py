"""Our trackers keep the contract that we ask of others."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from sortie.core.model import Issue
from sortie.testing import tracker_contract as contract
from sortie.testing.fakes import MemoryTracker
from sortie.trackers.file import FileTracker
from sortie.trackers.tracker import Candidates, TrackerSettings


class TestFileTracker(contract.TrackerContract):
    async def store(self, directory, issues):
        (directory / "issues.json").write_text(json.dumps(msgspec.to_builtins(issues), indent=2))

    def tracker(self, directory):
        settings = TrackerSettings(
            kind="file",
            active_states=contract.ACTIVE_STATES,
            terminal_states=contract.TERMINAL_STATES,
            handoff_state=contract.HANDOFF_STATE,
            base=directory,
        )
        return FileTracker.from_settings(settings)


class TestMemoryTracker(contract.TrackerContract):
    _made: MemoryTracker | None = None
    _issues: tuple[Issue, ...] = ()

    async def store(self, directory, issues):
        self._issues = tuple(issues)
        if self._made is not None:
            self._made.issues = MemoryTracker(issues).issues

    def tracker(self, directory):
        self._made = MemoryTracker(
            self._issues, contract.ACTIVE_STATES, contract.TERMINAL_STATES, [contract.HANDOFF_STATE]
        )
        return self._made


class Forgetful(MemoryTracker):
    """Does not say which issues left."""

    async def fetch_candidates(self) -> Candidates:
        found = await super().fetch_candidates()
        kept = {issue.id for issue in found.issues}
        return msgspec.structs.replace(found, changed=found.changed and found.changed & kept)


class Tidy(MemoryTracker):
    """Keeps of a comment what people see."""

    async def comment(self, issue_id: str, body: str) -> None:
        await super().comment(issue_id, body.partition("<!--")[0].rstrip())


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (Forgetful, "test_whoever_follows_what_changed_knows_all"),
        (Tidy, "test_a_comment_of_ours_is_known_by_its_last_line"),
    ],
)
async def test_the_contract_finds_a_tracker_that_breaks_it(tmp_path: Path, kind: type[MemoryTracker], promise: str):
    class Broken(TestMemoryTracker):
        def tracker(self, directory):
            self._made = kind(
                self._issues, contract.ACTIVE_STATES, contract.TERMINAL_STATES, [contract.HANDOFF_STATE]
            )
            return self._made

    with pytest.raises(AssertionError):
        await getattr(Broken(), promise)(tmp_path)
