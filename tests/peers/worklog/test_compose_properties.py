"""Whatever the texts: what is written is read back as the same event, and as nothing else."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sortie.peers.worklog.body import escaped, one_line, plain, unescaped
from sortie.peers.worklog.compose import (
    Amendment,
    AnyRecordable,
    Claim,
    Completion,
    Decision,
    Escalation,
    Handoff,
    Note,
    Objection,
    Proposal,
    QuickHandoff,
    compose,
    index_row,
)
from sortie.peers.worklog.entry import trimmed
from sortie.peers.worklog.event import Event
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.head import cells_of
from sortie.peers.worklog.heading import NOBODY
from sortie.peers.worklog.parse import parse

from .logs import AT, lines, names, recordables, texts, titles

STAMP = "2027-01-15T08:00:00Z"


def value(text: str) -> str:
    clean = plain(text).strip()
    return "" if clean.casefold().rstrip(".") in NOBODY else clean


def free(text: str) -> str:
    return trimmed(plain(text))


def listed(texts: tuple[str, ...]) -> list[str]:
    return [clean for clean in (plain(text).strip() for text in texts) if clean]


def expected(what: AnyRecordable, actor: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Type, subject and payload of every event."""
    match what:
        case Claim():
            return [("task.claimed", one_line(what.task), {"task": one_line(what.task), "note": free(what.note)})]
        case Completion() | Handoff():
            task = value(one_line(what.task)) or one_line(what.task)
            next_owner = what.next_owner if isinstance(what, Handoff) else ""
            payload = {
                "task": task,
                "owner": actor,
                "status": value(one_line(what.status)),
                "changed_files": [one_line(name, 4000) for name in what.changed_files if one_line(name)],
                "tests": value(what.tests),
                "risks": value(what.risks),
                "blocking": value(what.blocking),
                "next_owner": next_owner,
                "note": free(what.note),
            }
            types = ["task.completed"] if what.status != "In progress" or isinstance(what, Completion) else []
            types += ["handoff.posted"] if next_owner else []
            return [(event_type, task, payload) for event_type in types]
        case Proposal() | Amendment():
            keys = ("scope", "proposal", "risks", "rollback", "objection_deadline")
            payload = {"id": what.id, "author": actor, **{key: value(getattr(what, key)) for key in keys}}
            payload["status"] = "open"
            if isinstance(what, Amendment):
                payload["change"] = value(what.change)
                return [("proposal.amended", one_line(what.title), payload)]
            return [("proposal.created", one_line(what.title), payload)]
        case Objection():
            payload = {
                "recommended_by": what.recommended_by,
                "recommended": value(what.recommended),
                "counter": value(what.counter),
                "reasoning": listed(what.reasoning),
                "compromise": value(what.compromise),
                "agreed_action": "",
            }
            return [("objection.raised", one_line(what.about), payload)]
        case Decision():
            payload = {
                "decision": value(what.decision),
                "mode": what.mode,
                "participants": ", ".join(what.participants),
                "rationale": value(what.rationale),
                "outcome": value(what.outcome),
                "follow_up": value(what.follow_up),
                "about": list(what.about),
            }
            return [("decision.recorded", one_line(what.title), payload)]
        case Escalation():
            subject = one_line(what.subject)
            payload = {"subject": subject, "reason": value(what.reason), "message_id": what.message_id}
            return [("escalation.requested", subject, payload)]
        case Note():
            return [("note", one_line(what.title), {"text": free(what.text)})]
        case QuickHandoff():
            raise NotImplementedError


def read_back(text: str) -> list[Event]:
    log = parse(text.encode())
    assert len(log.entries) == 1
    assert [part.kind for part in log.parts] == ["entry"]
    assert log.status == ()
    assert log.index == ()
    assert log.remarks == ()
    return events_of(log)


@settings(max_examples=400)
@given(recordables.filter(lambda what: not isinstance(what, QuickHandoff)), names)
def test_what_is_written_is_read_back_as_the_same_event(what, actor):
    """LOG-02: all eight types, with texts that look like anything."""
    events = read_back(compose(what, actor=actor, at=AT))
    assert [(one.event_type, one.subject, one.payload) for one in events] == expected(what, actor)
    assert {one.actor for one in events} == {actor}
    assert {one.timestamp for one in events} == {STAMP}


@settings(max_examples=200)
@given(st.builds(QuickHandoff, what=texts.map("x ".__add__), next_owner=names, next_task=titles, tests=texts))
def test_a_quick_handoff_is_one_line_that_is_read_back(what):
    """LOG-02: the short form."""
    text = compose(what, actor="Zoe", at=AT)
    assert text.count("\n") == 1
    [event] = read_back(text)
    assert event.event_type == "handoff.posted"
    assert event.payload == {
        "what": one_line(what.what).replace("Next:", "next:").removesuffix(".").strip(),
        "tests": one_line(what.tests).replace("Next:", "next:").replace("(", "[").replace(")", "]"),
        "next_owner": what.next_owner,
        "next_task": one_line(what.next_task).removesuffix(".").strip(),
    }


@given(texts)
def test_escaping_is_undone_by_reading(text):
    assert unescaped(escaped(plain(text))) == plain(text)


def test_colours_go_and_other_controls_are_spelled_out():
    assert plain("\x1b[31mred\x1b[0m \x1b]0;x\x07 \u202eback\u00a0x") == "red \\x1b]0;x\\x07 \\u202eback x"


def test_what_is_recorded_as_completed_is_completed_whatever_its_status_says():
    [event] = read_back(compose(Completion(task="x", status="In progress"), actor="Alice", at=AT))
    assert event.event_type == "task.completed"


@given(texts)
def test_plain_text_is_harmless(text):
    clean = plain(text)
    assert all(character.isprintable() or character in "\n\t\u200c\u200d" for character in clean)
    assert plain(clean) == clean
    clean.encode()


@given(lines, texts)
def test_a_row_of_the_index_is_one_line_of_four_cells(title, decision):
    """LOG-01: bars and line ends in a title stay within its cell."""
    what = Decision(title=f"{title} x", decision=decision, mode="consensus")
    row = index_row(what, actor="Alice", at=AT)
    assert "\n" not in row
    assert cells_of(row) == [one_line(what.title), "Alice", STAMP, f"Decision: {one_line(what.title)}"]
