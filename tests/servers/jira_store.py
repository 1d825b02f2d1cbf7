"""What a Jira site has: issues, comments, links, states, a workflow; and the index of its search, which may lag."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

# In the zone of the account, as Jira has it.
BEGINNING = datetime(2026, 3, 20, 9, 0, tzinfo=timezone(timedelta(hours=1)))
CATEGORIES = {"Todo": "To Do", "In Progress": "In Progress", "In Review": "In Progress", "Done": "Done"}
# As in Jira: the last of its order is the most urgent, and has the lowest id.
PRIORITIES = {"5": "Lowest", "4": "Low", "3": "Medium", "2": "High", "1": "Highest"}


@dataclass(frozen=True)
class User:
    name: str
    account_id: str
    kind: str = "atlassian"


ANN = User("Ann", "5b10a2844c20165700ede21a")
BOT = User("Sortie Bot", "5b10a2844c20165700ede21f")
CUSTOMER = User("Carl Customer", "qm:1234:carl", "customer")


@dataclass
class Commented:
    id: str
    author: User
    body: Any
    created: str


@dataclass
class Transition:
    """`fields` are those of its screen that somebody has to fill in; `refusal` is what Jira answers to the try."""

    to: str
    name: str = ""
    fields: Sequence[str] = ()
    has_screen: bool = False
    refusal: tuple[int, str] | None = None


@dataclass
class StoredIssue:
    id: int
    key: str
    summary: str
    status: str
    category: str
    created: str
    updated: str
    description: Any = None
    priority: str = "3"
    labels: list[str] = field(default_factory=list)
    assignee: User | None = None
    creator: User | None = ANN
    type: str = "Task"
    parent: int | None = None
    comments: list[Commented] = field(default_factory=list)

    def value(self, name: str) -> list[str]:
        values: dict[str, list[str]] = {
            "project": [self.key.rpartition("-")[0]],
            "status": [self.status],
            "statuscategory": [self.category],
            "labels": self.labels,
            "issuetype": [self.type],
        }
        return values[name]

    def rank(self, name: str) -> Any:
        return {"priority": -int(self.priority), "created": (self.created, self.id), "key": self.id}.get(
            name, self.updated
        )


class JiraStore:
    """Used by the threads of a server and by the test: whoever writes holds `lock`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.projects = {"PROJ": False, "OTHER": False}
        self.renamed: dict[str, str] = {}
        self.states = dict(CATEGORIES)
        self.issues: dict[int, StoredIssue] = {}
        self.links: list[tuple[str, int, int]] = []
        self.moves: dict[str, list[Transition]] = {}
        self.is_late = False
        self._shown: dict[int, StoredIssue] = {}
        self._clock = 0
        self._last_id = 10_000
        self._numbers: dict[str, int] = {}

    def now(self) -> str:
        self._clock += 1
        return (BEGINNING + timedelta(seconds=self._clock)).strftime("%Y-%m-%dT%H:%M:%S.000%z")

    def add(self, summary: str = "Do it", status: str = "Todo", project: str = "PROJ", **more: Any) -> StoredIssue:
        with self.lock:
            self._last_id += 1
            number = self._numbers[project] = self._numbers.get(project, 0) + 1
            now = self.now()
            key = f"{project}-{number}"
            issue = StoredIssue(self._last_id, key, summary, status, self.states[status], now, now, **more)
            self.issues[issue.id] = issue
            self.indexed()
            return issue

    def find(self, id_or_key: str) -> StoredIssue | None:
        wanted = self.renamed.get(id_or_key.upper(), id_or_key.upper())
        return next((each for each in self.issues.values() if wanted in (str(each.id), each.key)), None)

    def move(self, issue: StoredIssue, status: str) -> None:
        with self.lock:
            issue.status, issue.category, issue.updated = status, self.states[status], self.now()
            self.indexed()

    def to_project(self, issue: StoredIssue, project: str) -> None:
        with self.lock:
            number = self._numbers[project] = self._numbers.get(project, 0) + 1
            self.renamed[issue.key] = f"{project}-{number}"
            issue.key, issue.updated = f"{project}-{number}", self.now()
            self.indexed()

    def comment(self, issue: StoredIssue, body: Any, author: User = ANN) -> Commented:
        with self.lock:
            self._last_id += 1
            made = Commented(
                str(self._last_id), author, paragraph(body) if isinstance(body, str) else body, self.now()
            )
            issue.comments.append(made)
            issue.updated = made.created
            self.indexed()
            return made

    def block(self, issue: StoredIssue, blocker: StoredIssue, link: str = "Blocks") -> None:
        self.links.append((link, blocker.id, issue.id))

    def transitions(self, issue: StoredIssue) -> list[Transition]:
        """By the workflow; without one, from each state to every other."""
        return self.moves.get(issue.status) or [Transition(to, f"Go to {to}") for to in self.states]

    def indexed(self) -> None:
        """The index knows all now, unless it is late."""
        if not self.is_late:
            self._shown = {number: copy.copy(issue) for number, issue in self.issues.items()}

    def searchable(self, reconciled: Sequence[int]) -> list[StoredIssue]:
        """As the index has them, but for those that are to be right."""
        with self.lock:
            fresh = {number: self.issues[number] for number in reconciled if number in self.issues}
            gone = {number for number in reconciled if number not in self.issues}
            return [issue for number, issue in {**self._shown, **fresh}.items() if number not in gone]


def paragraph(text: str) -> dict[str, Any]:
    """The document of which this is all."""
    lines = text.split("\n")
    content: list[dict[str, Any]] = [{"type": "text", "text": lines[0]}] if lines[0] else []
    for line in lines[1:]:
        content += [{"type": "hardBreak"}, *([{"type": "text", "text": line}] if line else [])]
    return {"version": 1, "type": "doc", "content": [{"type": "paragraph", "content": content}]}
