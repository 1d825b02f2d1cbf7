"""Our latest changes to the issue file, to notice when another program's write took them away.

A program that read the file before our change and writes it back after knows nothing of the change and drops it.
Every change stamps the issue's `updated_at`, so the loss shows: the issue has the stamp again that it had before.
A person who takes a change back on purpose edits the state and leaves our stamp, and is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from msgspec import Struct

from ..core.model import Issue
from .file_edits import Before, Change, NewComment

# Longer than programs take between reading a file and writing it; people's editors warn of a changed file.
REMEMBERED_SECONDS = 60.0


class _Made(Struct, frozen=True):
    at: float
    before: Before
    change: Change


class RecentChanges:
    """For each issue what we did to it, oldest first; each change found what the one before it left."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[_Made, ...]] = {}

    def remember(self, change: Change, before: Before) -> None:
        made = self._made.get(change.issue_id, ())
        self._made[change.issue_id] = (*made, _Made(monotonic(), before, change))

    def lost(self, issue_id: str, found: Before) -> list[Change]:
        """The changes to make again, oldest first, when the issue looks like this."""
        made = self._made.get(issue_id, ())
        for position, entry in enumerate(made):
            if entry.before.updated_at == found.updated_at:
                later = [entry.change for entry in made[position:]]
                if entry.before.state == found.state:
                    return later
                # Whoever wrote last also moved the issue: their move stands, only what we said is missing.
                return [change for change in later if isinstance(change, NewComment)]
        return []

    def damaged(self, issues: Mapping[str, Issue]) -> list[str]:
        """The issues that have lost changes of ours in this version of the file."""
        self._forget()
        known = [issues[issue_id] for issue_id in self._made if issue_id in issues]
        return [issue.id for issue in known if self.lost(issue.id, Before(issue.updated_at, issue.state))]

    def _forget(self) -> None:
        oldest = monotonic() - REMEMBERED_SECONDS
        self._made = {issue_id: made for issue_id, made in self._made.items() if made[-1].at >= oldest}
