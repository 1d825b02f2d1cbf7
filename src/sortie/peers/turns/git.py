"""Calls of git about a directory that an agent can write: none of our secrets, no hooks, an end in time and size.

git is found on PATH by absolute directories alone: a program of that name in the checkout is not ours to run.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from ...errors import SortieError
from ...protocol.foreign_text import escape, shortened

# For what reads little, and for what may read all files.
SECONDS = 60.0
LONG = 300.0
MOST_OUTPUT = 256 << 20
_MOST_ERRORS = 64 << 10
_CHUNK = 1 << 16
_LAST_CHUNKS = 64
_LAST_WAIT = 5.0
_SHOWN = 300

# Whatever the repository is configured to run beside git, and what would make one call as long as many.
_SETTINGS = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "commit.gpgSign=false"),
    *("-c", "core.quotePath=false"),
    *("-c", "core.looseCompression=1"),
    *("-c", "core.fsync=objects,reference"),
    *("-c", "core.fsyncMethod=batch"),
)
_ENVIRONMENT = {
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    # An object is what it is; one that is not here is not fetched from anywhere.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_AUTHOR_NAME": "Sortie",
    "GIT_AUTHOR_EMAIL": "sortie@localhost",
    "GIT_COMMITTER_NAME": "Sortie",
    "GIT_COMMITTER_EMAIL": "sortie@localhost",
}


class GitError(SortieError):
    """git said no, took too long or said too much. `status` is its exit status, None where it was ended by us."""

    def __init__(self, message: str, *, fix: str = "", status: int | None = None) -> None:
        super().__init__(message, fix=fix)
        self.status = status


def git(
    root: Path,
    *arguments: str,
    env: Mapping[str, str],
    given: bytes = b"",
    fine: tuple[int, ...] = (0,),
    seconds: float = SECONDS,
    most: int = MOST_OUTPUT,
) -> bytes:
    """The standard output of one call in `root`; `given` is its standard input, and what `env` has empty is not
    set at all. Blocks.

    An exit status that is not `fine` raises, with what git said. Whatever git started has ended with it.
    """
    command = [_program(), *_SETTINGS, *arguments]
    environment = {"PATH": _absolute_path(), **_ENVIRONMENT, **env}
    environment = {name: value for name, value in environment.items() if value}
    what = f"git {arguments[0]}"
    # In memory: it is seekable, and no disk can be too full for it.
    with os.fdopen(os.memfd_create("given", os.MFD_CLOEXEC), "w+b") as stdin:
        stdin.write(given)
        stdin.seek(0)
        try:
            # A group, but no session of its own: who looks after the orphans of agents leaves our session alone.
            process = subprocess.Popen(
                command,
                cwd=root,
                env=environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
            )
        except OSError as error:
            raise GitError(f"git could not be started in {root}: {error.strerror}.") from error
    assert process.stdout is not None and process.stderr is not None
    with process.stdout, process.stderr:
        output, errors = _Listener(process, what, seconds, most).outcome()
    if process.returncode not in fine:
        raise GitError(f"{what} failed in {root}: {_words_of(errors)}.", status=process.returncode)
    return output


class _Listener:
    """What a process says until it ends, and its end, which comes at the latest with the time that it has."""

    def __init__(self, process: subprocess.Popen[bytes], what: str, seconds: float, most: int) -> None:
        assert process.stdout is not None and process.stderr is not None
        self._process = process
        self._what = what
        self._seconds = seconds
        self._most = most
        self._output = process.stdout.fileno()
        self._heard = {self._output: bytearray(), process.stderr.fileno(): bytearray()}

    def outcome(self) -> tuple[bytes, bytes]:
        for pipe in self._heard:
            os.set_blocking(pipe, False)
        ended = os.pidfd_open(self._process.pid)
        try:
            self._listen(ended)
        finally:
            os.close(ended)
            self._end()
        # What somebody else still holds open is not waited for: all that the process said is in the pipe by now.
        for pipe in self._heard:
            for _ in range(_LAST_CHUNKS):
                if not self._hear(pipe):
                    break
        output, errors = self._heard.values()
        return bytes(output), bytes(errors)

    def _listen(self, ended: int) -> None:
        until = time.monotonic() + self._seconds
        with selectors.DefaultSelector() as selector:
            for source in (ended, *self._heard):
                selector.register(source, selectors.EVENT_READ)
            while (left := until - time.monotonic()) > 0:
                ready = [key.fd for key, _ in selector.select(left)]
                if ended in ready:
                    return
                for pipe in ready:
                    if not self._hear(pipe):
                        selector.unregister(pipe)
        raise GitError(
            f"{self._what} did not end within {self._seconds:g} seconds.",
            fix="Look for a huge file, or a file system that does not answer.",
        )

    def _hear(self, pipe: int) -> bool:
        """Whether there was something."""
        try:
            chunk = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return False
        heard = self._heard[pipe]
        heard += chunk
        if pipe != self._output:
            del heard[:-_MOST_ERRORS]
        elif len(heard) > self._most:
            raise GitError(f"{self._what} says more than {self._most >> 20} MiB.")
        return bool(chunk)

    def _end(self) -> None:
        """With everything in its group. It is not reaped yet, so the number of the group is its own."""
        os.killpg(self._process.pid, signal.SIGKILL)
        try:
            self._process.wait(_LAST_WAIT)
        except subprocess.TimeoutExpired:
            # It waits in the kernel, for a disk that does not answer, and dies as soon as that lets it.
            raise GitError(f"{self._what} cannot be ended: the disk of the repository does not answer.") from None


def _words_of(errors: bytes) -> str:
    lines = [line for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    said = [line for line in lines if line.startswith(("fatal: ", "error: "))] or lines
    words = said[-1].removeprefix("fatal: ").removeprefix("error: ") if said else "it does not say why"
    return shortened(escape(words.strip()), _SHOWN).rstrip(".")


def _absolute_path() -> str:
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(place for place in places if Path(place).is_absolute())


def _program() -> str:
    if found := shutil.which("git", path=_absolute_path()):
        return found
    raise SortieError("git was not found on PATH.", fix="Install git 2.32 or later.")
