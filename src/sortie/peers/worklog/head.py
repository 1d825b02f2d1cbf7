"""The two parts of a work log that are no entries, line by line: pinned status block and decision index."""

from __future__ import annotations

import re
from hashlib import blake2b

from msgspec import Struct

INDEX_COLUMNS = ("Decision", "Owner", "Timestamp", "Section")
INDEX_HEADING = "## Decision Index"
IDLE = "idle"

_WORKING = re.compile(rb"[ \t]*(?:[-*+] )?\**Now Working \(([^()\n]{1,320})\)\**:\**[ \t]*([^\n]*)", re.IGNORECASE)
_PINNED = re.compile(rb"[ \t]*(?:[-*+] )?\**([A-Z][^:|\n*]{1,200})\**:\**[ \t]+([^\n]*)")
_CELL_END = re.compile(r"(?<!\\)\|")
_RULE_CELL = re.compile(r":?-+:?")


class StatusLine(Struct, frozen=True, kw_only=True):
    """`agent` is empty for the lines that belong to nobody's work, such as `Maintainer Focus`."""

    start: int
    end: int
    label: str
    agent: str
    text: str
    pinned: bool

    @property
    def is_idle(self) -> bool:
        word = self.text.strip().casefold()
        return not word or word == IDLE or (word.startswith(IDLE) and not word[len(IDLE)].isalnum())


class IndexRow(Struct, frozen=True, kw_only=True):
    """`is_whole` is False for a row with another number of cells; it is read as well as it can be."""

    start: int
    end: int
    row_id: str
    decision: str
    owner: str
    timestamp: str
    section: str
    is_whole: bool = True


def working_line(line: bytes) -> tuple[str, str] | None:
    """The agent and what it works on."""
    found = _WORKING.match(line)
    return (_text(found[1]), _text(found[2])) if found else None


def pinned_line(line: bytes) -> tuple[str, str] | None:
    """Any other line of the status block: its label and what it says."""
    found = _PINNED.match(line)
    return (_text(found[1]), _text(found[2])) if found else None


def cells_of(line: str) -> list[str]:
    """Of a row of a table, with the escapes of `|` undone."""
    inner = line.strip()
    inner = inner.removeprefix("|")
    cells = _CELL_END.split(inner)
    if len(cells) > 1 and not cells[-1].strip():
        cells.pop()
    return [cell.strip().replace("\\|", "|") for cell in cells]


def is_rule(cells: list[str]) -> bool:
    """The line below the names of the columns."""
    return bool(cells) and all(_RULE_CELL.fullmatch(cell) for cell in cells)


def is_index_header(cells: list[str]) -> bool:
    return [cell.strip("*_ ").casefold() for cell in cells] == [column.casefold() for column in INDEX_COLUMNS]


def index_row(start: int, end: int, cells: list[str], ordinal: int) -> IndexRow:
    fitted = cells
    if len(cells) > len(INDEX_COLUMNS):  # a `|` that nobody escaped is most likely in the first, which is prose
        fitted = [" | ".join(cells[:-3]), *cells[-3:]]
    decision, owner, timestamp, section = [*fitted, "", "", "", ""][:4]
    return IndexRow(
        start=start,
        end=end,
        row_id=row_id(cells, ordinal),
        decision=decision,
        owner=owner,
        timestamp=timestamp,
        section=section,
        is_whole=len(cells) == len(INDEX_COLUMNS),
    )


def row_id(cells: list[str], ordinal: int) -> str:
    text = "|".join(cell.replace("|", "\\|") for cell in cells)
    return "wd-" + blake2b(f"{ordinal}\n{text}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def row_text(decision: str, owner: str, timestamp: str, section: str) -> str:
    cells = (cell.replace("|", "\\|") for cell in (decision, owner, timestamp, section))
    return f"| {' | '.join(cells)} |"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").strip().strip("*").strip()
