"""A tracker in memory and the people who use it: issues appear, change, move, vanish and come back."""

from __future__ import annotations

from msgspec.structs import replace

from sortie.core.model import Blocker, Comment, Issue
from sortie.core.policy import Policy

ACTIVE = ("Todo", "In Progress")
TERMINAL = ("Done", "Cancelled")
STATES = (*ACTIVE, "Backlog", "Review", *TERMINAL)


class People:
    """The truth about the issues. `version` makes every edit a new one."""

    def __init__(self) -> None:
        self.issues: dict[str, Issue] = {}
        self.vanished: dict[str, Issue] = {}
        self._version = 0

    def open(self, priority: int | None, created_at: str, state: str, title: str = "Mend it") -> None:
        number = str(len(self.issues) + len(self.vanished) + 1)
        self.issues[number] = Issue(
            id=number,
            identifier=f"D-{number}",
            title=title,
            state=state,
            priority=priority,
            created_at=created_at,
            comments=(),
        )

    def comment(self, issue_id: str) -> None:
        issue = self.issues[issue_id]
        comment = Comment(self._next(), "ada", "please go on")
        self.issues[issue_id] = replace(issue, comments=(*(issue.comments or ()), comment))

    def describe(self, issue_id: str) -> None:
        self.issues[issue_id] = replace(self.issues[issue_id], description=f"version {self._next()}")

    def move(self, issue_id: str, state: str) -> None:
        self.issues[issue_id] = replace(self.issues[issue_id], state=state)

    def block(self, issue_id: str, blockers: tuple[str, ...]) -> None:
        named = tuple(Blocker(id=name, identifier=f"D-{name}") for name in blockers if name != issue_id)
        self.issues[issue_id] = replace(self.issues[issue_id], blocked_by=named)

    def remove(self, issue_id: str) -> None:
        self.vanished[issue_id] = self.issues.pop(issue_id)

    def bring_back(self, issue_id: str) -> None:
        self.issues[issue_id] = self.vanished.pop(issue_id)

    def snapshot(self) -> dict[str, Issue]:
        """The issues as a tracker tells them: blockers with the state they are in."""
        return {issue_id: self._told(issue) for issue_id, issue in self.issues.items()}

    def candidates(self, policy: Policy) -> dict[str, Issue]:
        return {key: issue for key, issue in self.snapshot().items() if policy.is_active(issue.state)}

    def _told(self, issue: Issue) -> Issue:
        blockers = tuple(
            replace(blocker, state=self.issues[blocker.id].state if blocker.id in self.issues else "Done")
            for blocker in issue.blocked_by
        )
        return replace(issue, blocked_by=blockers)

    def _next(self) -> str:
        self._version += 1
        return str(self._version)
