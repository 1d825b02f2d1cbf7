"""The tools of an agent that takes a turn: work log and mailbox, written in its own name and in no other.

Who writes is the agent of the turn that asks, whatever the arguments say. Arguments are checked against the schema
that clients are shown; answers are bounded.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyio import to_thread

from ..errors import SortieError
from ..peers.author import Author
from ..peers.mailbox.draft import Draft
from ..peers.mailbox.mailbox_file import MailboxFile
from ..peers.mailbox.message import is_unread
from ..peers.place import Place
from ..peers.turns.briefing import in_reading_order
from ..peers.worklog import compose as entries
from ..peers.worklog.cursor import Cursor
from ..peers.worklog.worklog_file import WorklogFile
from ..protocol.foreign_text import escape, shortened
from ..tools import envelope
from ..tools.definitions import (
    BUILTIN,
    ENTRIES,
    MAILBOX_ACK,
    MAILBOX_CHECK,
    MAILBOX_SEND,
    WORKLOG_APPEND,
    WORKLOG_SINCE,
)
from ..workflow.problems import listed

LONGEST_ANSWER = 1 << 18
LOCK_PATIENCE = 20.0
_SHOWN = 40
_NEEDED = {"handoff": ("next_owner",), "amendment": ("proposal_id",), "objection": ("recommended_by",)}

Arguments = Mapping[str, Any]


class PeerTools:
    """`since` is where the agent had read the work log to before this turn; empty for all of it."""

    def __init__(self, place: Place, author: Author, *, session_id: str = "", since: str = "") -> None:
        self._author = author
        self._since = since
        self._worklog = WorklogFile(place.worklog, session_id=session_id, patience=LOCK_PATIENCE)
        self._place = place
        self._tools: Mapping[str, Callable[[Arguments], dict[str, Any]]] = {
            WORKLOG_APPEND.name: self._append,
            WORKLOG_SINCE.name: self._new,
            MAILBOX_SEND.name: self._send,
            MAILBOX_CHECK.name: self._mail,
            MAILBOX_ACK.name: self._answer,
        }

    async def call(self, tool: str, arguments: object) -> dict[str, Any]:
        return await to_thread.run_sync(self._call, tool, arguments)

    def _call(self, tool: str, arguments: object) -> dict[str, Any]:
        answer = self._tools.get(tool)
        if answer is None:
            return envelope.failure(envelope.INTERNAL_ERROR, f"{tool[:_SHOWN]} cannot be used here.")
        problem = problem_with(arguments, BUILTIN[tool].input_schema)
        if problem or not isinstance(arguments, dict):
            return envelope.failure(envelope.INVALID_INPUT, problem)
        try:
            return envelope.success(answer(arguments))
        except SortieError as error:
            return envelope.failure(envelope.INVALID_INPUT, str(error))

    # -- the work log -----------------------------------------------------------------------------------------

    def _append(self, arguments: Arguments) -> dict[str, Any]:
        recorded = self._worklog.record(entry_of(arguments), self._author, at=time.time())
        called = {"proposal_id": recorded.proposal_id} if recorded.proposal_id else {}
        return {"event_ids": list(recorded.event_ids), **called}

    def _new(self, arguments: Arguments) -> dict[str, Any]:
        given = arguments.get("cursor", self._since)
        events, cursor = self._worklog.since(Cursor.decode(given) if given else None)
        kept, left_out = _bounded([event.envelope() for event in reversed(events)])
        return {"events": kept[::-1], "cursor": cursor.encode(), **_left_out(left_out)}

    # -- the mailbox ------------------------------------------------------------------------------------------

    @property
    def _mailbox(self) -> MailboxFile:
        return MailboxFile(self._place, patience=LOCK_PATIENCE)

    def _send(self, arguments: Arguments) -> dict[str, Any]:
        draft = Draft(
            to=tuple(arguments["to"]),
            subject=arguments["subject"],
            body=arguments.get("text", ""),
            type=arguments.get("type", "request"),
            priority=arguments.get("priority", "P2"),
            related=arguments.get("related", ""),
            response_needed_by=arguments.get("needed_by", ""),
        )
        return {"id": self._mailbox.send(draft, self._author, at=time.time()).message.id}

    def _mail(self, arguments: Arguments) -> dict[str, Any]:  # noqa: ARG002 - it has none
        name = self._author.name
        found = in_reading_order(self._mailbox.read().messages, name)
        kept, left_out = _bounded([message.as_object() for message in found])
        unread = sum(is_unread(message, name) for message in found)
        return {"unread": unread, "messages": kept, **_left_out(left_out)}

    def _answer(self, arguments: Arguments) -> dict[str, Any]:
        status, said = arguments.get("status", "acknowledged"), arguments.get("text", "")
        done = self._mailbox.move(arguments["id"], status, self._author, at=time.time(), said=said)
        return {"id": done.message.id, "status": done.message.status}


def entry_of(arguments: Arguments) -> entries.AnyRecordable:
    """What is to be recorded; raises `SortieError` for arguments that do not belong together."""
    kind, subject, text = arguments["kind"], arguments["subject"], arguments.get("text", "")
    more = {key: value for key, value in arguments.items() if key not in ("kind", "subject", "text")}
    if wrong := [key for key in more if key not in ENTRIES[kind]]:
        raise SortieError(f"`{wrong[0]}` does not belong to the kind `{kind}`.", fix=_fix(kind))
    if missing := [key for key in _NEEDED.get(kind, ()) if not more.get(key)]:
        raise SortieError(f"`{missing[0]}` is missing, which the kind `{kind}` needs.", fix=_fix(kind))
    more = {key: tuple(value) if isinstance(value, list) else value for key, value in more.items()}
    if "deadline" in more:
        more["objection_deadline"] = more.pop("deadline")
    match kind:
        case "claim":
            return entries.Claim(task=subject, note=text)
        case "completion":
            return entries.Completion(task=subject, note=text, **more)
        case "handoff":
            return entries.Handoff(task=subject, note=text, **more)
        case "proposal":
            return entries.Proposal(title=subject, proposal=text, **more)
        case "amendment":
            return entries.Amendment(id=more.pop("proposal_id"), title=subject, change=text, **more)
        case "objection":
            return entries.Objection(**{"about": subject, "counter": text, "recommended": "", **more})
        case "agreement":
            return entries.Decision(title=subject, decision=text, mode="consensus", **more)
        case "escalation":
            return entries.Escalation(subject=subject, reason=text, **more)
    return entries.Note(title=subject, text=text)


def _fix(kind: str) -> str:
    return f"It takes {listed(['subject', 'text', *ENTRIES[kind]])}."


def problem_with(arguments: object, schema: Mapping[str, Any]) -> str:
    """What does not fit, as a sentence; empty where all does. Knows the few forms that our own schemas have."""
    known: Mapping[str, Any] = schema["properties"]
    if not isinstance(arguments, dict):
        return "The arguments must be an object."
    for key, value in arguments.items():
        if key not in known:
            name = shortened(escape(str(key)), _SHOWN)
            return f"There is no argument `{name}`{f'; use {listed(known)}' if known else ', and no other'}."
        if problem := _misfit(value, known[key]):
            return f"`{key}` must be {problem}."
    missing = [key for key in schema.get("required", ()) if key not in arguments]
    return f"`{missing[0]}` is missing." if missing else ""


def _misfit(value: object, form: Mapping[str, Any]) -> str:
    if form["type"] == "array":
        fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return "" if fits else "a list of texts"
    if not isinstance(value, str):
        return "a text"
    return "" if value in form.get("enum", (value,)) else listed(form["enum"])


def _bounded(items: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """The first ones, as many as an answer holds, and how many are left."""
    length = 0
    for number, item in enumerate(items):
        length += len(json.dumps(item))
        if length > LONGEST_ANSWER:
            return [*items[:number]], len(items) - number
    return [*items], 0


def _left_out(number: int) -> dict[str, int]:
    return {"left_out": number} if number else {}
