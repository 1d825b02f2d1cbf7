"""Which success criteria the summary of a task shows as met: its checklist against those of the plan. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

_ITEM = re.compile(r"^[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[([ xX])\][ \t]+(\S.*)$")
_FENCE = re.compile(r"^[ \t>]*(```+|~~~+)")
_EMPHASIS = re.compile(r"[*_`~]+")
# What may stand behind a criterion: how it was met.
_REMARK = re.compile(r"\s*[:;,.(\[–—-]")  # noqa: RUF001 - people write these dashes
_END = " \t.,;:!?…"


class Criterion(Struct, frozen=True):
    """`met` is what the summary says of it; None where it says nothing."""

    text: str
    met: bool | None


def shown(criteria: Sequence[str], summary: str) -> list[Criterion]:
    """Each of these, in their order. Upper case, blanks, emphasis and the punctuation at the end do not matter, and
    a remark may follow. Where a summary says both, the criterion is not met."""
    wanted = {_plain(text): text for text in criteria}
    found: dict[str, bool] = {}
    for text, met in _checklist(summary):
        key = _meant(text, wanted)
        if key is not None:
            found[key] = found.get(key, True) and met
    return [Criterion(text, found.get(_plain(text))) for text in criteria]


def _checklist(summary: str) -> Iterator[tuple[str, bool]]:
    """Its entries outside of code: an example is no claim."""
    fence = ""
    for line in summary.splitlines():
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence):
                fence = ""
        elif not fence and (item := _ITEM.match(line)):
            yield item[2], item[1] != " "


def _meant(text: str, wanted: dict[str, str]) -> str | None:
    """The criterion that it is, or the longest that it begins with before a remark."""
    plain = _plain(text)
    if plain in wanted:
        return plain
    whole = _bare(text)
    fitting = [key for key in wanted if key and whole.startswith(key) and _REMARK.match(whole, len(key))]
    return max(fitting, key=len, default=None)


def _bare(text: str) -> str:
    return " ".join(_EMPHASIS.sub("", text).split()).casefold()


def _plain(text: str) -> str:
    return _bare(text).strip(_END)
