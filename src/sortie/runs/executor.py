"""One run from its specification to its end: workspace, hooks, agent session, turns. Nothing of it stays alive.

Steps and their order are those of the protocol: the workspace exists, the old signal is deleted, `before_run` may
write a new one, turns follow; after each completed turn the signal is read before anybody else is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ..agents.agent import Agent, AgentSession
from ..core.conclude import Outcome, signalled
from ..core.model import Usage
from ..errors import AgentError, PromptError, SortieError
from ..process.identity import RUN_MARK, mark_of
from ..process.process_table import Process, snapshot
from ..process.sweep import end_all
from ..protocol.session_files import remove_credentials
from ..protocol.status_file import Status, compose_first_prompt
from ..workflow.template import PromptTemplate
from ..workspace.directory import Workspace
from .channel import Channel
from .messages import (
    Ended,
    Proceed,
    Prompted,
    Remark,
    Stop,
    ToolAnswered,
    ToolAsked,
    ToolUsed,
    TurnAsked,
    TurnCompleted,
)
from .reporter import RunReporter
from .run_log import archive_directory, logs_directory
from .run_workspace import RunWorkspace
from .spec import RunSpec
from .task_folder import InputsChanged
from .task_verdict import TaskRun
from .tool_log import ToolLog
from .toolkit import Toolkit, advertisement, start_broker
from .usage_meter import UsageMeter

log = logging.getLogger(__name__)

GRACE = 5.0
CLOSE_DEADLINE = 30.0


class RunPaths(NamedTuple):
    """What a run needs outside of its workspace and out of its agent's reach: it lies beside the store."""

    store: Path
    run_id: str

    @property
    def archive(self) -> Path:
        return archive_directory(self.store)

    @property
    def tool_log(self) -> Path:
        return logs_directory(self.store) / f"{self.run_id}.tools"

    @property
    def broker_socket(self) -> Path:
        return self.store.with_suffix(".sockets") / self.run_id


