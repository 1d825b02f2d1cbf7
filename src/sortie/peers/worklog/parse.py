"""A work log read from any bytes: never an error, every byte in exactly one part, and a remark for what was not understood.

The body is read from mark to mark; lines are looked at one by one only where no heading says what they belong to.
"""

from __future__ import annotations

import codecs
import re

from . import head, scan
from .entry import Entry, Form, Session, Source, first_line
from .heading import is_name, is_strict, read_heading
from .log import Lines, Part, PartKind, Remark, Worklog

__all__ = ["Entry", "Lines", "Part", "Remark", "Session", "Worklog", "parse"]

_MOST_REMARKS = 200
_CHUNK = 1 << 20
# What a line is can be told by this many of its bytes.
_LOOKED_AT = 2000

_HEADING = re.compile(rb"(#{1,3})[ \t]+([^\n]{0,500})")
_NUMBER = re.compile(r"(?:[0-9]{1,3}(?:\.[0-9]{1,3})?[.)]?|§) ?")
_SESSION = re.compile(r"session\b", re.IGNORECASE)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LABEL_END = re.compile(r" *(?:—|–| - |\(|:)")
_TIMED = re.compile(rb"(?:[-*+] )?\[?(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}:[0-9]{2}\b)")
_LED_BY_NAME = re.compile(
    r"\**([^\W\d_][\w.'’-]{0,60}(?: [A-Z0-9&/+][\w.'’-]{0,60}){0,3})( ?\([^()\n]{1,60}\))?\**:\**(?:\s|\Z)"
)
_ALWAYS_ENTRY = (b"Escalated:", b"**Escalated:**", b"Handoff:", b"**Handoff:**")
_IN_FENCE = re.compile(rb"[ \t]*(?:Handoff|Owner|Escalated|ID|- \*\*)[:\w]", re.IGNORECASE)
_WORKING = b"Now Working ("
_PINNED_LABELS = ("maintainer focus", "next review checkpoint")
# Lines that a file begins with and that nobody said.
_NO_NAMES_ON_TOP = (
    "maintainer",
    "agents",
    "agent",
    "session id",
    "date initialized",
    "full history",
    "last format migration",
)


def parse(data: bytes) -> Worklog:
    return Reading(data).whole()


