"""Until when a message wants to be answered, and which are overdue: by turns of its receivers, and by the clock.

A window is counted in turns, because agents sleep between them: a P0 message is overdue when its receiver has ended
a turn that began after it was sent and has not answered it; a P1 message after two. Only a moment that the sender
named is measured by the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from ...protocol.foreign_text import parse_time, time_text
from .message import NONE, Message, is_open, receivers, sent_at, state_of

# Ended turns of a receiver after which a message that is still new is overdue.
WINDOWS = {"P0": 1, "P1": 2}
PHRASES = {
    "this session": 1,
    "this turn": 1,
    "next turn": 1,
    "next session turn": 1,
    "next session": 2,
}

TurnsOf = Callable[[str, float], int]


class Overdue(Struct, frozen=True, kw_only=True):
    """`late` are the receivers who let it pass; `window` is what they did not keep, as the end of a sentence."""

    message: Message
    late: tuple[str, ...]
    window: str


def overdue(
    messages: Iterable[Message],
    now: float,
    turns_of: TurnsOf,
    agents: Sequence[str] = (),
    sent: Mapping[str, float] | None = None,
) -> list[Overdue]:
    """In the order of the messages. `agents` says who all are, for messages to all; `sent` when each was, as far as
    that is on record: a card has no parts of a second, and says what its writer wants."""
    found = []
    for message in messages:
        if not is_open(message) or message.type == "notify":
            continue
        since = (sent or {}).get(message.id, sent_at(message))
        late = [name for name in receivers(message, agents) if _is_late(message, name, now, turns_of, since)]
        if late:
            found.append(Overdue(message=message, late=tuple(late), window=_window(message, now)))
    return found


def moment_in(text: str) -> float | None:
    """The moment that `Response needed by` names; a day without a time lasts to its end."""
    text = text.strip("`* ")
    exact = parse_time(text)
    return exact if exact is not None else parse_time(f"{text[:10]}T23:59:59Z") if len(text) == 10 else None


def turns_allowed(message: Message) -> int | None:
    """The stricter of its priority and of what the sender asks for; None where no turn makes it overdue."""
    asked = PHRASES.get(" ".join(message.response_needed_by.casefold().split()))
    windows = [window for window in (WINDOWS.get(message.priority), asked) if window]
    return min(windows, default=None)


def most_pressing(messages: Iterable[Message]) -> str:
    """The earliest of what these messages want, as a cell of the snapshot."""
    wanted = [said for message in messages if (said := message.response_needed_by) not in ("", NONE)]
    wanted = [said for said in wanted if said.casefold() != NONE]
    moments = [moment for said in wanted if (moment := moment_in(said)) is not None]
    if moments:
        return time_text(min(moments))
    return min(wanted, key=lambda said: PHRASES.get(said.casefold(), 9), default=NONE)


def _is_late(message: Message, name: str, now: float, turns_of: TurnsOf, sent: float | None) -> bool:
    state = state_of(message, name)
    moment = moment_in(message.response_needed_by)
    # To acknowledge is not to answer: whoever asked for an answer by then still waits.
    if moment is not None and moment < now and state in ("new", "acknowledged"):
        return True
    allowed = turns_allowed(message)
    return state == "new" and allowed is not None and sent is not None and turns_of(name, sent) >= allowed


def _window(message: Message, now: float) -> str:
    moment = moment_in(message.response_needed_by)
    if moment is not None and moment < now:
        return f"did not respond by {time_text(moment)}"
    tier = message.priority if message.priority in WINDOWS else message.response_needed_by
    return f"did not ack within {tier} window"
