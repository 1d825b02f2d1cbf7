"""A process that is killed at the n-th line of our code, for every n, and others that act at a given moment."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# Where a write to a document happens; what callers do before and after is no business of these tests.
_WATCHED = ("shared_document", "document_writer", "document_file", "journal", "key_table", "changing_places")

_FILES = tuple(f"{name}.py" for name in _WATCHED)


def killed_at_every_line(work: Callable[[], None], *, most: int = 5000) -> Iterator[bool]:
    """Do `work` in a child that is killed at its first line, then in one that is killed at its second, and so on.

    Yields after each child whether it came to its end; the last one did.
    """
    for point in range(1, most):
        pid = os.fork()
        if not pid:
            _die_at(point, work)
        _, code = os.waitpid(pid, 0)
        ended = os.WIFEXITED(code)
        assert ended or os.WTERMSIG(code) == signal.SIGKILL
        assert not ended or os.WEXITSTATUS(code) == 0, "the work failed"
        yield ended
        if ended:
            return
    raise AssertionError(f"it has not ended after {most} lines")


@contextmanager
def just_before(function: str, act: Callable[[], None]) -> Iterator[None]:
    """Let something happen once, at the moment when our code comes to this function of its own."""
    waiting = [act]

    def watch(frame: FrameType, _event: str, _argument: Any) -> None:
        if waiting and frame.f_code.co_name == function and frame.f_code.co_filename.endswith(_FILES):
            waiting.pop()()

    sys.settrace(watch)
    try:
        yield
    finally:
        sys.settrace(None)
    assert not waiting, f"{function} was never called"


def _die_at(point: int, work: Callable[[], None]) -> None:
    left = point

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return count

    def choose(frame: FrameType, _event: str, _argument: Any) -> Any:
        return count if frame.f_code.co_filename.endswith(_FILES) else None

    code = 1
    try:
        sys.settrace(choose)
        work()
        code = 0
    finally:
        os._exit(code)
