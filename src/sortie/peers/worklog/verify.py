"""What happened to a work log between two versions that is no append, named with the entry, its line and its owner.

Legal are entries at the end, rows of the index, the writer's own status line, and entries moved to the archive.
Nobody is believed about who they are: `by` is who wrote the new version, and `records` are writes that others made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ...protocol.foreign_text import shortened
from ..finding import Finding
from ..journal import Record
from ..lost_text import normal, occurrences
from ..roster import MAINTAINER, fold
from .entry import Entry
from .events import events_in
from .log import Lines, Worklog
from .matching import Matching, match, raw
from .parse import parse
from .verify_head import (
    FALSE_DECISION,
    ROW_EDITED,
    ROW_REMOVED,
    STATUS_CHANGED,
    index_changes,
    is_of,
    status_changes,
    words_of_change,
)

EDITED = "edited"
EXTENDED = "extended"
REMOVED = "removed"
REORDERED = "reordered"
INSERTED = "inserted"
IMPERSONATED = "impersonated"
# No harm by itself: told, and no reason to refuse anything.
ARCHIVED = "archived"
CONTINUED = "continued"
LINE_ENDS = "line ends"
OTHER_TEXT = "other text"
MILD = frozenset({ARCHIVED, CONTINUED, LINE_ENDS, STATUS_CHANGED, OTHER_TEXT})
LOSSES = frozenset({EDITED, REMOVED, ROW_EDITED, ROW_REMOVED})

_ADJUDICATION = "maintainer adjudication"
_SHOWN = 80


def compare(
    old: bytes | Worklog,
    new: bytes | Worklog,
    *,
    by: str = "",
    maintainer: str = MAINTAINER,
    archive: bytes = b"",
    records: Iterable[Record] = (),
) -> list[Finding]:
    """In the order of the lines. Without `by` nobody's rights are judged: changed status lines are told as mild."""
    earlier = old if isinstance(old, Worklog) else parse(old)
    later = new if isinstance(new, Worklog) else parse(new)
    if earlier.data == later.data:
        return []
    others = tuple(records)
    found = [
        *status_changes(earlier, later, by, maintainer, others),
        *index_changes(earlier, later, by, maintainer, others),
        *_Entries(earlier, later, by, maintainer, archive, others).findings(),
        *_other_text(earlier, later),
    ]
    return sorted(found, key=lambda finding: finding.line)


