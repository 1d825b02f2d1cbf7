"""A child process in a session of its own, and the promise that `end` leaves nothing of it behind.

The child is not reaped before `end`: until then its number, and with it the session it leads, cannot pass to a
stranger, so whoever is found in that session is the child's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path

import anyio
from anyio.lowlevel import RunVar
from msgspec import Struct

from .identity import STORE_MARK, ProcessIdentity, limit_marker
from .orphans import StartedProgram, orphan_tracker
from .pipes import LINE_LIMIT, Input, Output
from .process_table import Process, ProcessTree
from .spawn import Spawned, spawn
from .sweep import end_all

log = logging.getLogger(__name__)

# Leftovers of a process that has ended by itself are asked only briefly.
_LEFTOVER_GRACE = 0.5
_EXIT_NOTICE = 1.0

_one_at_a_time: RunVar[anyio.Lock] = RunVar("sortie_one_spawn_at_a_time")


class Exit(Struct, frozen=True):
    """How a process ended. `code` and `signal` are both None only for one that the kernel could not kill."""

    code: int | None
    signal: int | None
    ended_by_us: bool


async def start(
    argv: Sequence[str],
    *,
    cwd_fd: int,
    env: Mapping[str, str],
    run_id: str,
    workspace: Path,
    separate_stderr: bool = False,
) -> Child:
    """Start a program in the open directory `cwd_fd` with exactly this environment, and PWD.

    `run_id`, the store's mark and the directory are how descendants that detached themselves are recognised.
    Whoever starts a child calls its `end`, also when it ended by itself.
    """
    if (lock := _one_at_a_time.get(None)) is None:
        lock = anyio.Lock()
        _one_at_a_time.set(lock)
    directory = Path(f"/proc/self/fd/{cwd_fd}").readlink()
    marker = limit_marker(env.get(STORE_MARK, ""), run_id)
    # A spawn holds the loop for about a millisecond; the lock gives others a turn between two of them.
    async with lock:
        spawned = spawn(
            argv,
            cwd_fd=cwd_fd,
            env={**env, "PWD": str(workspace)},
            separate_stderr=separate_stderr,
            limit_marker=marker if orphan_tracker.is_sole_parent else None,
        )
        return Child(spawned, StartedProgram(spawned.identity, run_id, marker, directory))


class Child:
    """A process that `start` started, with everything that it starts in turn."""

    def __init__(self, spawned: Spawned, program: StartedProgram) -> None:
        orphan_tracker.add(program)
        self.identity: ProcessIdentity = spawned.identity
        self._popen = spawned.popen
        self._program = program
        self._stdin = Input(spawned.stdin)
        self._stdout = Output(spawned.stdout)
        self._stderr = None if spawned.stderr is None else Output(spawned.stderr)
        self._pipes = [pipe for pipe in (self._stdin, self._stdout, self._stderr) if pipe is not None]
        self._tree = ProcessTree()
        self._exited = anyio.Event()
        self._exit = Exit(None, None, ended_by_us=True)
        self._ended_by_us = False
        self._ending = anyio.Lock()
        self._closed = False
        self._pidfd = spawned.pidfd
        asyncio.get_running_loop().add_reader(self._pidfd, self._notice_exit)

    @property
    def pid(self) -> int:
        return self.identity.pid

    async def send(self, data: bytes) -> None:
        """Write to its standard input; a reader that went away is no error."""
        await self._stdin.send(data)

    async def feed(self, data: bytes) -> None:
        """Write to its standard input and close that."""
        await self._stdin.send(data)
        self._stdin.close()

    def interrupt(self) -> None:
        """SIGINT to its group, as Ctrl-C does: the process may be a shell around the one that counts."""
        if not self._exited.is_set():
            os.killpg(self.pid, signal.SIGINT)

    def lines(self, limit: int = LINE_LIMIT) -> AsyncGenerator[bytes]:
        """Its standard output; a line over `limit` bytes is cut and marked."""
        return self._stdout.lines(limit)

    def error_lines(self) -> AsyncGenerator[bytes]:
        assert self._stderr is not None, "standard error goes to standard output"
        return self._stderr.lines()

    async def wait(self) -> Exit:
        """Until the process itself has ended; its descendants may go on."""
        await self._exited.wait()
        return self._exit

    async def end(self, grace: float = 5.0) -> Exit:
        """End it with all its descendants, `grace` seconds after asking by force, and give back its resources.

        May be called again at any time. When cancelled it has ended nothing for certain; callers shield it.
        """
        async with self._ending:
            if not self._closed:
                self._program.ending = True
                self._notice_exit()
                if not self._exited.is_set():
                    self._ended_by_us = True
                    await self._end_tree(grace)
                elif not orphan_tracker.has_none():
                    await self._end_tree(min(grace, _LEFTOVER_GRACE))
                self._close()
        return self._exit

    async def _end_tree(self, grace: float) -> None:
        if survivors := await end_all(self._living, grace):
            log.warning("processes that cannot be ended: %s", ", ".join(str(p.pid) for p in survivors))
        with anyio.move_on_after(_EXIT_NOTICE):
            await self._exited.wait()

    def _living(self) -> list[Process]:
        return self._tree.living(*orphan_tracker.look_at(self._program))

    def _notice_exit(self) -> None:
        """Learn how it ended, if it has, and leave it unreaped."""
        if self._exited.is_set():
            return
        result = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if result is None:
            return
        asyncio.get_running_loop().remove_reader(self._pidfd)
        by_itself = result.si_code == os.CLD_EXITED
        self._exit = Exit(
            code=result.si_status if by_itself else None,
            signal=None if by_itself else result.si_status,
            ended_by_us=self._ended_by_us,
        )
        for pipe in self._pipes:
            pipe.process_gone()
        self._exited.set()

    def _close(self) -> None:
        self._closed = True
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        for pipe in self._pipes:
            pipe.close()
        self._exited.set()
        if self._popen.poll() is not None:
            orphan_tracker.forget(self._program)
