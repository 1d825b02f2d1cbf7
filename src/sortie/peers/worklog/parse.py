"""A work log read from any bytes: never an error, every byte in one part, and a remark for what was not understood.

The body is read from mark to mark; lines are looked at one by one only where no heading says what they belong to.
"""

from __future__ import annotations

import codecs

from . import head, scan
from .beginnings import PINNED_LABELS, begins_entry, ends_entry, heading_kind, is_apart, is_heading, session_at
from .entry import Entry, Form, Session, Source
from .log import Lines, Part, PartKind, Remark, Worklog

__all__ = ["Entry", "Lines", "Part", "Remark", "Session", "Worklog", "parse"]

_MOST_REMARKS = 200
_CHUNK = 1 << 20


def parse(data: bytes) -> Worklog:
    return Reading(data).whole()


class Reading:
    """One pass. What begins somewhere is read to its end by one method, which answers where the next begins."""

    def __init__(self, data: bytes, session: Session | None = None) -> None:
        self._data = data
        self._source = Source(data)
        self._session = session or Session()
        self._starts: list[tuple[PartKind, int]] = [("preamble", 0)]  # of all parts but entries
        self._entries: list[Entry] = []
        self._open: tuple[int, int, int, Form, Session] | None = None  # the last entry, whose end is not known yet
        self._counts: dict[bytes, int] = {}
        self._row_counts: dict[tuple[str, ...], int] = {}
        self._status: list[head.StatusLine] = []
        self._agents: set[str] = set()  # those of the status block, folded
        self._rows: list[head.IndexRow] = []
        self._index_end = -1
        self._remarks: list[tuple[int, str]] = []

    def whole(self) -> Worklog:
        at = body_start = self._head()
        while at < len(self._data):
            at = self._next(at)
        self._look_at_encoding()
        return self._worklog(body_start)

    def head(self) -> Worklog:
        """Only what stands before the first session or entry; without remarks."""
        at = self._head()
        self._remarks.clear()
        return self._worklog(at)

    def tail(self) -> Worklog:
        """Of data that begins with an entry."""
        at = 0
        while at < len(self._data):
            at = self._next(at)
        return self._worklog(0)

    def _head(self) -> int:
        at = self._section(scan.first_line_start(self._data), "preamble")
        while is_heading(self._data, at) and self._kind_at(at) not in ("entry", "session"):
            at = self._next(at)
        return at

    def _kind_at(self, at: int) -> PartKind:
        return heading_kind(self._data, at, is_first=not self._counts)

    def _next(self, at: int) -> int:
        """A heading, or the first line of an entry without one."""
        if not is_heading(self._data, at):
            return self._unheaded(at)
        kind = self._kind_at(at)
        end = scan.line_end(self._data, at)
        if kind == "entry":
            self._begin(at, self._data[at:end], "heading")
            return self._headed(end)
        if kind == "session":
            self._session = session_at(self._data, at)
        elif kind == "index" and self._index_end >= 0:
            self._remark(at, "There is another decision index above; new rows go there.")
        self._close(at)
        self._starts.append((kind, at))
        return self._section(end + 1, kind)

    def _headed(self, at: int) -> int:
        """From the end of a heading; further entries with headings are read in the same go."""
        while True:
            for found in scan.MARK.finditer(self._data, at):
                kind = found.lastindex
                if kind == scan.ENTRY:
                    self._begin(found.start() + 1, found[1], "heading")
                elif kind is not None:
                    break
            else:
                return len(self._data)
            start = found.start() + 1
            if kind == scan.FENCE:
                at = self._past_fence(start)
            elif kind == scan.COMMENT:
                at = self._past_comment(start)
            elif self._is_boundary(kind, start):
                return start
            else:
                self._scattered(start)
                at = found.end()

    def _is_boundary(self, kind: int | None, at: int) -> bool:
        if kind == scan.HEADING:
            return ends_entry(self._data, at)
        return kind == scan.TIMED and scan.is_quick_at(self._data, at)

    def _unheaded(self, start: int) -> int:
        """An entry in plain lines; it goes on until something else begins."""
        data = self._data
        end = scan.line_end(data, start)
        line = data[start:end]
        if scan.opens_fence(line):
            named_at = end + 1
            self._begin(start, data[named_at : scan.line_end(data, named_at)], "line", named_at)
            end = self._past_fence(start)
        else:
            self._begin(start, line, "line")
            self._scattered(start)
        at = end + 1
        is_paragraph = False
        while at < len(data):
            end = scan.line_end(data, at)
            line = data[at : min(end, at + scan.LOOKED_AT)]
            if is_apart(line):
                is_paragraph, at = True, end + 1
                continue
            if is_heading(data, at) and ends_entry(data, at):
                return at
            if begins_entry(data, at, line, "entry", is_paragraph=is_paragraph):
                return at
            if scan.opens_fence(line):
                end = self._past_fence(at)
            elif line.startswith(b"<!--"):
                end = self._past_comment(at)
            else:
                self._scattered(at)
            is_paragraph, at = False, end + 1
        return len(data)

    def _section(self, at: int, kind: PartKind) -> int:
        """What no entry holds, up to the next heading or the first entry."""
        data = self._data
        table = _Table()
        is_paragraph, is_status = True, False
        while at < len(data):
            end = scan.line_end(data, at)
            line = data[at : min(end, at + scan.LOOKED_AT)]
            if is_apart(line):
                is_paragraph, is_status, at = True, False, end + 1
                continue
            if is_heading(data, at) or begins_entry(data, at, line, kind, is_paragraph=is_paragraph):
                return at
            is_status = kind == "preamble" and self._pinned(at, line, is_status)
            if scan.opens_fence(line):
                end = self._past_fence(at)
            elif line.startswith(b"<!--"):
                self._part("comment", at)
                end = self._past_comment(at)
                self._part(kind, end + 1)
            elif kind == "index" and b"|" in line:
                self._table_line(table, at, end, is_paragraph=is_paragraph)
            is_paragraph, at = False, end + 1
        return len(data)

    def _begin(self, at: int, line: bytes, form: Form, named_at: int = -1) -> None:
        self._close(at)
        first = line.rstrip()
        ordinal = self._counts[first] = self._counts.get(first, 0) + 1
        self._open = (at, at if named_at < 0 else named_at, ordinal, form, self._session)

    def _close(self, end: int) -> None:
        if self._open is not None:
            start, named_at, ordinal, form, session = self._open
            self._entries.append(Entry(self._source, start, end, named_at, ordinal, form, session))
            self._open = None

    def _part(self, kind: PartKind, at: int) -> None:
        if self._starts[-1][0] != kind and at < len(self._data):
            self._starts.append((kind, at))

    def _pinned(self, at: int, line: bytes, was_status: bool) -> bool:
        """Whether a line at the top of the file is one of the status block."""
        if working := head.working_line(line):
            name = working[0].casefold()
            if name in self._agents:
                self._remark(at, f"The status block has more than one line for {working[0]}; the last one counts.")
            self._agents.add(name)
            self._add_status(at, "Now Working", *working, pinned=True)
            return True
        other = head.pinned_line(line)
        if other is None or not (was_status or other[0].casefold() in PINNED_LABELS):
            return False
        self._add_status(at, other[0], "", other[1], pinned=True)
        return True

    def _scattered(self, at: int) -> None:
        if self._data.startswith(scan.WORKING, at):
            working = head.working_line(self._data[at : scan.line_end(self._data, at)])
            if working:
                self._add_status(at, "Now Working", *working, pinned=False)

    def _add_status(self, at: int, label: str, agent: str, text: str, *, pinned: bool) -> None:
        if pinned:
            self._part("status", at)
        end = scan.line_end(self._data, at)
        line = head.StatusLine(start=at, end=end, label=label, agent=agent, text=text, pinned=pinned)
        self._status.append(line)

    def _table_line(self, table: _Table, at: int, end: int, *, is_paragraph: bool) -> None:
        cells = self._cells(at, end)
        if head.is_rule(cells):
            self._index_end = end + 1 if table.is_index else self._index_end
            return
        after = self._cells(end + 1, scan.line_end(self._data, end + 1)) if is_paragraph else []
        if not table.is_read or head.is_rule(after):
            table.is_read, table.is_index = True, head.is_index_header(cells)
            if not table.is_index:
                columns = ", ".join(head.INDEX_COLUMNS)
                self._remark(at, f"A table with other columns than {columns} is no decision index.")
        elif table.is_index:
            ordinal = self._row_counts[tuple(cells)] = self._row_counts.get(tuple(cells), 0) + 1
            row = head.index_row(at, end, cells, ordinal)
            if not row.is_whole:
                self._remark(at, f"A row of the decision index has {len(cells)} cells instead of 4.")
            self._rows.append(row)
        if table.is_index:
            self._index_end = end + 1

    def _cells(self, at: int, end: int) -> list[str]:
        return head.cells_of(self._data[at:end].decode("utf-8", "replace"))

    def _past_fence(self, at: int) -> int:
        end, is_closed = scan.past_fence(self._data, at)
        if not is_closed:
            self._remark(at, "A fence is opened here and not closed; what follows is read as its content.")
        return end

    def _past_comment(self, at: int) -> int:
        end, is_closed = scan.past_comment(self._data, at)
        if not is_closed:
            self._remark(at, "A comment is opened here and not closed; what follows is read as part of it.")
        return end

    def _remark(self, at: int, sentence: str) -> None:
        if len(self._remarks) < _MOST_REMARKS:
            self._remarks.append((at, sentence))

    def _look_at_encoding(self) -> None:
        data = self._data
        nul = data.find(b"\0")
        if nul >= 0:
            self._remark(nul, "There is a NUL byte here.")
        if data.isascii():
            return
        decoder = codecs.getincrementaldecoder("utf-8")()
        for start in range(0, len(data), _CHUNK):
            try:
                decoder.decode(data[start : start + _CHUNK], start + _CHUNK >= len(data))
            except UnicodeDecodeError as error:
                self._remark(min(start + error.start, len(data)), "This is not UTF-8; the bytes stay as they are.")
                return

    def _worklog(self, body_start: int) -> Worklog:
        data = self._data
        self._close(len(data))
        self._source.names = frozenset(["maintainer", *(one.agent.casefold() for one in self._status if one.agent)])
        lines = Lines(data) if self._remarks else None
        return Worklog(
            data=data,
            status=tuple(self._status),
            index=tuple(self._rows),
            entries=tuple(self._entries),
            remarks=tuple(Remark(line=lines.number(at), sentence=text) for at, text in self._remarks if lines),
            others=self._starts,
            body_start=body_start,
            index_end=self._index_end,
        )


class _Table:
    """Whether the rows that come are rows of the index."""

    is_read = False
    is_index = False
