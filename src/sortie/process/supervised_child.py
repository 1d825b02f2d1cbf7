"""A child process of the service: gets lines on its standard input, is restarted when it ends, and ends with us.

It is in our session, so that `orphans` does not take it for a process that an agent left behind, and in a process
group of its own, so that Ctrl-C reaches only us. Nothing here waits for it: lines that it does not read are
dropped, its output is read as it comes, and the kernel reports its end (pidfd).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import anyio

from .orphans import orphan_tracker
from .output_lines import OutputLines
from .spawn import pipe_between

log = logging.getLogger(__name__)

# A child that lives this long has started well; one that exits sooner, TRIES times in a row, is given up. Being
# killed (by the kernel's OOM killer for instance) or a lack of resources does not count: that passes.
STEADY_AFTER = 10.0
TRIES = 5
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 30.0
UNTIL_THERE_IS_A_LINE = 0.1
_NO_ROOM = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
# Seconds after SIGTERM, and after SIGKILL.
GRACE = 2.0
FORCE_FOR = 2.0


class SupervisedChild:
    """`name` is for the log. The child is started as `argv` with our process id appended, for `parent.end_with`; it
    inherits the descriptors `inherited`, and reads our lines on its standard input, `first` before all others.
    After the end of its input it has `drain_seconds` before it gets SIGTERM."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        environ: Mapping[str, str],
        *,
        first: bytes = b"",
        inherited: Sequence[int] = (),
        drain_seconds: float = 0.0,
    ) -> None:
        self._name = name
        self._drain_seconds = drain_seconds
        self._argv = [*argv, str(os.getpid())]
        self._environ = dict(environ)
        self._first = first
        self._inherited = tuple(inherited)

    async def run(self, line: Callable[[], bytes | None], every: float) -> None:
        """Keep it running until cancelled or given up; then it has ended. It is sent a `line` every `every`
        seconds, unless it has not read the one before, or `line` has none."""
        quick_ends, pause = 0, FIRST_PAUSE
        while True:
            began = anyio.current_time()
            how, by_itself = await self._live_once(line, every)
            if anyio.current_time() - began >= STEADY_AFTER:
                quick_ends, pause = 0, FIRST_PAUSE
            quick_ends += by_itself
            if quick_ends == TRIES:
                log.warning("the %s %s again, and is given up; the service goes on without it", self._name, how)
                return
            log.warning("the %s %s, and is started anew", self._name, how)
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _live_once(self, line: Callable[[], bytes | None], every: float) -> tuple[str, bool]:
        """How it ended, and whether it ended by itself."""
        try:
            life = _Life(self._name, self._argv, self._environ, self._inherited)
        except OSError as error:
            return f"cannot be started ({error.strerror or error})", error.errno not in _NO_ROOM
        try:
            life.tell(self._first)
            while not life.ended.is_set():
                if said := line():
                    life.tell(said)
                with anyio.move_on_after(every if said else UNTIL_THERE_IS_A_LINE):
                    await life.ended.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await life.end(self._drain_seconds)
        if life.code < 0:
            return f"was ended by signal {-life.code}", life.code != -signal.SIGKILL
        return f"ended with exit code {life.code}", True


class _Feed:
    """Our end of its standard input. Writing never blocks: at most the unread rest of one line is buffered."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = memoryview(b"")  # slicing does not copy: a pipe takes a long line in many small parts
        self._closed = False
        os.set_blocking(descriptor, False)

    def tell(self, line: bytes) -> None:
        """Write the whole line, now or later; drop it if an earlier one is not written yet."""
        if not self._rest and not self._closed:
            self._rest = memoryview(line)
            self._write()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            asyncio.get_running_loop().remove_writer(self._descriptor)
            os.close(self._descriptor)

    def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._rest = self._rest[os.write(self._descriptor, self._rest) :]
        except BlockingIOError:
            pass
        except OSError:
            self.close()  # the child closed its input and is about to end
            return
        if self._rest:
            loop.add_writer(self._descriptor, self._write)
        else:
            loop.remove_writer(self._descriptor)


class _Life:
    """One process of the child, from its start to its end."""

    def __init__(
        self, name: str, argv: Sequence[str], environ: Mapping[str, str], inherited: Sequence[int]
    ) -> None:
        with ExitStack() as theirs, ExitStack() as ours:
            stdin, feed = pipe_between(theirs, ours)
            heard, said = pipe_between(ours, theirs)
            self._popen = subprocess.Popen(
                argv, env=environ, stdin=stdin, stdout=said, stderr=said, pass_fds=inherited, process_group=0
            )
            try:
                self._pidfd = os.pidfd_open(self._popen.pid)
            except OSError:
                self._popen.kill()
                self._popen.wait()
                raise
            ours.pop_all()
        orphan_tracker.spare(self._popen.pid)
        self._feed = _Feed(feed)
        self._output = OutputLines(heard, lambda line: log.warning("%s: %s", name, line))
        self.ended = anyio.Event()
        self.code = 0
        asyncio.get_running_loop().add_reader(self._pidfd, self._notice_end)

    def tell(self, line: bytes) -> None:
        self._feed.tell(line)

    async def end(self, drain_seconds: float) -> None:
        """Close its input, then SIGTERM, then SIGKILL."""
        self._feed.close()
        with anyio.move_on_after(drain_seconds):
            await self.ended.wait()
        self._signal(signal.SIGTERM)
        with anyio.move_on_after(GRACE):
            await self.ended.wait()
        self._signal(signal.SIGKILL)
        with anyio.move_on_after(FORCE_FOR):
            await self.ended.wait()
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._output.close()
        if self.ended.is_set():
            orphan_tracker.unspare(self._popen.pid)

    def _signal(self, number: signal.Signals) -> None:
        if not self.ended.is_set():
            signal.pidfd_send_signal(self._pidfd, number)  # not reaped yet, so the pid is still its own

    def _notice_end(self) -> None:
        code = self._popen.poll()
        if code is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            self.code = code
            self.ended.set()
