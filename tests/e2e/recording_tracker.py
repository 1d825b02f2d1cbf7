"""A tracker of another package: the file tracker, but every call is written to the diary, and some are refused.

recording:
  diary: /path           one line for each call: `tracker <verb> <issue id> <state>`
  refuse: ["1", "2"]     ids whose transitions fail
  on_fetch_issue: "..."  a shell command that runs each time one issue is asked for; if it fails, the call does
  on_fetch_states: "..." the same each time states are asked for
  before_transition: ".."  a shell command that runs before each transition
  hold: /path            while this file exists no read is answered; one that waits makes `/path.reached`
  unwatched: true        changes of the file are not noticed before the next poll
  name: ...              of this very tracker, in the diary when it is closed
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

import anyio

from sortie.core.model import Issue
from sortie.errors import TrackerError
from sortie.trackers.file import FileTracker
from sortie.trackers.tracker import Candidates, TrackerSettings


class RecordingTracker(FileTracker):
    _options: dict[str, Any]

    @classmethod
    def from_settings(cls, settings: TrackerSettings) -> RecordingTracker:
        others = (settings.handoff_state, settings.in_progress_state)
        tracker = cls(settings.base / "issues.json", settings.active_states, settings.terminal_states, others)
        tracker._options = dict(settings.options)
        return tracker

    @classmethod
    def check(cls, settings: TrackerSettings) -> list[tuple[str, str]]:
        return []

    def watched_files(self) -> tuple[Path, ...]:
        return () if self._options.get("unwatched") else super().watched_files()

    async def fetch_candidates(self) -> Candidates:
        await self._held()
        return await super().fetch_candidates()

    async def fetch_issue(self, issue_id: str) -> Issue:
        self._note("fetch_issue", issue_id)
        self._do("on_fetch_issue")
        await self._held()
        return await super().fetch_issue(issue_id)

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        for issue_id in issue_ids:
            self._note("fetch_states", issue_id)
        self._do("on_fetch_states")
        return await super().fetch_states(issue_ids)

    async def transition(self, issue_id: str, state: str) -> None:
        self._note("transition", issue_id, state)
        self._do("before_transition")
        if issue_id in self._options.get("refuse", ()):
            raise TrackerError(TrackerError.API, "the tracker refuses this transition.")
        await super().transition(issue_id, state)

    async def comment(self, issue_id: str, body: str) -> None:
        self._note("comment", issue_id)
        await super().comment(issue_id, body)

    async def aclose(self) -> None:
        self._note("aclose", self._options.get("name", ""))

    async def _held(self) -> None:
        hold = Path(self._options.get("hold", "/nonexistent"))
        while hold.exists():
            hold.with_name(f"{hold.name}.reached").touch()
            await anyio.sleep(0.01)

    def _do(self, option: str) -> None:
        if command := self._options.get(option):
            subprocess.run(["sh", "-c", command], check=True)

    def _note(self, *words: str) -> None:
        with Path(self._options["diary"]).open("a") as diary:
            diary.write(" ".join(("tracker", *words)) + "\n")


def install(directory: Path) -> None:
    """Put this module into a directory the way an installer does, entry point included."""
    metadata = directory / "recording_tracker-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: recording-tracker\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[sortie.trackers]\nrecording = recording_tracker:RecordingTracker\n"
    )
    (directory / "recording_tracker.py").write_bytes(Path(__file__).read_bytes())
