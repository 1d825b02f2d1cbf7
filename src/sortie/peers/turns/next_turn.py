"""Whose turn it is, and why: a pure function of what the documents and the register of turns say.

The maintainer decides; this only proposes. What waits for an agent is what was said to it, or about it, after its
last turn began: mail that is urgent or late, work handed over, an opinion that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...protocol.foreign_text import parse_time, time_text
from ..journal import Record
from ..mailbox.deadlines import Overdue
from ..mailbox.message import Message, is_unread, order
from ..roster import Roster, fold
from ..turn_register import INTERRUPTED, Turn
from ..worklog.event import Event
from ..worklog.heading import names_in
from ..worklog.open_items import open_items
from .prompt import TurnKind

Reason = Literal["urgent mail", "overdue mail", "handoff", "open question", "interrupted", "longest wait"]


class Proposed(Struct, frozen=True, kw_only=True):
    """A turn that could be next. `subject` names what it is about, such as a message or an entry."""

    agent: str
    kind: TurnKind
    reason: Reason
    sentence: str
    subject: str = ""
    since: float = 0.0


_RANKS: tuple[Reason, ...] = (
    "urgent mail",
    "overdue mail",
    "handoff",
    "open question",
    "interrupted",
    "longest wait",
)


def propose(
    roster: Roster,
    turns: Sequence[Turn],
    events: Sequence[Event],
    messages: Sequence[Message],
    overdue: Iterable[Overdue],
    written_by: Mapping[str, Record] | None = None,
) -> list[Proposed]:
    """The most pressing turn of each agent, the most pressing of all first; those that wait longest before others.

    `events` are those of the whole work log in their order, `overdue` is what the mailbox says of its `messages`.
    `written_by` is who wrote each entry and when, as far as that is on record, whatever the entry says.
    """
    events = [_as_recorded(event, (written_by or {}).get(event.entry_id)) for event in events]
    late, is_open = [*overdue], open_items(events)
    questions = [*is_open.objections, *is_open.proposals]
    found = []
    for agent in roster.agents:
        own = [turn for turn in turns if fold(turn.agent) == fold(agent)]
        reasons = [
            *_mail(agent, messages, late),
            *_handed(agent, own, events),
            *_asked(agent, own, questions),
            *_interrupted(agent, own, turns),
            _waiting(agent, own),
        ]
        found.append(min(reasons, key=_rank))
    return sorted(found, key=_rank)


def _rank(proposed: Proposed) -> tuple[int, float]:
    return _RANKS.index(proposed.reason), proposed.since


def _mail(agent: str, messages: Sequence[Message], overdue: Sequence[Overdue]) -> Iterator[Proposed]:
    """One for the oldest of each kind."""
    unread = sorted((one for one in messages if is_unread(one, agent)), key=order)
    urgent = [one for one in unread if one.priority == "P0"]
    for message in urgent[:1]:
        more = f" and {len(urgent) - 1} more" if len(urgent) > 1 else ""
        yield Proposed(
            agent=agent,
            kind="mailbox",
            reason="urgent mail",
            sentence=f"{agent} has not answered {message.id}, which is P0{more}.",
            subject=message.id,
            since=_moment(message.date),
        )
    late = sorted((one for one in overdue if _is_late(one, agent)), key=lambda one: order(one.message))
    for one in late[:1]:
        more = f", and {len(late) - 1} more are late" if len(late) > 1 else ""
        yield Proposed(
            agent=agent,
            kind="mailbox",
            reason="overdue mail",
            sentence=f"{agent} {one.window} of {one.message.id}{more}.",
            subject=one.message.id,
            since=_moment(one.message.date),
        )


def _handed(agent: str, own: Sequence[Turn], events: Sequence[Event]) -> Iterator[Proposed]:
    """The last handoff to it that no turn of its own has begun after."""
    for event in reversed(events):
        is_own = fold(event.actor) == fold(agent)
        if event.event_type == "handoff.posted" and not is_own and _names(event, "next_owner", agent):
            if not _has_begun_after(own, event):
                handed = f"{event.actor or 'Somebody'} handed “{event.subject}” over to {agent}"
                yield Proposed(
                    agent=agent,
                    kind="work",
                    reason="handoff",
                    sentence=f"{handed}, who has had no turn since.",
                    subject=event.entry_id,
                    since=_moment(event.timestamp),
                )
            return


def _asked(agent: str, own: Sequence[Turn], questions: Sequence[Event]) -> Iterator[Proposed]:
    """The oldest proposal or objection of somebody else that it could not answer yet."""
    for event in questions:
        is_objection, to = event.event_type == "objection.raised", _text(event, "recommended_by")
        is_for_others = is_objection and bool(to) and not _names(event, "recommended_by", agent)
        if is_for_others or fold(event.actor) == fold(agent) or _has_begun_after(own, event):
            continue
        what = f"The {'objection' if is_objection else 'proposal'} “{event.subject}” of {event.actor or 'somebody'}"
        yield Proposed(
            agent=agent,
            kind="review",
            reason="open question",
            sentence=f"{what} waits for the opinion of {agent}.",
            subject=event.entry_id,
            since=_moment(event.timestamp),
        )
        return


def _interrupted(agent: str, own: Sequence[Turn], turns: Sequence[Turn]) -> Iterator[Proposed]:
    if own and own[-1].outcome == INTERRUPTED:
        last = own[-1]
        after = sum(turn.number > last.number for turn in turns)
        later = f", {after} turn{'' if after == 1 else 's'} ago" if after else ""
        yield Proposed(
            agent=agent,
            kind="work",
            reason="interrupted",
            sentence=f"The last turn of {agent} was interrupted{later}.",
            subject=f"turn {last.number}",
            since=last.began,
        )


def _waiting(agent: str, own: Sequence[Turn]) -> Proposed:
    if not own:
        return Proposed(
            agent=agent, kind="work", reason="longest wait", sentence=f"{agent} has not had a turn yet.", since=0.0
        )
    began = own[-1].began
    sentence = f"It is longest since {agent} had a turn, which began at {time_text(began)}."
    return Proposed(agent=agent, kind="work", reason="longest wait", sentence=sentence, since=began)


def _as_recorded(event: Event, record: Record | None) -> Event:
    if record is None:
        return event
    at = parse_time(event.timestamp)
    return replace(
        event,
        actor=event.actor if record.role == "orchestrator" else record.author,
        timestamp=event.timestamp if at is not None and at <= record.at else time_text(record.at),
    )


def _is_late(one: Overdue, agent: str) -> bool:
    return any(fold(name) == fold(agent) for name in one.late)


def _has_begun_after(own: Sequence[Turn], event: Event) -> bool:
    """One that does not say when it was written counts as answered by any turn."""
    at = parse_time(event.timestamp)
    return any(at is None or turn.began >= at for turn in own if turn.outcome != INTERRUPTED)


def _names(event: Event, key: str, agent: str) -> bool:
    return any(fold(name) == fold(agent) for name in names_in(_text(event, key)))


def _text(event: Event, key: str) -> str:
    value = event.payload.get(key, "")
    return value if isinstance(value, str) else ""


def _moment(text: str) -> float:
    return parse_time(text) or 0.0
