"""Parts that live in memory, for tests of what uses them; each keeps the contract of its kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import anyio
from msgspec.structs import replace

from ..agents.agent import AgentEvent, Said, SessionOpened, StderrLine, Used
from ..core.events import AnyEvent
from ..core.model import Comment, Issue, Usage
from ..engine.clock import Clock
from ..errors import TrackerError
from ..process.identity import ProcessIdentity
from ..trackers.tracker import Candidates

E = TypeVar("E", bound=AnyEvent)


class EventCollector(list[AnyEvent]):
    """A listener that keeps every event and can be waited for."""

    def __call__(self, event: AnyEvent) -> None:
        self.append(event)

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self if isinstance(event, kind)]

    def of(self, kind: type[E], issue_id: str) -> list[E]:
        return [event for event in self.all(kind) if event.issue_id == issue_id]

    async def wait(self, kind: type[E], issue_id: str | None = None, number: int = 1) -> E:
        """The event of this kind, about this issue or any, that is the `number`-th of them."""
        while True:
            found = self.all(kind) if issue_id is None else self.of(kind, issue_id)
            if len(found) >= number:
                return found[number - 1]
            await anyio.sleep(0.01)


class MemoryTracker:
    """A tracker whose issues are given to it; with no active states, all but those in terminal ones are active."""

    def __init__(
        self,
        issues: Iterable[Issue] = (),
        active_states: Collection[str] = (),
        terminal_states: Collection[str] = (),
        other_states: Collection[str] = (),
    ) -> None:
        self.issues = {issue.id: _as_told(issue) for issue in issues}
        self._active = {state.lower() for state in active_states}
        self._terminal = {state.lower() for state in terminal_states}
        self._known = {state.lower(): state for state in (*active_states, *terminal_states, *other_states)}
        self._told: dict[str, Issue] | None = None

    async def fetch_candidates(self) -> Candidates:
        before, self._told = self._told, dict(self.issues)
        changed = None
        if before is not None:
            ids = before.keys() | self.issues.keys()
            changed = frozenset(i for i in ids if before.get(i) != self.issues.get(i))
        active = tuple(issue for issue in self.issues.values() if self._is_active(issue.state))
        states = Counter(issue.state for issue in self.issues.values())
        return Candidates(active, states=states, changed=changed)

    async def fetch_issue(self, issue_id: str) -> Issue:
        if issue_id not in self.issues:
            raise TrackerError(TrackerError.NOT_FOUND, f'There is no issue with the id "{issue_id}".')
        return self.issues[issue_id]

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        return {i: self.issues[i].state for i in issue_ids if i in self.issues}

    async def transition(self, issue_id: str, state: str) -> None:
        issue = await self.fetch_issue(issue_id)
        present = {issue.state.lower(): issue.state for issue in self.issues.values()}
        known = {**present, **self._known}.get(state.lower())
        if known is None:
            raise TrackerError(TrackerError.PAYLOAD, f'There is no state "{state}".')
        if known != issue.state:
            self.issues[issue_id] = replace(issue, state=known, updated_at=_now())

    async def comment(self, issue_id: str, body: str) -> None:
        issue = await self.fetch_issue(issue_id)
        comments = issue.comments or ()
        added = Comment(f"sortie-{len(comments)}", "sortie", body, _now())
        self.issues[issue_id] = replace(issue, comments=(*comments, added), updated_at=_now())

    def watched_files(self) -> tuple[Path, ...]:
        return ()

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _is_active(self, state: str) -> bool:
        name = state.lower()
        return name not in self._terminal and (not self._active or name in self._active)


class Recorder:
    """A reporter that keeps all it is told, in order."""

    def __init__(self) -> None:
        self.identities: list[ProcessIdentity] = []
        self.events: list[AgentEvent] = []

    async def process_started(self, identity: ProcessIdentity) -> None:
        self.identities.append(identity)

    def report(self, event: AgentEvent) -> None:
        self.events.append(event)

    @property
    def said(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Said)]

    @property
    def stderr_lines(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, StderrLine)]

    @property
    def sessions(self) -> list[str]:
        return [event.session_id for event in self.events if isinstance(event, SessionOpened)]

    @property
    def used(self) -> list[Usage]:
        return [event.usage for event in self.events if isinstance(event, Used)]


class ManualClock(Clock):
    """Stands still until a test moves it. The engine looks at it whenever something wakes it, such as a poll."""

    def __init__(self, now: float = 1_000_000_000.0) -> None:
        self._passed = self._set_ahead = 0.0
        super().__init__(lambda: now + self._passed + self._set_ahead, lambda: self._passed)

    def advance(self, seconds: float) -> None:
        """So much time passes."""
        self._passed += seconds

    def set_ahead(self, seconds: float) -> None:
        """Somebody sets the calendar so far ahead of what it was at the start, or back; no time passes."""
        self._set_ahead = seconds


def _as_told(issue: Issue) -> Issue:
    """As every tracker tells it: with its comments, and with labels in lower case."""
    return replace(issue, comments=issue.comments or (), labels=tuple(label.lower() for label in issue.labels))


def _now() -> str:
    return datetime.now(UTC).isoformat()
