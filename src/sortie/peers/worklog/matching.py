"""Which entry of a later version of a work log is which of an earlier one, whatever was done to them in between."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from .parse import Entry

Pairs = list[tuple[int, int]]

# A line that stands in more entries than this does not tell from which of them it comes.
_COMMON_LINE = 20
# Lines of one entry that are looked at: enough to know it by.
_LINES_LOOKED_AT = 400


class Matching(Struct, frozen=True, kw_only=True):
    """Numbers are positions; in a pair that in the earlier version comes first."""

    same: tuple[tuple[int, int], ...]
    edited: tuple[tuple[int, int], ...]
    removed: tuple[int, ...]
    added: tuple[int, ...]
    # Earlier positions of those that do not stand between their earlier neighbours any more.
    moved: frozenset[int]


def match(old: Sequence[Entry], new: Sequence[Entry]) -> Matching:
    """Equal text first, then the same name, then the same lines under another heading, then the same place between
    others; each entry is used once."""
    begun = _common_beginning(old, new)
    left, right = list(range(begun, len(old))), list(range(begun, len(new)))
    same = _paired(old, new, left, right, lambda entry: entry.digest)
    left, right = _left_over(left, right, same)
    edited = _paired(old, new, left, right, lambda entry: entry.entry_id)
    left, right = _left_over(left, right, edited)
    edited += _alike(old, new, left, right)
    left, right = _left_over(left, right, edited)
    edited += _in_place(sorted(same + edited), left, right, begun)
    left, right = _left_over(left, right, edited)
    return Matching(
        same=(*((at, at) for at in range(begun)), *same),
        edited=tuple(sorted(edited)),
        removed=tuple(left),
        added=tuple(right),
        moved=_out_of_order(sorted(same + edited)),
    )


def _common_beginning(old: Sequence[Entry], new: Sequence[Entry]) -> int:
    for at, (one, other) in enumerate(zip(old, new, strict=False)):
        if raw(one) != raw(other) and one.digest != other.digest:
            return at
    return min(len(old), len(new))


def raw(entry: Entry) -> bytes:
    """As it stands in the file, but for blank lines at its end."""
    return entry.source.data[entry.start : entry.end].rstrip()


def _paired(
    old: Sequence[Entry], new: Sequence[Entry], left: list[int], right: list[int], key: Callable[[Entry], str]
) -> Pairs:
    """Those with the same key, in the order in which they stand."""
    waiting: defaultdict[str, deque[int]] = defaultdict(deque)
    for at in right:
        waiting[key(new[at])].append(at)
    return [(at, there.popleft()) for at in left if (there := waiting.get(key(old[at])))]


def _alike(old: Sequence[Entry], new: Sequence[Entry], left: list[int], right: list[int]) -> Pairs:
    """Those whose heading was changed too: at least half of the lines of either are lines of the other."""
    found_in: defaultdict[str, list[int]] = defaultdict(list)
    for at in right:
        for line in _lines(new[at]):
            found_in[line].append(at)
    pairs, taken = [], set()
    for at in left:
        lines = _lines(old[at])
        votes: Counter[int] = Counter()
        for line in lines:
            if len(places := found_in.get(line, ())) <= _COMMON_LINE:
                votes.update(place for place in places if place not in taken)
        best, common = next(iter(votes.most_common(1)), (-1, 0))
        if common and 2 * common >= max(len(lines), len(_lines(new[best]))):
            taken.add(best)
            pairs.append((at, best))
    return pairs


def _in_place(pairs: Pairs, left: list[int], right: list[int], begun: int) -> Pairs:
    """As many as went between two others came there, so they are the same. At the end nobody can tell."""
    moved = _out_of_order(pairs)
    found: Pairs = []
    before = (begun - 1, begun - 1)
    for pair in (pair for pair in pairs if pair[0] not in moved):
        olds = left[bisect_left(left, before[0]) : bisect_left(left, pair[0])]
        news = right[bisect_left(right, before[1]) : bisect_left(right, pair[1])]
        if len(olds) == len(news):
            found += zip(olds, news, strict=True)
        before = pair
    return found


def _lines(entry: Entry) -> set[str]:
    stripped = (line.strip() for line in entry.text.splitlines()[:_LINES_LOOKED_AT])
    return {line for line in stripped if line}


def _left_over(left: list[int], right: list[int], pairs: Pairs) -> tuple[list[int], list[int]]:
    ones, others = {one for one, _ in pairs}, {other for _, other in pairs}
    return [at for at in left if at not in ones], [at for at in right if at not in others]


def _out_of_order(pairs: Pairs) -> frozenset[int]:
    """The fewest whose removal leaves the rest in order: all that are in no longest rising sequence."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        at = bisect_left(ends, place)
        if at == len(ends):
            ends.append(place)
            last.append(number)
        ends[at], last[at] = place, number
        before.append(last[at - 1] if at else -1)
    kept, number = set(), last[-1] if last else -1
    while number >= 0:
        kept.add(number)
        number = before[number]
    return frozenset(one for number, (one, _) in enumerate(pairs) if number not in kept)
