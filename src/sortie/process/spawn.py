"""One program started with pipes and a session of its own, and every way in which that fails told apart."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path

from msgspec import Struct

from ..errors import AgentError, SortieError, WorkspaceError
from .brand import branding
from .identity import Identity, identify

_NOT_EXECUTABLE = frozenset({errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.EISDIR})


class Spawned(Struct, frozen=True):
    """A running process and our ends of its pipes; `stderr` is None where it goes to standard output."""

    popen: subprocess.Popen[bytes]
    identity: Identity
    pidfd: int
    stdin: int
    stdout: int
    stderr: int | None


def spawn(
    argv: Sequence[str], *, cwd_fd: int, env: Mapping[str, str], separate_stderr: bool, brand: int | None = None
) -> Spawned:
    """Start `argv` in the directory that is open as `cwd_fd`, whatever its name means by now."""
    if os.fstat(cwd_fd).st_nlink == 0:
        raise WorkspaceError("The workspace was removed before the program could start in it.")
    cwd = f"/proc/self/fd/{cwd_fd}"
    with ExitStack() as theirs, ExitStack() as ours:
        try:
            stdin, our_stdin = _pipe(theirs, ours)
            our_stdout, stdout = _pipe(ours, theirs)
            our_stderr, stderr = _pipe(ours, theirs) if separate_stderr else (None, subprocess.STDOUT)
            # The child resolves `cwd` through its own copy of the descriptor, before it closes that.
            with nullcontext() if brand is None else branding(brand):
                popen = subprocess.Popen(
                    argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
                )
        except (OSError, ValueError) as error:
            raise _explain(error, argv[0], cwd) from error
        try:
            identity, pidfd = _hold(popen.pid)
        except OSError as error:
            popen.kill()
            popen.wait()
            raise _explain(error, argv[0], cwd) from error
        ours.pop_all()
        return Spawned(popen, identity, pidfd, our_stdin, our_stdout, our_stderr)


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    reader.callback(os.close, reading)
    writer.callback(os.close, writing)
    return reading, writing


def _hold(pid: int) -> tuple[Identity, int]:
    identity = identify(pid)
    assert identity is not None, "a child that was not reaped is in the process table"
    return identity, os.pidfd_open(pid)


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
