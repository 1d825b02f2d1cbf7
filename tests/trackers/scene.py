"""An issue file on disk and a tracker on it; what the tests of the file tracker share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sortie.trackers.file import FileTracker
from sortie.trackers.tracker import TrackerSettings

FULL_RECORD: dict[str, Any] = {
    "id": "abc123",
    "identifier": "PROJ-42",
    "title": "Add retry logic",
    "description": "The client gives up at once.",
    "state": "In Progress",
    "priority": 2,
    "labels": ["Backend", "reliability"],
    "assignee": "alice",
    "issue_type": "Bug",
    "url": "https://tracker.example.com/browse/PROJ-42",
    "branch_name": "PROJ-42-retry-logic",
    "parent": {"id": "parent-1", "identifier": "PROJ-40"},
    "comments": [{"id": "c1", "author": "bob", "body": "Confirmed in prod.", "created_at": "2026-03-25T10:00:00Z"}],
    "blocked_by": [{"id": "x", "identifier": "PROJ-7", "state": "Done"}],
    "created_at": "2026-03-20T09:00:00Z",
    "updated_at": "2026-03-25T14:30:00Z",
}


def record(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": str(number),
        "identifier": f"T-{number}",
        "title": f"Task {number}",
        "state": "Todo",
        **fields,
    }


def write_issues(path: Path, *records: Any) -> Path:
    path.write_text(json.dumps(records, indent=2) + "\n")
    return path


def read_issues(path: Path) -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for entry in json.loads(path.read_bytes())}


def settings_for(path: Path, options: dict[str, Any] | None = None) -> TrackerSettings:
    return TrackerSettings(
        kind="file",
        active_states=("Todo", "In Progress"),
        terminal_states=("Done",),
        handoff_state="In Review",
        options={"path": path.name, **(options or {})},
        base=path.parent,
    )


def tracker_on(path: Path, **options: Any) -> FileTracker:
    return FileTracker.from_settings(settings_for(path, options))


def names_in(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}
