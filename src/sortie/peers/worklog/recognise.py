"""What an entry tells: by fixed rules, of which the first that matches counts.

What the title says in as many words (`Claimed: …`, `Decision: …`) comes first: so our own tools write, and nothing
in the body of an entry can make it look like another. Then the forms of the document come, whoever wrote them.
Everything else is a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .entry import Entry
from .event import EventType
from .fields import Fields, items
from .head import IDLE
from .heading import Heading, names_in

NO_TESTS = "no tests run"

_PREFIX = re.compile(
    r"(?:(?P<claimed>claimed)|(?P<completed>completed)|(?P<handoff>handoff)|(?P<decision>decision)"
    r"|(?P<objection>counter-recommendation)|(?P<escalation>escalation)|(?P<note>note)|(?P<quick>quick handoff)"
    r"|(?P<amended>amended )?proposal(?: (?P<id>[A-Z][A-Z0-9]*-[0-9]{1,12}))?):\s+",
    re.IGNORECASE,
)
_STARTS = re.compile(r"(?:claimed|claiming|starting|started)(?!\w)[:\s]*", re.IGNORECASE)
_DONE = ("ready for", "complete", "done", "finished", "merged", "closed", "shipped", "delivered", "resolved")
_QUICK = re.compile(r"\bNext:\s+")
_TESTS = re.compile(r"\(([^()]{1,200})\)\.?\s*$")
_MESSAGE = re.compile(r"(MSG-(?:[A-Za-z]{1,40}-)?[0-9]{8}-[0-9]{3,6})\b(?: (?:—|\u2013|-) )?")

Told = tuple[EventType, str, dict[str, Any]]  # the type, the subject, the payload


def says_what_it_is(title: str) -> bool:
    """Whether the title has one of our words in front."""
    return _PREFIX.match(title) is not None


def told_in(entry: Entry, said: Heading, body: str, fields: Fields, seen: set[str]) -> Iterator[Told]:
    """Almost always one thing. `seen` has the folded ids of earlier proposals, and learns that of this one."""
    prefix = _PREFIX.match(said.title) if entry.form == "heading" else None
    title = said.title[prefix.end() :] if prefix else said.title
    word = (prefix.lastgroup or "proposal") if prefix else ""
    if prefix and (prefix["amended"] or prefix["id"]):
        word = "proposal"
    is_handoff = _is_handoff(fields)
    if word == "note":
        yield "note", title, {"text": body}
    elif word == "claimed":
        yield "task.claimed", title, {"task": title, "note": body}
    elif word in ("completed", "handoff") and (is_handoff or word == "completed" or "next_owner" in fields):
        yield from _handoff(title, fields, body, word)
    elif word == "quick" and (quick := _quick(said, title, body, entry.form)):
        yield quick
    elif word == "escalation" or (not word and _is_escalation(said.title, fields, entry.form)):
        yield _escalation(title, fields, body)
    elif word == "objection" or ("recommended" in fields and "counter" in fields and not word):
        yield "objection.raised", title, _objection(fields)
    elif word == "decision" or (not word and "decision" in fields and "mode" in fields):
        yield "decision.recorded", title or fields.get("decision", ""), _decision(title, fields, body)
    elif word == "proposal" or ("id" in fields and ("proposal" in fields or "scope" in fields)):
        yield _proposal(title, fields, body, prefix, seen)
    elif is_handoff:
        yield from _handoff(title, fields, body, word)
    elif quick := _quick(said, title, body, entry.form):
        yield quick
    elif claimed := _claim(said.title, body, entry.form):
        yield "task.claimed", claimed, {"task": claimed, "note": body if entry.form == "heading" else ""}
    else:
        yield "note", title or _first(body), {"text": body}


def _is_escalation(title: str, fields: Fields, form: str) -> bool:
    return "escalated" in fields or (form == "heading" and "escalat" in title.casefold())


def _escalation(title: str, fields: Fields, body: str) -> Told:
    said = fields.get("escalated", "")
    message = _MESSAGE.match(said)
    message_id = message[1] if message else ""
    said = said[message.end() :] if message else said
    subject, dash, reason = said.partition(" — ")
    if title and said.startswith(f"{title} — "):
        subject, reason = title, said[len(title) + 3 :]
    elif not dash:
        subject, reason = title or said, said
    return (
        "escalation.requested",
        title or subject,
        {"subject": subject or title, "reason": reason or body, "message_id": message_id},
    )


def _objection(fields: Fields) -> dict[str, Any]:
    return {
        "recommended_by": fields.get("recommended_by", ""),
        "recommended": fields.get("recommended", ""),
        "counter": fields.get("counter", ""),
        "reasoning": list(items(fields.get("reasoning", ""))),
        "compromise": fields.get("compromise", ""),
        "agreed_action": fields.get("agreed_action", ""),
    }


def _decision(title: str, fields: Fields, body: str) -> dict[str, Any]:
    return {
        "decision": fields.get("decision") or title or body,
        **{key: fields.get(key, "") for key in ("mode", "participants", "rationale", "outcome", "follow_up")},
        "about": list(items(fields.get("about", ""))),
    }


def _proposal(title: str, fields: Fields, body: str, prefix: re.Match[str] | None, seen: set[str]) -> Told:
    given = (prefix["id"] if prefix else "") or fields.get("id", "")
    is_amendment = bool(prefix and prefix["amended"]) or (bool(given) and given.casefold() in seen and not prefix)
    seen.add(given.casefold())
    keys = ("author", "scope", "proposal", "risks", "rollback", "objection_deadline", "status")
    payload = {"id": given, **{key: fields.get(key, "") for key in keys}}
    if "change" in fields:
        payload["change"] = fields["change"]
    if not any(fields.get(key) for key in keys):
        payload["proposal"] = body
    return "proposal.amended" if is_amendment else "proposal.created", title or given, payload


def _is_handoff(fields: Fields) -> bool:
    if "handoff" in fields:
        return bool({"owner", "status", "changed_files", "tests", "next_owner"} & fields.keys())
    return "next_owner" in fields and bool({"owner", "status"} & fields.keys())


def _handoff(title: str, fields: Fields, body: str, word: str) -> Iterator[Told]:
    subject = fields.get("handoff", "").split("\n", 1)[0] or title
    owners = {name.casefold() for name in names_in(fields.get("owner", ""))}
    following = names_in(fields.get("next_owner", ""))
    status = fields.get("status", "")
    payload: dict[str, Any] = {
        "task": subject,
        "owner": fields.get("owner", ""),
        "status": status,
        "changed_files": list(items(fields.get("changed_files", ""))),
        **{key: fields.get(key, "") for key in ("tests", "risks", "blocking", "next_owner")},
        "note": _after_fence(body),
    }
    is_passed = any(name.casefold() not in owners for name in following)
    is_done = word == "completed" or status.casefold().lstrip("*` ").startswith(_DONE)
    is_unfinished = status.casefold().lstrip("*` ").startswith("in progress") and not is_done
    if is_done or not (is_passed or is_unfinished):
        yield "task.completed", subject, payload
    if is_passed:
        yield "handoff.posted", subject, payload
    elif is_unfinished:  # a report on the way neither completes anything nor passes it on
        yield "note", subject, payload


def _quick(said: Heading, title: str, body: str, form: str) -> Told | None:
    """`14:32 — Alice: what changed (47 pass). Next: Bob next task.`, on a line or as a heading."""
    if not (said.clock or said.date) or not said.actor:
        return None
    text = title if form == "heading" else " ".join([title, *body.split("\n")[1:3]]).strip()
    what, _, following = _split(text)
    if not following:
        return None
    tests = _TESTS.search(what)
    what = (what[: tests.start()] if tests else what).strip().removesuffix(".").strip()
    named, next_task = _next_owner(following, said.actor)
    ran = tests[1].strip() if tests and tests[1] != NO_TESTS else ""
    payload = {"what": what, "tests": ran, "next_owner": named, "next_task": next_task}
    is_passed = bool(named) and named.casefold() != said.actor.casefold()
    return "handoff.posted" if is_passed else "task.completed", what, payload


def _split(text: str) -> tuple[str, str, str]:
    found = _QUICK.search(text)
    return (text[: found.start()].rstrip(), found[0], text[found.end() :].strip()) if found else (text, "", "")


def _next_owner(text: str, actor: str) -> tuple[str, str]:
    name, colon, task = text.partition(": ")
    if not colon or len(name) > 80 or name.count(" ") > 3:
        is_same = f"{text} ".casefold().startswith(f"{actor} ".casefold())
        name = actor if is_same else text.split(None, 1)[0]
        task = text[len(name) :]
    name = name.strip().rstrip(".,")
    return ("" if not names_in(name) else name), task.strip().removesuffix(".").strip()


def _claim(title: str, body: str, form: str) -> str:
    """What the entry says is begun, or nothing."""
    if form == "line" and body.casefold().startswith("now working ("):
        return "" if title.casefold().startswith(IDLE) else title
    for text in (title, _first(body)):
        found = _STARTS.match(text)
        if found:
            return text[found.end() :].strip() or title
    return ""


def _after_fence(body: str) -> str:
    """The words below a block."""
    lines = body.split("\n")
    closings = [n for n, line in enumerate(lines) if line.startswith(("```", "~~~"))]
    return "\n".join(lines[closings[1] + 1 :]).strip("\n") if len(closings) > 1 else ""


def _first(body: str) -> str:
    return body.strip().split("\n", 1)[0][:200]
