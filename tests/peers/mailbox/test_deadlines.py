"""When a message is overdue: by turns of its receivers, by a moment that its sender named, and never otherwise."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sortie.peers.mailbox.deadlines import moment_in, most_pressing, overdue, turns_allowed
from sortie.peers.mailbox.message import Ack, Message, sent_at

from .samples import NOW

P0 = Message(id="MSG-20261118-001", sender="Alice", recipients=("Bob",), priority="P0", date="2026-11-18T11:00:00Z")
SENT = 1_794_999_600.0


def late(message: Message, turns: int | dict[str, int] = 0, now: float = NOW) -> list[tuple[tuple[str, ...], str]]:
    def turns_of(name: str, since: float) -> int:
        assert since == sent_at(message)
        return turns if isinstance(turns, int) else turns.get(name, 0)

    return [(one.late, one.window) for one in overdue([message], now, turns_of, ("Alice", "Bob", "Carol"))]


@pytest.mark.parametrize(("priority", "turns"), [("P0", 1), ("P1", 2), ("P2", None)])
def test_windows_by_priority(priority, turns):
    """LOG-12: P0 is overdue after one turn that its receiver ended without an answer, P1 after two, P2 never."""
    message = replace(P0, priority=priority)
    assert turns_allowed(message) == turns
    assert late(message, (turns or 1000) - 1) == []
    if turns:
        assert late(message, turns) == [(("Bob",), f"did not ack within {priority} window")]


@pytest.mark.parametrize("status", ["acknowledged", "blocked", "actioned", "closed"])
def test_an_answer_ends_the_window(status):
    """LOG-12"""
    assert late(replace(P0, status=status), 9) == []


def test_a_notice_is_never_overdue():
    """LOG-12"""
    assert late(replace(P0, type="notify", response_needed_by="2026-11-18T11:00:01Z"), 9) == []


def test_a_moment_that_is_over():
    """LOG-12: whatever the priority. To acknowledge is no answer to who asked for one; blocked waits for others."""
    message = replace(P0, priority="P2", response_needed_by="2026-11-18T11:05:00Z")
    assert late(message) == [(("Bob",), "did not respond by 2026-11-18T11:05:00Z")]
    assert late(message, now=SENT) == []
    assert late(replace(message, status="acknowledged"))
    assert late(replace(message, status="blocked")) == []
    assert late(replace(message, status="actioned")) == []
    day = replace(message, response_needed_by="2026-11-18")
    assert late(day) == []
    assert late(day, now=NOW + 86_400) == [(("Bob",), "did not respond by 2026-11-18T23:59:59Z")]


def test_the_stricter_of_priority_and_words():
    """LOG-12"""
    assert turns_allowed(replace(P0, priority="P1", response_needed_by="This session")) == 1
    assert turns_allowed(replace(P0, priority="P0", response_needed_by="next session")) == 1
    assert turns_allowed(replace(P0, priority="P2", response_needed_by="next session")) == 2
    message = replace(P0, priority="P2", response_needed_by="next session")
    assert late(message, 2) == [(("Bob",), "did not ack within next session window")]


def test_each_of_several_receivers_has_a_window_of_its_own():
    """LOG-12"""
    message = replace(P0, recipients=("all",))
    assert late(message, {"Bob": 1}) == [(("Bob",), "did not ack within P0 window")]
    answered = replace(message, acks=(Ack(actor="Bob", date="2026-11-18", text="acknowledged"),))
    assert late(answered, {"Bob": 1}) == []
    assert late(answered, {"Bob": 1, "Carol": 3, "Alice": 5})[0][0] == ("Carol",)


def test_a_day_without_a_time_counts_from_its_end():
    assert sent_at(replace(P0, date="2026-11-18")) == sent_at(replace(P0, date="")) == SENT + 46_799
    assert sent_at(Message(id="x", date="soon")) is None
    assert overdue([Message(id="x", priority="P0", recipients=("B",))], NOW, lambda *_: 9) == []


@pytest.mark.parametrize(
    "text", ["", "none", "soon", "2026-13-45", "2026-11-18T99:00:00Z", "0" * 10, "x" * 100_000]
)
def test_what_is_no_moment_is_none(text):
    assert moment_in(text) is None


def test_the_snapshot_shows_what_presses_most():
    wanted = ["next session", "none", "", "this session"]
    messages = [replace(P0, response_needed_by=text) for text in wanted]
    assert most_pressing(messages) == "this session"
    assert (
        most_pressing([*messages, replace(P0, response_needed_by="2026-12-01T10:00:00Z")]) == "2026-12-01T10:00:00Z"
    )
    assert most_pressing([]) == "none"
