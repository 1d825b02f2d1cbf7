"""The seam between the engine and the places where runs execute.

The engine decides and remembers; a host carries out one `RunSpec` after the other and reports. Everything that
crosses is serialisable, so a host may be this process, or machines far away. `sortie.testing` has the contract
suite that every host keeps.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from ..core.model import Issue
from ..errors import SortieError
from ..runs.messages import AnyAnswer, Numbered
from ..runs.spec import RunSpec, Signal, WorkspaceSpec


class RunNotFound(SortieError):
    """The host knows nothing of this run."""


class DuplicateRun(SortieError):
    """This run was started already, by somebody else."""


class RunLost(SortieError):
    """The machine of this run is dead, frozen or out of reach, and whatever it still does is not heard any more."""


class HostInfo(Struct, frozen=True, kw_only=True):
    """One machine, and how many runs it takes at once (None: as many as there are)."""

    name: str
    capacity: int | None = None


class RunState(Struct, frozen=True, kw_only=True):
    """`lost`: see `RunLost`; `unknown`: see `RunNotFound`."""

    state: Literal["running", "ended", "lost", "unknown"]
    reason: str = ""


class OpenRun(Struct, frozen=True, kw_only=True):
    """A run of which the store knows a beginning and no end, as far as its host has to know it."""

    store_id: str
    run_id: str
    host: str
    workspace: str = ""
    inode: int = 0
    signal: Signal = ".sortie/status"
    pid: int | None = None
    start_ticks: int | None = None
    boot_id: str | None = None


class Leftover(Struct, frozen=True, kw_only=True):
    """A process that an orchestrator which died had left behind, and that is ended now."""

    pid: int
    run_id: str = ""


class Remains(Struct, frozen=True, kw_only=True):
    """What is left of a run whose processes are gone: the agent's signal, what its tool servers wrote.

    `in_place` is False where the workspace is not the directory that the run worked in; then it has no signal.
    `recoverable` is what a signal of failure says of another try.
    """

    in_place: bool = False
    signal: str = ""
    reason: str = ""
    recoverable: bool = True
    tool_lines: tuple[bytes, ...] = ()


class Removal(Struct, frozen=True, kw_only=True):
    """The workspace of an issue that is done, and the hook that may look at it once more before it goes.

    `attempt` is the number of the run that left it, `environment` names what the hook gets of our variables.
    """

    store_id: str
    issue: Issue
    attempt: int
    workspace: WorkspaceSpec
    before_remove: str = ""
    hook_timeout: float = 60.0
    environment: tuple[str, ...] = ()


class Removed(Struct, frozen=True, kw_only=True):
    """`archive` is where the copy is, empty where there was nothing to remove; `problems` are for people.

    `leftovers` says what of this and earlier removals is archived, but cannot be removed yet.
    """

    archive: str = ""
    problems: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()


class RemovalRefused(SortieError):
    """A run has the workspace, or wants it, or the issue is not done any more: it is kept."""


async def nobody_minds() -> bool:
    return True


class Host(Protocol):
    """One place, or several of the same kind."""

    async def hosts(self) -> Sequence[HostInfo]:
        """The machines there are now."""
        ...

    async def start(self, run_id: str, fence: str, spec: RunSpec, host: str) -> None:
        """Begin. The same call twice begins once; with another `fence` it raises `DuplicateRun`.

        Where it cannot begin at all (an agent that nobody knows) it raises, and there is no run.
        """
        ...

    async def attach(self, run_id: str) -> None:
        """Take up a run that an earlier orchestrator started; raises `RunNotFound`."""
        ...

    def events(self, run_id: str, after: int = 0) -> AsyncGenerator[Numbered]:
        """What the run tells, numbered without gaps, from the one after `after`; ends after `Ended`.

        Raises `RunLost` when nobody hears of the run any more, `RunNotFound` where there is none. Asking for
        what comes after a number, or for the next one, says that everything up to it was dealt with: nobody is
        told of it again, whatever number he asks for.
        """
        ...

    async def answer(self, run_id: str, number: int, answer: AnyAnswer) -> None:
        """The answer to the question of that number; one that nobody waits for any more is passed over."""
        ...

    async def cancel(self, run_id: str, grace: float = 5.0) -> None:
        """End the run with all its processes: asked to at first, by force after `grace` seconds. Returns when they
        are gone or the run is lost; `Ended` is still told. A run that is unknown is not there: no error."""
        ...

    async def status(self, run_id: str) -> RunState:
        """How it stands with a run; never raises."""
        ...

    async def sweep(
        self, store_id: str, runs: Sequence[OpenRun], root: str = "", attached: Collection[str] = ()
    ) -> Sequence[Leftover]:
        """After a crash: end every process of these runs, or of any other run of this store that is not attached.

        `root` is the directory of all workspaces: whatever works there for a store that is gone ends too.
        `attached` are the runs that go on, those of other hosts included: these may be on the same machine.
        """
        ...

    async def remains(self, run: OpenRun) -> Remains:
        """After the sweep: what is left of a run, with its credentials taken out of the workspace."""
        ...

    async def remove_workspace(
        self, removal: Removal, confirm: Callable[[], Awaitable[bool]] = nobody_minds
    ) -> Removed:
        """Hook, archive, remove. `confirm` is asked after the hook, and again when the archive is complete.

        Raises `RemovalRefused` where it says no or a run comes, `WorkspaceError` where the workspace cannot be
        archived; then it is kept, as it is when this is cancelled: or it is gone with a whole archive.
        """
        ...

    async def tidy(self, root: str, keep_days: float) -> Sequence[str]:
        """Remove archives older than that, and what interrupted removals left; the answer says what stays."""
        ...

    async def kill(self) -> None:
        """End every process of every run by force."""
        ...

    async def aclose(self) -> None: ...
