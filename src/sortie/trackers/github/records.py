"""Issues and comments as GitHub writes them, read leniently: what is odd counts as not given, and a record that
cannot be used says why and spoils no other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ...core.model import Blocker, Comment, Issue, IssueRef
from ...errors import TrackerError
from ...protocol.foreign_text import escape, shortened
from .states import CLOSED, OPEN, Standing, States

GHOST = "ghost"  # whom GitHub shows where an account is gone
LONGEST_NAME = 100
# More than any page has that we ask for.
MOST_RECORDS = 1000
_PLACE = re.compile(r"/repos/([\w.-]{1,100}/[\w.-]{1,100})(?:/issues/([0-9]{1,12}))?/?$", re.ASCII)


class Unusable(ValueError):
    """A record that cannot be used; the text is a sentence that says why."""


class Record(Struct, frozen=True, kw_only=True):
    """One issue. What the counts of blockers and sub-issues say is None where the server has no such counts."""

    number: int
    repository: str
    title: str
    standing: Standing
    is_pull_request: bool = False
    body: str = ""
    author: str = GHOST
    association: str = ""
    assignee: str = ""
    issue_type: str = ""
    url: str = ""
    parent: IssueRef | None = None
    created_at: str = ""
    updated_at: str = ""
    comments: int = 0
    open_blockers: int | None = None
    all_blockers: int | None = None
    open_sub_issues: int | None = None

    def issue(
        self, states: States, blocked_by: tuple[Blocker, ...] = (), comments: tuple[Comment, ...] | None = None
    ) -> Issue:
        return Issue(
            id=str(self.number),
            identifier=f"{self.repository}#{self.number}",
            title=self.title,
            state=states.state_of(self.standing),
            description=self.body,
            labels=states.others(self.standing),
            assignee=self.assignee,
            issue_type=self.issue_type,
            url=self.url,
            parent=self.parent,
            comments=comments,
            blocked_by=blocked_by,
            created_at=self.created_at,
            updated_at=self.updated_at,
            author=self.author,
            author_id=self.author,
            association=self.association,
        )

    def blocker(self, states: States, repository: str) -> Blocker:
        """As it stands in the way of an issue of this repository."""
        ref = reference(self.repository, self.number, repository)
        return Blocker(ref.id, ref.identifier, states.state_of(self.standing))


def reference(repository: str, number: int, ours: str) -> IssueRef:
    """By its number, where it is in our repository; by its full name elsewhere."""
    if repository.lower() == ours.lower():
        return IssueRef(str(number), f"{ours}#{number}")
    name = f"{repository}#{number}"
    return IssueRef(name, name)


def read_record(raw: object, repository: str) -> Record:
    """The record of an issue in this repository, or in another that it names itself; raises `Unusable`."""
    if not isinstance(raw, dict):
        raise Unusable(f"A record of {repository} cannot be used: it is no object.")
    number = _count(raw.get("number"))
    if not number:
        raise Unusable(f"A record of {repository} cannot be used: it has no number.")
    place = _repository_of(raw) or repository
    home = repository if place.lower() == repository.lower() else place
    title, state = raw.get("title"), raw.get("state")
    if not isinstance(title, str) or not title.strip():
        raise Unusable(f"{home}#{number} cannot be used: it has no title.")
    if state not in (OPEN, CLOSED):
        shown = shortened(escape(str(state)[:LONGEST_NAME]), LONGEST_NAME)
        raise Unusable(f"{home}#{number} cannot be used: its state is {shown}, neither open nor closed.")
    blockers, children = _object(raw.get("issue_dependencies_summary")), _object(raw.get("sub_issues_summary"))
    total, completed = _count(children.get("total")), _count(children.get("completed"))
    return Record(
        number=number,
        repository=home,
        title=title,
        standing=Standing(state == CLOSED, _text(raw.get("state_reason")), read_labels(raw.get("labels"))),
        is_pull_request=raw.get("pull_request") is not None,
        body=_text(raw.get("body")),
        author=_login(raw.get("user")) or GHOST,
        association=_text(raw.get("author_association")),
        assignee=_assignee(raw),
        issue_type=_text(_object(raw.get("type")).get("name")),
        url=_text(raw.get("html_url")),
        parent=_parent(raw.get("parent_issue_url"), home),
        created_at=_text(raw.get("created_at")),
        updated_at=_text(raw.get("updated_at")),
        comments=_count(raw.get("comments")) or 0,
        open_blockers=_count(blockers.get("blocked_by")),
        all_blockers=_count(blockers.get("total_blocked_by")),
        open_sub_issues=None if total is None else max(total - (completed or 0), 0),
    )


def read_records(raws: Sequence[object], repository: str) -> tuple[list[Record], list[str]]:
    """Those that can be used, pull requests left out, and a sentence for each that cannot."""
    if len(raws) > MOST_RECORDS:
        problem = f"GitHub answered with {len(raws):,} records, more than were asked for."
        raise TrackerError(TrackerError.PAYLOAD, problem, fix="Check tracker.endpoint.")
    found: list[Record] = []
    problems: list[str] = []
    for raw in raws:
        try:
            record = read_record(raw, repository)
        except Unusable as problem:
            problems.append(str(problem))
            continue
        if not record.is_pull_request:
            found.append(record)
    return found, problems


def read_labels(labels: object) -> tuple[str, ...]:
    """Their names; each is an object with a name, or the name."""
    given = labels if isinstance(labels, list) else ()
    names = (_text(label if isinstance(label, str) else _object(label).get("name")) for label in given)
    return tuple(name for name in names if name)


def read_comment(raw: object) -> Comment | None:
    """None for what is no comment."""
    if not isinstance(raw, dict) or not isinstance(raw.get("id"), int | str):
        return None
    author = _login(raw.get("user")) or GHOST
    return Comment(
        id=str(raw["id"]),
        author=author,
        body=_text(raw.get("body")),
        created_at=_text(raw.get("created_at")),
        author_id=author,
        association=_text(raw.get("author_association")),
    )


def _repository_of(raw: dict[str, Any]) -> str:
    for key in ("repository_url", "url"):
        if found := _PLACE.search(_text(raw.get(key))):
            return found[1]
    return ""


def _parent(address: object, ours: str) -> IssueRef | None:
    found = _PLACE.search(_text(address))
    return reference(found[1], int(found[2]), ours) if found and found[2] else None


def _assignee(raw: dict[str, Any]) -> str:
    assignees = raw.get("assignees")
    first = assignees[0] if isinstance(assignees, list) and assignees else raw.get("assignee")
    return _login(first)


def _login(user: object) -> str:
    return _text(_object(user).get("login"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
