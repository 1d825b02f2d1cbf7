"""One claimed issue, from the claim to the settlement: the only task that writes about this run.

It starts the run on its host, follows what it tells, answers its questions, and concludes it when it has ended.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ..core import events as ev
from ..core.conclude import Outcome, stopped, with_our_stop
from ..core.model import Issue, IssueRef, Usage
from ..core.narrate import narrate
from ..core.policy import Liveness, next_deadline
from ..core.records import Claim
from ..errors import ConfigurationError, SortieError
from ..hosts.host import RunLost
from ..protocol.foreign_text import shortened
from ..runs import messages as msg
from ..runs.prompt_log import keep_prompt, prompts_path
from ..runs.run_log import RunLog, log_path
from ..runs.spec import Conversation, KnownWorkspace
from ..runs.tool_log import ToolCall
from ..sources.source import RunFacts, Source
from ..store.queries import last_session
from .answers import with_answers
from .context import Context
from .effects import announce, show_progress
from .ending import Ending
from .known_issue import KnownIssue
from .tool_calls import ToolCalls
from .tracker_limit import Postponed

log = logging.getLogger(__name__)

# An agent that needs no login and has run for so long is at work, though it says nothing.
ANNOUNCED_WITHIN = 5.0
# A line may have many MiB; the log of the run has all of it.
LONGEST_LAST_LINE = 2_000


class ActiveRun:
    """`usage` is what was used and charged, `model` the one at work, as far as it is known."""

    def __init__(self, context: Context, claim: Claim) -> None:
        self._context = context
        self._host = context.hosts.of(claim.host)
        self.source: Source = context.source
        self.claim = claim
        self._known = KnownIssue(context, self.source, claim)
        self.last_line = ""
        self.since = self.now()
        self.liveness = Liveness(issue_id=claim.issue_id, run_id=claim.run_id, last_heard=self.since)
        self.usage = Usage()
        self.model = ""
        self._charged = Usage()
        self.is_stopped = False
        self._tasks: TaskGroup | None = None
        self._works = anyio.Event()
        self._moving = anyio.Lock()
        self._announced = self._is_watched = False
        self._end = 0
        self._spawned_first: bool | None = None
        self._log = RunLog(log_path(context.ledger.store.path, claim.run_id))
        actor = IssueRef(claim.issue_id, claim.identifier)
        self._tool_calls = ToolCalls(actor, claim.run_id, context.schedule, self.source, context.redactor)

    def now(self) -> float:
        return self._context.clock.now()

    @property
    def issue(self) -> Issue:
        """The last known version, our own transitions included."""
        return self._known.latest

    def stop(self, grace: float = 0.0) -> None:
        """End the agent; the cause is on record already, and nobody is asked anything any more. Within the `grace`
        its turn may end by itself; no other begins."""
        self.is_stopped = True
        self._known.stop()
        if self._tasks:
            self._tasks.start_soon(self._cancel, grace)

    async def _cancel(self, grace: float = 0.0) -> None:
        await anyio.sleep(grace)
        await self._host.cancel(self.claim.run_id)

    async def go(self, *, charged: Usage | None = None) -> None:
        """`charged` is on record where the run goes on that an earlier orchestrator started."""
        attached = charged is not None
        self.usage = self._charged = charged or Usage()
        outcome = Outcome(status="cancelled", turns=0, session_id=self.claim.session_id)
        try:
            outcome = await (self._follow() if attached else self._start_and_follow())
        except RunLost as error:
            outcome = await self._lost(error)
        except SortieError as error:
            again = not isinstance(error, ConfigurationError)
            outcome = replace(outcome, status="failed", error=str(error), error_kind="run_failed", retryable=again)
        except Exception as error:  # the edge of a run: a defect here must not take the other runs along
            log.exception("run %s failed inside the orchestrator", self.claim.run_id)
            await self._host.cancel(self.claim.run_id)
            outcome = replace(outcome, status="failed", error=f"internal error: {error!r}", error_kind="internal")
        self.liveness.turn_started = None
        self.bill()
        self._log.close()
        if self._log.problem:
            self._note("warning", "the log of this run is incomplete", self._log.problem)
        claim = self._context.schedule.running[self.claim.issue_id]
        ending = Ending(self._context, self.source, claim, self.issue, is_latest=self._known.is_current)
        try:
            await ending.finish(with_our_stop(outcome, claim), self.usage, self.model)
        except Postponed:  # on record with its verdict
            what = "the tracker's rate limit is reached, so the remaining writes are left to the next start"
            self._note("warning", what)
        self._context.wake.set()
        await self._let_go()

    async def _start_and_follow(self) -> Outcome:
        problem = await self._known.look_first()
        if problem:  # the conversation is not forgotten for a run that did not begin
            return replace(problem, session_id=(await self._conversation()).session_id)
        if self.is_stopped:
            return Outcome(status="cancelled", turns=0, session_id=self.claim.session_id)
        key = self.source.workspace_key(self.issue.identifier)
        record = self._context.schedule.workspaces.get(key)
        facts = RunFacts(
            store_id=self._context.store_id,
            claim=self.claim,
            workspace=KnownWorkspace.of(record) if record else None,
            resume=await self._conversation() if record else Conversation(),
        )
        spec = self.source.spec_for(self.issue, facts)
        if spec.task:
            self.liveness.turn_timeout = spec.limits.turn_timeout
            self.liveness.stall_timeout = spec.limits.stall_timeout
        self._tool_calls.brokered = spec.tools is not None and spec.tools.credentials == "broker"
        await self._host.start(self.claim.run_id, self._context.fence, spec, self.claim.host)
        return await self._follow()

    async def _conversation(self) -> Conversation:
        """The one to resume, and its cost: that of the issue's last run, if the same kind of agent led it."""
        store = self._context.ledger.store
        last = await store.read(partial(last_session, issue_id=self.claim.issue_id))
        if last is None or last.agent != self.claim.agent:
            return Conversation()
        return Conversation(session_id=self.claim.session_id or last.session_id, cost_usd=last.cost_usd)

    # -- what the run tells -----------------------------------------------------------------------------------

    async def _follow(self) -> Outcome:
        ended: msg.Ended | RunLost | None = None
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            if self.is_stopped:
                tasks.start_soon(self._cancel)
            try:
                ended = await self._hear_all(tasks)
            except RunLost as error:
                ended = error
            self._tasks = None
            tasks.cancel_scope.cancel()
        if isinstance(ended, RunLost):
            raise ended
        assert ended is not None, "a host tells the end of every run"
        self.usage, self.model = ended.usage, ended.model or self.model
        if self._works.is_set() and not self.is_stopped:
            await self._announce()
        return ended.outcome

    async def _hear_all(self, tasks: TaskGroup) -> msg.Ended | None:
        async with aclosing(self._host.events(self.claim.run_id, self.claim.seen)) as messages:
            async for numbered in messages:
                number, message = numbered.number, numbered.message
                if isinstance(message, msg.Ended):
                    self._end = number
                    return message
                if isinstance(message, msg.ToolAsked):
                    tasks.start_soon(self._call_tool, number, message)
                # A question is dealt with when it has its answer: whoever takes the run over hears it again.
                elif answer := await self._hear(number - isinstance(message, msg.QUESTIONS), message):
                    await self._host.answer(self.claim.run_id, number, answer)
        return None

    async def _let_go(self) -> None:
        """The host keeps the end of the run for the next start, until the verdict is on disk."""
        if self._end:
            await self._context.ledger.flushed()
            with suppress(SortieError):  # it has lost the run by now, or forgotten it
                async for _ in self._host.events(self.claim.run_id, self._end):
                    pass

    async def _lost(self, error: RunLost) -> Outcome:
        """The issue will have another run elsewhere, so what can still be reached of this one ends now."""
        self._context.hosts.lost(self.claim.host)
        await self._host.cancel(self.claim.run_id)
        claim = self._context.schedule.running[self.claim.issue_id]
        turns = claim.turn if claim.turn_done else max(claim.turn - 1, 0)
        return stopped(Outcome(status="cancelled", turns=turns, session_id=claim.session_id), "lost", str(error))

    async def _hear(self, number: int, message: msg.AnyMessage) -> msg.AnyAnswer | None:
        """The answer, where the message is a question."""
        match message:
            case msg.Line(source=source, text=text):
                self.liveness.last_heard = self.now()
                said = self._context.redactor.text(text)
                self.last_line = shortened(said, LONGEST_LAST_LINE)
                self._write_log(source, said)
            case msg.Prompted(turn=turn, text=text):
                self._keep_prompt(turn, text)
            case msg.Heard():
                self.liveness.last_heard = self.now()
            case msg.UsageTotal():
                self.liveness.last_heard = self.now()
                self.usage, self.model = message.total, message.model or self.model
            case msg.AtWork():
                self._at_work()
            case msg.Remark(level=level, message=text, detail=detail):
                self._note(level, text, detail)
            case msg.ToolUsed(line=line):
                if call := ToolCall.recorded(line, brokered=self._tool_calls.brokered):
                    self._tell(await self._tool_calls.events(call, self.now(), in_haste=self.is_stopped))
            case msg.ConversationNamed(session_id=session_id):
                self._post(ev.SessionStarted, session_id=session_id, number=number)
            case msg.WorkspaceReady():
                self._enter(message, number)
            case msg.ProcessSpawned():
                return await self._spawned(message, number)
            case msg.TurnAsked(turn=turn):
                return await self._begin_turn(turn, number)
            case msg.TurnCompleted():
                return await self._end_turn(message, number)
        return None

    def _enter(self, message: msg.WorkspaceReady, number: int) -> None:
        # Not waited for: a directory that is not on record yet when we die is put into the archive by the next run,
        # and nothing works in it before its process is on record, which comes after this.
        self._post(
            ev.WorkspaceMade,
            identifier=self.claim.identifier,
            key=message.key,
            path=message.path,
            inode=message.inode,
            signal=message.signal,
            number=number,
        )

    async def _spawned(self, message: msg.ProcessSpawned, number: int) -> msg.AnyAnswer:
        if self._spawned_first is None:
            self._spawned_first = self.liveness.turn_started is None
        self._post(
            ev.ProcessStarted,
            pid=message.pid,
            start_ticks=message.start_ticks,
            boot_id=message.boot_id,
            number=number,
        )
        await self._context.ledger.flushed()
        return msg.Recorded()

    async def _begin_turn(self, turn: int, number: int) -> msg.AnyAnswer:
        if self.is_stopped:
            claim = self._context.schedule.running[self.claim.issue_id]
            return msg.Stop(cause=claim.stop, detail=claim.stop_detail)
        self.bill()
        now, context = self.now(), self._context
        schedule, day = context.schedule, context.clock.day(now)
        if refused := schedule.turn_refused(self.claim.issue_id, day):
            return msg.Stop(cause="budget", detail=refused)
        news = await self.source.news(self.claim, turn)
        if schedule.running[self.claim.issue_id].turn < turn:  # one that is asked for again is charged once
            self._post(ev.TurnStarted, turn=turn, day=day, number=number)
        if self._spawned_first:
            # Where each turn is a process, that one gets its first byte when it is on record, and this with it.
            await context.ledger.flushed()
        self.liveness.turn_started = self.liveness.last_heard = now
        late = next_deadline([self.liveness], schedule.policy)
        if late is not None and late - now < self.source.poll_interval:
            context.wake.set()  # whoever decides may sleep for longer than this turn has
        if not self._is_watched and self._tasks:
            self._is_watched = True
            self._tasks.start_soon(self._announce_in_time)
        return msg.Proceed(news=with_answers(news, schedule, self.claim.run_id, turn))

    async def _end_turn(self, message: msg.TurnCompleted, number: int) -> msg.AnyAnswer:
        self.liveness.turn_started = None
        if self._spawned_first is None:
            self._spawned_first = True  # it has no process that would be waited for
        self._at_work()
        self.bill()
        # Not waited for: a turn whose end is not on record when we die is one that was cut short, and is resumed.
        self._post(ev.TurnEnded, turn=message.turn, number=number)
        if message.signal or self.is_stopped:
            return msg.Stop()
        issue = await self._known.refresh()
        if issue is None:
            return msg.Stop(cause="gone", detail="the issue left the tracker")
        goes_on = self.source.policy.is_active(issue.state) or (
            self.claim.by_hand and issue.state in (self.claim.asked_in, self._known.begun_in)
        )
        # A run that we have attached to knows its issue better than we, where nobody tells us of it.
        return msg.Proceed(issue=issue if self._known.was_told else None) if goes_on else msg.Stop()

    # -- the agent works --------------------------------------------------------------------------------------

    def _at_work(self) -> None:
        """It used tokens or a tool, or completed a turn: neither its program nor its provider refuses it."""
        self._works.set()
        schedule, provider = self._context.schedule, self.claim.paid_by
        if schedule.fault_of(provider) and self.claim.run_id in schedule.trials:
            self._post(ev.ProviderResumed, provider=provider, why="a run of it works")

    async def _announce_in_time(self) -> None:
        """Tell the source once the agent works: one that cannot run at all moves no issue."""
        needs_login = self.source.needs_login(self.claim.agent)
        with anyio.move_on_after(math.inf if needs_login else ANNOUNCED_WITHIN):
            await self._works.wait()
        self._at_work()
        await self._announce()

    async def _announce(self) -> None:
        """Tell the source that work goes on; its failure delays nothing. Cancelled, it has written nothing yet."""
        async with self._moving:  # what the agent itself does to its issue comes before or after, not in between
            if self._announced:
                return
            begun_in, run_id = self._known.begun_in, self.claim.run_id
            if state := await show_progress(self.issue, begun_in, self.source, self._context, run_id):
                self._known.moved(state)
                self._note("info", f"the issue was moved to {state}: its agent is at work")
            self._announced = True
        if writes := self.source.writes_at_start(self.issue, self.claim):
            with anyio.CancelScope(shield=True):
                await announce(self.claim, writes, self.source, self._context)

    async def _call_tool(self, number: int, asked: msg.ToolAsked) -> None:
        answer = await self._tool_calls.call(asked.tool, asked.arguments, self._moving, self.now, self._tell)
        if self._tool_calls.has_just_refused():
            self._note("warning", "the agent calls its tools too often; such calls are refused from here on")
        with suppress(RunLost):  # whoever follows the run hears of that too
            await self._host.answer(self.claim.run_id, number, msg.ToolAnswered(answer=answer))

    def _tell(self, events: list[ev.ToolCalled | ev.ActedOn]) -> None:
        self._context.ledger.post(*events)
        for event in events:
            if isinstance(event, ev.ToolCalled):
                self._write_log("tool", narrate(event).text.removeprefix("tool "))

    # -- small things -----------------------------------------------------------------------------------------

    def bill(self) -> None:
        """Charge what has been used since the last bill. Called before every decision that looks at a budget."""
        if self.usage == self._charged:
            return
        used, self._charged = self.usage.minus(self._charged), self.usage
        self._post(ev.Charged, usage=used, day=self._context.clock.day(self.now()), model=self.model)

    def _write_log(self, source: str, text: str) -> None:
        self._log.write(self._context.clock.on_calendar(self.now()), source, text)

    def _keep_prompt(self, turn: int, text: str) -> None:
        path = prompts_path(self._context.ledger.store.path, self.claim.run_id)
        try:
            keep_prompt(path, turn, self._context.clock.on_calendar(self.now()), self._context.redactor.text(text))
        except OSError as error:
            self._log.problem = f"{path}: {error.strerror}"

    def _note(self, level: ev.Level, message: str, detail: str = "") -> None:
        self._context.note(level, message, detail, issue_id=self.claim.issue_id, run_id=self.claim.run_id)

    def _post(self, kind: Callable[..., ev.AnyEvent], **fields: Any) -> None:
        self._context.ledger.post(
            kind(at=self.now(), issue_id=self.claim.issue_id, run_id=self.claim.run_id, **fields)
        )
