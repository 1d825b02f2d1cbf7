"""One claimed issue, from the claim to the settlement: the only task that writes about this run."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from sqlite3 import Connection
from typing import Any, TypeVar

import anyio
from msgspec.structs import replace

from ..core import events as ev
from ..core.budget import turn_refused
from ..core.conclude import Outcome, stopped
from ..core.events import AnyEvent, Level
from ..core.liveness import Pulse
from ..core.model import Issue, IssueRef, Usage
from ..core.narrate import narrate
from ..core.schedule import Running
from ..errors import TrackerError
from ..hosts.run_order import Execution, RunOrder
from ..runs.run_log import RunLog, archive_directory, broker_socket_path, log_path, tool_log_path
from ..runs.tool_log import ToolCall, ToolLog
from ..sources import comments
from ..store.queries import last_session, was_used, workspace_made
from ..tools import envelope
from ..tools.definitions import TRACKER_API
from ..tools.local import tracker_settings
from ..tools.tracker_api import Reach, handle
from ..trackers.tracker import Tracker
from ..workflow.config import Config
from ..workspace.keys import workspace_key
from .effects import TRACKER_DEADLINE, Effect, deliver, show_progress
from .ending import Ending
from .services import Services
from .tool_calls import Deeds

log = logging.getLogger(__name__)
E = TypeVar("E")

# An agent that needs no login and has run for so long is at work, though it says nothing.
ANNOUNCED_WITHIN = 5.0
_CANCELLED = envelope.failure(envelope.TRANSPORT_ERROR, "The call was cancelled.")


class ActiveRun:
    """Implements `RunLink` for its host. `issue` is the last known version, our own transitions included."""

    def __init__(self, services: Services, claim: Running, issue: Issue, session_id: str) -> None:
        self._services = services
        self._workflow = services.workflow
        self._tracker = services.tracker
        self._agent = services.agent
        self.claim = claim
        self.issue = issue
        self.session_id = session_id
        self.usage = Usage()
        self.last_line = ""
        self.since = self.now()
        self.pulse = Pulse(issue_id=claim.issue_id, run_id=claim.run_id, last_sign=self.since)
        self._unbilled = Usage()
        self._unpriced = Usage()
        self._in_turn = anyio.Event()
        self._works = anyio.Event()
        self._moving = anyio.Lock()
        self._announced = False
        self._execution: Execution | None = None
        self._outset = anyio.CancelScope()
        brokered = self._workflow.config.tools.credentials == "broker"
        self._tool_log = ToolLog(tool_log_path(self._workflow.config.db_path, claim.run_id), brokered=brokered)
        actor = IssueRef(claim.issue_id, claim.identifier)
        schedule, redactor = services.ledger.schedule, services.redactor
        self._deeds = Deeds(actor, claim.run_id, schedule, self._tracker, redactor, brokered=brokered)
        self._overdid = False
        self._log = RunLog(log_path(self._workflow.config.db_path, claim.run_id))

    @property
    def tracker(self) -> Tracker:
        return self._tracker

    def now(self) -> float:
        return self._services.clock.now()

    def stop(self) -> None:
        """End the agent; the cause is on record already."""
        self._outset.cancel()
        if self._execution:
            self._execution.stop()

    async def go(self) -> None:
        try:
            outcome = await self._execute()
        except Exception as error:  # the edge of a run: a defect here must not take the other runs along
            log.exception("run %s failed inside the orchestrator", self.claim.run_id)
            outcome = Outcome(status="failed", turns=0, error=f"internal error: {error!r}", error_kind="internal")
        self.pulse.turn_started = None
        self._price_the_rest()
        self.bill()
        await self._count_tool_calls()
        self._tool_log.remove()
        self._log.close()
        if self._log.problem:
            self.note("warning", "the log of this run is incomplete", self._log.problem)
        outcome = self._with_our_stop(outcome)
        await Ending(self._services, self._workflow, self._tracker, self.claim, self.issue).finish(
            outcome, self.usage
        )
        self._services.wake.set()

    async def _execute(self) -> Outcome:
        async with AsyncExitStack() as held:
            return await self._execute_alone(held)

    async def _execute_alone(self, held: AsyncExitStack) -> Outcome:
        """`held` gets what keeps others out of the workspace."""
        with self._outset:  # a stop waits neither for a slow tracker nor for the removal of what was there
            if await self.refresh_issue() is None:
                error = "the issue is no longer in the tracker"
                return Outcome(status="cancelled", turns=0, stop="gone", error=error)
            if not self._workflow.config.policy().is_active(self.issue.state):
                error = f"the issue is in {self.issue.state} now, which is not active"
                return Outcome(status="cancelled", turns=0, stop="inactive", error=error)
            key = workspace_key(self.issue.identifier)
            await held.enter_async_context(self._services.occupancy.by_run(key))
        if self._is_stopped():
            return Outcome(status="cancelled", turns=0, session_id=self.session_id)
        session_id, session_cost = await self._conversation()
        made, used = await self._services.ledger.store.read(partial(_known_workspace, key=key))
        order = RunOrder(
            store_id=self._services.ledger.store.store_id,
            run_id=self.claim.run_id,
            attempt=self.claim.attempt,
            issue=self.issue,
            workflow=self._workflow,
            agent=self._agent,
            session_id=session_id,
            session_cost=session_cost,
            workspace=made,
            workspace_used=used,
            archive=archive_directory(self._workflow.config.db_path),
            tool_log=self._tool_log.path,
            broker_socket=broker_socket_path(self._workflow.config.db_path, self.claim.run_id),
        )
        self._tool_log.prepare()
        self._execution = self._services.host.prepare(order, self)
        if self._is_stopped():
            self._execution.stop()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._announce_in_time)
            outcome = await self._execution.execute()
            tasks.cancel_scope.cancel()
        if self._works.is_set() and not self._is_stopped():
            await self._announce()
        return outcome

    def _is_stopped(self) -> bool:
        return self._outset.cancel_called

    async def _conversation(self) -> tuple[str, float]:
        """The one to resume, and its cost: that of the issue's last run, if the same kind of agent led it."""
        last = await self._services.ledger.store.read(partial(last_session, issue_id=self.issue.id))
        if last is None or last.agent != self._workflow.config.agent.kind:
            return "", 0.0
        return self.session_id or last.session_id, last.cost_usd

    async def _announce_in_time(self) -> None:
        """Tell the tracker once the agent works: one that cannot run at all moves no issue."""
        await self._in_turn.wait()
        with anyio.move_on_after(math.inf if self._agent.needs_login else ANNOUNCED_WITHIN):
            await self._works.wait()
        self.at_work()
        await self._announce()

    async def _announce(self) -> None:
        """Tell the tracker that work goes on; its failure delays nothing. Cancelled, it has written nothing yet."""
        config = self._workflow.config
        target = config.tracker.in_progress_state
        async with self._moving:  # what the agent itself does to its issue comes before or after, not in between
            if self._announced:
                return
            if await show_progress(self.issue, target, self._tracker, partial(self.note, "warning")):
                self.issue = replace(self.issue, state=target)
            self._announced = True
        if config.tracker.comments.on_dispatch:
            with anyio.CancelScope(shield=True):
                await self._comment_on_dispatch(config)

    async def _comment_on_dispatch(self, config: Config) -> None:
        text = comments.on_dispatch(config.agent.kind, self.claim.attempt)
        planned = self._event(
            ev.EffectPlanned, effect_id=f"{self.claim.run_id}.dispatch", verb="comment", argument=text
        )
        await self.record(planned)
        await deliver(Effect.of(planned), self._tracker, self._services.ledger, self.now)

    def _with_our_stop(self, outcome: Outcome) -> Outcome:
        """What we decided about the run outweighs what its processes said on the way out.

        Only where the agent was done before our signal reached it does its word stand, unless the issue is gone.
        """
        claim = self._services.ledger.schedule.running[self.claim.issue_id]
        spared = ("shutdown", "stalled", "timed_out", "operator") if outcome.soft_stop else ("shutdown",)
        if not claim.stop or (outcome.status == "succeeded" and claim.stop in spared):
            return outcome
        return stopped(outcome, claim.stop, claim.stop_detail)

    # -- RunLink ----------------------------------------------------------------------------------------------

    async def record(self, *events: AnyEvent) -> None:
        await self._services.ledger.record(*events)

    def post(self, *events: AnyEvent) -> None:
        self._services.ledger.post(*events)

    async def begin_turn(self, turn: int) -> str:
        self.bill()
        day = self._services.clock.day(self.now())
        policy, schedule = self._services.ledger.schedule.policy, self._services.ledger.schedule
        if refused := turn_refused(schedule.spent_on(self.claim.issue_id), policy.per_issue):
            return f"the budget of this issue is used up: {refused}"
        if refused := turn_refused(schedule.spent_today(day), policy.per_day):
            return f"the budget of the day is used up: {refused}"
        await self.record(self._event(ev.TurnStarted, turn=turn, day=day))
        self.pulse.turn_started = self.pulse.last_sign = self.now()
        self._in_turn.set()
        return ""

    async def end_turn(self, turn: int) -> None:
        self.pulse.turn_started = None
        self.at_work()
        self.bill()
        await self._count_tool_calls()
        await self.record(self._event(ev.TurnEnded, turn=turn))

    async def call_tool(self, tool: str, arguments: object) -> dict[str, Any]:
        if tool != TRACKER_API.name:
            return envelope.failure(envelope.INTERNAL_ERROR, f"{tool} needs no broker.")
        if refused := self._deeds.refusal(arguments):
            if not self._overdid:
                self._overdid = True
                self.note("warning", "the agent calls its tools too often; such calls are refused from here on")
            return refused
        config, started = self._workflow.config, self.now()
        reach = Reach(config.tools.transitions, self.claim.issue_id)
        answer = _CANCELLED
        try:
            async with self._moving:
                answer = await handle(arguments, self._tracker, tracker_settings(config), reach)
        finally:
            # A call that is cancelled may have had its effect.
            call = ToolCall.made(tool, arguments, answer, max(self.now() - started, 0.0) * 1000)
            self._tell(await self._deeds.events(call, self.now(), witnessed=True, in_haste=answer is _CANCELLED))
        return answer

    async def _count_tool_calls(self) -> None:
        for call in self._tool_log.news():
            self._tell(await self._deeds.events(call, self.now(), in_haste=self._is_stopped()))

    def _tell(self, events: list[ev.ToolCalled | ev.ActedOn]) -> None:
        self.post(*events)
        for event in events:
            if isinstance(event, ev.ToolCalled):
                self._log_line("tool", narrate(event).text.removeprefix("tool "))

    async def refresh_issue(self) -> Issue | None:
        try:
            with anyio.fail_after(TRACKER_DEADLINE):
                self.issue = await self._tracker.fetch_issue(self.issue.id)
        except TrackerError as error:
            if error.kind == TrackerError.NOT_FOUND:
                return None
            self.note("warning", "the tracker could not be asked; the last known state counts", str(error))
        except TimeoutError:
            self.note("warning", "the tracker did not answer in time; the last known state counts")
        return self.issue

    def note(self, level: Level, message: str, detail: str = "") -> None:
        redact = self._services.redactor.text
        self.post(self._event(ev.Noted, level=level, message=redact(message), detail=redact(detail)))

    def sign(self, source: str, text: str) -> None:
        self.pulse.last_sign = self.now()
        self.last_line = self._services.redactor.text(text)
        self._log_line(source, self.last_line)

    def _log_line(self, source: str, text: str) -> None:
        self._log.write(self._services.clock.on_calendar(self.now()), source, text)

    def alive(self) -> None:
        self.pulse.last_sign = self.now()

    def at_work(self) -> None:
        """It used tokens or a tool, or completed a turn: neither its program nor its provider refuses it."""
        self._works.set()
        schedule = self._services.ledger.schedule
        if schedule.fault_of(self.claim.agent) and self.claim.run_id in schedule.trials:
            self.post(self._event(ev.ProviderResumed, provider=self.claim.agent, why="a run of it works"))

    def used(self, usage: Usage, *, cost_follows: bool = False) -> None:
        self.pulse.last_sign = self.now()
        if usage.total:
            self.at_work()
        if cost_follows:
            self._unpriced = self._unpriced.plus(usage)
        elif usage.cost_usd:
            self._unpriced = Usage()
        else:
            usage = replace(usage, cost_usd=self._by_rates(usage))
        self._unbilled = self._unbilled.plus(usage)

    @property
    def usage_so_far(self) -> Usage:
        return self.usage.plus(self._unbilled)

    def bill(self) -> None:
        """Charge what has been used since the last bill. Called before every decision that looks at a budget."""
        if self._unbilled == Usage():
            return
        usage, self._unbilled = self._unbilled, Usage()
        self.usage = self.usage.plus(usage)
        self.post(self._event(ev.Charged, usage=usage, day=self._services.clock.day(self.now())))

    def _price_the_rest(self) -> None:
        """The agent never told what these tokens cost: the workflow's rates have to do."""
        rest, self._unpriced = self._unpriced, Usage()
        self._unbilled = self._unbilled.plus(Usage(cost_usd=self._by_rates(rest)))

    def _by_rates(self, usage: Usage) -> float:
        rates = self._workflow.config.token_rates.get(self._workflow.config.agent.kind)
        return rates.cost(usage) if rates else 0.0

    def _event(self, kind: Callable[..., E], **fields: Any) -> E:
        return kind(at=self.now(), issue_id=self.claim.issue_id, run_id=self.claim.run_id, **fields)


def _known_workspace(db: Connection, key: str) -> tuple[ev.WorkspaceMade | None, bool]:
    """What is on record of a workspace, and whether an agent had a turn in it; in one question."""
    made = workspace_made(db, key)
    return made, made is not None and was_used(db, made)
