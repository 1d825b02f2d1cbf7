"""What several pages share: a list shown page by page, bars for what is used of a limit, numbers of an address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from ...core.model import Limits
from ...core.policy import Spent
from .. import show

# Of each list on one page; the others are behind a link.
SHOWN = 25
T = TypeVar("T")


class Part(Struct, Generic[T], frozen=True):
    """A list of which only some are shown; `page` counts from 1."""

    name: str
    items: Sequence[T]
    total: int
    page: int
    pages: int


class Bar(Struct, frozen=True):
    """How much of a limit is used; `limit` is None where there is none, or none is known. `look` is what
    the style sheet calls it."""

    title: str
    used: float
    limit: float | None
    used_text: str
    limit_text: str
    look: str


def part(name: str, items: Sequence[T], wanted: str | None, size: int = SHOWN) -> Part[T]:
    """The page that was asked for, or the nearest one that there is."""
    pages = max(-(-len(items) // size), 1)
    number = min(max(number_in(wanted, 1), 1), pages)
    return Part(name, items[(number - 1) * size : number * size], len(items), number, pages)


def number_in(text: str | None, default: int) -> int:
    """The number in an address, which anybody may have written."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 12 else default


def bars(spent: Spent, limits: Limits | None) -> list[Bar]:
    """Limits that are None are not known, which is not the same as that there is none."""
    without = "no limit" if limits else "limit not known"
    limits = limits or Limits()
    return [
        bar("Dollars", spent.usd, limits.usd, show.money, without),
        bar("Tokens", spent.tokens, limits.tokens, show.tokens, without),
        bar("Turns", spent.turns, limits.turns, show.whole, without),
        bar("Sessions", spent.sessions, limits.sessions, show.whole, without),
    ]


def bar(title: str, used: float, limit: float | None, words: show.Amount, without: str = "no limit") -> Bar:
    share = used / limit if limit else 0.0
    look = "over" if share >= 1 else "near" if share >= 0.8 else "within"
    return Bar(title, used, limit, words(used), without if limit is None else f"of {words(limit)}", look)
