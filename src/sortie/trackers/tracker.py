"""The seam between the engine and any issue tracker, and the guard that keeps its promises for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Collection, Mapping, Sequence
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ..core.model import Comment, Finding, Issue
from ..core.observe import mark_of
from ..errors import TrackerError

T = TypeVar("T")

# How many issues are asked for at once, one by one.
FETCHES_AT_ONCE = 8


class TrackerSettings(Struct, frozen=True, kw_only=True):
    """What a tracker is built from; `options` is the workflow block named after its kind."""

    kind: str
    active_states: tuple[str, ...]
    terminal_states: tuple[str, ...] = ()
    handoff_state: str = ""
    in_progress_state: str = ""
    endpoint: str = ""
    api_key: str = ""
    project: str = ""
    query_filter: str = ""
    failed_states: tuple[str, ...] = ()
    trusted_authors: tuple[str, ...] = ()
    excluded_authors: tuple[str, ...] = ()
    calls_per_minute: int = 120
    options: Mapping[str, Any] = {}
    base: Path = Path()

    def __repr__(self) -> str:
        """Without keys, also those among the options."""
        return f"TrackerSettings(kind={self.kind!r}, project={self.project!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("kind", self.kind), ("project", self.project)]


class Candidates(Struct, frozen=True):
    """The active issues, and a sentence for each record that cannot be used: it never hides a good one.

    `states` counts all issues by their state, active or not; it is empty where the tracker does not know. Where
    `counts_some` it counts only some of them.

    `changed` has the id of every issue that may differ from the previous answer of the same tracker object: of the
    issues in either answer all that came, left or differ in any field; of others it may have some. Empty: no issue
    changed. None: not known, compare all; so it is in the first answer. The tracker's own writes count. It says
    nothing of `problems` and `states`.

    `version` and `since` are the guard's, a tracker leaves them alone: the number of what is told, another whenever
    something changed, and that of the answer before.
    """

    issues: tuple[Issue, ...]
    problems: tuple[str, ...] = ()
    states: Mapping[str, int] = {}
    changed: frozenset[str] | None = None
    version: int = 0
    since: int = 0
    counts_some: bool = False

    def changed_since(self, previous: Candidates | None) -> frozenset[str] | None:
        """`changed` for a caller whose last answer was `previous`; None when others got answers in between."""
        if previous is None:
            return None
        if self.version and self.version == previous.version:
            return frozenset()
        return self.changed if self.since == previous.version else None


class CallUse(Struct, frozen=True, kw_only=True):
    """How much of a server's patience is used. `made` counts the calls of the last minute, of which our own budget
    allows `per_minute`. The server's own count, where it tells one: `remaining` of `limit` until `resets_at`, in
    seconds since the epoch. Until `held_until` nothing is asked at all, because the server said so."""

    made: int
    per_minute: int
    limit: int | None = None
    remaining: int | None = None
    resets_at: float | None = None
    held_until: float | None = None


class Tracker(Protocol):
    """Every call may raise `TrackerError` and nothing else; every call may be repeated, and made beside others.

    What a call that has returned wrote is in every answer to a later call.

    One that asks a server may have two methods more. `async examine() -> Sequence[Finding]`: whether its access and
    permissions are enough, found out by reading only; for `sortie doctor`. `call_use() -> CallUse`: for
    `sortie status`.
    """

    async def fetch_candidates(self) -> Candidates:
        """Every issue in an active state."""

    async def fetch_issue(self, issue_id: str) -> Issue:
        """One issue with its comments; `tracker_not_found` where it does not exist."""

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        """The present state of each issue that exists; missing ones are left out."""

    async def transition(self, issue_id: str, state: str) -> None:
        """Move the issue; a move to the state it is in already does nothing."""

    async def comment(self, issue_id: str, body: str) -> None:
        """Add a comment as the orchestrator."""

    def watched_files(self) -> tuple[Path, ...]:
        """Files whose change means new facts; empty for trackers that must be polled."""
        ...

    async def aclose(self) -> None: ...


class TrackerKind(Protocol):
    """What a kind is registered as: usually the class itself, with two class methods.

    One whose issues are in local files may have a third, `peek(settings)`: the `Candidates` read at once, with no
    event loop around, for commands that are to answer at once. One to which strangers write has
    `trusted_by_default`, the entries of `tracker.trusted_authors` where the workflow has none; without it everybody
    who can write to the tracker is trusted. One whose ids mean other issues in another project has
    `ids_within_project = True`, and identifiers `PROJECT#NUMBER`.
    """

    def from_settings(self, settings: TrackerSettings) -> Tracker:
        """Build it without touching the outside world."""

    def check(self, settings: TrackerSettings) -> list[tuple[str, str]]:
        """What is wrong with the settings, as (key path such as `file.path`, one sentence)."""


async def marked_comments(tracker: Tracker, issue_id: str) -> tuple[Comment, ...]:
    """The comments of an issue that end with a mark of ours, whoever wrote them: also where what their authors say
    is left out for everybody else. For whoever asks whether something was said before, and for nobody who reads."""
    if hasattr(tracker, "fetch_marked"):
        marked: tuple[Comment, ...] = await tracker.fetch_marked(issue_id)
        return marked
    issue = await tracker.fetch_issue(issue_id)
    return tuple(comment for comment in issue.comments or () if mark_of(comment.body))


async def fetch_each(
    tracker: Tracker, issue_ids: Collection[str], *, patience: float = inf
) -> tuple[dict[str, Issue], dict[str, TrackerError]]:
    """Each issue in full, a few at once: those that came, and the error of each that did not.

    Once the tracker says that it is asked too often, it is asked no more: the rest has that error too. After
    `patience` seconds what has come counts; an issue that nobody has asked for by then is in neither.
    """
    found: dict[str, Issue] = {}
    failed: dict[str, TrackerError] = {}
    limit: TrackerError | None = None
    remaining = iter(tuple(issue_ids))

    async def fetch_remaining() -> None:
        nonlocal limit
        for issue_id in remaining:
            message = f'the tracker did not answer in time for "{issue_id}".'
            failed[issue_id] = TrackerError(TrackerError.TRANSPORT, message)  # true until it answers
            try:
                if limit is not None:
                    raise limit
                found[issue_id] = await tracker.fetch_issue(issue_id)
                del failed[issue_id]
            except TrackerError as error:
                failed[issue_id] = error
                if error.kind == TrackerError.RATE_LIMITED:
                    limit = error
            except TimeoutError:
                continue

    with anyio.move_on_after(patience):
        async with anyio.create_task_group() as tasks:
            for _ in range(min(FETCHES_AT_ONCE, len(issue_ids))):
                tasks.start_soon(fetch_remaining)
    return found, failed


class GuardedTracker:
    """A tracker that keeps the promises of its Protocol: whatever goes wrong inside comes out as a `TrackerError`.

    Trackers come from other packages too. A defect in one must cost a tick, not the service and its agents. And
    several callers share one tracker: answers are numbered, so that each notices when another took one in between.
    What is asked of it is counted, by operation and result.
    """

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._answering = anyio.Lock()
        self._version = 0
        self._requests: Counter[tuple[str, str]] = Counter()

    async def fetch_candidates(self) -> Candidates:
        async with self._answering:
            # Where no answer comes, nobody has that number, and everybody compares all with the next one.
            since, self._version = self._version, next(_versions)
            answer = await self._counted("fetch_candidates", self._tracker.fetch_candidates())
            if answer.changed is not None and not answer.changed:
                self._version = since
            return replace(answer, version=self._version, since=since)

    async def fetch_issue(self, issue_id: str) -> Issue:
        return await self._counted("fetch_issue", self._tracker.fetch_issue(issue_id))

    async def fetch_marked(self, issue_id: str) -> tuple[Comment, ...]:
        return await self._counted("fetch_issue", marked_comments(self._tracker, issue_id))

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        return await self._counted("fetch_states_by_ids", self._tracker.fetch_states(issue_ids))

    async def transition(self, issue_id: str, state: str) -> None:
        await self._counted("transition", self._tracker.transition(issue_id, state))

    async def comment(self, issue_id: str, body: str) -> None:
        await self._counted("comment", self._tracker.comment(issue_id, body))

    def watched_files(self) -> tuple[Path, ...]:
        return self._tracker.watched_files()

    async def examine(self) -> Sequence[Finding]:
        return await guarded(self._tracker.examine()) if hasattr(self._tracker, "examine") else ()

    def call_use(self) -> CallUse | None:
        return self._tracker.call_use() if hasattr(self._tracker, "call_use") else None

    def requests_made(self) -> Mapping[tuple[str, str], int]:
        """Since this was last asked, by operation and result."""
        made, self._requests = self._requests, Counter()
        return made

    async def _counted(self, operation: str, call: Awaitable[T]) -> T:
        result = "error"  # also where nobody waits for the answer any more
        try:
            answer = await guarded(call)
            result = "success"
        finally:
            self._requests[operation, result] += 1
        return answer

    async def aclose(self) -> None:
        await guarded(self._tracker.aclose())


# One sequence for all trackers, so that an answer of one is never taken for an earlier answer of another.
_versions = count(1)


async def guarded(call: Awaitable[T]) -> T:
    """What it answers; whatever goes wrong inside comes out as a `TrackerError`."""
    try:
        return await call
    except (TrackerError, TimeoutError):
        raise
    except Exception as error:  # the edge to somebody else's code
        message = f"the tracker failed: {type(error).__name__}: {error}"
        raise TrackerError(TrackerError.API, message) from error
