"""What happened to the status block and the decision index between two versions of a work log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations

from ...protocol.foreign_text import shortened
from ..finding import Finding
from ..journal import Record
from ..roster import MAINTAINER, fold
from .head import IDLE, IndexRow, StatusLine
from .heading import names_in
from .log import Lines, Worklog

STATUS_OF_ANOTHER = "status line of another"
MAINTAINERS_LINE = "maintainer's line"
STATUS_CHANGED = "status line changed"
ROW_EDITED = "index row edited"
ROW_REMOVED = "index row removed"
FALSE_DECISION = "false maintainer decision"

_CHECKPOINT = "next review checkpoint"
_SHOWN = 80
_CONTEXT = 20


def is_of(name: str, other: str) -> bool:
    """Whether both are the same person."""
    return fold(name) == fold(other)


def words_of_change(was: str, became: str) -> str:
    """Both as far as a sentence can show them, and always the place where they differ."""
    pairs = enumerate(zip(was, became, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(was), len(became)))
    start = same - _CONTEXT if same > _SHOWN - _CONTEXT else 0

    def cut(text: str) -> str:
        return f"{'…' if start else ''}{shortened(text[start:], _SHOWN)}"

    return f'"{cut(was)}" became "{cut(became)}"'


def status_changes(
    old: Worklog, new: Worklog, by: str, maintainer: str, records: Iterable[Record]
) -> Iterator[Finding]:
    """Each agent has one line of its own; some are the maintainer's, and the rest is anybody's."""
    before, after = _pinned(old), _pinned(new)
    if not before or (by and is_of(by, maintainer)):
        return
    old_lines, new_lines = Lines(old.data), Lines(new.data)
    for key in dict.fromkeys((*before, *after)):
        was, became = before.get(key), after.get(key)
        if was and became and was.text == became.text:
            continue
        line = became or was
        assert line is not None
        owner = line.agent or (maintainer if _is_maintainers(line) else "")
        if by and (not owner or is_of(owner, by) or (became and _wrote(became.text, owner, maintainer, records))):
            continue
        kind = STATUS_CHANGED if not by else STATUS_OF_ANOTHER if line.agent else MAINTAINERS_LINE
        yield Finding(
            kind=kind,
            line=new_lines.number(became.start) if became else old_lines.number(line.start),
            sentence=_status_sentence(line, was, became, by),
            owner=owner,
        )


def _pinned(log: Worklog) -> dict[tuple[str, str], StatusLine]:
    return {(fold(line.label), fold(line.agent)): line for line in log.status if line.pinned}


def _is_maintainers(line: StatusLine) -> bool:
    label = fold(line.label)
    return label.startswith(fold(MAINTAINER)) or label == _CHECKPOINT


def _wrote(text: str, owner: str, maintainer: str, records: Iterable[Record]) -> bool:
    """Whether somebody who may is on record as having written this meanwhile."""
    return any(
        (text in record.text or record.subject.endswith(f": {text}") or fold(text) == IDLE)
        and (record.role == "orchestrator" or is_of(record.author, owner) or is_of(record.author, maintainer))
        for record in records
    )


def _status_sentence(line: StatusLine, was: StatusLine | None, became: StatusLine | None, by: str) -> str:
    name = f"The status line of {line.agent}" if line.agent else f'The status line "{line.label}"'
    who = f" by {by}" if by else ""
    if was is None or became is None:
        return f"{name} was {'added' if became else 'removed'}{who}."
    return f"{name} was changed{who}: {words_of_change(was.text, became.text)}."


def index_changes(
    old: Worklog, new: Worklog, by: str, maintainer: str, records: Iterable[Record]
) -> Iterator[Finding]:
    """Rows may be added at either end: some put the newest first."""
    left = Counter(_cells(row) for row in new.index)
    left.subtract(_cells(row) for row in old.index)
    gone = [row for row in old.index if _take(left, row, -1)]
    came = [row for row in new.index if _take(left, row, 1)]
    old_lines, new_lines = Lines(old.data), Lines(new.data)
    edited = _alike(gone, came)
    for row in gone:
        other = edited.get(row.start)
        title = f'The row "{shortened(row.decision, _SHOWN)}" of the decision index'
        yield Finding(
            kind=ROW_EDITED if other else ROW_REMOVED,
            subject=row.row_id,
            line=new_lines.number(other.start) if other else old_lines.number(row.start),
            sentence=f"{title} was edited: {_difference(row, other)}." if other else f"{title} was removed.",
            owner=row.owner,
        )
    if not by or is_of(by, maintainer):
        return
    paired = {row.start for row in edited.values()}
    for row in came:
        if row.start in paired:
            continue
        deciders = {fold(name) for name in names_in(row.owner)}
        if deciders & {fold(maintainer), fold(MAINTAINER)} and not _wrote(
            row.section, maintainer, maintainer, records
        ):
            yield Finding(
                kind=FALSE_DECISION,
                subject=row.row_id,
                line=new_lines.number(row.start),
                sentence=f'{by} put "{shortened(row.decision, _SHOWN)}" into the index as decided by {row.owner}; '
                "only the maintainer's own command records that.",
                owner=row.owner,
            )


def _take(left: Counter[tuple[str, ...]], row: IndexRow, sign: int) -> bool:
    """Whether this row is one of those that only one version has."""
    if left[_cells(row)] * sign <= 0:
        return False
    left[_cells(row)] -= sign
    return True


def _cells(row: IndexRow) -> tuple[str, ...]:
    return row.decision, row.owner, row.timestamp, row.section


def _alike(gone: list[IndexRow], came: list[IndexRow]) -> dict[int, IndexRow]:
    """By the start of the earlier row, the later one that has at least two cells of it, each once."""
    waiting: dict[tuple[int, str, int, str], list[IndexRow]] = {}
    for row in reversed(came):
        for two in _twos(row):
            waiting.setdefault(two, []).append(row)
    pairs: dict[int, IndexRow] = {}
    taken: set[int] = set()
    for row in gone:
        for two in _twos(row):
            there = waiting.get(two, [])
            while there and there[-1].start in taken:
                there.pop()
            if there:
                pairs[row.start] = there.pop()
                taken.add(pairs[row.start].start)
                break
    return pairs


def _twos(row: IndexRow) -> Iterator[tuple[int, str, int, str]]:
    for (one, a), (other, b) in combinations(enumerate(_cells(row)), 2):
        if a and b:
            yield one, a, other, b


def _difference(was: IndexRow, became: IndexRow) -> str:
    pairs = zip(_cells(was), _cells(became), strict=True)
    return "; ".join(words_of_change(a, b) for a, b in pairs if a != b)
