"""Which events people's entries tell: the document's forms and their variants, the first rule that matches."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from sortie.peers.worklog.event import Event, EventType
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.parse import parse

HANDOFF = """\
Handoff: the parser
Owner: Alice
Status: {status}
Changed files:
  - src/a.py
  - src/b.py
Tests run: 47 pass
Risks/assumptions: the schema may change
Blocking items: none
Next owner: {next_owner}
"""

PROPOSAL = """\
- ID: PROP-001
- Author: Alice
- Date: 2026-03-01
- Scope: reader
- Proposal: read once
- Risks: none
- Rollback: revert
- Objection deadline: next session
- Status: open
"""

DECISION = """\
- **Decision:** read once
- **Decision mode:** consensus
- **Participants:** Alice, Bob
- **Rationale:** simple
- **Outcome:** accepted
- **Timestamp:** 2026-03-01T10:00:00Z
- **Follow-up actions:** none
"""

COUNTER = """\
**Bob recommended:** two passes

**Alice's counter-recommendation:** one pass

**Reasoning:**
- faster
- simpler,
  and shorter

**Proposed compromise:** measure
"""


def told(text: str, session_id: str = "") -> list[Event]:
    return events_of(parse(text.encode()), session_id)


def the_only(text: str) -> Event:
    [event] = told(text)
    return event


def types(text: str) -> list[str]:
    return [event.event_type for event in told(text)]


def handoff(status: str = "Ready for review", next_owner: str = "Bob") -> str:
    return HANDOFF.format(status=status, next_owner=next_owner)


@pytest.mark.parametrize(
    "block",
    [
        f"```text\n{handoff()}```",
        f"```\n{handoff()}```",
        f"~~~~\n{handoff()}~~~~",
        handoff(),
        "\n".join(f"**{line}" if not line.startswith(" ") else line for line in handoff().splitlines()).replace(
            ":", ":**"
        ),
        "\n".join(f"- {line}" if not line.startswith(" ") else line for line in handoff().splitlines()),
    ],
    ids=["text", "untagged", "tilde", "unfenced", "bold", "bullets"],
)
def test_a_full_handoff_in_every_dress_is_a_completion_and_a_handoff(block):
    """LOG-02: one entry, two events that share its id."""
    completed, passed_on = told(f"### Alice: parser\n\n{block}\n")
    assert (completed.event_type, passed_on.event_type) == ("task.completed", "handoff.posted")
    assert (completed.event_id, passed_on.event_id) == (f"{completed.entry_id}.1", f"{completed.entry_id}.2")
    for event in (completed, passed_on):
        assert (event.actor, event.subject) == ("Alice", "the parser")
        assert event.payload["changed_files"] == ["src/a.py", "src/b.py"]
        assert event.payload["tests"] == "47 pass"
        assert event.payload["next_owner"] == "Bob"
        assert event.payload["blocking"] == ""
        assert event.links == ("src/a.py", "src/b.py")


@pytest.mark.parametrize(
    "status",
    ["Complete", "Completed", "done", "done (Ready for review)", "Complete (bootstrap)", "Ready for merge"],
)
@pytest.mark.parametrize("next_owner", ["", "none", "N/A", "Alice", "alice (next session)"])
def test_a_handoff_to_nobody_else_is_a_completion(status, next_owner):
    """LOG-02: the words of real files for what is done and for nobody."""
    assert types(f"### Alice: x\n\n{handoff(status, next_owner)}") == ["task.completed"]


def test_work_in_progress_that_is_passed_on_is_no_completion():
    assert types(f"### Alice: x\n\n{handoff('In progress')}") == ["handoff.posted"]
    assert types(f"### Alice: x\n\n{handoff('In progress', 'Alice')}") == ["note"]


def test_fields_that_are_missing_or_inline():
    event = told(
        "### Alice: x\n\nHandoff: y\nOwner: Alice / Bob\nStatus: done\n"
        "Changed files: a.py, b.py\nNext owner: Carol\n"
    )[1]
    assert event.event_type == "handoff.posted"
    assert event.payload["changed_files"] == ["a.py", "b.py"]
    assert event.payload["risks"] == ""


def test_a_quick_handoff():
    """LOG-02: the document's own example."""
    event = the_only("14:32 — Agent-A: auth module complete (47 pass). Next: Agent-B integration wiring.\n")
    assert (event.event_type, event.actor, event.subject) == ("handoff.posted", "Agent-A", "auth module complete")
    assert event.payload == {
        "what": "auth module complete",
        "tests": "47 pass",
        "next_owner": "Agent-B",
        "next_task": "integration wiring",
    }
    assert types("14:32 — Agent-A: x (3 pass). Next: Agent-A more.\n") == ["task.completed"]
    assert types("14:32 — Agent-A: x\n(3 pass).\nNext: Agent-B more.\n") == ["handoff.posted"]
    assert types("14:32 — Agent-A: looked at it\n") == ["note"]


def test_a_counter_recommendation():
    event = the_only(f"### Alice: about the passes\n\n{COUNTER}")
    assert (event.event_type, event.subject) == ("objection.raised", "about the passes")
    assert event.payload == {
        "recommended_by": "Bob",
        "recommended": "two passes",
        "counter": "one pass",
        "reasoning": ["faster", "simpler,\nand shorter"],
        "compromise": "measure",
        "agreed_action": "",
    }


def test_a_counter_recommendation_with_a_heading_for_its_reasons():
    event = the_only(f"### Alice: x\n\n{COUNTER.replace('**Reasoning:**', '#### Reasoning')}")
    assert event.payload["reasoning"] == ["faster", "simpler,\nand shorter"]


