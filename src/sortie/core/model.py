"""The facts everything else speaks about: issues as trackers tell them, and what a run consumed."""

from __future__ import annotations

from msgspec import Struct


class IssueRef(Struct, frozen=True):
    id: str
    identifier: str


class Blocker(Struct, frozen=True):
    """An issue that must be in a terminal state before the blocked one may start."""

    id: str
    identifier: str
    state: str = ""


class Comment(Struct, frozen=True):
    id: str
    author: str
    body: str
    created_at: str = ""


class Issue(Struct, frozen=True, kw_only=True):
    """One work item, normalised. `comments` is None where the tracker did not fetch them."""

    id: str
    identifier: str
    title: str
    state: str
    description: str = ""
    priority: int | None = None
    labels: tuple[str, ...] = ()
    assignee: str = ""
    issue_type: str = ""
    url: str = ""
    branch_name: str = ""
    parent: IssueRef | None = None
    comments: tuple[Comment, ...] | None = None
    blocked_by: tuple[Blocker, ...] = ()
    created_at: str = ""
    updated_at: str = ""


class Usage(Struct, frozen=True):
    """Tokens and money of one run, or a part of it."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cost_usd: float = 0.0

    @property
    def total(self) -> int:
        return self.input + self.output

    def plus(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cost_usd + other.cost_usd,
        )


class TokenRates(Struct, frozen=True, kw_only=True):
    """US dollars per million tokens."""

    input_per_mtok: float = 0.0
    output_per_mtok: float = 0.0
    cache_read_per_mtok: float = 0.0

    def cost(self, usage: Usage) -> float:
        """What the tokens cost; those read from the cache are part of the input and cheaper."""
        fresh = max(usage.input - usage.cache_read, 0)
        millionths = (
            fresh * self.input_per_mtok
            + usage.output * self.output_per_mtok
            + usage.cache_read * self.cache_read_per_mtok
        )
        return millionths / 1_000_000
