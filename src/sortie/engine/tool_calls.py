"""What an agent did with its tools, as events: in the log of its own issue, and in that of the issue it moved.

Agents name issues as they like, so the one that was meant is looked up: in what scheduling knows, in the tracker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio

from ..core.events import ActedOn, ToolCalled
from ..core.model import IssueRef
from ..core.redact import Redactor
from ..core.schedule import Schedule
from ..errors import TrackerError
from ..runs.tool_log import CALLS_OF_ONE_RUN, ToolCall
from ..sources.source import Source
from ..tools import envelope
from ..tools.definitions import TRACKER_API, TRANSITION
from ..tools.record import LONGEST_WORD

# Of one run. An agent that moves issues about all day must not drown what else happened to them.
ACTS_ON_ONE_ISSUE = 100
ISSUES_OF_ONE_RUN = 100
QUESTIONS_OF_ONE_RUN = 20
LOOKUP_DEADLINE = 5.0

_CANCELLED = envelope.failure(envelope.TRANSPORT_ERROR, "The call was cancelled.")

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


class ToolCalls:
    """Those of one run, whose issue is `actor`; `brokered` where it acts on issues through us alone.

    There the bounds are those of what it may do, so that whatever it did is told.
    """

    def __init__(
        self,
        actor: IssueRef,
        run_id: str,
        schedule: Schedule,
        source: Source,
        redactor: Redactor,
        *,
        brokered: bool = False,
    ) -> None:
        self._actor = actor
        self._run_id = run_id
        self._world = schedule
        self._source = source
        self._redact = redactor.text
        self._found = {actor.id: actor, actor.identifier: actor}
        self.brokered = brokered
        self._refusals = 0
        self._admitted = self._calls = self._questions = 0
        self._acts: Counter[str] = Counter()

    def refusal(self, arguments: object) -> dict[str, Any] | None:
        """Before a brokered call is made: the answer to one that is too many for a run, else None."""
        if self._admitted >= CALLS_OF_ONE_RUN:
            return envelope.failure(envelope.API_ERROR, f"There were {CALLS_OF_ONE_RUN} calls in this run already.")
        asked = arguments if isinstance(arguments, dict) else {}
        name = asked.get("issue_id")
        if asked.get("operation") == TRANSITION and isinstance(name, str) and name:
            known = self._known(name)
            if not self._has_room_for(known.id if known else name[:LONGEST_WORD]):
                return envelope.failure(
                    envelope.API_ERROR,
                    f"Too many moves in one run: it may move {ISSUES_OF_ONE_RUN} issues beside its own, "
                    f"and each of them {ACTS_ON_ONE_ISSUE} times.",
                )
        self._admitted += 1
        return None

    def has_just_refused(self) -> bool:
        """Whether there was a first refusal since the last time: people are told once."""
        first, self._refusals = self._refusals == 1, self._refusals + (self._refusals == 1)
        return first

    async def call(
        self,
        tool: str,
        arguments: object,
        alone: anyio.Lock,
        now: Callable[[], float],
        tell: Callable[[list[ToolCalled | ActedOn]], None],
    ) -> dict[str, Any]:
        """Make a brokered call; `alone` keeps others from moving the issue meanwhile.

        What it did is told also where it is cancelled: it may have had its effect.
        """
        if refused := self.refusal(arguments):
            self._refusals += self._refusals == 0
            return refused
        answer, started = _CANCELLED, now()
        try:
            async with alone:
                answer = await self._source.call_tool(self._actor.id, tool, arguments)
        finally:
            call = ToolCall.made(tool, arguments, answer, max(now() - started, 0.0) * 1000)
            tell(await self.events(call, now(), witnessed=True, in_haste=answer is _CANCELLED))
        return answer

    def _has_room_for(self, issue_id: str) -> bool:
        """Whether one more act on this issue is within the bounds; then it counts."""
        if issue_id == self._actor.id:
            return True
        if self._acts[issue_id] >= ACTS_ON_ONE_ISSUE:
            return False
        if issue_id not in self._acts and len(self._acts) >= ISSUES_OF_ONE_RUN:
            return False
        self._acts[issue_id] += 1
        return True

    async def events(
        self, call: ToolCall, at: float, *, witnessed: bool = False, in_haste: bool = False
    ) -> list[ToolCalled | ActedOn]:
        """The call as it is remembered; of what others say, nothing beyond the bound of a run.

        `witnessed` is one that we have made, after `refusal` let it pass. In haste nobody is waited for.
        """
        self._calls += not witnessed
        if self._calls > CALLS_OF_ONE_RUN and not witnessed:
            return []
        moves = (
            call.tool == TRACKER_API.name
            and call.operation == TRANSITION
            and bool(call.target)
            and call.error not in _REFUSED
            and (witnessed or not self.brokered)
        )
        target = await self._moved(call.target, in_haste) if moves else self._known(call.target)
        target = target or IssueRef(call.target, "")
        called = ToolCalled(
            at=at,
            issue_id=self._actor.id,
            run_id=self._run_id,
            tool=call.known_tool,
            result=call.result,
            ms=call.ms,
            operation=self._redact(call.operation),
            target=self._redact(target.identifier or target.id),
            state=self._redact(call.state),
            error=call.error,
            witnessed=witnessed,
        )
        if not moves or target.id == self._actor.id or not (witnessed or self._has_room_for(target.id)):
            return [called]
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
                issue = await self._source.fetch(name)
        except (TrackerError, TimeoutError):
            return None
        return IssueRef(issue.id, issue.identifier)
