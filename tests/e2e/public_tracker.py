"""A tracker of another package to which strangers write: the file tracker, and who wrote what is judged.

Records and comments have `author` and `association` besides; the comments of the service are those of a member.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from sortie.core.model import Issue
from sortie.trackers.file import FileTracker
from sortie.trackers.tracker import Candidates, TrackerSettings


class PublicTracker(FileTracker):
    trusted_by_default = ("@MEMBER",)
    path: Path

    @classmethod
    def from_settings(cls, settings: TrackerSettings) -> PublicTracker:
        path = settings.base / "issues.json"
        tracker = cls(path, settings.active_states, settings.terminal_states, (settings.handoff_state,))
        tracker.path = path
        return tracker

    @classmethod
    def check(cls, settings: TrackerSettings) -> list[tuple[str, str]]:
        return []

    async def fetch_candidates(self) -> Candidates:
        found = await super().fetch_candidates()
        return replace(found, issues=tuple(map(self._signed, found.issues)))

    async def fetch_issue(self, issue_id: str) -> Issue:
        return self._signed(await super().fetch_issue(issue_id))

    def _signed(self, issue: Issue) -> Issue:
        records = {record["id"]: record for record in json.loads(self.path.read_bytes())}
        record = records[issue.id]
        said = {comment["id"]: comment for comment in record.get("comments", ())}
        comments = [replace(one, association=_association(said[one.id])) for one in issue.comments or ()]
        author = record.get("author", "")
        return replace(issue, author=author, association=_association(record), comments=tuple(comments))


def _association(record: dict[str, Any]) -> str:
    return str(record.get("association", "MEMBER" if record.get("author") == "sortie" else "NONE"))


def install(directory: Path) -> None:
    """Put this module into a directory the way an installer does, entry point included."""
    metadata = directory / "public_tracker-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: public-tracker\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[sortie.trackers]\npublic = public_tracker:PublicTracker\n")
    (directory / "public_tracker.py").write_bytes(Path(__file__).read_bytes())
