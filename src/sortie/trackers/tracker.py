"""The seam between the engine and any issue tracker."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from ..core.model import Issue


class TrackerSettings(Struct, frozen=True, kw_only=True):
    """What a tracker is built from; `options` is the workflow block named after its kind."""

    kind: str
    active_states: tuple[str, ...]
    terminal_states: tuple[str, ...] = ()
    handoff_state: str = ""
    in_progress_state: str = ""
    endpoint: str = ""
    api_key: str = ""
    project: str = ""
    query_filter: str = ""
    options: Mapping[str, Any] = {}
    base: Path = Path()


class Candidates(Struct, frozen=True):
    """The active issues, and a sentence for each record that cannot be used: it never hides a good one.

    `states` counts all issues by their state, active or not; it is empty where the tracker does not know.
    """

    issues: tuple[Issue, ...]
    problems: tuple[str, ...] = ()
    states: Mapping[str, int] = {}


class Tracker(Protocol):
    """Every call may raise `TrackerError` and nothing else; every call may be repeated."""

    async def fetch_candidates(self) -> Candidates:
        """Every issue in an active state."""

    async def fetch_issue(self, issue_id: str) -> Issue:
        """One issue with its comments; `tracker_not_found` where it does not exist."""

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        """The present state of each issue that exists; missing ones are left out."""

    async def transition(self, issue_id: str, state: str) -> None:
        """Move the issue; a move to the state it is in already does nothing."""

    async def comment(self, issue_id: str, body: str) -> None:
        """Add a comment as the orchestrator."""

    def watched_files(self) -> tuple[Path, ...]:
        """Files whose change means new facts; empty for trackers that must be polled."""
        ...

    async def aclose(self) -> None: ...


class TrackerKind(Protocol):
    """What a kind is registered as: usually the class itself, with two class methods."""

    def from_settings(self, settings: TrackerSettings) -> Tracker:
        """Build it without touching the outside world."""

    def check(self, settings: TrackerSettings) -> list[tuple[str, str]]:
        """What is wrong with the settings, as (key path such as `file.path`, one sentence)."""
