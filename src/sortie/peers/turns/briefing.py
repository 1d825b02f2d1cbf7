"""What a turn is told, gathered: the charter in force, news of the log, the mail, and whose turn was interrupted.

Who wrote an entry or a message is taken from the journals. A text that is not the one that was written then is
nobody's: what anybody can change is not believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ...errors import SortieError
from ...protocol.foreign_text import parse_time
from ..charter.charter import Charter
from ..journal import Record
from ..mailbox.mailbox_file import MailboxFile
from ..mailbox.message import Message, is_for, is_open, is_unread, order
from ..place import Place
from ..roster import Roster, fold
from ..turn_register import INTERRUPTED, Turn
from ..worklog.cursor import Cursor
from ..worklog.event import Event
from ..worklog.log import Worklog
from ..worklog.worklog_file import WorklogFile
from .adopt_mail import sent_by, true_sender
from .changes import changes_between
from .outcome import HEARD
from .prompt import Briefing, Interrupted, Lanes, Quote, TurnKind
from .snapshot import recall

_MOST_QUOTED = 500
_MOST_INTERRUPTED = 3
_GOVERNANCE = 4_000


class Heard(Struct, frozen=True, kw_only=True):
    """`since` is where the agent had read the log to, `cursor` where it has read to with this turn. `earlier` is
    how many entries there are before those that are quoted: of very many nobody quotes all."""

    quotes: tuple[Quote, ...]
    earlier: int
    since: str
    cursor: str


def last_heard(turns: Sequence[Turn], agent: str) -> Turn | None:
    """The last turn of an agent that certainly heard what it was told: one that was cut short hears it again."""
    own = (turn for turn in reversed(turns) if fold(turn.agent) == fold(agent))
    return next((turn for turn in own if turn.outcome in HEARD), None)


def news_for(worklog: WorklogFile, turns: Sequence[Turn], agent: str) -> Heard:
    """Each entry once, the oldest first."""
    heard = last_heard(turns, agent)
    since = heard.cursor if heard else ""
    events, cursor = worklog.since(_decoded(since))
    first_of = dict[str, Event]()
    for event in events:
        first_of.setdefault(event.entry_id, event)
    last = [*first_of.values()][-_MOST_QUOTED:]
    quotes = tuple(_quotes(last, worklog.read(), worklog.written_by())) if last else ()
    return Heard(quotes=quotes, earlier=len(first_of) - len(last), since=since, cursor=cursor.encode())


def _decoded(text: str) -> Cursor | None:
    try:
        return Cursor.decode(text) if text else None
    except SortieError:
        return None  # of a version that kept it otherwise: then all of it is told


def _quotes(events: Sequence[Event], log: Worklog, written: Mapping[str, Record]) -> Iterator[Quote]:
    wanted = {event.entry_id for event in events}
    entries = {entry_id: entry for entry in log.entries if (entry_id := entry.entry_id) in wanted}
    rows = {row.row_id: log.data[row.start : row.end].decode("utf-8", "replace") for row in log.index}
    for event in events:
        entry_id = event.entry_id
        entry, record = entries.get(entry_id), written.get(entry_id)
        text = entry.text if entry else rows.get(entry_id, event.subject)
        is_same = record is not None and (entry is None or entry.digest == record.digest)
        by_us = is_same and record is not None and record.role == "orchestrator"
        yield Quote(
            text=text,
            author="" if not is_same or record is None else event.actor if by_us else record.author,
            by_us=by_us,
            at=parse_time(event.timestamp),
        )


# -- mail -----------------------------------------------------------------------------------------------------


def mail_for(mailbox: MailboxFile, agent: str) -> tuple[Quote, ...]:
    """What is open and for this agent."""
    sent = sent_by(mailbox)
    return tuple(
        Quote(
            text=mail_text(message),
            author=true_sender(message, sent.get(message.id)),
            at=parse_time(message.date),
        )
        for message in in_reading_order(mailbox.read().messages, agent)
    )


def in_reading_order(messages: Sequence[Message], agent: str) -> list[Message]:
    """What is open and for this agent: unread before answered, urgent before the rest, the oldest first."""
    own = sorted((one for one in messages if is_open(one) and is_for(one, agent)), key=order)
    return sorted(own, key=lambda one: (not is_unread(one, agent), one.priority != "P0"))


def mail_text(message: Message) -> str:
    about = [
        f"{message.id}, {message.priority} {message.type}, {message.status}",
        f"From: {message.sender}",
        f"To: {', '.join(message.recipients)}",
        f"Subject: {message.subject}",
        *((f"Related: {message.related}",) if message.related not in ("", "none") else ()),
        *((f"Needed by: {message.response_needed_by}",) if message.response_needed_by not in ("", "none") else ()),
    ]
    # Whoever has the card can write below it.
    answers = [f"An answer, said to be of {ack.actor or 'somebody'}: {ack.text}" for ack in message.acks]
    return "\n".join([*about, "", message.body, *([""] if answers else []), *answers]).rstrip()


# -- the charter, and who was interrupted -----------------------------------------------------------------------


def lanes_for(charter: Charter, agent: str) -> Lanes:
    mine = [lane for lane in charter.lanes if lane.is_shared or fold(lane.owner) == fold(agent)]
    others = [lane for lane in charter.lanes if lane not in mine]
    return Lanes(
        own=tuple(glob for lane in mine for glob in lane.globs),
        others=tuple((lane.owner, ", ".join(lane.globs)) for lane in others),
    )


def charter_text(charter: Charter) -> str:
    lines = [f"Session: {charter.session_id}"] if charter.session_id else []
    lines += [f"{label}: {value}" for label, value in charter.governance.items()]
    lines += [f"Gate: {gate}" for gate in charter.gates]
    lines += [f"Conflicts: {step}" for step in charter.escalation]
    rules = "\n".join(lines)[:_GOVERNANCE]
    criteria = [f"- [{'x' if one.done else ' '}] {one.text}" for one in charter.criteria]
    return "\n".join([rules, *(["Acceptance criteria:", *criteria] if criteria else [])]).strip()


def interrupted_before(place: Place, turns: Sequence[Turn], agent: str) -> tuple[Interrupted, ...]:
    """Turns of anybody that were cut short since this agent last heard anything; of many, the last."""
    last = last_heard(turns, agent)
    after = last.number if last else 0
    found = [turn for turn in turns if turn.outcome == INTERRUPTED and turn.number > after and turn.run_id]
    return tuple(
        Interrupted(
            number=turn.number,
            agent=turn.agent,
            task=turn.task or turn.kind,
            began=turn.began,
            files=changed_by(place, turn),
        )
        for turn in found[-_MOST_INTERRUPTED:]
    )


def changed_by(place: Place, turn: Turn) -> tuple[str, ...]:
    """The files that an earlier turn changed, as far as its snapshots are still there."""
    try:
        before, after = recall(place, turn.number, "before"), recall(place, turn.number, "after")
        if before is None or after is None:
            return ()
        return tuple(file.path for file in changes_between(before, after).files)
    except SortieError:
        return ()


def brief(
    place: Place,
    turns: Sequence[Turn],
    *,
    agent: str,
    roster: Roster,
    charter: Charter,
    kind: TurnKind,
    task: str,
) -> tuple[Briefing, Heard]:
    """All but the number of the turn, which it has not before it begins."""
    heard = news_for(WorklogFile(place.worklog, session_id=charter.session_id), turns, agent)
    mail = mail_for(MailboxFile(place, roster=roster), agent) if place.mailbox.exists() else ()
    briefing = Briefing(
        agent=agent,
        maintainer=roster.maintainer,
        number=0,
        kind=kind,
        task=task,
        charter=charter_text(charter),
        lanes=lanes_for(charter, agent),
        news=heard.quotes,
        news_before=heard.earlier,
        mail=mail,
        interrupted=interrupted_before(place, turns, agent),
    )
    return briefing, heard
