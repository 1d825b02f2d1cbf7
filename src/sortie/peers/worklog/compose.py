"""What can be recorded, and its markdown in the forms of the document below a strict heading.

Whatever the texts contain, reading gives the same event back and nothing else: titles are one bounded line, values
of fields are indented, free text is escaped.
"""

from __future__ import annotations

import re
from typing import get_args

from ...errors import SortieError
from ...protocol.foreign_text import time_text
from .body import bounded, escaped, fence_for, indented, one_line
from .entry import trimmed
from .event import EventType
from .events import events_of
from .head import row_text
from .heading import MOST_NAME, NOBODY, strict_heading
from .parse import parse
from .recognise import NO_TESTS
from .recordable import (
    Amendment,
    AnyRecordable,
    Claim,
    Completion,
    Decision,
    DecisionMode,
    Escalation,
    Handoff,
    Note,
    Objection,
    Proposal,
    QuickHandoff,
)

__all__ = [
    "Amendment",
    "AnyRecordable",
    "Claim",
    "Completion",
    "Decision",
    "DecisionMode",
    "Escalation",
    "Handoff",
    "Note",
    "Objection",
    "Proposal",
    "QuickHandoff",
    "checked_name",
    "compose",
    "index_row",
]

MOST_ITEMS = 500
MOST_ITEM = 4000
MOST_ENTRY = 262_144

_MARKS = "#:*|<>`()[]\\"
_NO_NAME = re.compile("[" + re.escape(_MARKS) + "]")
_ID = re.compile(r"[A-Z][A-Z0-9]{0,15}-[0-9]{1,12}")
_ANY_ID = re.compile(r"[A-Za-z][A-Za-z0-9]{0,39}(?:-[A-Za-z0-9.]{1,40}){1,4}")


def compose(what: AnyRecordable, *, actor: str, at: float) -> str:
    """The entry, from its heading to the line feed at its end."""
    name = checked_name(actor)
    match what:
        case Claim():
            title, body = f"Claimed: {_title(what.task, 'task')}", _free(what.note, "note")
        case Completion():
            title, body = f"Completed: {_title(what.task, 'task')}", _block(what, name, "")
        case Handoff():
            title, body = f"Handoff: {_title(what.task, 'task')}", _block(what, name, _other(what.next_owner, name))
        case QuickHandoff():
            title, body = _unmistakable(_quick(what), "", "Quick handoff", ("handoff.posted", "task.completed")), ""
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
            body = _free(what.text, "text")
            title = _unmistakable(_title(what.title, "title"), body, "Note", ("note",))
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
    """Of an agent: it stands in headings, labels and tables, so it is one short line without marks of theirs."""
    clean = one_line(name, MOST_NAME)
    if clean != name.strip() or clean.casefold() in NOBODY or _NO_NAME.search(clean):
        raise SortieError(
            f"{one_line(name, MOST_NAME)!r} cannot stand for an agent in a work log.",
            fix=f"A name is one line of at most {MOST_NAME} characters, without any of {_MARKS}",
        )
    return clean


def _other(name: str, actor: str) -> str:
    clean = checked_name(name)
    if clean.casefold() == actor.casefold():
        raise SortieError(
            "A handoff passes work on to somebody else.",
            fix=f"Name the next owner, or record that {actor} completed it.",
        )
    return clean


def _title(text: str, what: str) -> str:
    title = one_line(text)
    if not title:
        raise SortieError(f"The {what} is empty.", fix="Say in a few words what the entry is about.")
    return title


def _id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise SortieError(f"{text[:40]!r} is no id of a proposal.", fix="They look like PROP-001.")
    return text


def _named(text: str) -> str:
    if not _ANY_ID.fullmatch(text):
        raise SortieError(
            f"{text[:40]!r} is no id of anything.",
            fix="They look like PROP-001, wl-0123456789abcdef or MSG-20261118-001.",
        )
    return text


def _free(text: str, what: str) -> str:
    return escaped(trimmed(bounded(text, what)))


def _value(text: str, what: str) -> str:
    return indented(bounded(text, what).strip()) or "none"


def _items(texts: tuple[str, ...], what: str) -> str:
    if len(texts) > MOST_ITEMS:
        raise SortieError(
            f"There are {len(texts):,} {what}; a work log takes at most {MOST_ITEMS} at once.",
            fix="Name directories, or the most important ones.",
        )
    plain = (bounded(text, f"one of the {what}", MOST_ITEM).strip() for text in texts)
    return "".join(f"\n  - {indented(text, '    ')}" for text in plain if text)


def _block(what: Completion | Handoff, owner: str, next_owner: str) -> str:
    files = _items(tuple(one_line(name, MOST_ITEM) for name in what.changed_files), "changed files")
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
    tests = one_line(what.tests).replace("Next:", "next:").replace("(", "[").replace(")", "]") or NO_TESTS
    name = checked_name(what.next_owner)
    task = _title(what.next_task, "next task").removesuffix(".")
    colon = ":" if " " in name or ": " in task else ""
    return f"{done} ({tests}). Next: {name}{colon} {task}."


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
    lines = [
        f"- **Decision:** {_value(what.decision, 'decision')}",
        f"- **Decision mode:** {what.mode}",
        f"- **Participants:** {people or 'none'}",
        f"- **Rationale:** {_value(what.rationale, 'rationale')}",
        f"- **Outcome:** {_value(what.outcome, 'outcome')}",
        f"- **Timestamp:** {time_text(at)}",
        f"- **Follow-up actions:** {_value(what.follow_up, 'follow-up actions')}",
    ]
    if what.about:
        lines.append(f"- **About:** {', '.join(_named(one) for one in what.about)}")
    return "\n".join(lines)


def _escalation(what: Escalation) -> str:
    message = f"{one_line(what.message_id, 60)} — " if what.message_id else ""
    reason = indented(bounded(what.reason, "reason").strip())
    return f"Escalated: {message}{_title(what.subject, 'subject')} — {reason or 'no reason given'}"


def _unmistakable(title: str, body: str, word: str, types: tuple[EventType, ...]) -> str:
    """The title, with a word in front where it would be taken for something else."""
    told = events_of(parse(f"{strict_heading('A', 0, title)}\n\n{body}\n".encode()))
    is_clear = len(told) == 1 and told[0].event_type in types and (word != "Note" or told[0].subject == title)
    return title if is_clear else f"{word}: {title}"
