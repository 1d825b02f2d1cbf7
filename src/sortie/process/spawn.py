"""Starting programs: this process made fit for many children, and one program with pipes and a session of its own.

Every way in which a start fails is told apart.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from threading import current_thread, main_thread

from msgspec import Struct

from ..errors import AgentError, SortieError, WorkspaceError
from .identity import ProcessIdentity, identify, limit_marked
from .orphans import become_subreaper

_NOT_EXECUTABLE = frozenset({errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.EISDIR})


def prepare() -> None:
    """Make this process fit to own many children, before its first. Each step is best effort: without it we run,
    less well."""
    if sys.version_info < (3, 12):
        # The default of 3.11 takes a thread for each child; later versions use pidfds by themselves.
        asyncio.get_event_loop_policy().set_child_watcher(asyncio.PidfdChildWatcher())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # an unlimited hard limit can be above what the kernel grants
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # Inherited from a careless parent, an ignored SIGCHLD would throw away how every agent ended.
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN and current_thread() is main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Else a daemon that an agent left behind becomes a child of init, and is found only at the next start.
    become_subreaper()


class Spawned(Struct, frozen=True):
    """A running process and our ends of its pipes; `stderr` is None where it goes to standard output."""

    popen: subprocess.Popen[bytes]
    identity: ProcessIdentity
    pidfd: int
    stdin: int
    stdout: int
    stderr: int | None


def spawn(
    argv: Sequence[str],
    *,
    cwd_fd: int,
    env: Mapping[str, str],
    separate_stderr: bool,
    limit_marker: int | None = None,
) -> Spawned:
    """Start `argv` in the directory that is open as `cwd_fd`, whatever its name means by now."""
    if os.fstat(cwd_fd).st_nlink == 0:
        raise WorkspaceError("The workspace was removed before the program could start in it.")
    cwd = f"/proc/self/fd/{cwd_fd}"
    with ExitStack() as theirs, ExitStack() as ours:
        try:
            stdin, our_stdin = pipe_between(theirs, ours)
            our_stdout, stdout = pipe_between(ours, theirs)
            our_stderr, stderr = pipe_between(ours, theirs) if separate_stderr else (None, subprocess.STDOUT)
            # The child resolves `cwd` through its own copy of the descriptor, before it closes that.
            with nullcontext() if limit_marker is None else limit_marked(limit_marker):
                popen = subprocess.Popen(
                    argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
                )
        except (OSError, ValueError) as error:
            raise _explain(error, argv[0], cwd) from error
        try:
            identity = identify(popen.pid)
            assert identity is not None, "a child that was not reaped is in the process table"
            pidfd = os.pidfd_open(popen.pid)
        except OSError as error:
            popen.kill()
            popen.wait()
            raise _explain(error, argv[0], cwd) from error
        ours.pop_all()
        return Spawned(popen, identity, pidfd, our_stdin, our_stdout, our_stderr)


def pipe_between(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """Its two ends, each to be closed by the one whose it is."""
    reading, writing = os.pipe()
    reader.callback(os.close, reading)
    writer.callback(os.close, writing)
    return reading, writing


def _explain(error: OSError | ValueError, program: str, cwd: str) -> SortieError:
    if isinstance(error, ValueError):
        return AgentError(AgentError.CONFIG, f"{program} cannot be started: {error}.")
    if error.filename == cwd:
        return WorkspaceError(f"{program} cannot start in its workspace: {error.strerror}.")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return AgentError(
            AgentError.NOT_FOUND,
            f"{program} was not found.",
            fix="Install it, or correct its name; for a script, see that the program in its first line exists.",
        )
    if error.errno in _NOT_EXECUTABLE:
        return AgentError(
            AgentError.NOT_EXECUTABLE,
            f"{program} cannot be executed: {error.strerror}.",
            fix=f"Make it executable: chmod +x {Path(program).name}",
        )
    return AgentError(AgentError.TURN_FAILED, f"{program} could not be started: {error.strerror}.")
