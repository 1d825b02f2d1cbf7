"""What an agent did with its tools, as events: in the log of its own issue, and in that of the issue it moved.

Agents name issues as they like, so the one that was meant is looked up: in what scheduling knows, in the tracker.
"""

from __future__ import annotations

import anyio

from ..core.events import ActedOn, ToolCalled
from ..core.model import IssueRef
from ..core.redact import Redactor
from ..core.world import World
from ..errors import TrackerError
from ..tools import envelope
from ..tools.definitions import TRANSITION
from ..trackers.port import Tracker
from .toollog import CALLS_OF_ONE_RUN, ToolCall

# Of one run. An agent that moves issues about all day must not drown what else happened to them.
ACTS_OF_ONE_RUN = 100
QUESTIONS_OF_ONE_RUN = 20
LOOKUP_DEADLINE = 5.0

# Nothing was changed: that is of no interest to the issue that stayed where it was.
_REFUSED = frozenset(
    {
        envelope.INVALID_INPUT,
        envelope.UNSUPPORTED_OPERATION,
        envelope.PROJECT_SCOPE_VIOLATION,
        envelope.AUTH_ERROR,
        envelope.NOT_FOUND,
        envelope.PAYLOAD_ERROR,
    }
)


class Deeds:
    """Those of one run, whose issue is `actor`."""

    def __init__(self, actor: IssueRef, run_id: str, world: World, tracker: Tracker, redactor: Redactor) -> None:
        self._actor = actor
        self._run_id = run_id
        self._world = world
        self._tracker = tracker
        self._redact = redactor.text
        self._found = {actor.id: actor, actor.identifier: actor}
        self._calls = self._acts = self._questions = 0

    async def events(
        self, call: ToolCall, at: float, *, witnessed: bool = False, in_haste: bool = False
    ) -> list[ToolCalled | ActedOn]:
        """The call as it is remembered; nothing beyond the bound of a run. In haste nobody is waited for."""
        self._calls += 1
        if self._calls > CALLS_OF_ONE_RUN:
            return []
        moves = call.operation == TRANSITION and bool(call.target) and call.error not in _REFUSED
        target = await self._moved(call.target, in_haste) if moves else self._known(call.target)
        target = target or IssueRef(call.target, "")
        called = ToolCalled(
            at=at,
            issue_id=self._actor.id,
            run_id=self._run_id,
            tool=call.known_tool,
            result=call.result,
            ms=call.ms,
            operation=call.operation,
            target=self._redact(target.identifier or target.id),
            state=self._redact(call.state),
            error=call.error,
            witnessed=witnessed,
        )
        if not moves or target.id == self._actor.id or self._acts == ACTS_OF_ONE_RUN:
            return [called]
        self._acts += 1
        acted = ActedOn(
            at=at,
            issue_id=target.id,
            identifier=target.identifier,
            by=self._actor.identifier,
            by_run=self._run_id,
            tool=called.tool,
            state=called.state,
            error=call.error or ("" if call.result == "success" else "no reason was given"),
        )
        return [called, acted]

    def _known(self, name: str) -> IssueRef | None:
        view = self._world.issues.get(name)
        return IssueRef(view.id, view.identifier) if view else self._found.get(name)

    async def _moved(self, name: str, in_haste: bool) -> IssueRef | None:
        """The issue that was moved, by whatever name; None where nobody knows it: the name counts as its id."""
        found = self._known(name)
        if found is None and self._questions < QUESTIONS_OF_ONE_RUN:
            self._questions += 1
            views = self._world.issues.values()
            found = next((IssueRef(view.id, name) for view in views if view.identifier == name), None)
            if found is None and not in_haste:
                found = await self._ask(name)
                if found is None:
                    self._questions = QUESTIONS_OF_ONE_RUN  # nobody is kept waiting by names that nobody knows
            if found is not None:
                self._found[name] = found
        return found

    async def _ask(self, name: str) -> IssueRef | None:
        try:
            with anyio.fail_after(LOOKUP_DEADLINE):
                issue = await self._tracker.fetch_issue(name)
        except (TrackerError, TimeoutError):
            return None
        return IssueRef(issue.id, issue.identifier)
