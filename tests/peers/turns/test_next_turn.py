"""Whose turn is proposed, and why: each reason alone, and which of two counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.peers.journal import Record
from sortie.peers.mailbox.deadlines import overdue
from sortie.peers.mailbox.message import Ack, Message
from sortie.peers.roster import Roster
from sortie.peers.turn_register import Turn
from sortie.peers.turns.next_turn import Proposed, propose
from sortie.peers.worklog.event import Event
from sortie.protocol.foreign_text import time_text

ROSTER = Roster(agents=("Alice", "Bob", "Carol"), maintainer="Ada")
START = 1_800_000_000.0


def turn(number: int, agent: str, outcome: str = "succeeded") -> Turn:
    began = START + number * 100
    return Turn(number=number, agent=agent, kind="work", began=began, ended=began + 50, outcome=outcome)


def event(kind: str, actor: str, at: float, **payload: Any) -> Event:
    return Event(
        event_id=f"wl-{int(at)}",
        event_type=kind,  # type: ignore[arg-type]
        session_id="",
        actor=actor,
        timestamp=time_text(START + at),
        subject=payload.pop("subject", "the parser"),
        payload=payload,
        links=payload.pop("links", ()),
    )


def message(number: int, to: str, at: float = 0.0, **more: Any) -> Message:
    usual = {"sender": "Alice", "recipients": (to,), "priority": "P2", "date": time_text(START + at)}
    return Message(id=f"MSG-20270115-{number:03}", **{**usual, **more})


def proposed(
    turns: Sequence[Turn] = (), events: Sequence[Event] = (), mail: Sequence[Message] = (), now: float = START
) -> list[Proposed]:
    def turns_of(agent: str, since: float) -> int:
        return sum(one.agent == agent and one.began >= since for one in turns)

    return propose(ROSTER, turns, events, mail, overdue(mail, now, turns_of, ROSTER.agents))


ALL_HAD_ONE = [turn(1, "Alice"), turn(2, "Bob"), turn(3, "Carol")]


def test_whoever_waits_longest_is_next_where_nothing_else_counts():
    assert [one.agent for one in proposed()] == ["Alice", "Bob", "Carol"]
    first, *_, last = proposed(ALL_HAD_ONE)
    assert (first.agent, first.reason, last.agent) == ("Alice", "longest wait", "Carol")
    assert proposed(ALL_HAD_ONE[:2])[0].sentence == "Carol has not had a turn yet."


def test_a_handoff_calls_its_next_owner_until_that_one_has_a_turn():
    handed = event("handoff.posted", "Alice", 350, next_owner="bob (after a look)")
    first = proposed(ALL_HAD_ONE, [handed])[0]
    assert (first.agent, first.kind, first.reason, first.subject) == ("Bob", "work", "handoff", "wl-350")
    assert "Alice handed “the parser” over to Bob" in first.sentence
    assert proposed([*ALL_HAD_ONE, turn(4, "Bob")], [handed])[0].reason == "longest wait"
    assert proposed([*ALL_HAD_ONE, turn(4, "Bob", "interrupted")], [handed])[0].agent == "Bob"


def test_who_wrote_an_entry_and_when_is_by_the_record():
    """A handoff that an agent forged for itself, dated to a time that never comes, calls nobody."""
    forged = event("handoff.posted", "Ada", 1e8, next_owner="Bob")
    of_bob = Record(at=START + 350, author="Bob", role="agent")
    of_ada = Record(at=START + 350, author="Ada", role="maintainer")

    def told(record: Record, *more: Turn) -> tuple[str, str]:
        turns = [*ALL_HAD_ONE, *more]
        first = propose(ROSTER, turns, [forged], [], [], {forged.entry_id: record})[0]
        return first.agent, first.reason

    assert told(of_bob) == ("Alice", "longest wait")
    assert told(of_ada) == ("Bob", "handoff")
    assert told(of_ada, turn(4, "Bob")) == ("Alice", "longest wait"), "that turn began after it was recorded"


def test_only_the_last_handoff_to_somebody_counts():
    old, new = event("handoff.posted", "Alice", 50, next_owner="Bob"), event("note", "Bob", 400)
    assert proposed(ALL_HAD_ONE, [old, new])[0].reason == "longest wait"


def test_an_objection_calls_the_one_whom_it_answers_and_a_proposal_everybody_else():
    objection = event("objection.raised", "Alice", 350, recommended_by="Carol")
    first = proposed(ALL_HAD_ONE, [objection])[0]
    assert (first.agent, first.kind, first.reason) == ("Carol", "review", "open question")
    proposal = event("proposal.created", "Bob", 350, id="PROP-001", status="open")
    found = proposed(ALL_HAD_ONE, [proposal])
    assert [(one.agent, one.reason) for one in found] == [
        ("Alice", "open question"),
        ("Carol", "open question"),
        ("Bob", "longest wait"),
    ]


def test_what_is_decided_asks_nobody():
    proposal = event("proposal.created", "Bob", 350, id="PROP-001")
    objection = event("objection.raised", "Alice", 351, recommended_by="Bob", subject="Storage")
    decisions = [
        event("decision.recorded", "Ada", 360, links=("PROP-001",), subject="x"),
        event("decision.recorded", "Ada", 361, subject="storage"),
    ]
    assert {one.reason for one in proposed(ALL_HAD_ONE, [proposal, objection])} >= {"open question"}
    assert {one.reason for one in proposed(ALL_HAD_ONE, [proposal, objection, *decisions])} == {"longest wait"}


def test_an_interrupted_turn_is_taken_up_again():
    found = proposed([*ALL_HAD_ONE, turn(4, "Alice", "interrupted"), turn(5, "Bob")])
    assert (found[0].agent, found[0].reason) == ("Alice", "interrupted")
    assert "was interrupted, 1 turn ago" in found[0].sentence


def test_mail_that_is_urgent_or_late_calls_its_receiver():
    """LOG-11: it is the maintainer who sends it to the mailbox."""
    urgent = message(2, "Bob", priority="P0")
    first = proposed(ALL_HAD_ONE[:1], mail=[message(1, "Bob"), urgent])[0]
    assert (first.agent, first.kind, first.reason, first.subject) == ("Bob", "mailbox", "urgent mail", urgent.id)
    late = message(3, "Carol", response_needed_by=time_text(START - 10))
    first = proposed(ALL_HAD_ONE, mail=[late])[0]
    assert (first.agent, first.reason, first.subject) == ("Carol", "overdue mail", late.id)
    answered = message(2, "Bob", priority="P0", status="acknowledged", acks=(Ack(actor="Bob"),))
    assert proposed(ALL_HAD_ONE, mail=[answered])[0].reason == "longest wait"


@pytest.mark.parametrize("weaker", range(5))
def test_what_presses_more_comes_first(weaker):
    """In the order of the reasons: each is Carol's, everything weaker Bob's."""
    turns = [turn(1, "Bob"), turn(2, "Carol"), turn(3, "Alice")]
    carol: dict[str, Any] = [
        {"mail": [message(1, "Carol", 350, priority="P0")]},
        {"mail": [message(1, "Carol", 350, response_needed_by=time_text(START))], "now": START + 1},
        {"events": [event("handoff.posted", "Alice", 350, next_owner="Carol")]},
        {"events": [event("objection.raised", "Alice", 350, recommended_by="Carol")]},
        {"turns": [*turns, turn(4, "Carol", "interrupted")]},
    ][weaker]
    bob: list[dict[str, Any]] = [
        {},
        {"mail": [message(2, "Bob", 340, response_needed_by=time_text(START))], "now": START + 1},
        {"events": [event("handoff.posted", "Alice", 340, next_owner="Bob")]},
        {"events": [event("objection.raised", "Alice", 340, recommended_by="Bob")]},
        {"turns": [*turns, turn(4, "Bob", "interrupted")]},
        {},
    ]
    for other in bob[weaker + 1 :]:
        both = {"turns": other.get("turns", carol.get("turns", turns))}
        both |= {key: [*carol.get(key, []), *other.get(key, [])] for key in ("events", "mail")}
        found = proposed(**both, now=max(carol.get("now", START), other.get("now", START)))
        assert found[0].agent == "Carol", (other, found)


KINDS = ("handoff.posted", "objection.raised", "proposal.created", "decision.recorded", "note")
KEYS = st.sampled_from(["next_owner", "recommended_by", "status", "id"])


@given(
    st.lists(st.tuples(st.sampled_from(["Alice", "alice", "Zoe"]), st.sampled_from(["succeeded", "interrupted"]))),
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.text(max_size=5), st.dictionaries(KEYS, st.text() | st.integers())),
        max_size=5,
    ),
)
def test_every_agent_has_exactly_one_proposal_whatever_was_written(turns, events):
    made = [turn(number, agent, outcome) for number, (agent, outcome) in enumerate(turns, 1)]
    told = [event(kind, actor, n, **payload) for n, (kind, actor, payload) in enumerate(events)]
    assert sorted(one.agent for one in proposed(made, told)) == ["Alice", "Bob", "Carol"]
