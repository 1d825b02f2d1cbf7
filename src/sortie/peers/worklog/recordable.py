"""What can be recorded in a work log: one struct for each, with the fields of the document's form."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

DecisionMode = Literal["consensus", "counter-rec resolved", "maintainer adjudication"]


class Claim(Struct, frozen=True, kw_only=True):
    task: str
    note: str = ""


class Completion(Struct, frozen=True, kw_only=True):
    task: str
    status: str = "Ready for review"
    changed_files: tuple[str, ...] = ()
    tests: str = ""
    risks: str = ""
    blocking: str = ""
    note: str = ""


class Handoff(Struct, frozen=True, kw_only=True):
    task: str
    next_owner: str
    status: str = "Ready for review"
    changed_files: tuple[str, ...] = ()
    tests: str = ""
    risks: str = ""
    blocking: str = ""
    note: str = ""


class QuickHandoff(Struct, frozen=True, kw_only=True):
    """For work of less than half an hour: one line."""

    what: str
    next_owner: str
    next_task: str
    tests: str = ""


class Proposal(Struct, frozen=True, kw_only=True):
    """Without an id it gets the next free one when it is recorded."""

    title: str
    proposal: str
    id: str = ""
    scope: str = ""
    risks: str = ""
    rollback: str = ""
    objection_deadline: str = ""


class Amendment(Struct, frozen=True, kw_only=True):
    id: str
    title: str
    change: str
    proposal: str = ""
    scope: str = ""
    risks: str = ""
    rollback: str = ""
    objection_deadline: str = ""


class Objection(Struct, frozen=True, kw_only=True):
    about: str
    recommended_by: str
    recommended: str
    counter: str
    reasoning: tuple[str, ...] = ()
    compromise: str = ""


class Decision(Struct, frozen=True, kw_only=True):
    """`about` are ids of what it ends: proposals, objections, messages."""

    title: str
    decision: str
    mode: DecisionMode
    participants: tuple[str, ...] = ()
    rationale: str = ""
    outcome: str = ""
    follow_up: str = ""
    about: tuple[str, ...] = ()


class Escalation(Struct, frozen=True, kw_only=True):
    subject: str
    reason: str
    message_id: str = ""


class Note(Struct, frozen=True, kw_only=True):
    title: str
    text: str = ""


AnyRecordable = (
    Claim | Completion | Handoff | QuickHandoff | Proposal | Amendment | Objection | Decision | Escalation | Note
)
