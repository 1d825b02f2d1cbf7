"""Agents that share a checkout: their work log, their mail as a board, and whose turn it is."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from ..core.redact import Hide
from ..errors import SortieError
from ..peers.journal import Record
from ..peers.mailbox.deadlines import Overdue
from ..peers.mailbox.mailbox_file import MailboxFile
from ..peers.mailbox.message import STATUSES, Message, Status, folded, is_open, unread_by
from ..peers.place import Place, find_place
from ..peers.roster import roster_of
from ..peers.turn_register import Turn, TurnRegister, is_led
from ..peers.turns.next_turn import Proposed, propose
from ..peers.worklog.entry import Entry
from ..peers.worklog.event import Event
from ..peers.worklog.events import events_of
from ..peers.worklog.log import Worklog
from ..peers.worklog.open_items import open_items
from ..peers.worklog.worklog_file import WorklogFile

PAGE = 50
MOST_CARDS = 50
LONGEST_TEXT = 16 * 1024
MOST_TURNS = 50


class LogEntry(Struct, frozen=True, kw_only=True):
    entry_id: str
    time: str
    actor: str
    title: str
    body: str
    is_cut: bool


class OpenItem(Struct, frozen=True, kw_only=True):
    kind: str
    id: str
    actor: str
    subject: str


class MailCard(Struct, frozen=True, kw_only=True):
    id: str
    date: str
    sender: str
    recipients: tuple[str, ...]
    type: str
    priority: str
    needed_by: str
    status: Status
    disposition: str
    subject: str
    body: str
    answers: list[str]
    is_late: bool
    is_cut: bool


class MailColumn(Struct, frozen=True, kw_only=True):
    """`cards` are the newest; `total` is how many there are."""

    status: Status
    total: int
    cards: list[MailCard]


class PeerTurn(Struct, frozen=True, kw_only=True):
    """`outcome` is `goes on` while it is led, and `cut short` where its orchestrator died."""

    number: int
    agent: str
    kind: str
    task: str
    run_id: str
    began: float
    ended: float | None
    outcome: str


class PeersReport(Struct, frozen=True, kw_only=True):
    """`entries` are a page of the work log, the newest first; `more` says that there are older ones. `problems`
    tell what cannot be read."""

    root: str
    agents: tuple[str, ...]
    maintainer: str
    now_working: dict[str, str]
    pinned: dict[str, str]
    entries: list[LogEntry]
    more: bool
    total_entries: int
    open_items: list[OpenItem]
    columns: list[MailColumn]
    unread: dict[str, int]
    open_turn: PeerTurn | None
    turns: list[PeerTurn]
    proposed: list[Proposed]
    problems: list[str]


def find_peers(start: Path) -> Place | None:
    """The checkout that `start` is in, where agents share one there: settings alone are no document of theirs."""
    try:
        place = find_place(start)
    except SortieError:
        return None
    return place if any(document.is_file() for document in (place.worklog, place.mailbox, place.charter)) else None


def peers_report(place: Place, *, hide: Hide, skip: int = 0, size: int = PAGE) -> PeersReport:
    """`skip` so many of the newest entries. What cannot be read counts as empty, and is told in `problems`."""
    known = _Known(place)
    log, messages, roster = known.log, known.messages, known.roster
    entries = log.entries if log else ()
    unread = unread_by(messages, roster.names)
    rows = [_turn(turn) for turn in known.turns[-MOST_TURNS:][::-1]]
    late = {one.message.id for one in known.late}
    return PeersReport(
        root=str(place.root),
        agents=roster.agents,
        maintainer=roster.maintainer,
        now_working={name: hide(line.text) for name, line in log.now_working().items()} if log else {},
        pinned={label: hide(text) for label, text in log.pinned().items()} if log else {},
        entries=[_entry(one, hide) for one in entries[::-1][skip : skip + size]],
        more=len(entries) > skip + size,
        total_entries=len(entries),
        open_items=_open_items(known.events, hide),
        columns=[_column(status, messages, late, hide) for status in STATUSES],
        unread={name: len(unread[folded(name)]) for name in roster.names},
        open_turn=next((row for row in rows if row.ended is None), None),
        turns=rows,
        proposed=[_hidden(one, hide) for one in known.proposed()],
        problems=[hide(problem) for problem in known.problems],
    )


def proposals(place: Place) -> list[Proposed]:
    """Whose turn it is, the most pressing first. What cannot be read counts as empty: the turn itself says what is
    wrong with it."""
    return _Known(place).proposed()


class _Known:
    """What the documents and the register say; each that cannot be read is empty, and one of the `problems`."""

    def __init__(self, place: Place) -> None:
        self.problems: list[str] = []
        self.roster = roster_of(place)
        self.log: Worklog | None = None
        self.events: list[Event] = []
        self.messages: list[Message] = []
        self.turns: list[Turn] = []
        self.late: list[Overdue] = []
        self._written_by: Mapping[str, Record] = {}
        for read in (self._read_turns, self._read_log, self._read_mail):
            try:
                read(place)
            except (SortieError, OSError) as error:
                self.problems.append(str(error))

    def proposed(self) -> list[Proposed]:
        return propose(self.roster, self.turns, self.events, self.messages, self.late, self._written_by)

    def _read_turns(self, place: Place) -> None:
        self.turns = TurnRegister(place).turns()

    def _read_log(self, place: Place) -> None:
        if os.path.lexists(place.worklog):
            found = place.worklog.stat()
            self.log, self.events = _told_in(place.worklog, found.st_ino, found.st_size, found.st_mtime_ns)
            self._written_by = WorklogFile(place.worklog).written_by()

    def _read_mail(self, place: Place) -> None:
        if os.path.lexists(place.mailbox):
            mailbox = MailboxFile(place, roster=self.roster)
            self.messages = [*mailbox.read().messages]
            if self.messages:
                self.late = mailbox.overdue(time.time(), TurnRegister(place).turns_of)


@lru_cache(maxsize=4)
def _told_in(path: Path, *_stamp: int) -> tuple[Worklog, list[Event]]:
    """A log grows for months, and a page looks at it again and again: it is understood once for each version."""
    log = WorklogFile(path).read()
    return log, events_of(log)


def _turn(turn: Turn) -> PeerTurn:
    return PeerTurn(
        number=turn.number,
        agent=turn.agent,
        kind=turn.kind,
        task=turn.task,
        run_id=turn.run_id,
        began=turn.began,
        ended=turn.ended,
        outcome=turn.outcome or ("goes on" if is_led(turn) else "cut short"),
    )


def _entry(entry: Entry, hide: Hide) -> LogEntry:
    body = hide(entry.body)
    return LogEntry(
        entry_id=entry.entry_id,
        time=entry.timestamp,
        actor=hide(entry.actor),
        title=hide(entry.title),
        body=body[:LONGEST_TEXT],
        is_cut=len(body) > LONGEST_TEXT,
    )


def _open_items(told: Sequence[Event], hide: Hide) -> list[OpenItem]:
    items = open_items(told)
    kinds = (("handoff", items.handoffs), ("proposal", items.proposals), ("objection", items.objections))
    return [
        OpenItem(
            kind=kind,
            id=str(event.payload.get("id") or event.event_id),
            actor=hide(event.actor),
            subject=hide(event.subject),
        )
        for kind, events in kinds
        for event in events
    ]


def _column(status: Status, messages: list[Message], late: set[str], hide: Hide) -> MailColumn:
    found = [one for one in messages if one.status == status]
    return MailColumn(
        status=status, total=len(found), cards=[_card(one, one.id in late, hide) for one in found[:MOST_CARDS]]
    )


def _card(message: Message, is_late: bool, hide: Hide) -> MailCard:
    body = hide(message.body)
    needed = message.response_needed_by
    return MailCard(
        id=message.id,
        date=message.date,
        sender=hide(message.sender),
        recipients=message.recipients,
        type=message.type,
        priority=message.priority,
        needed_by="" if needed.casefold() == "none" else hide(needed),
        status=message.status,
        disposition=message.disposition,
        subject=hide(message.subject),
        body=body[:LONGEST_TEXT],
        answers=[hide(f"{ack.actor}: {ack.text}")[:LONGEST_TEXT] for ack in message.acks],
        is_late=is_late and is_open(message),
        is_cut=len(body) > LONGEST_TEXT,
    )


def _hidden(one: Proposed, hide: Hide) -> Proposed:
    return Proposed(
        agent=one.agent,
        kind=one.kind,
        reason=one.reason,
        sentence=hide(one.sentence),
        subject=hide(one.subject),
        since=one.since,
    )
