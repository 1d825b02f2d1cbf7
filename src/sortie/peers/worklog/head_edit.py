"""Edits of a work log's head: an agent's status line in place, a row at the end of the decision index.

Where the log has no status block or no index, they are put in the document's place. The body is not read and its
bytes do not change; lines end as the first of the file does.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from ...errors import SortieError
from . import head
from .log import Worklog
from .parse import Reading, parse
from .scan import first_line_start

_TITLE = re.compile(rb"\s{0,100}# [^\n]{0,1000}(?:\n|\Z)")
_VALUE = re.compile(rb"[^\n]*?Now Working \([^()\n]{1,320}\)\**:\**[ \t]*", re.IGNORECASE)


def status_of(data: bytes, agent: str) -> str | None:
    """What the status block says of an agent; None where it has no line for it."""
    line = _pinned(Reading(data).head(), agent)
    return line.text if line else None


def with_status(data: bytes, agent: str, text: str) -> bytes:
    log = Reading(data).head()
    line = _pinned(log, agent)
    if line:
        old = data[line.start : line.end]
        prefix = _VALUE.match(old)
        kept = prefix[0] if prefix else b""
        new = kept.rstrip() + b" " + text.encode() + (b"**" if kept.count(b"**") % 2 else b"")
        return _spliced(data, line.start, new + (b"\r" if old.endswith(b"\r") else b""), line.end)
    added = f"Now Working ({agent}): {text}"
    pinned = [one for one in log.status if one.pinned]
    working = [one for one in pinned if one.agent]
    if working:
        return _inserted(data, min(working[-1].end + 1, len(data)), [added])
    if pinned:
        return _inserted(data, pinned[0].start, [added])
    changed = (_inserted(data, place, ["", added, ""]) for place in _tops(data))
    return next(one for one in changed if _pinned(Reading(one).head(), agent))


def with_row(data: bytes, row: str) -> bytes:
    """The row at the end of the table."""
    log = Reading(data).head()
    if log.index_end < 0:
        log = parse(data)
    if log.index_end >= 0:
        return _inserted(data, min(log.index_end, len(data)), [row])
    table = [f"| {' | '.join(head.INDEX_COLUMNS)} |", "|---|---|---|---|", row, ""]
    place = next((part.start for part in log.parts if part.kind in _AFTER_INDEX), len(data))
    is_headed = data[place : place + 1] in (b"#", b"")
    changed = _inserted(
        data, place, ["", head.INDEX_HEADING, "", *table, *([] if is_headed else ["## Entries", ""])]
    )
    if Reading(changed).head().index_end < 0:
        raise SortieError(
            "The decision index has no place in this work log: a fence or a comment at its top is not closed.",
            fix="Close it; `sortie worklog lint` names the line.",
        )
    return changed


def with_entry(data: bytes, entry: str) -> bytes:
    """The entry at the end, after a blank line."""
    lines = entry.rstrip("\n").split("\n")
    is_apart = not data.strip() or data.endswith((b"\n\n", b"\n\r\n"))
    return _inserted(data, len(data), lines if is_apart else ["", *lines])


_AFTER_INDEX = ("archive", "session", "section", "entry")


def _pinned(log: Worklog, agent: str) -> head.StatusLine | None:
    """Of several lines the last counts."""
    name = agent.casefold()
    return next((one for one in reversed(log.status) if one.pinned and one.agent.casefold() == name), None)


def _tops(data: bytes) -> Iterator[int]:
    """Behind front matter and title, if that is what they are; else at the very top, which always is."""
    top = first_line_start(data)
    if title := _TITLE.match(data, top):
        yield title.end()
    yield top


def _inserted(data: bytes, at: int, lines: list[str]) -> bytes:
    """These lines at the start of a line; where the file ended in the middle of one, that one ends now."""
    first = data.find(b"\n")
    ending = "\r\n" if first > 0 and data[first - 1 : first] == b"\r" else "\n"
    text = "".join(f"{line}{ending}" for line in lines).encode()
    if at and data[at - 1 : at] != b"\n" and not (at == len(codecs.BOM_UTF8) and data.startswith(codecs.BOM_UTF8)):
        text = ending.encode() + text
    return _spliced(data, at, text, at)


def _spliced(data: bytes, start: int, text: bytes, end: int) -> bytes:
    """With other bytes from `start` to `end`; what is large is copied once."""
    view = memoryview(data)
    return b"".join((view[:start], text, view[end:]))
