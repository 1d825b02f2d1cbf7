"""What people have to hear of a task that failed: the report in its outbox, and the page for who has to act.

Both are written after a crash as well as before it, and never twice: a report that the agent wrote itself stays, an
escalation is known by its last line.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from anyio import to_thread

from ..core.conclude import Next, Outcome
from ..core.model import Usage
from ..core.records import Claim
from ..errors import TrackerError
from ..protocol.error_report import FILE, error_report, one_line
from ..protocol.foreign_text import readable
from ..protocol.safefiles import UnsafeFile, open_directory, remove_half_written, write_new
from ..protocol.task_status import FILE as STATUS
from ..protocol.task_status import TaskError, TaskStatus, read_task_status, write_on_behalf
from .plan import ESCALATIONS, Plan

_HEADING = """\
# Escalations

Tasks that need a person. `sortie plan why TASK` tells the whole story; `sortie plan retry`, `fix`, `skip` and
`accept` decide what becomes of it.
"""
_LONGEST = 2_000
_OUTBOX = "outbox"
# Of the page, where an entry is looked for that may be there already: a few hundred entries.
_END = 1 << 20
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_KINDS = {
    "task_failed": "TaskFailed",
    "task_incomplete": "Incomplete",
    "task_unfinished": "Unfinished",
    "inputs_changed": "InputsChanged",
    "timed_out": "Timeout",
    "stalled": "Stalled",
}


def failure_report(outcome: Outcome, fate: Next) -> str:
    """In the form of the protocol, for a task whose agent left none."""
    follows = {
        "again": f"It is tried again in {fate.delay:g} s, with an empty outbox.",
        "parked": "None: a person has to look at it.",
        "released": "None: all of its attempts are used up, or another one would end the same way.",
    }
    return error_report(
        _KINDS.get(outcome.error_kind, outcome.error_kind or outcome.status),
        outcome.error,
        follows[fate.then],
        "Mend the cause, which `sortie plan why` tells, then `sortie plan retry`, or `sortie plan fix --input`.",
        "What the agent had put into the outbox is still there, and below `attempts/` after the next attempt.",
    )


async def put_report(plan: Plan, task: str, report: str) -> None:
    """Into the outbox, if the agent left none; where it never said anything, `status.json` says that it failed."""
    await to_thread.run_sync(_put_report, plan, task, report)


def _put_report(plan: Plan, task: str, report: str) -> None:
    try:
        with open_directory(plan.root / task) as folder:
            remove_half_written(folder, STATUS)
            believed = read_task_status(folder).status
            if believed and believed.state == "pending":
                _say_failed(folder, believed, report)
            elif believed and believed.error and believed.error.type:
                kind = one_line(believed.error.type)
                report = report.replace(f"\n{_KINDS['task_failed']}\n", f"\n{kind}\n", 1)
            with suppress(FileExistsError):
                os.mkdir(_OUTBOX, 0o750, dir_fd=folder)  # a run that ended before there was one has a report too
            with open_directory(folder, _OUTBOX) as outbox, suppress(FileExistsError):
                write_new(outbox, FILE, report.encode("utf-8", "replace"), 0o644)
    except OSError as error:
        raise TrackerError(
            TrackerError.API, f"The report of {task} cannot be written: {error.strerror}."
        ) from error


def _say_failed(folder: int, believed: TaskStatus, report: str) -> None:
    lines = [line for line in report.splitlines() if line.strip()]
    kind, message = (lines[lines.index(heading) + 1] for heading in ("## Error Type", "## Description"))
    write_on_behalf(
        folder,
        "failed",
        believed=believed,
        completed=time.time(),
        error=TaskError(type=kind, message=message[:_LONGEST]),
    )


def escalation(claim: Claim, outcome: Outcome, usage: Usage, seconds: float) -> str:
    """One entry of the page."""
    spent = f"{seconds:.0f} s, {usage.total:,} tokens, ${usage.cost_usd:.2f}"
    quoted = "\n".join(f"> {line}" for line in readable(outcome.error, _LONGEST).splitlines())
    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"## {claim.identifier}: attempt {claim.attempt} ({at})\n\n{quoted}\n\nThe attempt took {spent}."


async def append_escalation(plan: Plan, entry: str) -> None:
    """Once, however often it is asked for."""
    await to_thread.run_sync(_append, plan, entry)


def _append(plan: Plan, entry: str) -> None:
    """Every agent can write to the page too: only its end is read, and it is not written through a link."""
    mark = entry.rstrip().splitlines()[-1].encode("utf-8", "replace")
    try:
        with open_directory(plan.root) as root, _page(root) as (page, size):
            end = os.pread(page, _END, max(size - _END, 0))
            if mark not in end.splitlines():
                whole = ("" if size else _HEADING) + f"\n{entry}\n"
                os.write(page, whole.encode("utf-8", "replace"))
                os.fsync(page)
    except OSError as error:
        path = plan.root / ESCALATIONS
        raise TrackerError(TrackerError.API, f"{path} cannot be written: {error.strerror}.") from error


@contextmanager
def _page(root: int) -> Iterator[tuple[int, int]]:
    """The page, made where there is none, and its size."""
    descriptor = os.open(ESCALATIONS, _APPEND, 0o644, dir_fd=root)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise UnsafeFile(errno.EINVAL, "It is not a regular file with one name", ESCALATIONS)
        yield descriptor, found.st_size
    finally:
        os.close(descriptor)
