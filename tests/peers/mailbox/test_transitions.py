"""Which moves are legal and whose they are: the whole table, and the sentences of refusals."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace

from sortie.errors import SortieError
from sortie.peers.author import AuthorityError
from sortie.peers.mailbox.message import STATUSES, Ack, Message, state_of
from sortie.peers.mailbox.transitions import check_move, is_there_already, status_after

from .samples import ALICE, BOB, CAROL, MAINTAINER, PEOPLE

REQUEST = Message(id="MSG-20261118-001", sender="alice", recipients=("BOB",), closure_owner="sender")
LEGAL = {
    *{("new", "acknowledged"), ("new", "actioned"), ("acknowledged", "actioned"), ("acknowledged", "blocked")},
    *{("blocked", "acknowledged"), ("blocked", "actioned")},
}


def refusal(message, to, actor, disposition=""):
    with pytest.raises(SortieError) as caught:
        check_move(message, to, actor, PEOPLE, disposition)
    return caught.value


@pytest.mark.parametrize(("before", "to"), [*product(STATUSES, STATUSES)])
def test_every_move_of_a_receiver(before, to):
    """LOG-10: new → acknowledged → actioned → closed, with blocked beside; all other moves are refused."""
    message = replace(REQUEST, status=before)
    if to != "closed" and (before, to) in LEGAL:
        check_move(message, to, BOB, PEOPLE)
    else:
        error = refusal(message, to, BOB, "resolved")
        assert error.fix


@pytest.mark.parametrize("before", [status for status in STATUSES if status != "closed"])
def test_every_open_message_can_be_closed_by_its_sender_and_by_the_maintainer(before):
    """LOG-10"""
    message = replace(REQUEST, status=before)
    check_move(message, "closed", ALICE, PEOPLE, "resolved")
    check_move(message, "closed", MAINTAINER, PEOPLE, "superseded")
    error = refusal(message, "closed", BOB, "resolved")
    assert isinstance(error, AuthorityError)
    assert str(error) == (
        "Only alice or Maintainer may close MSG-20261118-001 as resolved, and this is Bob. "
        "Ask alice, in an answer or a new message."
    )


def test_nothing_leaves_closed():
    """LOG-10: what comes up again is a new message."""
    for to, actor in (("acknowledged", BOB), ("closed", MAINTAINER), ("actioned", BOB)):
        error = refusal(replace(REQUEST, status="closed"), to, actor, "resolved")
        assert "is closed, and nothing leaves that. Send a new message" in str(error)


def test_refusals_say_what_is_legal_and_who_may():
    """LOG-10"""
    assert str(refusal(REQUEST, "blocked", BOB)) == (
        "MSG-20261118-001 is new and cannot be blocked. "
        "It can be acknowledged or actioned by BOB, or closed by alice or Maintainer."
    )
    assert str(refusal(REQUEST, "acknowledged", CAROL)) == (
        "Only a receiver may acknowledge MSG-20261118-001, which is for BOB. "
        "It can be acknowledged or actioned by BOB, or closed by alice or Maintainer."
    )
    assert isinstance(refusal(REQUEST, "acknowledged", ALICE), AuthorityError)
    assert isinstance(refusal(REQUEST, "acknowledged", MAINTAINER), AuthorityError)
    assert refusal(replace(REQUEST, status="actioned"), "acknowledged", BOB).fix == (
        "It can only be closed, by alice or Maintainer."
    )


def test_dispositions_and_who_they_belong_to():
    """LOG-10: terminal are resolved, superseded, withdrawn, abandoned; and no others."""
    check_move(REQUEST, "closed", ALICE, PEOPLE, "withdrawn")
    assert isinstance(refusal(REQUEST, "closed", MAINTAINER, "withdrawn"), AuthorityError)
    check_move(REQUEST, "closed", MAINTAINER, PEOPLE, "abandoned")
    assert isinstance(refusal(REQUEST, "closed", ALICE, "abandoned"), AuthorityError)
    assert str(refusal(REQUEST, "closed", ALICE, "resolvd")).startswith(
        'A message is not closed as "resolvd"; did you mean "resolved"?'
    )


def test_the_closure_owner_closes_and_the_maintainer_always_may():
    """LOG-10"""
    owned = replace(REQUEST, closure_owner="Carol")
    check_move(owned, "closed", CAROL, PEOPLE, "resolved")
    check_move(owned, "closed", MAINTAINER, PEOPLE, "resolved")
    assert isinstance(refusal(owned, "closed", ALICE, "resolved"), AuthorityError)
    check_move(owned, "closed", ALICE, PEOPLE, "withdrawn")
    for_maintainer = replace(REQUEST, closure_owner="maintainer")
    assert isinstance(refusal(for_maintainer, "closed", ALICE, "resolved"), AuthorityError)
    check_move(for_maintainer, "closed", MAINTAINER, PEOPLE, "resolved")
    check_move(replace(REQUEST, type="notify", closure_owner="none"), "closed", CAROL, PEOPLE, "resolved")


def test_an_agent_that_calls_itself_maintainer_is_none():
    """LOG-10: who acts is decided by who runs."""
    false = replace(ALICE, name="Maintainer")
    assert isinstance(refusal(REQUEST, "closed", false, "resolved"), AuthorityError)
    assert isinstance(refusal(REQUEST, "closed", false, "abandoned"), AuthorityError)


def test_a_message_to_several_is_as_far_as_the_last_of_them():
    """LOG-10: one receiver answers for itself, not for the others."""
    message = replace(REQUEST, recipients=("Bob", "Carol"))
    assert status_after(message, "acknowledged", BOB, PEOPLE) == "new"
    message = replace(message, acks=(Ack(actor="Bob", date="2026-11-18", text="acknowledged"),))
    assert [state_of(message, name) for name in ("bob", "carol")] == ["acknowledged", "new"]
    assert is_there_already(message, "acknowledged", BOB)
    assert not is_there_already(message, "acknowledged", CAROL)
    assert status_after(message, "actioned", BOB, PEOPLE) == "new"
    assert status_after(message, "actioned", CAROL, PEOPLE) == "acknowledged"
    check_move(message, "blocked", BOB, PEOPLE)
    assert "cannot be blocked" in str(refusal(message, "blocked", CAROL))
    assert status_after(message, "closed", ALICE, PEOPLE) == "closed"


def test_a_message_to_all_waits_for_every_agent_but_its_sender():
    message = replace(REQUEST, sender="Alice", recipients=("all",))
    assert isinstance(refusal(message, "acknowledged", ALICE), AuthorityError)
    assert status_after(message, "actioned", BOB, PEOPLE) == "new"
    message = replace(message, acks=(Ack(actor="Carol", text="actioned: done"),))
    assert status_after(message, "acknowledged", BOB, PEOPLE) == "acknowledged"
    assert status_after(message, "actioned", BOB, PEOPLE) == "actioned"
    blocked = replace(message, acks=(Ack(actor="Carol", text="blocked: on x"),))
    assert status_after(blocked, "actioned", BOB, PEOPLE) == "blocked"
    assert state_of(replace(blocked, status="blocked"), "Bob") == "blocked"