def test_a_proposal_and_its_amendment():
    """LOG-02: the same id again is an amendment."""
    first, second, other = told(
        f"### Alice: p\n\n{PROPOSAL}\n### Alice: p again\n\n{PROPOSAL}\n"
        f"### Bob: q\n\n{PROPOSAL.replace('001', '002')}"
    )
    assert [one.event_type for one in (first, second, other)] == [
        "proposal.created",
        "proposal.amended",
        "proposal.created",
    ]
    assert first.payload["id"] == second.payload["id"] == "PROP-001"
    assert first.payload["rollback"] == "revert"
    assert first.timestamp == "2026-03-01"
    assert "PROP-001" in first.links


def test_a_decision_by_its_bullets():
    event = the_only(f"### Read once (Alice)\n\n{DECISION}")
    assert (event.event_type, event.timestamp) == ("decision.recorded", "2026-03-01T10:00:00Z")
    assert event.payload["mode"] == "consensus"
    assert event.payload["participants"] == "Alice, Bob"


def test_an_escalation():
    line = "Escalated: MSG-20260301-004 — review of the parser — receiver did not ack within P0 window"
    event = the_only(f"### Alice: stale mail\n\n{line}\n")
    assert event.event_type == "escalation.requested"
    assert event.payload == {
        "subject": "review of the parser",
        "reason": "receiver did not ack within P0 window",
        "message_id": "MSG-20260301-004",
    }
    assert event.links == ("MSG-20260301-004",)
    assert types("### Bob: Escalating to the maintainer\n\nWe cannot agree.\n") == ["escalation.requested"]
    assert types(f"## Session 1\n\n{line}\n") == ["escalation.requested"]


@pytest.mark.parametrize(
    "text",
    [
        "### Alice: claimed the parser\n",
        "### Alice: Starting the parser\n",
        "### Alice: parser\n\nClaimed the parser.\n",
        "## Session 1\n\nNow Working (Alice): the parser — 2026-01-01T10:00:00Z\n",
    ],
)
def test_a_claim(text):
    event = the_only(text)
    assert (event.event_type, event.actor) == ("task.claimed", "Alice")
    assert "parser" in event.payload["task"]


def test_an_idle_status_line_claims_nothing():
    assert types("## Session 1\n\nNow Working (Alice): idle — waiting\n") == ["note"]


@pytest.mark.parametrize(
    ("text", "event_type"),
    [
        (f"Escalated: x — y\n\n{COUNTER}{DECISION}{PROPOSAL}{handoff()}", "escalation.requested"),
        (f"{COUNTER}{DECISION}{PROPOSAL}{handoff()}", "objection.raised"),
        (f"{DECISION}{PROPOSAL}{handoff()}", "decision.recorded"),
        (f"{PROPOSAL}{handoff()}", "proposal.created"),
        (f"claimed.\n\n{handoff('In progress')}", "handoff.posted"),
        ("It went well.\n", "note"),
    ],
)
def test_the_first_rule_that_matches_counts(text, event_type):
    """LOG-02: the same entry never tells two kinds of thing."""
    assert types(f"### Alice: x\n\n{text}") == [event_type]


def test_the_title_says_it_before_anything_else_does():
    assert types(f"### Alice: Note: x\n\n{DECISION}") == ["note"]
    assert types(f"### Alice: Claimed: the escalation path\n\n{PROPOSAL}") == ["task.claimed"]
    assert types("### Alice: Completed: x\n\nAll is well.\n") == ["task.completed"]


INDEX = "## Decision Index\n\n| Decision | Owner | Timestamp | Section |\n|---|---|---|---|\n"


def test_a_row_of_the_index_is_a_decision():
    event = the_only(INDEX + "| Read once | Claude (proposed) | 2026-03-01 | PRD-018 R3, MSG-20260302-001 |\n")
    assert (event.event_type, event.actor, event.timestamp) == ("decision.recorded", "Claude", "2026-03-01")
    assert event.links == ("PRD-018", "MSG-20260302-001")
    assert event.event_id.startswith("wd-")


def test_a_row_and_the_entry_that_it_names_are_one_decision():
    """LOG-03: counted once, by the id of the entry."""
    for section in ("Read once", "2026-03-01T10:00:00Z — Alice: Read once", "READ  ONCE"):
        event = the_only(
            f"{INDEX}| Read once | Alice | 2026-03-01 | {section} |\n\n"
            f"### 2026-03-01T10:00:00Z — Alice: Read once\n\n{DECISION}"
        )
        assert event.event_id.startswith("wl-")


def test_a_row_that_names_another_kind_of_entry_is_its_own_decision():
    assert types(f"{INDEX}| Read once | Alice | 2026-03-01 | Read once |\n\n### Alice: Read once\n\nWords.\n") == [
        "decision.recorded",
        "note",
    ]


def test_the_envelope_has_the_eight_keys_of_the_document_in_its_order():
    """LOG-03: the JSON projection."""
    [event, _] = told(f"### 2026-11-18T02:00:00Z — Alice: x\n\n{handoff()}", "S-1")
    envelope: dict[str, Any] = json.loads(json.dumps(event.envelope()))
    assert list(envelope) == [
        "event_id",
        "event_type",
        "session_id",
        "actor",
        "timestamp",
        "subject",
        "payload",
        "links",
    ]
    assert envelope["session_id"] == "S-1"
    assert envelope["timestamp"] == "2026-11-18T02:00:00Z"
    assert isinstance(envelope["payload"], dict)
    assert isinstance(envelope["links"], list)


def test_the_session_is_the_section_where_nobody_says_otherwise():
    assert the_only("## Session 3 — 2026-03-01\n\n### Alice: x\n").session_id == "Session 3"


def test_there_are_eight_types_and_the_note():
    """LOG-02"""
    assert len(get_args(EventType)) == 9
