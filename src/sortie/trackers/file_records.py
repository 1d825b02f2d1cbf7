"""One record of the issue file: its JSON as an issue, or everything that is wrong with it in a sentence. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import asdict

from ..core.model import AgentChoice, Blocker, Comment, Issue, IssueRef, Limits
from ..errors import TrackerError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_QUOTE = 60
AT_LEAST_ONE = Meta(ge=1)


class _Ref(Struct, gc=False):
    id: str = ""
    identifier: str = ""
    state: str | None = None


class _Comment(Struct, gc=False):
    id: str = ""
    author: str | None = None
    body: str | None = None
    created_at: str | None = None


class _Limits(Struct, gc=False):
    sessions: Annotated[int, AT_LEAST_ONE] | None = None
    turns: Annotated[int, AT_LEAST_ONE] | None = None
    tokens: Annotated[int, AT_LEAST_ONE] | None = None
    usd: Annotated[float, Meta(gt=0)] | None = None


class _Agent(Struct, gc=False):
    kind: str | None = None
    model: str | None = None
    credential: str | None = None
    max_turns: Annotated[int, AT_LEAST_ONE] | None = None
    limits: _Limits | None = None


class Record(Struct, gc=False):
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
    agent: _Agent | None = None


class Names(Struct):
    """What can be said of a record that is not usable."""

    id: Any = None
    identifier: Any = None
    state: Any = None


_MUST_BE = {
    "id": 'text in quotes, such as "7"',
    "identifier": 'text in quotes, such as "PROJ-7"',
    "state": 'text in quotes, such as "To Do"',
    "priority": "a whole number, such as 2",
    "labels": 'a list of texts, such as ["backend"]',
    "parent": 'an object of texts, such as {"identifier": "PROJ-1"}',
    "comments": 'a list of objects with texts, such as [{"author": "ann", "body": "Done?"}]',
    "blocked_by": 'a list of issues, such as ["PROJ-1"]',
    "agent": 'an object, such as {"kind": "codex", "max_turns": 5, "limits": {"usd": 1.5}}',
}

_array = msgspec.json.Decoder(list[Raw])
_record = msgspec.json.Decoder(Record)
_names = msgspec.json.Decoder(Names)


def split(raw: bytes, name: str) -> list[bytes]:
    """The records of the array, each as it stands in the text."""
    try:
        raw.decode("utf-8")  # the array is split without looking at the text inside its records
        return [bytes(text) for text in _array.decode(raw.removeprefix(BYTE_ORDER_MARK))]
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


def usable(text: bytes) -> Record | None:
    try:
        record = _record.decode(text)
    except msgspec.DecodeError:
        return None
    filled = record.id.strip() and record.identifier.strip() and record.title.strip() and record.state.strip()
    return record if filled else None


def complaint(text: bytes, names: Names, number: int) -> str:
    """What to tell whoever edits the file of a record that cannot be used."""
    wrong = "; ".join(_complaints(text)) or "it does not look like an issue"
    return f"record {number}{_label(names)} cannot be used: {wrong}."


def _complaints(text: bytes) -> Iterator[str]:
    """Everything that is wrong with a record, for whoever edits it."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        yield "it is not valid JSON"
        return
    if not isinstance(record, dict):
        yield f"it must be an object between {{ and }}, not {_shown(record)}"
        return
    for field in msgspec.structs.fields(Record):
        value = record.get(field.name)
        if field.required and field.name not in record:
            yield f"`{field.name}` is missing"
        elif field.required and isinstance(value, str) and not value.strip():
            yield f"`{field.name}` must not be empty"
        elif not _fits(value, field.type):
            must_be = _MUST_BE.get(field.name, "text in quotes")
            yield f"`{field.name}` must be {must_be}, not {_culprit(value, field.type)}"


def _fits(value: Any, type: Any) -> bool:
    try:
        msgspec.convert(value, type)
    except msgspec.ValidationError:
        return False
    return True


def _culprit(value: Any, type: Any) -> str:
    """The value, or the first entry of a list that does not belong there."""
    if isinstance(value, list) and _fits([], type):
        for number, entry in enumerate(value, 1):
            if not _fits([entry], type):
                return f"{_shown(entry)} as entry {number}"
    return _shown(value)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


def _label(names: Names) -> str:
    if isinstance(names.identifier, str):
        return f" ({names.identifier})"
    return f" (id {names.id})" if isinstance(names.id, str | int) else ""


def names_of(text: bytes) -> Names:
    try:
        return _names.decode(text)
    except msgspec.DecodeError:
        return Names()


def issue_of(record: Record, states: Mapping[str, str]) -> Issue:
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
        agent=_choice(record.agent) if record.agent else None,
    )


def _choice(agent: _Agent) -> AgentChoice:
    limits = agent.limits
    return AgentChoice(
        kind=agent.kind or "",
        model=agent.model or "",
        credential=agent.credential or "",
        max_turns=agent.max_turns,
        limits=Limits(**asdict(limits)) if limits else None,
    )


def _comment(entry: _Comment) -> Comment:
    return Comment(entry.id, entry.author or "", entry.body or "", entry.created_at or "")


def _blocker(entry: _Ref | str, states: Mapping[str, str]) -> Blocker:
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