class Executor:
    """One run; `_turns` is how many turns completed. It has the workspace for as long as it is in `alone`."""

    def __init__(
        self,
        spec: RunSpec,
        agent: Agent,
        channel: Channel,
        *,
        environ: Mapping[str, str],
        paths: RunPaths,
        alone: AbstractAsyncContextManager[Any],
    ) -> None:
        self._spec = spec
        self._agent = agent
        self._channel = channel
        self._environ = environ
        self._paths = paths
        self._alone = alone
        self._scope = anyio.CancelScope()
        self._grace = GRACE
        self._issue = spec.issue
        model = str(spec.agent.options.get("model") or "")
        self._meter = UsageMeter(spec.rates, channel, on_told=self._write_state, model=model)
        self._written_usage = Usage()
        self._reporter = RunReporter(channel, spec.resume.session_id, self._meter)
        self._tool_log = ToolLog(paths.tool_log)
        self._toolkit: Toolkit | None = None
        self._has_tools = False
        self._advertisement = ""
        self._task: TaskRun | None = None
        self._turn = self._turns = 0
        self._reached = Outcome(status="cancelled", turns=0)

    def stop(self, grace: float = GRACE) -> None:
        """End the agent, by force after `grace` seconds; `execute` then ends with what was reached."""
        self._grace = min(grace, self._grace)
        self._scope.cancel()

    async def execute(self) -> None:
        """Run to the end, whatever happens on the way, and tell it; only cancellation from outside raises."""
        try:
            await self._supervised()
        except Exception as error:  # the edge of a run: a defect here must not take the other runs along
            self._reached = self._how_it_ended(error)
        self._tell_tool_calls()
        usage = self._meter.close()
        outcome = replace(self._reached, turns=self._turns, session_id=self._reporter.session_id)
        self._channel.tell(Ended(outcome=outcome, usage=usage, model=self._meter.model))

    async def _supervised(self) -> None:
        """With somebody in the background who answers tools, where these have no credentials of their own."""
        tools = self._spec.tools
        if tools is None or tools.credentials != "broker":
            await self._until_stopped(None)
            return
        async with anyio.create_task_group() as background:
            await self._until_stopped(background)
            background.cancel_scope.cancel()

    async def _until_stopped(self, background: TaskGroup | None) -> None:
        with self._scope:
            try:
                async with self._alone:
                    self._reached = await self._in_workspace(background)
            except Exception as error:
                self._reached = self._how_it_ended(error)

    def _how_it_ended(self, error: Exception) -> Outcome:
        kind, retryable, until, text = "run_failed", True, None, str(error)
        match error:
            case AgentError():
                kind, retryable, until = error.kind, error.retry, error.until
                if kind == AgentError.SESSION:
                    self._reporter.forget_session()
            case PromptError():
                kind, retryable = error.KIND, False
            case InputsChanged():
                kind, retryable = "inputs_changed", False
            case SortieError() | OSError():
                pass
            case _:
                log.error("run %s failed inside the orchestrator", self._spec.run_id, exc_info=error)
                kind, text = "internal", f"internal error: {error!r}"
        return Outcome(
            status="failed", turns=0, error=text, error_kind=kind, retryable=retryable, limited_until=until
        )

    # -- the steps --------------------------------------------------------------------------------------------

    async def _in_workspace(self, background: TaskGroup | None) -> Outcome:
        workspace = await RunWorkspace.open(self._spec, self._channel, self._environ, self._paths.archive)
        with workspace.directory as directory:
            await workspace.create()
            try:
                workspace.delete_old_signal()
                if self._spec.task:
                    self._task = TaskRun(self._spec, directory, workspace.remark)
                    if finished := await self._task.prepare():
                        return finished
                if self._spec.hooks.before_run:
                    await workspace.hook("before_run")
                    directory.verify()
                mcp_config = await self._offer_tools(directory, background)
                return await self._in_session(workspace, mcp_config)
            finally:
                remove_credentials(directory.fd)
                await workspace.after_run()

    async def _in_session(self, workspace: RunWorkspace, mcp_config: Path | None) -> Outcome:
        order = workspace.session_order(self._agent.variables, mcp_config)
        session = await self._agent.open(order, self._reporter)
        try:
            return await self._turn_loop(workspace, session)
        finally:
            if self._written_usage != self._meter.total:
                self._write_state()
            with anyio.move_on_after(CLOSE_DEADLINE, shield=True):
                await self._close(session)

    async def _turn_loop(self, workspace: RunWorkspace, session: AgentSession) -> Outcome:
        for turn in range(1, self._spec.limits.max_turns + 1):
            prompt = [self._prompt(turn)]  # let go of when it is handed over: a turn may take hours
            self._meter.tell()
            answer = await self._channel.ask(TurnAsked(turn=turn))
            if isinstance(answer, Stop):
                return _stopped(answer)
            if isinstance(answer, Proceed) and answer.news:
                prompt.append(f"{prompt.pop()}\n\n{answer.news}")
            workspace.directory.verify()
            self._turn = turn
            self._write_state()
            self._channel.tell(Prompted(turn=turn, text=prompt[0]))
            await session.turn(prompt.pop(), turn)
            self._turns = turn
            signal, word = await self._last_word(workspace, turn)
            if word:
                self._reached = word  # it stands, even if we are stopped before it is answered
            self._tell_tool_calls()
            self._meter.tell()
            said = (word.soft_stop or word.status) if word else ""
            answer = await self._channel.ask(TurnCompleted(turn=turn, signal=said))
            workspace.remark_on(signal)
            if word:
                return word
            if isinstance(answer, Stop):
                return _stopped(answer)
            if isinstance(answer, Proceed) and answer.issue:
                self._issue = answer.issue
        return Outcome(status="succeeded", turns=0)

    async def _last_word(self, workspace: RunWorkspace, turn: int) -> tuple[Status, Outcome | None]:
        """What the agent says of its work after a turn, and the outcome where that is the end of it."""
        if self._task:
            workspace.directory.verify()
            return Status(), await self._task.judge(is_last=turn == self._spec.limits.max_turns)
        signal = workspace.read_signal()
        if not signal.token:
            return signal, None
        reason = signal.reason or "\n".join(self._reporter.last_lines)
        return signal, signalled(signal.token, reason, turn, recoverable=signal.recoverable)

    async def _close(self, session: AgentSession) -> None:
        if not self._scope.cancel_called:
            await session.close()
            return
        async with anyio.create_task_group() as tasks:
            if self._grace < GRACE:  # what a session allows its processes by itself
                tasks.start_soon(_end_by_force, self._spec.run_id, self._grace)
            await session.interrupt()
            await session.close()
            tasks.cancel_scope.cancel()

    def _prompt(self, turn: int) -> str:
        spec, prompt = self._spec, self._spec.prompt
        if turn > 1 and prompt.later:
            return f"{prompt.later}\n\n{self._task.shortfall if self._task else ''}".rstrip()
        template = PromptTemplate(prompt.text, prompt.file, prompt.line, prompt.is_template)
        text = template.render(self._issue, attempt=spec.attempt - 1, turn=turn, max_turns=spec.limits.max_turns)
        return compose_first_prompt(text, self._advertisement, spec.signal) if turn == 1 else text

    async def _offer_tools(self, workspace: Workspace, background: TaskGroup | None) -> Path | None:
        """The path of the configuration; None where the disk refuses it: the run goes on without tools."""
        tools, broker = self._spec.tools, dict[str, str]()
        if tools is None:
            return None
        advertised = await advertisement(tools)
        if background is not None:
            try:
                broker = await start_broker(background, self._call_tool, self._paths.broker_socket)
            except (SortieError, OSError) as error:
                self._warn("the agent has no tools: its socket cannot be made", error)
                return None
        self._tool_log.prepare()
        toolkit = Toolkit(self._spec, tools, workspace, self._paths.tool_log)
        try:
            path = toolkit.offer(broker)
        except OSError as error:
            self._warn("the agent has no tools: its workspace cannot be written", error)
            return None
        self._toolkit, self._advertisement, self._has_tools = toolkit, advertised, True
        return path

    async def _call_tool(self, tool: str, arguments: object) -> dict[str, Any]:
        answer = await self._channel.ask(ToolAsked(tool=tool, arguments=arguments))
        assert isinstance(answer, ToolAnswered)
        return answer.answer

    # -- what is told on the way ------------------------------------------------------------------------------

    def _warn(self, message: str, error: Exception) -> None:
        self._channel.tell(Remark(level="warning", message=message, detail=str(error)))

    def _tell_tool_calls(self) -> None:
        if self._has_tools:
            for line in self._tool_log.lines():
                self._channel.tell(ToolUsed(line=line))

    def _write_state(self) -> None:
        if self._toolkit is None:
            return
        self._written_usage = self._meter.total
        try:
            self._toolkit.write_state(self._turn, self._written_usage)
        except OSError as error:
            self._toolkit = None  # said once; tools answer from what is there
            self._warn("state.json cannot be written any more", error)


def _stopped(answer: Stop) -> Outcome:
    """By the engine: because it is done, or for a cause."""
    if not answer.cause:
        return Outcome(status="succeeded", turns=0)
    return Outcome(status="cancelled", turns=0, stop=answer.cause, error=answer.detail)


async def _end_by_force(run_id: str, grace: float) -> None:
    """Every process of a run that can be recognised by its environment."""
    await anyio.sleep(grace)

    def living() -> list[Process]:
        return [p for p in snapshot().values() if not p.ended and mark_of(p.pid, RUN_MARK) == run_id]

    await end_all(living, 0.0)
