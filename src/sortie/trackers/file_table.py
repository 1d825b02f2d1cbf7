"""All records of one version of the issue file: what they say, and where in the text each of them stands.

A change of ours is put in place without looking at the rest again, and gives what reading the whole new text would
give. Records that an earlier table had are taken from there. Not for two threads at once, but for `earlier`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ..core.model import Blocker, Issue
from ..errors import TrackerError
from .file_records import BYTE_ORDER_MARK, Record, complaint, issue_of, names_of, split, usable

BLOCK = 128

# Issues, sentences for those that cannot be used, and states, each by id.
_Content = tuple[dict[str, Issue], dict[str, str], dict[str, str]]


class _Entry(Struct, frozen=True, gc=False):
    """A record's text, and the issue it is where it can be used. Frozen: another thread may be copying from it."""

    text: bytes
    issue: Issue | None


class Table:
    """`issues` has those that can be used, `unusable` a sentence for each id that cannot, `states` both."""

    issues: dict[str, Issue]
    unusable: dict[str, str]
    states: dict[str, str]
    problems: tuple[str, ...]
    counts: Counter[str]
    # The first position of each id, how many records share it, and the positions of those that name a blocker.
    _positions: dict[str, int]
    _shared: dict[str, int]
    _blocked: dict[str, list[int]]
    _entries: list[_Entry]
    # The text in parts of so many records, so that a change of one does not cost a walk over all.
    _blocks: list[bytes]
    # The state of each issue by its id and by its identifier, for those that it blocks.
    _named: dict[str, str]
    _active: dict[str, Issue] | None

    def __init__(
        self, raw: bytes, name: str, is_active: Callable[[str], bool], earlier: Table | None = None
    ) -> None:
        """`TrackerError` only when the text is no JSON array at all."""
        self.name = name
        self._is_active = is_active
        texts = split(raw, name)
        self._gaps = [*_gaps(raw, texts)]
        self._fill(texts, earlier._entries.copy() if earlier else [])

    @property
    def active(self) -> tuple[Issue, ...]:
        """In the order of the file."""
        if self._active is None:
            self._active = {i.id: i for i in self.issues.values() if self._is_active(i.state)}
        return tuple(self._active.values())

    def text(self, changed: Mapping[int, bytes] = {}) -> bytes:
        """The whole text, with other texts at the positions in `changed`."""
        blocks = self._blocks.copy()
        for number in {position // BLOCK for position in changed}:
            blocks[number] = self._block(number, changed)
        return b"".join([*blocks, self._gaps[-1]])

    def _block(self, number: int, changed: Mapping[int, bytes] = {}) -> bytes:
        """The text of some records with what stands before each of them."""
        first = number * BLOCK
        parts: list[bytes] = []
        for position, entry in enumerate(self._entries[first : first + BLOCK], first):
            parts += (self._gaps[position], changed.get(position, entry.text))
        return b"".join(parts)

    def text_of(self, position: int) -> bytes:
        return self._entries[position].text

    def position(self, issue_id: str) -> int:
        """Where the record of an issue is; `TrackerError` where there is none, or more than one."""
        if issue_id in self._shared:
            raise TrackerError(
                TrackerError.PAYLOAD,
                f'{self.name} has {self._shared[issue_id]} records with the id "{issue_id}".',
                fix="Give each its own.",
            )
        if issue_id not in self._positions:
            raise self.missing(issue_id)
        return self._positions[issue_id]

    def missing(self, issue_id: str) -> TrackerError:
        return TrackerError(TrackerError.NOT_FOUND, f'{self.name} has no issue with the id "{issue_id}".')

    def update(self, changed: Mapping[int, bytes]) -> set[str]:
        """Put these texts in place, in which ids and identifiers are as they were; the issues that differ now."""
        records = {position: usable(text) for position, text in changed.items()}
        if any(record is None or record.id not in self.issues for record in records.values()):
            return self._refill(changed)
        touched: set[str] = set()
        for position, record in records.items():
            assert record is not None
            touched |= self._update_one(position, changed[position], record)
        return touched

    def differing(self, other: Table) -> set[str]:
        """The ids of all issues that are not the same in both tables."""
        return _differing(self._content, other._content)

    @property
    def _content(self) -> _Content:
        return self.issues, self.unusable, self.states

    def _update_one(self, position: int, text: bytes, record: Record) -> set[str]:
        before = self.issues[record.id]
        issue = issue_of(record, self.named)
        self._put(position, text, issue)
        if issue.state == before.state:
            return {issue.id}
        self.states[issue.id] = self.named[issue.id] = issue.state
        if issue.identifier not in self.states:
            self.named[issue.identifier] = issue.state
        self.counts[issue.state] += 1
        self.counts[before.state] -= 1
        if not self.counts[before.state]:
            del self.counts[before.state]
        return {issue.id, *self._unblock(issue.id), *self._unblock(issue.identifier)}

    def _unblock(self, name: str) -> Iterator[str]:
        """Tell those that name this one as their blocker of its new state."""
        for position in self._blocked.get(name, ()):
            entry = self._entries[position]
            if entry.issue is not None:
                blockers = tuple([self._restated(blocker) for blocker in entry.issue.blocked_by])
                if blockers != entry.issue.blocked_by:
                    self._put(position, entry.text, replace(entry.issue, blocked_by=blockers))
                    yield entry.issue.id

    def _restated(self, blocker: Blocker) -> Blocker:
        state = self.named.get(blocker.id, self.named.get(blocker.identifier, blocker.state))
        return blocker if state == blocker.state else replace(blocker, state=state)

    def _put(self, position: int, text: bytes, issue: Issue) -> None:
        before = self.issues[issue.id]
        is_same = text is self._entries[position].text  # where only the state of a blocker is another
        self._entries[position] = _Entry(text, issue)
        if not is_same:
            self._blocks[position // BLOCK] = self._block(position // BLOCK)
        self.issues[issue.id] = issue
        if self._active is not None:
            was_active, is_active = self._is_active(before.state), self._is_active(issue.state)
            if is_active and not was_active:
                self._active = None  # its place among the others is not known
            elif is_active:
                self._active[issue.id] = issue
            else:
                self._active.pop(issue.id, None)

    def _refill(self, changed: Mapping[int, bytes]) -> set[str]:
        """All anew: a record becomes usable, or ceases to be."""
        before = self._content
        texts = [changed.get(position, entry.text) for position, entry in enumerate(self._entries)]
        self._fill(texts, self._entries)
        return _differing(self._content, before)

    def _fill(self, texts: list[bytes], earlier: list[_Entry]) -> None:
        known = _reusable(earlier)
        issues = [known.get(text) for text in texts]
        records = [issue or usable(text) for text, issue in zip(texts, issues, strict=True)]
        problems: list[str] = []
        self.unusable, self.states, self._positions, self._shared = {}, {}, {}, {}
        for position, record in enumerate(records):
            if record is None:
                issue_id = self._note_unusable(texts[position], position, problems)
            else:
                issue_id = record.id
                self.states.setdefault(issue_id, record.state)
            if issue_id and self._positions.setdefault(issue_id, position) != position:
                self._shared[issue_id] = self._shared.get(issue_id, 1) + 1
        self.named = {**{r.identifier: r.state for r in records if r is not None}, **self.states}
        twice = _duplicates(records, self.name)
        self.problems = (*problems, *dict.fromkeys(twice.values()))
        for position, record in enumerate(records):
            if record is not None and position in twice:
                self.unusable[record.id], issues[position] = twice[position], None
            elif isinstance(record, Record):
                issues[position] = issue_of(record, self.named)
        self._entries = [_Entry(text, issue) for text, issue in zip(texts, issues, strict=True)]
        self._blocks = [self._block(number) for number in range(-(-len(texts) // BLOCK))]
        self._index(issues)

    def _index(self, issues: list[Issue | None]) -> None:
        self.issues, self._blocked = {}, {}
        for position, issue in enumerate(issues):
            if issue is not None:
                self.issues[issue.id] = issue
                for name in {name for blocker in issue.blocked_by for name in (blocker.id, blocker.identifier)}:
                    self._blocked.setdefault(name, []).append(position)
        self.counts = Counter(issue.state for issue in self.issues.values())
        self._active = None

    def _note_unusable(self, text: bytes, position: int, problems: list[str]) -> str:
        names = names_of(text)
        problems.append(f"{self.name}: {complaint(text, names, position + 1)}")
        if not isinstance(names.id, str) or not names.id:
            return ""
        self.unusable[names.id] = problems[-1]
        if isinstance(names.state, str):
            self.states.setdefault(names.id, names.state)
        return names.id


def _differing(one: _Content, other: _Content) -> set[str]:
    (issues, unusable, states), (issues_2, unusable_2, states_2) = one, other
    found = issues.keys() ^ issues_2.keys()
    for issue_id in issues.keys() & issues_2.keys():
        if issues[issue_id] is not issues_2[issue_id] and issues[issue_id] != issues_2[issue_id]:
            found.add(issue_id)
    for issue_id in unusable.keys() | unusable_2.keys():
        if (unusable.get(issue_id), states.get(issue_id)) != (unusable_2.get(issue_id), states_2.get(issue_id)):
            found.add(issue_id)
    return found


def _gaps(raw: bytes, texts: list[bytes]) -> Iterator[bytes]:
    """What stands before each record, and after the last."""
    end, gap = len(BYTE_ORDER_MARK) if raw.startswith(BYTE_ORDER_MARK) else 0, b""
    for number, text in enumerate(texts):
        # Only blanks and a comma stand between two records, so the first match is the record itself.
        if not number or not (raw.startswith(gap, end) and raw.startswith(text, end + len(gap))):
            gap = raw[end if number else 0 : raw.index(text, end)]
        yield gap
        end = (end if number else 0) + len(gap) + len(text)
    yield raw[end if texts else 0 :]


def _reusable(entries: list[_Entry]) -> dict[bytes, Issue]:
    """Issues by their text; not those with blockers, whose states other records tell."""
    return {e.text: e.issue for e in entries if e.issue is not None and not e.issue.blocked_by}


def _duplicates(records: list[Record | Issue | None], name: str) -> dict[int, str]:
    """Records that share an id or an identifier, each with the sentence that names the shared value."""
    found: dict[int, str] = {}
    present = [record for record in records if record is not None]
    for field in ("identifier", "id"):
        counts = Counter(getattr(record, field) for record in present)
        if len(counts) == len(present):
            continue
        for position, record in enumerate(records):
            value = getattr(record, field, None)
            if record is not None and counts[value] > 1:
                found[position] = (
                    f'{name}: {counts[value]} records have the {field} "{value}", so none of them is used; '
                    "give each its own."
                )
    return found