class Reading:
    """One pass. `lines` and `headed` read from where they are told to the next heading and answer where that is."""

    def __init__(self, data: bytes, session: Session | None = None) -> None:
        self._data = data
        self._source = Source(data)
        self._session = session or Session()
        self._starts: list[tuple[PartKind, int]] = [("preamble", 0)]
        self._named: list[tuple[int, int, Form, Session]] = []
        self._counts: dict[bytes, int] = {}
        self._row_counts: dict[tuple[str, ...], int] = {}
        self._status: list[head.StatusLine] = []
        self._rows: list[head.IndexRow] = []
        self._remarks: list[tuple[int, str]] = []
        self._index_end = -1

    def whole(self) -> Worklog:
        at = self._head()
        body_start = at
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
        at = len(codecs.BOM_UTF8) if self._data.startswith(codecs.BOM_UTF8) else 0
        at = self._section(at, "preamble")
        while _HEADING.match(self._data, at) and self._kind_of(at) not in ("entry", "session"):
            at = self._next(at)
        return at

    def _next(self, at: int) -> int:
        """A heading, or the first line of an entry without one."""
        data = self._data
        if not _HEADING.match(data, at):
            return self._unheaded(at)
        kind = self._kind_of(at)
        if kind == "entry":
            return self._headed(at)
        if kind == "session":
            self._session = _session(data, at)
        self._starts.append((kind, at))
        return self._section(scan.line_end(data, at) + 1, kind)

    def _kind_of(self, at: int) -> PartKind:
        data = self._data
        if is_strict(data, at):
            return "entry"
        found = _HEADING.match(data, at)
        if found is None:
            return "entry"
        title = found[2].decode("utf-8", "replace").strip()
        number = _NUMBER.match(title)
        words = (title[number.end() :] if number else title).casefold()
        if words.startswith("decision index"):
            return "index"
        if len(found[1]) == 3:
            return "entry"
        if words.startswith("archived"):
            return "archive"
        if _SESSION.match(title):
            return "session"
        if _DATE.match(title):
            return "entry" if read_heading(title).actor else "session"
        return "preamble" if len(found[1]) == 1 and not self._named else "section"

    def _is_boundary(self, at: int) -> bool:
        """Of a heading: a comment of a script that somebody pasted looks like one of the first level."""
        return self._data[at + 1] == scan.HASH or self._kind_of(at) not in ("section", "preamble")

    def _headed(self, start: int) -> int:
        data = self._data
        at = self._begin(start, "heading") - 1
        while True:
            mark = scan.next_mark(data, at)
            if mark < 0:
                return len(data)
            kind = data[mark]
            if kind == scan.HASH:
                if self._is_boundary(mark):
                    return mark
                at = mark + 1
            elif kind in (scan.BACKTICK, scan.TILDE):
                fence = scan.opens_fence(data, mark)
                at = self._past_fence(mark, fence) if fence else mark + 1
            elif kind == scan.LESS:
                at = self._past_comment(mark)
            elif kind == scan.WORKING:
                self._scattered(mark)
                at = mark + 1
            elif scan.is_quick_at(data, mark):
                return mark
            else:
                at = mark + 1

    def _unheaded(self, start: int) -> int:
        """An entry in plain lines; it goes on until something else begins."""
        data = self._data
        fence = scan.opens_fence(data, start)
        end = scan.line_end(data, start)
        self._begin(start, "line", end + 1 if fence else start)
        self._scattered(start)
        at = (self._past_fence(start, fence) if fence else end) + 1
        is_paragraph = False
        while at < len(data):
            end = scan.line_end(data, at)
            line = data[at : min(end, at + _LOOKED_AT)]
            if not line.strip():
                is_paragraph, at = True, end + 1
                continue
            if line.startswith(b"#") and _HEADING.match(line) and self._is_boundary(at):
                return at
            if self._starts_entry(at, line, "entry", is_paragraph=is_paragraph):
                return at
            if fence := scan.opens_fence(data, at):
                end = self._past_fence(at, fence)
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
            line = data[at : min(end, at + _LOOKED_AT)]
            if not line.strip():
                is_paragraph, is_status, at = True, False, end + 1
                continue
            if line.startswith(b"#") and _HEADING.match(line):
                return at
            if self._starts_entry(at, line, kind, is_paragraph=is_paragraph):
                return at
            is_status = kind == "preamble" and self._status_line(at, line, is_status)
            if fence := scan.opens_fence(data, at):
                end = self._past_fence(at, fence)
            elif line.startswith(b"<!--"):
                self._part("comment", at)
                end = self._past_comment(at)
                self._part(kind, min(end + 1, len(data)))
            elif kind == "index" and b"|" in line:
                self._table_line(table, at, end, is_paragraph=is_paragraph)
            is_paragraph, at = False, end + 1
        return len(data)

    def _starts_entry(self, at: int, line: bytes, kind: PartKind, *, is_paragraph: bool) -> bool:
        """Whether a line begins an entry; `kind` is `entry` where another one would end."""
        is_open = kind == "entry"
        if kind == "archive" or line.startswith((b"<!--", b"|")):
            return False
        if _TIMED.match(line):
            quick = line.removeprefix(b"- ").removeprefix(b"* ")
            return (is_paragraph and quick is line) or scan.is_quick_at(quick, 0)
        if not is_paragraph or kind == "index":
            return False
        if scan.opens_fence(self._data, at):
            after = scan.line_end(self._data, at) + 1
            return not is_open and kind != "preamble" and _IN_FENCE.match(self._data, after) is not None
        if line.startswith(_ALWAYS_ENTRY):
            return True
        if line.startswith(_WORKING):
            return kind != "preamble"
        if kind == "session":
            return not _is_rule(line)
        named = _LED_BY_NAME.match(line.decode("utf-8", "replace"))
        if named is None or not is_name(named[1]):
            return False
        return kind != "preamble" or named[1].casefold() not in (*_PINNED_LABELS, *_NO_NAMES_ON_TOP)

    def _begin(self, at: int, form: Form, named_at: int = -1) -> int:
        """An entry; answers where its second line starts."""
        named_at = at if named_at < 0 else named_at
        after = scan.line_end(self._data, named_at)
        first = first_line(self._data, named_at, after)
        self._counts[first] = ordinal = self._counts.get(first, 0) + 1
        self._starts.append(("entry", at))
        self._named.append((named_at, ordinal, form, self._session))
        return min(after + 1, len(self._data) + 1)

    def _part(self, kind: PartKind, at: int) -> None:
        if self._starts[-1][0] != kind:
            self._starts.append((kind, at))

    def _status_line(self, at: int, line: bytes, was_status: bool) -> bool:
        if self._working(at, pinned=True):
            return True
        found = head.pinned_line(line)
        if found is None or not (was_status or found[0].casefold() in _PINNED_LABELS):
            return False
        self._add_status(at, found[0], "", found[1], pinned=True)
        return True

    def _scattered(self, at: int) -> None:
        if self._data.startswith(_WORKING, at):
            self._working(at, pinned=False)

    def _working(self, at: int, *, pinned: bool) -> bool:
        found = head.working_line(self._data[at : scan.line_end(self._data, at)])
        if found:
            self._add_status(at, "Now Working", found[0], found[1], pinned=pinned)
        return found is not None

    def _add_status(self, at: int, label: str, agent: str, text: str, *, pinned: bool) -> None:
        end = scan.line_end(self._data, at)
        if pinned:
            if agent and any(one.pinned and one.agent.casefold() == agent.casefold() for one in self._status):
                self._remark(at, f"The status block has more than one line for {agent}; the last one counts.")
            self._part("status", at)
        self._status.append(head.StatusLine(start=at, end=end, label=label, agent=agent, text=text, pinned=pinned))

    def _table_line(self, table: _Table, at: int, end: int, *, is_paragraph: bool) -> None:
        cells = head.cells_of(self._data[at:end].decode("utf-8", "replace"))
        if head.is_rule(cells):
            self._index_end = end + 1 if table.is_index else self._index_end
            return
        after = self._data[end + 1 : scan.line_end(self._data, end + 1)].decode("utf-8", "replace")
        if not table.is_read or (
            is_paragraph and head.is_rule(head.cells_of(after)) and b"|" in self._data[at:end]
        ):
            table.is_index, table.is_read = head.is_index_header(cells), True
            if table.is_index:
                self._index_end = end + 1
            else:
                self._remark(
                    at, "A table with other columns than Decision, Owner, Timestamp, Section is no decision index."
                )
        elif table.is_index:
            self._row_counts[tuple(cells)] = ordinal = self._row_counts.get(tuple(cells), 0) + 1
            row = head.index_row(at, end, cells, ordinal)
            if not row.is_whole:
                self._remark(at, f"A row of the decision index has {len(cells)} cells instead of 4.")
            self._rows.append(row)
            self._index_end = end + 1

    def _past_fence(self, at: int, mark: bytes) -> int:
        end, is_closed = scan.past_fence(self._data, at, mark)
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
                self._remark(
                    max(start + error.start, 0), "This is not UTF-8; the bytes stay, and are shown as `\ufffd`."
                )
                return

    def _worklog(self, body_start: int) -> Worklog:
        data = self._data
        self._source.names = frozenset(["maintainer", *(one.agent.casefold() for one in self._status if one.agent)])
        starts = [(kind, at) for kind, at in self._starts if at < len(data) or kind == "entry"]
        ends = [at for _, at in starts[1:]] + [len(data)]
        parts = tuple(Part(kind, at, end) for (kind, at), end in zip(starts, ends, strict=True) if end > at)
        spans = [(at, end) for (kind, at), end in zip(starts, ends, strict=True) if kind == "entry"]
        source = self._source
        entries = tuple(
            Entry(source, at, end, named_at, ordinal, form, session)
            for (at, end), (named_at, ordinal, form, session) in zip(spans, self._named, strict=True)
        )
        lines = Lines(data) if self._remarks else None
        remarks = [Remark(line=lines.number(at), sentence=text) for at, text in sorted(self._remarks) if lines]
        return Worklog(
            data=data,
            status=tuple(self._status),
            index=tuple(self._rows),
            entries=entries,
            parts=parts,
            remarks=tuple(remarks),
            body_start=body_start,
            index_end=self._index_end,
        )


class _Table:
    """Whether the rows that come are rows of the index."""

    is_read = False
    is_index = False


def _session(data: bytes, at: int) -> Session:
    found = _HEADING.match(data, at)
    title = found[2].decode("utf-8", "replace").strip() if found else ""
    date = _DATE.search(title)
    end = _LABEL_END.search(title)
    label = title[: end.start()] if end and end.start() else title
    return Session(label=label, date=date[0] if date else "")


def _is_rule(line: bytes) -> bool:
    return not line.strip(b"-*_ \t\r")
