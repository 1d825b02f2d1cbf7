"""What can be recorded, and its markdown in the forms of the document below a strict heading.

Whatever the texts contain, reading gives the same event back and nothing else: titles are one bounded line, values of
fields are indented, free text is escaped.
"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from ...errors import SortieError
from ...protocol.foreign_text import time_text
from .body import bounded, escaped, fence_for, indented, one_line
from .events import NO_TESTS
from .head import row_text
from .heading import MOST_NAME, strict_heading

MOST_ITEMS = 500
MOST_ITEM = 1000
MOST_ENTRY = 262_144

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
    next_task: str = ""
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
    title: str
    decision: str
    mode: DecisionMode
    participants: tuple[str, ...] = ()
    rationale: str = ""
    outcome: str = ""
    follow_up: str = ""


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


def compose(what: AnyRecordable, *, actor: str, at: float) -> str:
    """The entry, from its heading to the line feed at its end."""
    name = checked_name(actor)
    match what:
        case Claim():
            title, body = f"Claimed: {_title(what.task, 'task')}", _free(what.note, "note")
        case Completion():
            title, body = f"Completed: {_title(what.task, 'task')}", _block(what, name, "")
        case Handoff():
            title, body = f"Handoff: {_title(what.task, 'task')}", _block(what, name, checked_name(what.next_owner))
        case QuickHandoff():
            title, body = _quick(what), ""
        case Proposal():
            title, body = f"Proposal {_id(what.id)}: {_title(what.title, 'title')}", _proposal(what, name, at)
        case Amendment():
            title, body = (
                f"Amended proposal {_id(what.id)}: {_title(what.title, 'title')}",
                _proposal(what, name, at),
            )
        case Objection():
            title, body = f"Counter-recommendation: {_title(what.about, 'subject')}", _objection(what, name)
        case Decision():
            title, body = decision_title(what), _decision(what, at)
        case Escalation():
            title, body = f"Escalation: {_title(what.subject, 'subject')}", _escalation(what)
        case Note():
            title, body = _note_title(what, name, at), _free(what.text, "text")
    text = f"{strict_heading(name, at, title)}\n" + (f"\n{body}\n" if body else "")
    if len(text.encode()) > MOST_ENTRY:
        raise SortieError(
            f"The entry would have {len(text.encode()):,} bytes; a work log takes at most {MOST_ENTRY:,} at once.",
            fix="Say it in short, and put the rest into a file that the entry names.",
        )
    return text


def index_row(what: Decision, *, actor: str, at: float) -> str:
    """The row of a decision; its section is the title of the entry."""
    return row_text(_title(what.title, "title"), checked_name(actor), time_text(at), decision_title(what))


def decision_title(what: Decision) -> str:
    return f"Decision: {_title(what.title, 'title')}"


def checked_name(name: str) -> str:
    """Of an agent: it stands in headings, so it is one short line without a colon."""
    clean = one_line(name, MOST_NAME)
    if not clean or clean != name.strip() or ":" in clean or clean.startswith("#"):
        raise SortieError(
            f"{name[:MOST_NAME]!r} cannot stand for an agent in a work log.",
            fix=f"A name is one line of at most {MOST_NAME} printable characters, without a colon.",
        )
    return clean


def _title(text: str, what: str) -> str:
    title = one_line(text)
    if not title:
        raise SortieError(f"The {what} is empty.", fix="Say in a few words what the entry is about.")
    return title


def _id(text: str) -> str:
    import re

    if not re.fullmatch(r"[A-Z][A-Z0-9]{0,15}-[0-9]{1,12}", text):
        raise SortieError(f"{text[:40]!r} is no id of a proposal.", fix="They look like PROP-001.")
    return text


def _free(text: str, what: str) -> str:
    return escaped(bounded(text, what))


def _value(text: str, what: str) -> str:
    return indented(bounded(text, what).strip()) or "none"


def _items(texts: tuple[str, ...], what: str) -> str:
    if len(texts) > MOST_ITEMS:
        raise SortieError(
            f"There are {len(texts):,} {what}; a work log takes at most {MOST_ITEMS} at once.",
            fix="Name the directories, or the most important ones.",
        )
    lines = (one_line(text, MOST_ITEM) for text in texts)
    return "".join(f"\n  - {line}" for line in lines if line)


def _block(what: Completion | Handoff, owner: str, next_owner: str) -> str:
    files = _items(what.changed_files, "changed files")
    block = "\n".join(
        (
            f"Handoff: {_title(what.task, 'task')}",
            f"Owner: {owner}",
            f"Status: {_title(what.status, 'status')}",
            f"Changed files:{files or ' none'}",
            f"Tests run: {_value(what.tests, 'tests')}",
            f"Risks/assumptions: {_value(what.risks, 'risks')}",
            f"Blocking items: {_value(what.blocking, 'blocking items')}",
            f"Next owner: {next_owner or 'none'}",
        )
    )
    fence = fence_for(block)
    note = _free(what.note, "note")
    return f"{fence}text\n{block}\n{fence}" + (f"\n\n{note}" if note else "")


def _quick(what: QuickHandoff) -> str:
    done = _title(what.what, "text").replace("Next:", "next:").removesuffix(".")
    tests = one_line(what.tests).replace("(", "[").replace(")", "]") or NO_TESTS
    name = checked_name(what.next_owner)
    task = one_line(what.next_task).removesuffix(".")
    following = f"{name}: {task}" if task and (" " in name or ": " in task) else f"{name} {task}".strip()
    return f"{done} ({tests}). Next: {following}."


def _proposal(what: Proposal | Amendment, author: str, at: float) -> str:
    lines = [f"- **ID:** {what.id}", f"- **Author:** {author}", f"- **Date:** {time_text(at)}"]
    if isinstance(what, Amendment):
        lines.append(f"- **Change:** {_value(what.change, 'change')}")
    lines += [
        f"- **Scope:** {_value(what.scope, 'scope')}",
        f"- **Proposal:** {_value(what.proposal, 'proposal')}",
        f"- **Risks:** {_value(what.risks, 'risks')}",
        f"- **Rollback:** {_value(what.rollback, 'rollback')}",
        f"- **Objection deadline:** {_value(what.objection_deadline, 'deadline')}",
        "- **Status:** open",
    ]
    return "\n".join(lines)


def _objection(what: Objection, author: str) -> str:
    other = checked_name(what.recommended_by)
    reasons = _items(what.reasoning, "reasons")
    lines = [
        f"**{other} recommended:** {_value(what.recommended, 'recommendation')}",
        f"**{author}'s counter-recommendation:** {_value(what.counter, 'counter-recommendation')}",
        f"**Reasoning:**{reasons or ' none'}",
    ]
    if what.compromise.strip():
        lines.append(f"**Proposed compromise:** {_value(what.compromise, 'compromise')}")
    return "\n\n".join(lines)


def _decision(what: Decision, at: float) -> str:
    if what.mode not in get_args(DecisionMode):
        raise SortieError(
            f"{what.mode[:40]!r} is no mode of decision.", fix=f"Choose {', '.join(get_args(DecisionMode))}."
        )
    people = ", ".join(checked_name(name) for name in what.participants)
    return "\n".join(
        (
            f"- **Decision:** {_value(what.decision, 'decision')}",
            f"- **Decision mode:** {what.mode}",
            f"- **Participants:** {people or 'none'}",
            f"- **Rationale:** {_value(what.rationale, 'rationale')}",
            f"- **Outcome:** {_value(what.outcome, 'outcome')}",
            f"- **Timestamp:** {time_text(at)}",
            f"- **Follow-up actions:** {_value(what.follow_up, 'follow-up actions')}",
        )
    )


def _escalation(what: Escalation) -> str:
    message = f"{one_line(what.message_id, 60)} — " if what.message_id else ""
    reason = indented(bounded(what.reason, "reason").strip())
    return f"Escalated: {message}{_title(what.subject, 'subject')} — {reason or 'no reason given'}"


def _note_title(what: Note, actor: str, at: float) -> str:
    """With a word in front where it would be taken for something else."""
    title = _title(what.title, "title")
    from .events import events_of
    from .parse import parse

    plain = f"{strict_heading(actor, at, title)}\n\n{_free(what.text, 'text')}\n"
    told = events_of(parse(plain.encode()))
    return title if [one.event_type for one in told] == ["note"] and told[0].subject == title else f"Note: {title}"