class _Entries:
    """The entries of both versions, and what became of them."""

    def __init__(
        self,
        old: Worklog,
        new: Worklog,
        by: str,
        maintainer: str,
        archive: bytes,
        records: Iterable[Record],
    ) -> None:
        self._old, self._new = old.entries, new.entries
        self._old_lines, self._new_lines = Lines(old.data), Lines(new.data)
        self._by, self._maintainer = by, maintainer
        self._archive = archive
        self._known = {normal(record.text.encode()): record for record in records if record.text}
        self._names = {fold(one.agent) for one in (*old.status, *new.status) if one.agent}
        self._names |= {fold(name) for name in (maintainer, MAINTAINER, by) if name}
        self._names |= {fold(record.author) for record in self._known.values()}
        self._matching = match(self._old, self._new)

    def findings(self) -> Iterator[Finding]:
        matching = self._matching
        yield from self._removed(matching)
        whitespace = [at for one, at in matching.same if raw(self._old[one]) != raw(self._new[at])]
        for one, other in matching.edited:
            if _normal(self._old[one]) == _normal(self._new[other]):
                whitespace.append(other)
            else:
                yield self._edited(self._old[one], self._new[other], is_last=one == len(self._old) - 1)
        for one, other in (*matching.same, *matching.edited):
            if one in matching.moved:
                yield self._about(self._new[other], REORDERED, "stands elsewhere than before")
        if whitespace:
            yield self._line_ends(whitespace)
        earlier = [other for one, other in (*matching.same, *matching.edited) if one not in matching.moved]
        last = max(earlier, default=-1)
        for at in matching.added:
            yield from self._added(self._new[at], is_inserted=at < last)

    def _removed(self, matching: Matching) -> Iterator[Finding]:
        gone = [self._old[at] for at in matching.removed]
        if not gone:
            return
        there = occurrences([_normal(entry) for entry in gone], self._archive) if self._archive else Counter()
        for entry in gone:
            line = self._old_lines.number(entry.start)
            if there[text := _normal(entry)]:
                there[text] -= 1
                yield self._about(entry, ARCHIVED, "moved to the archive", line)
            else:
                yield self._about(entry, REMOVED, f"was removed; it stood at line {line} before", line)

    def _edited(self, old: Entry, new: Entry, *, is_last: bool) -> Finding:
        before, after = _normal(old).decode(), _normal(new).decode()
        line = self._new_lines.number(new.start)
        if not (is_last and after.startswith(f"{before}\n")):
            return self._about(old, EDITED, f"was edited: {_first_difference(before, after)}", line)
        if not self._by or is_of(old.actor, self._by):
            return self._about(old, CONTINUED, "got more text at its end", line)
        said = f"got more text at its end, from {self._by}; what {self._by} says needs a heading of its own"
        return self._about(old, EXTENDED, said, line)

    def _added(self, entry: Entry, *, is_inserted: bool) -> Iterator[Finding]:
        if is_inserted:
            yield self._about(
                entry, INSERTED, "is new and stands before entries that were there; new ones go to the end"
            )
        record = self._known.get(_normal(entry))
        by = record.author if record else self._by
        if not by or is_of(by, self._maintainer) or (record and record.role != "agent"):
            return
        actor = entry.actor
        if decides_for_maintainer(entry, self._maintainer):
            yield self._about(
                entry,
                FALSE_DECISION,
                f"was written by {by}, and only the maintainer's own command records a decision of the maintainer",
            )
        elif actor and fold(actor) in self._names and not is_of(actor, by):
            yield self._about(entry, IMPERSONATED, f"was written by {by}")

    def _line_ends(self, entries: list[int]) -> Finding:
        first = min(entries)
        many = "One entry has" if len(entries) == 1 else f"{len(entries):,} entries have"
        return Finding(
            kind=LINE_ENDS,
            line=self._new_lines.number(self._new[first].start),
            sentence=f"{many} other line ends or blanks at the ends of lines than before, and the same words.",
        )

    def _about(self, entry: Entry, kind: str, what: str, line: int = 0) -> Finding:
        owner = entry.actor
        title = shortened(entry.title or entry.heading, _SHOWN)
        whose = f" of {owner}" if owner else ""
        return Finding(
            kind=kind,
            subject=entry.entry_id,
            line=line or self._new_lines.number(entry.start),
            sentence=f'The entry "{title}"{whose} {what}.',
            owner=owner,
        )


def decides_for_maintainer(entry: Entry, maintainer: str) -> bool:
    """Whether it says that the maintainer decided something."""
    if b"decision" not in raw(entry).lower():  # most say nothing of the kind, and need not be read
        return False
    if all(event.event_type != "decision.recorded" for event in events_in(entry, "", set())):
        return False
    mode = entry.fields.get("mode", "").casefold()
    return mode.startswith(_ADJUDICATION) or is_of(entry.actor, maintainer) or is_of(entry.actor, MAINTAINER)


def _other_text(old: Worklog, new: Worklog) -> Iterator[Finding]:
    """Titles, sections and comments: not of the log proper, but somebody's words."""
    gone = Counter(line for _, line in _lines_outside(old))
    gone.subtract(line for _, line in _lines_outside(new))
    lost = [(at, line) for at, line in _lines_outside(old) if gone[line] > 0]
    if lost:
        at, line = lost[0]
        number, shown = old.line_of(at), shortened(line.decode("utf-8", "replace"), _SHOWN)
        many = "A line" if len(lost) == 1 else f"{len(lost):,} lines"
        yield Finding(
            kind=OTHER_TEXT,
            line=number,
            sentence=f'{many} outside of entries went or changed; the first was line {number}, "{shown}".',
        )


def _lines_outside(log: Worklog) -> Iterator[tuple[int, bytes]]:
    for part in log.parts:
        if part.kind in ("entry", "status", "index"):
            continue
        at = part.start
        for line in log.data[part.start : part.end].split(b"\n"):
            if said := line.strip():
                yield at, said
            at += len(line) + 1


def _normal(entry: Entry) -> bytes:
    return normal(entry.text.encode("utf-8", "surrogatepass"))


def _first_difference(before: str, after: str) -> str:
    old, new = ([line for line in text.split("\n") if line] for text in (before, after))
    at = next(
        (n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(len(old), len(new))
    )
    was, became = ((lines[at] if at < len(lines) else "") for lines in (old, new))
    if not became or (len(new) < len(old) and new[at:] == old[len(old) - len(new) + at :]):
        return f'"{shortened(was, _SHOWN)}" went'
    if not was or (len(new) > len(old) and old[at:] == new[len(new) - len(old) + at :]):
        return f'"{shortened(became, _SHOWN)}" came'
    return words_of_change(was, became)
