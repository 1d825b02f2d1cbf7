"""WORKLOG.md on disk: what is recorded is in it once, in the name of who wrote it; and what is new since a cursor.

A plain entry is put at the end, at a cost that does not depend on the size of the file. What also changes a status
line or the decision index replaces the file in one step, so that nobody sees one without the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import msgspec
from msgspec import Struct

from ...errors import SortieError
from ..author import Author, AuthorityError
from ..document_file import DocumentFile
from ..journal import Record
from ..shared_document import PATIENCE, Held, SharedDocument
from . import head_edit
from .body import one_line
from .compose import (
    AnyRecordable,
    Claim,
    Completion,
    Decision,
    Handoff,
    Proposal,
    QuickHandoff,
    checked_name,
    compose,
    index_row,
)
from .cursor import Cursor, Step, step_in_tail, step_in_whole
from .entry import Session, digest, entry_id, trimmed
from .event import Event, entry_id_of
from .events import events_in, some_events
from .head import IDLE, INDEX_COLUMNS, INDEX_HEADING
from .heading import STRICT_FORM
from .log import Worklog
from .parse import Reading, parse

__all__ = ["Cursor", "Recorded", "WorklogFile"]

MOST_STATUS = 120
_WINDOW = 65_536
_STRICT_LINE = re.compile(rb"(?:^|\n)(?=" + STRICT_FORM + rb")")
_PROPOSAL = re.compile(rb"PROP-([0-9]{1,9})\b")


class Recorded(Struct, frozen=True, kw_only=True):
    """`repeated`: an entry with this key was written before, and nothing was written now. `proposal_id` is what a
    new proposal is called by others."""

    event_ids: tuple[str, ...]
    proposal_id: str = ""
    lost: tuple[Record, ...] = ()
    repeated: bool = False


class WorklogFile:
    def __init__(self, path: Path, *, session_id: str = "", patience: float = PATIENCE) -> None:
        self._document = SharedDocument(path, patience=patience)
        self._file = DocumentFile(self._document.path)
        self._session_id = session_id

    def create(self, agents: Sequence[str], maintainer: str, author: Author, at: float) -> None:
        text = template(agents, self._session_id or "1", datetime.fromtimestamp(at, UTC).date().isoformat())
        checked_name(maintainer)
        with self._document.held() as held:
            held.create(text.encode(), _record(author, at, subject="created"))

    def read(self) -> Worklog:
        return parse(self._document.read())

    def record(
        self,
        what: AnyRecordable,
        author: Author,
        *,
        at: float,
        key: str = "",
        actor: str = "",
        set_status: bool = True,
        tell_lost: bool = False,
    ) -> Recorded:
        """`actor` is whose entry it is, where the orchestrator writes for an agent. Without `set_status` only the
        entry is written: who works on many things at once has no status line. With `tell_lost` the caller tells
        people what the answer says to be lost; nobody is told of it a second time."""
        name = _actor(author, actor)
        if isinstance(what, Decision) and what.mode == "maintainer adjudication" and author.role != "maintainer":
            raise AuthorityError(
                f"{author.name} cannot record a decision of the maintainer.",
                fix="The maintainer records it with `sortie worklog decide`.",
            )
        with self._document.held() as held:
            if key and held.done(key):
                return Recorded(event_ids=self._ids_of(key), lost=held.lost if tell_lost else (), repeated=True)
            if isinstance(what, Proposal) and not what.id:
                what = msgspec.structs.replace(what, id=next_proposal(held.read()))
            text = compose(what, actor=name, at=at)
            event_ids = self._new_ids(text)
            record = _record(author, at, key=key, subject=" ".join(event_ids), text=text)
            self._write(held, what, name, at, text, record, _status_after(what) if set_status else "")
            proposal_id = what.id if isinstance(what, Proposal) else ""
            return Recorded(event_ids=event_ids, proposal_id=proposal_id, lost=held.lost if tell_lost else ())

    def set_status(self, agent: str, text: str, author: Author, at: float) -> None:
        name = checked_name(agent)
        if author.role == "agent" and name.casefold() != author.name.casefold():
            raise AuthorityError(
                f"{author.name} cannot change the status line of {name}.", fix="Each agent changes only its own."
            )
        status = one_line(text, MOST_STATUS) or IDLE
        with self._document.held() as held:
            held.rewrite(
                lambda data: head_edit.with_status(data, name, status),
                _record(author, at, subject=f"status of {name}: {status}"),
            )

    def since(self, cursor: Cursor | None) -> tuple[list[Event], Cursor]:
        """What was added after the cursor, and the next cursor. Asking again with the same one gives the same."""
        step = self._in_tail(cursor) if cursor is not None and cursor.count else None
        return step or step_in_whole(cursor, parse(self._settled()), self._session_id)

    def adopt(self, before: bytes, author: Author, at: float) -> tuple[Event, ...]:
        """Entries and rows that are in the file, were not there before, and that no record of ours explains: they
        are put on record as written by `author`."""
        with self._document.held() as held:
            log, old = parse(held.read()), parse(before)
            known = {one.entry_id for one in old.entries} | {one.row_id for one in old.index}
            known |= self.written_by().keys()
            entries = {one.entry_id: one for one in log.entries if one.entry_id not in known}
            rows = {one.row_id: one for one in log.index if one.row_id not in known}
            found = some_events(log, [*entries.values()], [*rows.values()], self._session_id)
            for name, told in groupby(found, key=lambda event: event.entry_id):
                span = entries.get(name) or rows[name]
                text = log.data[span.start : span.end].decode("utf-8", "replace")
                subject = " ".join(event.event_id for event in told)
                held.note(_record(author, at, subject=subject, text=trimmed(text)))
        return tuple(found)

    def written_by(self) -> Mapping[str, Record]:
        """Who wrote each entry, as far as we know, by its id."""
        found: dict[str, Record] = {}
        for record in self._document.records():
            for word in record.subject.split():
                if word.startswith(("wl-", "wd-")):
                    found.setdefault(entry_id_of(word), record)
        return found

    def _write(
        self, held: Held, what: AnyRecordable, name: str, at: float, text: str, record: Record, status: str
    ) -> None:
        row = index_row(what, actor=name, at=at) if isinstance(what, Decision) else ""
        if status and self._status_now(name) == status:
            status = ""

        def edit(data: bytes) -> bytes:
            if status:
                data = head_edit.with_status(data, name, status)
            if row:
                data = head_edit.with_row(data, row)
            return head_edit.with_entry(data, text)

        if status or row:
            held.rewrite(edit, record)
        else:
            held.append(f"\n{text}".encode(), record)

    def _status_now(self, agent: str) -> str | None:
        """From the beginning of the file only; where that does not say it, it is set once more."""
        beginning, _ = self._file.part(0, _WINDOW)
        return head_edit.status_of(beginning, agent)

    def _new_ids(self, text: str) -> tuple[str, ...]:
        """Of the events of an entry that is about to be written."""
        entry = parse(text.encode()).entries[0]
        told = events_in(entry, self._session_id, set())
        name = entry_id(entry.first_line, self._equal_before(entry.first_line) + 1)
        return tuple(name + event.event_id.removeprefix(entry.entry_id) for event in told)

    def _equal_before(self, line: bytes) -> int:
        """How many entries begin with this very line: they have the same time, so they are near the end."""
        window = _WINDOW
        while True:
            _, size = self._file.part(0, 0)
            data, _ = self._file.part(max(0, size - window), window)
            is_earlier = any(
                data[at : at + 24] < line[:24] for at in map(re.Match.end, _STRICT_LINE.finditer(data))
            )
            if is_earlier or window >= size:
                return equal_lines(data, line)
            window *= 4

    def _ids_of(self, key: str) -> tuple[str, ...]:
        found = (record.subject for record in self._document.records() if record.key == key)
        return tuple(next(found, "").split())

    def _in_tail(self, cursor: Cursor) -> Step | None:
        window = _WINDOW
        while True:
            beginning, size = self._file.part(0, window)
            top = Reading(beginning).head()
            if top.body_start < len(beginning):
                break
            if window >= size:
                return None
            window *= 4
        start = top.body_start + cursor.start
        if not top.body_start <= start < size:
            return None
        data, size = self._file.part(start, size - start)
        if start + len(data) < size or not data.endswith(b"\n"):
            return None
        tail = Reading(data, Session(label=cursor.label, date=cursor.date)).tail()
        return step_in_tail(cursor, top, tail, self._session_id)

    def _settled(self) -> bytes:
        """The content; where it ends within a line, somebody may be writing just now."""
        data = self._document.read()
        if data and not data.endswith(b"\n"):
            with suppress(SortieError), self._document.held() as held:
                data = held.read()
        return data


def template(agents: Sequence[str], session: str, date: str) -> str:
    lines = [f"Now Working ({checked_name(agent)}): {IDLE}" for agent in agents]
    return "\n".join(
        (
            "# WORKLOG",
            "",
            *lines,
            "Maintainer Focus: none",
            "Next Review Checkpoint: none",
            "",
            INDEX_HEADING,
            "",
            f"| {' | '.join(INDEX_COLUMNS)} |",
            "|---|---|---|---|",
            "",
            f"## Session {one_line(session, 80)} — {date}",
            "",
        )
    )


def next_proposal(data: bytes) -> str:
    highest = max((int(found[1]) for found in _PROPOSAL.finditer(data)), default=0)
    return f"PROP-{highest + 1:03}"


def equal_lines(data: bytes, line: bytes) -> int:
    """How many lines of the data are this one, apart from spaces at their end."""
    count, at = 0, data.find(line)
    while at >= 0:
        end = data.find(b"\n", at)
        is_same = not data[at + len(line) : len(data) if end < 0 else end].strip()
        count += is_same and (at == 0 or data[at - 1 : at] == b"\n")
        at = data.find(line, at + len(line))
    return count


def _actor(author: Author, actor: str) -> str:
    if actor and author.role == "agent" and actor.casefold() != author.name.casefold():
        raise AuthorityError(
            f"{author.name} cannot write as {actor}.", fix="Each agent writes only in its own name."
        )
    return checked_name(actor or author.name)


def _status_after(what: AnyRecordable) -> str:
    """What the status line of the agent says once this is recorded; empty where it stays as it is."""
    match what:
        case Claim():
            return one_line(what.task, MOST_STATUS)
        case Completion() | Handoff() | QuickHandoff():
            return IDLE
        case _:
            return ""


def _record(author: Author, at: float, *, key: str = "", subject: str = "", text: str = "") -> Record:
    return Record(
        at=at,
        author=author.name,
        role=author.role,
        run_id=author.run_id,
        key=key,
        subject=subject,
        text=text,
        digest=digest(trimmed(text)) if text else "",
    )
