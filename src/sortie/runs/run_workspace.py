"""The workspace of one run: opened by its kind, with its signal, its hooks and the environment of both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import anyio
from anyio import from_thread, to_thread

from ..agents.agent import SessionOrder
from ..core.events import Level
from ..core.model import Issue
from ..errors import SortieError, WorkspaceError
from ..protocol.status_file import Status, delete_signal, read_signal
from ..workspace.directory import Known, Workspace, make_task_folders, open_shared_checkout, workspace_key
from ..workspace.hooks import run_hook
from ..workspace.removal import claim_workspace
from .channel import Channel
from .environment import run_environment
from .messages import Line, Remark, WorkspaceReady
from .spec import KnownWorkspace, RunSpec


class RunWorkspace:
    """Where a run works, once `open` has answered."""

    def __init__(self, spec: RunSpec, workspace: Workspace, channel: Channel, environ: Mapping[str, str]) -> None:
        self._spec = spec
        self._channel = channel
        self._environ = environ
        self.directory = workspace

    @classmethod
    async def open(cls, spec: RunSpec, channel: Channel, environ: Mapping[str, str], archive: Path) -> RunWorkspace:
        """Made where it is missing; what is not ours goes to the `archive`."""
        workspace, archived = await to_thread.run_sync(_claim, spec, archive)
        opened = cls(spec, workspace, channel, environ)
        for name, path in archived.items():
            what = "its workspace" if name == workspace.key else name
            message = f"something that is not {what} stood in the place of it and is in the archive now"
            opened.remark("warning", message, str(path))
        channel.tell(
            WorkspaceReady(key=workspace.key, path=str(workspace.path), inode=workspace.inode, signal=spec.signal)
        )
        return opened

    async def create(self) -> None:
        """A new workspace is complete when its hook has succeeded."""
        if self.directory.created and self._spec.hooks.after_create:
            await self.hook("after_create")
            await to_thread.run_sync(self.directory.mark_complete)

    # -- hooks ------------------------------------------------------------------------------------------------

    async def hook(self, name: str) -> None:
        script = getattr(self._spec.hooks, name)
        if not script:
            return
        await run_hook(
            name,
            script,
            workspace=self.directory.path,
            workspace_fd=self.directory.fd,
            env=self._environment(),
            run_id=self._spec.run_id,
            timeout=self._spec.hooks.timeout,
            on_line=lambda text: self._channel.tell(Line(source=name, text=text)),
        )

    async def after_run(self) -> None:
        """Best effort, also for a run that was stopped: its failure is a remark, never the verdict."""
        if not self._spec.hooks.after_run:
            return
        with anyio.CancelScope(shield=True):
            try:
                await self.hook("after_run")
            except (SortieError, OSError) as error:
                self.remark("warning", "after_run failed", str(error))

    # -- the signal -------------------------------------------------------------------------------------------

    def delete_old_signal(self) -> None:
        result = delete_signal(self.directory.fd, self._spec.signal)
        if result.startswith("skipped"):
            self.remark("warning", "the old status file was not deleted", result)
        elif result.startswith("failed"):
            self.remark("debug", "the old status file could not be deleted", result)

    def read_signal(self) -> Status:
        """An agent that took its workspace from its place has no place to leave a word."""
        try:
            self.directory.verify()
        except WorkspaceError as error:
            return Status(problem=error.message)
        return read_signal(self.directory.fd, self._spec.signal)

    def remark_on(self, signal: Status) -> None:
        if signal.token:
            self.remark("info", f"the agent signalled {signal.token}", signal.reason)
        elif signal.problem:
            self.remark("warning", "the status file could not be read and is ignored", signal.problem)
        elif signal.unrecognised is not None:
            value = ascii(signal.unrecognised.decode("latin-1"))
            self.remark("warning", f"the status file holds an unknown value, ignored: {value}")

    def remark(self, level: Level, message: str, detail: str = "") -> None:
        self._channel.tell(Remark(level=level, message=message, detail=detail))

    # -- what starts here -------------------------------------------------------------------------------------

    def session_order(self, variables: tuple[str, ...], mcp_config: Path | None) -> SessionOrder:
        """For an agent that needs these `variables` of ours beside the usual ones."""
        spec, workspace = self._spec, self.directory
        environment = self._environment(*variables)
        if mcp_config:
            environment["SORTIE_MCP_CONFIG"] = str(mcp_config)
        return SessionOrder(
            run_id=spec.run_id,
            issue_id=spec.issue.id,
            identifier=spec.issue.identifier,
            attempt=spec.attempt,
            workspace=workspace.path,
            workspace_fd=workspace.fd,
            environment=environment,
            # A conversation about files that are gone is worth nothing.
            resume="" if workspace.created else spec.resume.session_id,
            resume_cost=spec.resume.cost_usd,
            mcp_config=mcp_config,
        )

    def _environment(self, *variables: str) -> dict[str, str]:
        return run_environment(
            self._environ,
            extra_names=(*variables, *self._spec.environment),
            store_id=self._spec.store_id,
            run_id=self._spec.run_id,
            issue=self._spec.issue,
            workspace=self.directory.path,
            attempt=self._spec.attempt,
        )


# -- the kinds ------------------------------------------------------------------------------------------------


def place_of(spec: RunSpec) -> Path:
    """Where the workspace of a run is, for telling who else is there."""
    if spec.workspace.kind == "shared checkout":
        return Path(spec.workspace.root)
    return Path(spec.workspace.root, spec.workspace.key or workspace_key(spec.issue.identifier))


def _claim(spec: RunSpec, archive: Path) -> tuple[Workspace, dict[str, Path]]:
    """In a thread. What needs no hook to be created is complete at once."""
    root = Path(spec.workspace.root)
    if spec.workspace.kind == "shared checkout":
        return open_shared_checkout(root.resolve()), {}
    known = known_as(spec.workspace.known, spec.issue, root)
    workspace, archived = claim_workspace(
        root,
        spec.issue.identifier,
        known,
        archive,
        from_thread.check_cancelled,
        has_hook=bool(spec.hooks.after_create),
        key=spec.workspace.key,
    )
    if spec.workspace.kind == "task folder" and not spec.task:  # with one, `TaskRun` makes all of it
        make_task_folders(workspace)
    return workspace, archived


def known_as(known: KnownWorkspace | None, issue: Issue, root: Path) -> Known | None:
    """Its inode tells it wherever the project is moved; only an old record without one needs the path."""
    if known is None or known.issue_id != issue.id:
        return None
    if not known.inode and Path(known.path).parent != root.resolve():
        return None
    return Known(known.inode, known.used)
