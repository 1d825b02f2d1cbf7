"""Jira's records as our issues and comments: each is read by itself, so that a bad one spoils no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from ...core.model import Blocker, Comment, Issue, IssueRef
from ...errors import TrackerError
from ...protocol.foreign_text import readable
from ..long_comments import kept
from ..rest_reply import Reply, TooLarge
from .adf_text import text_of

T = TypeVar("T")

FIELDS = (
    *("summary", "status", "description", "priority", "labels", "assignee", "creator", "issuetype", "parent"),
    *("issuelinks", "created", "updated"),
)

# Documents nested deeper than this are not what people write; more than a few hundred cannot be read as JSON.
DEEPEST = 120
# To flatten this much takes a second or two, in which nothing else happens; a page of issues has less.
LARGEST_FLATTENED = 4 * 1024 * 1024
LONGEST_REASON = 200
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)


class Named(Struct, frozen=True):
    id: str | None = None
    name: str | None = None


class User(Struct, frozen=True, rename="camel"):
    display_name: str | None = None
    account_id: str | None = None
    account_type: str | None = None


class LinkedFields(Struct, frozen=True):
    status: Named | None = None


class Linked(Struct, frozen=True):
    id: str = ""
    key: str = ""
    fields: LinkedFields | None = None

    @property
    def state(self) -> str:
        status = self.fields.status if self.fields else None
        return _name(status)


class Link(Struct, frozen=True, rename="camel"):
    type: Named | None = None
    inward_issue: Linked | None = None


class Fields(Struct, frozen=True):
    summary: str | None = None
    status: Named | None = None
    description: Any = None
    priority: Named | None = None
    labels: list[str] | None = None
    assignee: User | None = None
    creator: User | None = None
    issuetype: Named | None = None
    parent: Linked | None = None
    issuelinks: list[Link] | None = None
    created: str | None = None
    updated: str | None = None


class Record(Struct, frozen=True):
    """An issue as Jira tells it; `fields` has what was asked for."""

    id: str
    key: str
    fields: Fields = Fields()

    @property
    def state(self) -> str:
        return _name(self.fields.status)

    @property
    def project(self) -> str:
        return self.key.rpartition("-")[0]


class SearchPage(Struct, frozen=True, rename="camel"):
    issues: list[Raw] = []
    next_page_token: str | None = None
    is_last: bool | None = None


class IssueError(Struct, frozen=True, rename="camel"):
    id: str = ""
    error_message: str = ""


class Fetched(Struct, frozen=True, rename="camel"):
    issues: list[Raw] = []
    issue_errors: list[IssueError] = []


class CommentRecord(Struct, frozen=True):
    id: str
    author: User | None = None
    body: Any = None
    created: str | None = None


class CommentPage(Struct, frozen=True):
    comments: list[Raw] = []
    total: int = 0


class ServerInfo(Struct, frozen=True, rename="camel"):
    base_url: str = ""


def read(reply: Reply, kind: type[T]) -> T:
    """An answer; where a document in it is nested too deep to be read, all but that. `TooLarge` where that would
    take too long."""
    try:
        return reply.read(kind)
    except TrackerError as error:
        if not isinstance(error.__cause__, RecursionError):
            raise
        if len(reply.body) > LARGEST_FLATTENED:
            raise TooLarge(error.kind, error.message, fix=error.fix) from error
    return Reply(status=reply.status, body=flattened(reply.body)).read(kind)


def flattened(body: bytes) -> bytes:
    """JSON without what is nested deeper than anybody writes: that is null there."""
    pieces: list[bytes] = []
    depth = kept_to = 0
    for token in _TOKENS.finditer(body):
        sign = token[0][:1]
        if sign in b"[{":
            depth += 1
            if depth == DEEPEST + 1:
                pieces.append(body[kept_to : token.start()] + b"null")
        elif sign in b"]}":
            if depth == DEEPEST + 1:
                kept_to = token.end()
            depth -= 1
    return b"".join([*pieces, body[kept_to:] if depth <= DEEPEST else b""])


def record_of(raw: Raw | bytes) -> Record:
    """Raises `ValueError` with the reason where it is no issue."""
    try:
        found = msgspec.json.decode(raw, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(readable(str(error), LONGEST_REASON)) from None
    if not found.state:
        raise ValueError("it has no status")
    return found


def name_in(raw: Raw | bytes) -> str:
    """What to call a record that cannot be used."""
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "An issue"
    names = (found.get("key"), found.get("id")) if isinstance(found, dict) else ()
    return next((f"Issue {readable(name, 100)}" for name in names if isinstance(name, str) and name), "An issue")


def issue_of(record: Record, site: str, blocking_link: str, comments: tuple[Comment, ...] | None = None) -> Issue:
    """`site` is the address that people see, empty where nobody knows it."""
    fields = record.fields
    creator, assignee = fields.creator or User(), fields.assignee or User()
    rank = (fields.priority.id if fields.priority else "") or ""
    return Issue(
        id=record.id,
        identifier=record.key,
        title=fields.summary or "",
        state=record.state,
        description=text_of(fields.description),
        priority=int(rank) if rank.isascii() and rank.isdigit() and len(rank) < 10 else None,
        labels=tuple(label.lower() for label in fields.labels or ()),
        assignee=assignee.display_name or "",
        issue_type=_name(fields.issuetype),
        url=f"{site}/browse/{record.key}" if site else "",
        parent=IssueRef(fields.parent.id, fields.parent.key) if fields.parent else None,
        comments=comments,
        blocked_by=tuple(_blockers(fields.issuelinks or (), blocking_link)),
        created_at=in_utc(fields.created),
        updated_at=in_utc(fields.updated),
        author=creator.display_name or "",
        author_id=creator.account_id or "",
        association=creator.account_type or "",
    )


def _blockers(links: list[Link] | tuple[()], blocking_link: str) -> Iterator[Blocker]:
    """In a link of this type the inward issue is the one that has to be done first."""
    for link in links:
        blocker = link.inward_issue
        if blocker and _name(link.type).lower() == blocking_link.lower():
            yield Blocker(blocker.id, blocker.key, blocker.state)


def comment_of(raw: Raw) -> Comment | None:
    """None for what is no comment."""
    try:
        record = msgspec.json.decode(raw, type=CommentRecord)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    author = record.author or User()
    return Comment(
        id=record.id,
        author=author.display_name or "",
        body=kept(text_of(record.body)),
        created_at=in_utc(record.created),
        author_id=author.account_id or "",
        association=author.account_type or "",
    )


def in_utc(moment: str | None) -> str:
    """Jira tells times as in `2026-03-20T09:00:00.000+0000`, in the zone of the account; empty for what is none."""
    try:
        found = datetime.fromisoformat(moment or "")
        found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return ""
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _name(named: Named | None) -> str:
    return (named.name if named else "") or ""
