"""What the issue file says: its JSON as issues, and one sentence for each record that cannot be used. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..core.model import Blocker, Comment, Issue, IssueRef
from ..errors import TrackerError
from .port import Candidates

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Snapshot(Struct, frozen=True):
    """One version of the file. `states` has every record whose id and state can be read, usable or not."""

    candidates: Candidates
    issues: dict[str, Issue]
    states: dict[str, str]
    unusable: dict[str, str]


class _Ref(Struct, gc=False):
    id: str = ""
    identifier: str = ""
    state: str | None = None


class _Comment(Struct, gc=False):
    id: str = ""
    author: str | None = None
    body: str | None = None
    created_at: str | None = None


class _Record(Struct, gc=False):
    id: str
    identifier: str
    title: str
    state: str
    description: str | None = None
    priority: int | None = None
    labels: list[str] | None = None
    assignee: str | None = None
    issue_type: str | None = None
    url: str | None = None
    branch_name: str | None = None
    parent: _Ref | None = None
    comments: list[_Comment] | None = None
    blocked_by: list[_Ref | str] | None = None
    created_at: str | None = None
    updated_at: str | None = None


class _Names(Struct):
    """What can be said of a record that is not usable."""

    id: Any = None
    identifier: Any = None
    state: Any = None


_array = msgspec.json.Decoder(list[Raw])
_record = msgspec.json.Decoder(_Record)
_names = msgspec.json.Decoder(_Names)


def split(raw: bytes, name: str) -> list[Raw]:
    """The records of the array, each as it stands in the text."""
    try:
        raw.decode("utf-8")  # the array is split without looking at the text inside its records
        return _array.decode(raw.removeprefix(BYTE_ORDER_MARK))
    except msgspec.ValidationError as error:
        raise TrackerError(
            TrackerError.PAYLOAD,
            f"{name} is not a JSON array of issues.",
            fix="Put the issues between [ and ].",
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TrackerError(
            TrackerError.PAYLOAD,
            f"{name} is not valid JSON: {_where(raw) or error}.",
            fix="Correct it there, or wait for the editor to finish writing.",
        ) from error


def parse(raw: bytes, name: str, is_active: Callable[[str], bool]) -> Snapshot:
    """Everything the file says; `TrackerError` only when it is no JSON array at all."""
    problems: list[str] = []
    unusable: dict[str, str] = {}
    states: dict[str, str] = {}
    records: list[_Record] = []

    for number, text in enumerate(split(raw, name), 1):
        try:
            record = _usable(text)
        except ValueError as error:
            names = _names_of(text)
            label = names.identifier if isinstance(names.identifier, str) else names.id
            shown = f" ({label})" if isinstance(label, str) else ""
            problems.append(f"{name}: record {number}{shown} cannot be used: {error}.")
            if isinstance(names.id, str):
                unusable[names.id] = problems[-1]
                if isinstance(names.state, str):
                    states.setdefault(names.id, names.state)
            continue
        records.append(record)
        states.setdefault(record.id, record.state)

    twice = _duplicates(records, name)
    problems.extend(dict.fromkeys(twice.values()))
    states_by_name = {**{record.identifier: record.state for record in records}, **states}
    issues: dict[str, Issue] = {}
    for index, record in enumerate(records):
        if index in twice:
            unusable[record.id] = twice[index]
        else:
            issues[record.id] = _issue(record, states_by_name)
    active = tuple(issue for issue in issues.values() if is_active(issue.state))
    return Snapshot(Candidates(active, tuple(problems)), issues, states, unusable)


def _usable(text: Raw) -> _Record:
    record = _record.decode(text)
    if not (record.id.strip() and record.identifier.strip() and record.title.strip() and record.state.strip()):
        raise ValueError("`id`, `identifier`, `title` and `state` must not be empty")
    return record


def _names_of(text: Raw) -> _Names:
    try:
        return _names.decode(text)
    except msgspec.DecodeError:
        return _Names()


def _duplicates(records: list[_Record], name: str) -> dict[int, str]:
    """Records that share an id or an identifier, each with the sentence that names the shared value."""
    found: dict[int, str] = {}
    for field in ("identifier", "id"):
        counts = Counter(getattr(record, field) for record in records)
        if len(counts) == len(records):
            continue
        for index, record in enumerate(records):
            value = getattr(record, field)
            if counts[value] > 1:
                found[index] = (
                    f'{name}: {counts[value]} records have the {field} "{value}", so none of them is used; '
                    "give each its own."
                )
    return found


def _issue(record: _Record, states: dict[str, str]) -> Issue:
    return Issue(
        id=record.id,
        identifier=record.identifier,
        title=record.title,
        state=record.state,
        description=record.description or "",
        priority=record.priority,
        labels=tuple([label.lower() for label in record.labels]) if record.labels else (),
        assignee=record.assignee or "",
        issue_type=record.issue_type or "",
        url=record.url or "",
        branch_name=record.branch_name or "",
        parent=IssueRef(record.parent.id, record.parent.identifier) if record.parent else None,
        comments=tuple(map(_comment, record.comments)) if record.comments else (),
        blocked_by=tuple([_blocker(entry, states) for entry in record.blocked_by]) if record.blocked_by else (),
        created_at=record.created_at or "",
        updated_at=record.updated_at or "",
    )


def _comment(entry: _Comment) -> Comment:
    return Comment(entry.id, entry.author or "", entry.body or "", entry.created_at or "")


def _blocker(entry: _Ref | str, states: dict[str, str]) -> Blocker:
    """The state in the blocker's own record is the truth; the written one is for issues kept elsewhere."""
    ref = _Ref(id=entry, identifier=entry) if isinstance(entry, str) else entry
    state = states.get(ref.id, states.get(ref.identifier, ref.state or ""))
    return Blocker(ref.id or ref.identifier, ref.identifier or ref.id, state)


def _where(raw: bytes) -> str:
    """Line and column of the first mistake, which the fast decoder does not tell."""
    try:
        json.loads(raw.removeprefix(BYTE_ORDER_MARK).decode("utf-8"))
    except json.JSONDecodeError as error:
        return f"{error.msg} in line {error.lineno}, column {error.colno}"
    except UnicodeDecodeError as error:
        line_start = raw.rfind(b"\n", 0, error.start) + 1
        line = raw.count(b"\n", 0, error.start) + 1
        return f"the text is not UTF-8 in line {line}, column {error.start - line_start + 1}"
    except RecursionError:
        return "it is nested too deeply"
    return ""
