"""What a work log leaves open."""

from __future__ import annotations

import pytest

from sortie.peers.worklog.compose import (
    Amendment,
    AnyRecordable,
    Claim,
    Completion,
    Decision,
    Handoff,
    Objection,
    Proposal,
    QuickHandoff,
    compose,
)
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.open_items import OpenItems, open_items
from sortie.peers.worklog.parse import parse

from .logs import AT


def left_by(*recorded: tuple[str, AnyRecordable]) -> OpenItems:
    texts = (compose(what, actor=who, at=AT + n) for n, (who, what) in enumerate(recorded))
    return open_items(events_of(parse("\n".join(texts).encode())))


def handoff(task: str, to: str = "Bob") -> tuple[str, Handoff]:
    return "Alice", Handoff(task=task, next_owner=to)


def tasks(left: OpenItems) -> list[str]:
    return [one.subject for one in left.handoffs]


def test_a_handoff_is_open_until_its_next_owner_works_on_it():
    two = (handoff("parser"), handoff("lexer"))
    assert tasks(left_by(*two)) == ["parser", "lexer"]
    assert tasks(left_by(*two, ("bob", Claim(task="Lexer")))) == ["parser"]
    assert tasks(left_by(*two, ("Bob", Claim(task="something")))) == ["lexer"]
    assert tasks(left_by(*two, ("Carol", Claim(task="lexer")))) == ["parser", "lexer"]
    passed_on = ("Bob", Handoff(task="lexer", next_owner="Alice"))
    assert tasks(left_by(*two, passed_on)) == ["parser", "lexer"]
    assert tasks(left_by(*two, ("Bob", Completion(task="lexer")), ("Bob", Claim(task="parser")))) == []
    assert tasks(left_by(*two, ("Bob", Claim(task="lexer")), ("Bob", Completion(task="lexer")))) == ["parser"]
    assert tasks(left_by(*two, ("Bob", Claim(task="my own")), ("Bob", Completion(task="my own")))) == ["lexer"]
    quick = ("Alice", QuickHandoff(what="wired", next_owner="Bob", next_task="review"))
    assert tasks(left_by(*two, quick, ("Bob", Claim(task="review")))) == ["parser", "lexer"]


def test_a_proposal_and_its_objections_are_open_until_a_decision_names_one_of_them():
    proposal = ("Bob", Proposal(id="PROP-001", title="Use TOML", proposal="for all"))
    other = ("Bob", Proposal(id="PROP-002", title="Tabs", proposal="instead of PROP-001"))
    amended = ("Bob", Amendment(id="PROP-001", title="Use TOML", change="some"))
    objection = (
        "Alice",
        Objection(about="PROP-001 Use TOML", recommended_by="Bob", recommended="TOML", counter="YAML"),
    )
    left = left_by(proposal, other, amended, objection)
    assert [one.payload["id"] for one in left.proposals] == ["PROP-001", "PROP-002"]
    assert len(left.objections) == 1
    for title, decision in (("Use TOML", "yes"), ("Formats", "PROP-001 it is"), ("Formats", "use toml")):
        decided = ("Maintainer", Decision(title=title, decision=decision, mode="maintainer adjudication"))
        left = left_by(proposal, other, amended, objection, decided)
        assert [one.payload["id"] for one in left.proposals] == ["PROP-002"]
        assert left.objections == ()
    away = ("Maintainer", Decision(title="Lunch", decision="at noon", mode="maintainer adjudication"))
    assert len(left_by(proposal, objection, away).objections) == 1


def test_a_decision_ends_what_it_says_it_is_about():
    """LOG-02: by an id of any kind, whatever its title and however many others its text names."""
    proposal = ("Bob", Proposal(id="FORMAT-1", title="Use TOML", proposal="for all"))
    objection = ("Alice", Objection(about="spaces", recommended_by="Bob", recommended="two", counter="four"))
    (left,) = left_by(objection).objections
    many = " ".join(f"PROP-{number:03}" for number in range(200))
    for about in (("FORMAT-1",), (left.event_id,), ("FORMAT-1", left.event_id)):
        what = Decision(title="Formats", decision=many, mode="maintainer adjudication", about=about)
        after = left_by(objection, proposal, ("Maintainer", what))
        assert (after.proposals == (), after.objections == ()) == ("FORMAT-1" in about, left.event_id in about)


@pytest.mark.timeout(30)
def test_tens_of_thousands_of_open_handoffs_are_counted_in_little_time():
    text = "".join(f"\n14:{n % 60:02} — Alice: step {n} (1 pass). Next: Bob work {n}.\n" for n in range(20_000))
    taken = "".join(f"\n### 2026-11-17T11:00:00Z — Bob: Claimed: other {n}\n" for n in range(19_000))
    assert len(open_items(events_of(parse((text + taken).encode()))).handoffs) == 1_000
