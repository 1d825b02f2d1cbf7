"""The facts everything else speaks about: issues as sources tell them, what a run used, what follows its end."""

from __future__ import annotations

from functools import cache
from operator import add, sub
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, astuple

S = TypeVar("S", bound=Struct)

RunStatus = Literal["succeeded", "failed", "timed_out", "stalled", "cancelled"]
RetryKind = Literal["error", "continuation", "resume", "limit", "held", "unparked", "started"]
Late = Literal["stalled", "timed_out"]
ParkKind = Literal["signal", "error", "budget", "operator"]


def like(kind: type[S], source: Struct, **more: Any) -> S:
    """A `kind` that says the same as `source` in all fields that both have, but for `more`."""
    return kind(**{name: getattr(source, name) for name in _shared(kind, type(source))} | more)


@cache
def _shared(one: type[Struct], other: type[Struct]) -> frozenset[str]:
    return frozenset(one.__struct_fields__) & frozenset(other.__struct_fields__)


class IssueRef(Struct, frozen=True):
    id: str
    identifier: str


class Blocker(Struct, frozen=True):
    """An issue that must be in a terminal state before the blocked one may start."""

    id: str
    identifier: str
    state: str = ""


class Comment(Struct, frozen=True):
    """`author` is the name that people read, `author_id` the one that nobody else can take, where the tracker has
    such; `association` is what the author is to the project, in the tracker's own word. `trusted` is None where
    nobody judges: see `Issue`."""

    id: str
    author: str
    body: str
    created_at: str = ""
    author_id: str = ""
    association: str = ""
    trusted: bool | None = None


class Finding(Struct, frozen=True):
    """One thing that was looked at before anything runs."""

    verdict: Literal["PASS", "WARN", "FAIL"]
    name: str
    detail: str
    fix: str = ""


class Limits(Struct, frozen=True, kw_only=True):
    """Upper bounds of one scope; None means no bound."""

    sessions: int | None = None
    turns: int | None = None
    tokens: int | None = None
    usd: float | None = None

    def filled_from(self, usual: Limits) -> Limits:
        """With the usual bound wherever this names none."""
        mine, theirs = asdict(self), asdict(usual)
        return Limits(**{name: theirs[name] if bound is None else bound for name, bound in mine.items()})


class AgentChoice(Struct, frozen=True, kw_only=True):
    """How an issue wants to be run, where it does not follow the workflow in it; what is empty follows it.

    `credential` names the account that pays: limits of a provider are those of an agent kind and an account.
    """

    kind: str = ""
    model: str = ""
    credential: str = ""
    max_turns: int | None = None
    limits: Limits | None = None


class Issue(Struct, frozen=True, kw_only=True):
    """One work item, normalised. `comments` is None where the source did not fetch them; `memo` is what its source
    wants to be told of it after a restart, and nobody else reads.

    `author` is who wrote title and description, as in `Comment`. `trusted` says whether that is one of those whose
    word counts; None where the text comes from nobody but the owner of the workflow.
    """

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
    agent: AgentChoice | None = None
    memo: str = ""
    author: str = ""
    author_id: str = ""
    association: str = ""
    trusted: bool | None = None


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
        return Usage(*map(add, astuple(self), astuple(other)))

    def minus(self, other: Usage) -> Usage:
        return Usage(*map(sub, astuple(self), astuple(other)))


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


class View(Struct, frozen=True, kw_only=True):
    """What scheduling needs to know of an issue, and where people find it; constant in size whatever it holds.

    `blocked_by` names the blockers that are not done yet, `fingerprint` is kept only while the issue is parked.
    `agent`, `provider` and `limits` are the issue's own, where it does not follow the policy in them. `memo` is its
    source's.
    """

    id: str
    identifier: str
    title: str
    state: str
    priority: int | None = None
    created_at: str = ""
    blocked_by: tuple[str, ...] = ()
    fingerprint: str = ""
    agent: str = ""
    provider: str = ""
    limits: Limits | None = None
    memo: str = ""
    url: str = ""


class Retry(Struct, frozen=True, kw_only=True):
    """`by_hand`: a person asked for it, so what the source shows of the issue does not keep it from starting."""

    kind: RetryKind
    attempt: int
    due_at: float
    failures: int = 0
    error: str = ""
    session_id: str = ""
    by_hand: bool = False


class Park(Struct, frozen=True, kw_only=True):
    """Put aside until a person acts; `session_id` lets the agent go on where it asked. `state` is that of an issue
    whose run a person had asked for: though it is not active, it stays parked as long as it is there."""

    kind: ParkKind
    reason: str
    fingerprint: str
    attempt: int = 0
    session_id: str = ""
    state: str = ""


class Overdue(Struct, frozen=True, kw_only=True):
    """A run that has been silent, or in one turn, for longer than the policy allows."""

    issue_id: str
    run_id: str
    cause: Late
    detail: str


class Place(Struct, frozen=True, kw_only=True):
    """A host that takes runs; `free` is how many more (None: any number)."""

    host: str
    free: int | None = None
