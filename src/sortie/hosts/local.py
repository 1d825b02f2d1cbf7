"""A run on this machine: workspace, hooks, agent session, turns. Whatever happens, nothing of it stays alive.

Steps and their order are those of the protocol: the workspace exists, the old status is deleted, `before_run` may
write a new one, turns follow; after each completed turn the status is read before the tracker is asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import anyio
from anyio import from_thread, to_thread
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ..agents.agent import AgentSession, SessionOrder
from ..core.conclude import Outcome
from ..core.events import WorkspaceMade
from ..errors import AgentError, PromptError, SortieError, WorkspaceError
from ..protocol.session_files import remove_credentials
from ..protocol.status_file import Status, compose_first_prompt, delete_status, read_status
from ..runs.environment import run_environment
from ..runs.reporter import Listening
from ..runs.toolkit import Toolkit
from ..workspace.directory import Known, Workspace
from ..workspace.hooks import run_hook
from ..workspace.removal import claim_workspace
from .run_order import Execution, RunLink, RunOrder

CLOSE_DEADLINE = 30.0


class LocalHost:
    """Runs as child processes of this process."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    def prepare(self, order: RunOrder, link: RunLink) -> Execution:
        return LocalRun(order, link, self._environ)


class LocalRun:
    """One run; `_turns` is how many of them completed."""

    def __init__(self, order: RunOrder, link: RunLink, environ: Mapping[str, str]) -> None:
        self._order = order
        self._link = link
        self._environ = environ
        self._config = order.workflow.config
        self._scope = anyio.CancelScope()
        self._issue = order.issue
        self._listening = Listening(order, link, on_usage=self._write_state)
        self._turn = self._turns = 0
        self._toolkit: Toolkit | None = None
        self._advertisement = ""

    def stop(self) -> None:
        self._scope.cancel()

    async def execute(self) -> Outcome:
        outcome = Outcome(status="cancelled", turns=0)
        async with anyio.create_task_group() as background:
            with self._scope:
                try:
                    outcome = await self._in_workspace(background)
                except AgentError as error:
                    if error.kind == AgentError.SESSION:
                        self._listening.forget_session()
                    outcome = self._failed(error, kind=error.kind, retryable=error.retry, until=error.until)
                except PromptError as error:
                    outcome = self._failed(error, kind=error.KIND, retryable=False)
                except (SortieError, OSError) as error:
                    outcome = self._failed(error)
            background.cancel_scope.cancel()
        return self._complete(outcome)

    async def _in_workspace(self, background: TaskGroup) -> Outcome:
        root, archive = self._config.workspace.root, self._order.archive
        claim = partial(claim_workspace, root, self._issue.identifier, self._known(root), archive)
        claim = partial(claim, has_hook=bool(self._config.hooks.after_create))
        workspace, archived = await to_thread.run_sync(claim, from_thread.check_cancelled)
        for name, path in archived.items():
            what = "its workspace" if name == workspace.key else name
            message = f"something that is not {what} stood in the place of it and is in the archive now"
            self._link.note("warning", message, str(path))
        with workspace:
            made = WorkspaceMade(
                at=self._link.now(),
                issue_id=self._issue.id,
                run_id=self._order.run_id,
                identifier=self._issue.identifier,
                key=workspace.key,
                path=str(workspace.path),
                inode=workspace.inode,
            )
            await self._link.record(made)
            if workspace.created:
                await self._hook("after_create", workspace)
                workspace.mark_complete()
            try:
                return await self._prepared(workspace, background)
            finally:
                remove_credentials(workspace.fd)
                await self._after_run(workspace)

    async def _prepared(self, workspace: Workspace, background: TaskGroup) -> Outcome:
        self._delete_old_status(workspace)
        await self._hook("before_run", workspace)
        workspace.verify()
        self._toolkit = Toolkit(self._order, workspace)
        mcp_config = await self._offer_tools(background)
        session = await self._order.agent.open(self._session_order(workspace, mcp_config), self._listening)
        try:
            return await self._turn_loop(workspace, session)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_DEADLINE):
                if self._scope.cancel_called:
                    await session.interrupt()
                await session.close()

    async def _turn_loop(self, workspace: Workspace, session: AgentSession) -> Outcome:
        for turn in range(1, self._config.agent.max_turns + 1):
            prompt = self._prompt(turn)
            if refused := await self._link.begin_turn(turn):
                return Outcome(status="cancelled", turns=self._turns, stop="budget", error=refused)
            workspace.verify()
            self._turn = turn
            self._write_state()
            await session.turn(prompt, turn)
            self._turns = turn
            await self._link.end_turn(turn)
            status = self._read_status(workspace)
            self._note_status(status)
            if status.token:
                reason = status.reason or "\n".join(self._listening.last_lines)
                return Outcome(status="succeeded", turns=turn, soft_stop=status.token, reason=reason)
            issue = await self._link.refresh_issue()
            if issue is None:
                return Outcome(status="cancelled", turns=turn, stop="gone", error="the issue left the tracker")
            self._issue = issue
            if not self._config.policy().is_active(issue.state):
                break
        return Outcome(status="succeeded", turns=self._turns)

    def _prompt(self, turn: int) -> str:
        rendered = self._order.workflow.template.render(
            self._issue, attempt=self._order.attempt - 1, turn=turn, max_turns=self._config.agent.max_turns
        )
        return compose_first_prompt(rendered, self._advertisement) if turn == 1 else rendered

    async def _offer_tools(self, background: TaskGroup) -> Path | None:
        """The path of the configuration; None where the disk refuses it: the run goes on without tools."""
        assert self._toolkit
        try:
            broker = await self._toolkit.start_broker(background, self._link.call_tool)
        except (SortieError, OSError) as error:
            self._link.note("warning", "the agent has no tools: its socket cannot be made", str(error))
            return None
        try:
            path = self._toolkit.offer(broker)
            self._advertisement = await to_thread.run_sync(self._toolkit.advertisement)
        except OSError as error:
            self._link.note("warning", "the agent has no tools: its workspace cannot be written", str(error))
            return None
        self._write_state()
        return path

    def _write_state(self) -> None:
        if self._toolkit is None:
            return
        try:
            self._toolkit.write_state(self._turn, self._listening.usage)
        except OSError as error:
            self._toolkit = None  # said once; tools answer from what is there
            self._link.note("warning", "state.json cannot be written any more", str(error))

    def _failed(
        self, error: Exception, *, kind: str = "run_failed", retryable: bool = True, until: float | None = None
    ) -> Outcome:
        return Outcome(
            status="failed",
            turns=self._turns,
            error=str(error),
            error_kind=kind,
            retryable=retryable,
            limited_until=until,
        )

    def _complete(self, outcome: Outcome) -> Outcome:
        return replace(outcome, turns=self._turns, session_id=self._listening.session_id)

    # -- files and hooks --------------------------------------------------------------------------------------

    def _known(self, root: Path) -> Known | None:
        """Its inode tells it wherever the project is moved; only an old record without one needs the path."""
        made = self._order.workspace
        if made is None or made.issue_id != self._issue.id:
            return None
        if not made.inode and made.path != str(root.resolve() / made.key):
            return None
        return Known(made.inode, self._order.workspace_used)

    def _read_status(self, workspace: Workspace) -> Status:
        """An agent that took its workspace from its place has no place to leave a word."""
        try:
            workspace.verify()
        except WorkspaceError as error:
            return Status(problem=error.message)
        return read_status(workspace.fd)

    def _delete_old_status(self, workspace: Workspace) -> None:
        result = delete_status(workspace.fd)
        if result.startswith("skipped"):
            self._link.note("warning", "the old status file was not deleted", result)
        elif result.startswith("failed"):
            self._link.note("debug", "the old status file could not be deleted", result)

    def _note_status(self, status: Status) -> None:
        if status.token:
            self._link.note("info", f"the agent signalled {status.token}", status.reason)
        elif status.problem:
            self._link.note("warning", "the status file could not be read and is ignored", status.problem)
        elif status.unrecognised is not None:
            value = ascii(status.unrecognised.decode("latin-1"))
            self._link.note("warning", f"the status file holds an unknown value, ignored: {value}")

    async def _hook(self, name: str, workspace: Workspace) -> None:
        script = getattr(self._config.hooks, name)
        if not script:
            return
        await run_hook(
            name,
            script,
            workspace=workspace.path,
            workspace_fd=workspace.fd,
            env=self._environment(workspace),
            run_id=self._order.run_id,
            timeout=self._config.hooks.timeout,
            on_line=lambda line: self._link.sign(name, line),
        )

    async def _after_run(self, workspace: Workspace) -> None:
        """Best effort, also for a run that was stopped: its failure is a note, never the verdict."""
        with anyio.CancelScope(shield=True):
            try:
                await self._hook("after_run", workspace)
            except (SortieError, OSError) as error:
                self._link.note("warning", "after_run failed", str(error))

    def _environment(self, workspace: Workspace, *names: str) -> dict[str, str]:
        """Of a hook; that of the agent with the names of its keys too."""
        return run_environment(
            self._environ,
            extra_names=(*names, *self._config.agent.env),
            store_id=self._order.store_id,
            run_id=self._order.run_id,
            issue=self._issue,
            workspace=workspace.path,
            attempt=self._order.attempt,
        )

    def _session_order(self, workspace: Workspace, mcp_config: Path | None) -> SessionOrder:
        environment = self._environment(workspace, *self._order.agent.variables)
        if mcp_config:
            environment["SORTIE_MCP_CONFIG"] = str(mcp_config)
        return SessionOrder(
            run_id=self._order.run_id,
            issue_id=self._issue.id,
            identifier=self._issue.identifier,
            attempt=self._order.attempt,
            workspace=workspace.path,
            workspace_fd=workspace.fd,
            environment=environment,
            # A conversation about files that are gone is worth nothing.
            resume="" if workspace.created else self._order.session_id,
            resume_cost=self._order.session_cost,
            mcp_config=mcp_config,
        )
