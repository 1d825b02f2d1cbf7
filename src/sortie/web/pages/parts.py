"""What several pages share: a list shown page by page, bars for what is used of a limit, numbers of an address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ...core.model import Limits
from ...core.policy import Spent
from ...runs.prompt_log import Prompt
from .. import show

# Of each list on one page; the others are behind a link.
SHOWN = 25
# Characters of what was said, and as many of what was told: a page that is followed is sent again and again.
MOST_TEXT = 256 * 1024
MOST_PROMPTS = 50
LONGEST_PROMPT = 64_000
T = TypeVar("T")


class Part(Struct, Generic[T], frozen=True):
    """A list of which only some are shown; `page` counts from 1."""

    name: str
    items: Sequence[T]
    total: int
    page: int
    pages: int


class Bar(Struct, frozen=True):
    """How much of a limit is used, None where nobody told it; `limit` is None where there is none, or none is
    known. `look` is what the style sheet calls it."""

    title: str
    used: float | None
    limit: float | None
    used_text: str
    limit_text: str
    look: str


class PromptsTold(Struct, frozen=True):
    """The newest prompts, the newest first, each with its number among all that are kept of the run."""

    run_id: str
    prompts: list[tuple[int, Prompt]]
    total: int


def prompts_told(run_id: str, kept: Sequence[Prompt]) -> PromptsTold:
    """As many as a page has room for."""
    shown: list[tuple[int, Prompt]] = []
    room = MOST_TEXT
    for number in range(len(kept), max(len(kept) - MOST_PROMPTS, 0), -1):
        prompt = replace(kept[number - 1], text=show.lines(kept[number - 1].text, LONGEST_PROMPT))
        room -= len(prompt.text)
        if room < 0:
            break
        shown.append((number, prompt))
    return PromptsTold(run_id, shown, len(kept))


def part(name: str, items: Sequence[T], wanted: str | None, size: int = SHOWN) -> Part[T]:
    """The page that was asked for, or the nearest one that there is."""
    pages = max(-(-len(items) // size), 1)
    number = min(max(number_in(wanted, 1), 1), pages)
    return Part(name, items[(number - 1) * size : number * size], len(items), number, pages)


def number_in(text: str | None, default: int) -> int:
    """The number in an address, which anybody may have written."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 12 else default


def bars(spent: Spent, limits: Limits | None) -> list[Bar]:
    """Limits that are None are not known, which is not the same as that there is none. Nor is it free what had
    turns and told nothing."""
    without = "no limit" if limits else "limit not known"
    limits = limits or Limits()
    usd, tokens = (amount if amount or not spent.turns else None for amount in (spent.usd, spent.tokens))
    return [
        bar("Dollars", usd, limits.usd, show.money, without),
        bar("Tokens", tokens, limits.tokens, show.tokens, without),
        bar("Turns", spent.turns, limits.turns, show.whole, without),
        bar("Sessions", spent.sessions, limits.sessions, show.whole, without),
    ]


def bar(title: str, used: float | None, limit: float | None, words: show.Amount, without: str = "no limit") -> Bar:
    share = used / limit if used and limit else 0.0
    look = "over" if share >= 1 else "near" if share >= 0.8 else "within"
    return Bar(title, used, limit, words(used), without if limit is None else f"of {words(limit)}", look)
