"""Sections, tables and labelled lines of a markdown document, read from any bytes in linear time; never raises.

What stands in code blocks and comments is no part of it. Every piece keeps the number of its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Literal

from msgspec import Struct

from .cells import folded, plain

LARGEST = 16 * 1024 * 1024
LONGEST_LINE = 20_000
MOST_ROWS = 2_000

_TICKS = re.compile("`+")
_POINT = re.compile(r"\s{0,20}(?:[-*+]|\d{1,9}[.)])\s{1,20}")
_BOX = re.compile(r"\[([ xX])\](?:\s|$)")
_NUMBERING = re.compile(r"(?:§\s{0,3})?(?:\d{1,3}[.)])+(?:\d{1,3})?\s{0,9}|\d{1,3}\s{1,9}")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:\s|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")

Severity = Literal["error", "warning"]


class Remark(Struct, frozen=True, kw_only=True):
    """What was not understood, or cannot be right, and where; `line` is 0 for the whole document."""

    line: int
    message: str
    severity: Severity = "error"


class Line(Struct, frozen=True, kw_only=True):
    number: int
    text: str


class Row(Struct, frozen=True, kw_only=True):
    """The cells of a table by the folded names of their columns; missing ones are not there."""

    line: int
    cells: dict[str, str]

    def cell(self, *words: str) -> str:
        """The first column that is called so, else the first with such a word in its name."""
        for word in words:
            if word in self.cells:
                return self.cells[word]
        return next((text for name, text in self.cells.items() if any(word in name for word in words)), "")


class Section(Struct, frozen=True, kw_only=True):
    """`rows` of all its tables and `lines` of all other text, up to the next heading of any depth."""

    title: str
    depth: int
    line: int
    rows: tuple[Row, ...] = ()
    lines: tuple[Line, ...] = ()


class Document(Struct, frozen=True, kw_only=True):
    sections: tuple[Section, ...]
    remarks: tuple[Remark, ...]

    def lines(self) -> Iterator[Line]:
        for section in self.sections:
            yield Line(number=section.line, text=section.title)
            yield from section.lines
            yield from (Line(number=row.line, text=" | ".join(row.cells.values())) for row in section.rows)


class Labelled(Struct, frozen=True, kw_only=True):
    """`- **Session ID:** x`; `label` is folded, `name` as it is written."""

    line: int
    name: str
    label: str
    value: str


def read_markdown(data: bytes) -> Document:
    """The first section is what stands before the first heading; its title is empty."""
    remarks: list[Remark] = []
    lines = _visible(_lines(data, remarks), remarks)
    sections: list[Section] = []
    title, depth, start, body = "", 0, 1, list[Line]()
    for line in lines:
        if heading := _HEADING.match(line.text):
            sections.append(_section(title, depth, start, body, remarks))
            text = line.text[heading.end() :].strip().rstrip("#").strip()
            title, depth, start, body = text, len(heading[1]), line.number, []
        else:
            body.append(line)
    sections.append(_section(title, depth, start, body, remarks))
    return Document(sections=tuple(sections), remarks=tuple(remarks))


def without_number(title: str) -> str:
    """`2) Roster` and `2.1 Roster` are `Roster`."""
    found = _NUMBERING.match(title)
    return title[found.end() :] if found else title


def point_of(text: str) -> tuple[str, bool] | None:
    """The text of a line of a list, and whether its box is ticked; None for a line that is in no list."""
    found = _POINT.match(text)
    if not found:
        return None
    inner = text[found.end() :].strip()
    if box := _BOX.match(inner):
        return inner[box.end() :].strip(), box[1] != " "
    return inner, False


def labelled(lines: Sequence[Line]) -> Iterator[Labelled]:
    for line in lines:
        point = point_of(line.text)
        before, colon, after = (point[0] if point else line.text.strip()).partition(":")
        for mark in ("**", "__"):
            if before.startswith(mark) and not before.endswith(mark):
                after = after.removeprefix(mark)
        label = folded(before.strip("*_"))
        if colon and 0 < len(label) <= 40 and not after.startswith("//"):
            yield Labelled(line=line.number, name=plain(before.strip("*_")), label=label, value=after.strip())


# -- lines ------------------------------------------------------------------------------------------------------


def _lines(data: bytes, remarks: list[Remark]) -> Iterator[Line]:
    if len(data) > LARGEST:
        remarks.append(Remark(line=0, message=f"only the first {LARGEST >> 20} MiB are read", severity="warning"))
    data = data[:LARGEST]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        remarks.append(Remark(line=line, message="this is not UTF-8 text; save the file as UTF-8"))
        text = data.decode("utf-8-sig", "replace")
    cut = False
    for number, whole in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        if len(whole) > LONGEST_LINE and not cut:
            cut = True
            message = f"only the first {LONGEST_LINE:,} characters of a line are read"
            remarks.append(Remark(line=number, message=message, severity="warning"))
        yield Line(number=number, text=whole[:LONGEST_LINE])


def _visible(lines: Iterator[Line], remarks: list[Remark]) -> Iterator[Line]:
    """Without code blocks and comments."""
    fence, commenting, opened = "", False, 0
    for line in lines:
        text = line.text
        if fence:
            found = _FENCE.match(text)
            if found and found[1].startswith(fence) and not text[found.end() :].strip():
                fence = ""
            continue
        pieces = []
        while text:
            if commenting:
                _, end, text = text.partition("-->")
                commenting = not end
            else:
                before, begin, text = text.partition("<!--")
                pieces.append(before)
                if begin:
                    commenting, opened = True, line.number
        shown = "".join(pieces)
        if found := _FENCE.match(shown):
            fence, opened = found[1], line.number
        elif shown or not line.text:
            yield Line(number=line.number, text=shown)
    if fence or commenting:
        what = "code block" if fence else "comment"
        remarks.append(Remark(line=opened, message=f"a {what} begins here and never ends"))


# -- tables -----------------------------------------------------------------------------------------------------


def _section(title: str, depth: int, start: int, body: list[Line], remarks: list[Remark]) -> Section:
    rows: list[Row] = []
    lines: list[Line] = []
    columns: list[str] = []
    for line, following in zip_longest(body, body[1:]):
        if not columns and following and "|" in line.text and _is_delimiter(following.text):
            columns = [folded(cell) for cell in _split(line.text, 0)]
        elif columns and "|" in line.text:
            if not _is_delimiter(line.text):
                rows.append(_row(line, columns))
        else:
            columns = []
            lines.append(line)
    if len(rows) > MOST_ROWS:
        message = f"only the first {MOST_ROWS:,} rows of a section are read"
        remarks.append(Remark(line=rows[MOST_ROWS].line, message=message))
    return Section(title=title, depth=depth, line=start, rows=tuple(rows[:MOST_ROWS]), lines=tuple(lines))


def _is_delimiter(text: str) -> bool:
    return "|" in text and "-" in text and not text.strip().strip("|:- \t")


def _row(line: Line, columns: list[str]) -> Row:
    cells: dict[str, str] = {}
    for name, cell in zip(columns, _split(line.text, len(columns)), strict=False):
        cells.setdefault(name, cell)
    return Row(line=line.number, cells=cells)


def _split(text: str, columns: int) -> list[str]:
    """At each `|` that no backslash is before. Where that gives more cells than there are columns, those in code
    do not count either: whoever wrote `make | tee log` meant it so."""
    inner = text.strip().removeprefix("|").replace("\\|", "\0")
    inner = inner.removesuffix("|")
    cells = inner.split("|")
    if columns and len(cells) > columns:
        pieces = _TICKS.sub("`", inner).split("`")
        pieces[1:-1:2] = [piece.replace("|", "\0") for piece in pieces[1:-1:2]]
        kept = "`".join(pieces).split("|")
        cells = kept if len(kept) >= columns else cells
    return [cell.replace("\0", "|").strip() for cell in cells]
