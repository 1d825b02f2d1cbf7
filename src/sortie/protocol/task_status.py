"""`status.json` of a task folder: what an agent says of its task. Whatever stands there, reading it cannot harm.

    at `status.json`                                `Reading`
    nothing                                         `absent`
    an object with one of the four states           `status`; unknown keys are kept in `more`
    numbers and times that cannot be                `status` with `findings`; the value counts as not given
    a key of the wrong type, another state, no
    object, no JSON, nothing in it, over 64 KiB     `problem`, with the path of the bad key
    a link, a hard link, a FIFO, a socket, a
    device, a directory, no permission              `problem`

A file has one writer at a time, so no lock beside it is needed: we write `pending` before the agent starts, the
agent writes from then on, and where it ended without a last word we write on its behalf, after its last process.
What we think of a task is never written over the agent's own last word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from .foreign_text import Keys, Malformed, json_bytes, parse_object, time_text
from .safefiles import explain, open_directory, read_bounded, write_atomic, write_new

State = Literal["pending", "running", "completed", "failed"]

FILE = "status.json"
ATTEMPTS = "attempts"
SIZE_LIMIT = 64 * 1024
TEXT_LIMIT = 2000
WORD_LIMIT = 200
WRITER = "sortie"
_MOST_FINDINGS = 20
_NUMBER = re.compile(r"[0-9]{3,9}")
_STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True, slots=True)
class TaskError:
    """Why a task failed. Another attempt makes sense unless the agent plainly says that it does not."""

    type: str = ""
    message: str = ""
    details: str = ""
    recoverable: bool = True

    @property
    def text(self) -> str:
        return ": ".join(filter(None, (self.type, self.message)))


@dataclass(frozen=True, slots=True)
class Progress:
    current_step: str = ""
    steps_completed: int | None = None
    total_steps: int | None = None


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """Texts can be shown as they are, times are seconds since the epoch, `findings` say what is odd about it."""

    state: State
    started: float | None = None
    completed: float | None = None
    error: TaskError | None = None
    progress: Progress | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    attempt: int | None = None
    seq: int | None = None
    heartbeat: float | None = None
    written_by: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        return self.state in ("completed", "failed")


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the file: a status, or why it cannot be read, or that there is none."""

    status: TaskStatus | None = None
    problem: str = ""
    absent: bool = False


def read_task_status(directory: int) -> Reading:
    """What the file in this directory says now. It does not wait: one that is half-written is for the next look."""
    try:
        return parse_task_status(read_bounded(directory, FILE, SIZE_LIMIT + 1))
    except FileNotFoundError:
        return Reading(absent=True)
    except OSError as error:
        return _unreadable(explain(error))


def last_attempt(directory: int) -> int:
    """The highest number of those that were put away below `attempts`; the status is that of the next one."""
    try:
        with open_directory(directory, ATTEMPTS) as opened:
            attempts: int = opened
            return max((int(name) for name in os.listdir(attempts) if _NUMBER.fullmatch(name)), default=0)
    except OSError:
        return 0


def parse_task_status(raw: bytes) -> Reading:
    try:
        document, endless = parse_object(raw, SIZE_LIMIT)
        return Reading(status=_status(document, [f"`{path}` is not a finite number" for path in endless]))
    except Malformed as error:
        return _unreadable(str(error))


def write_pending(directory: int, attempt: int) -> TaskStatus:
    """The first status of an attempt, in place of whatever stands there: OSError where it cannot be written."""
    nothing_yet = TaskStatus(
        state="pending",
        progress=Progress(steps_completed=0, total_steps=0),
        metrics={"files_processed": 0, "outputs_generated": 0},
        attempt=attempt,
        seq=1,
        written_by=WRITER,
    )
    try:
        write_new(directory, FILE, json_bytes(document_of(nothing_yet)), 0o644)
    except FileExistsError:
        return _write(directory, nothing_yet)
    return nothing_yet


def write_on_behalf(
    directory: int,
    state: State,
    *,
    believed: TaskStatus,
    started: float | None = None,
    completed: float | None = None,
    error: TaskError | None = None,
) -> TaskStatus:
    """Say for an agent that is gone what it did not say itself; the answer is what stands there now.

    It adds to what was `believed` of the file, and leaves an agent's own last word as it is.
    """
    if believed.is_final:
        return believed
    added = replace(
        believed,
        state=state,
        started=believed.started if believed.started is not None else started,
        completed=completed if completed is not None else believed.completed,
        error=error or believed.error,
        seq=(believed.seq or 0) + 1,
        written_by=WRITER,
        findings=(),
    )
    return _write(directory, added)


def document_of(status: TaskStatus) -> dict[str, Any]:
    """With every key that the format has, also those of which nothing is known."""
    error, progress = status.error, status.progress or Progress()
    document: dict[str, Any] = {
        "state": status.state,
        "started": _time_or_null(status.started),
        "completed": _time_or_null(status.completed),
        "error": None,
        "progress": {
            "current_step": progress.current_step,
            "steps_completed": progress.steps_completed,
            "total_steps": progress.total_steps,
        },
        "metrics": dict(status.metrics),
        "attempt": status.attempt,
        "seq": status.seq,
        "written_by": status.written_by,
    }
    if error:
        document["error"] = {
            "type": error.type,
            "message": error.message,
            "details": error.details,
            "recoverable": error.recoverable,
        }
    if status.heartbeat is not None:
        document["heartbeat"] = time_text(status.heartbeat)
    return {**document, **status.more}


def _write(directory: int, status: TaskStatus) -> TaskStatus:
    # Our indentation may make too long what the agent wrote; then what is free of form goes.
    for kept in (status, replace(status, more={}), replace(status, more={}, metrics={})):
        raw = json_bytes(document_of(kept))
        if len(raw) <= SIZE_LIMIT:
            break
    write_atomic(directory, FILE, raw, 0o644)
    return kept


def _status(document: dict[str, Any], findings: list[str]) -> TaskStatus:
    keys = Keys(document, "", findings)
    state = keys.one_of("state", _STATES)
    error, progress, metrics = keys.inner("error"), keys.inner("progress"), keys.inner("metrics")
    status = TaskStatus(
        state=state,
        started=keys.time("started"),
        completed=keys.time("completed"),
        error=_error(error) if error else None,
        progress=_progress(progress) if progress else None,
        metrics=metrics.rest() if metrics else {},
        attempt=keys.whole("attempt"),
        seq=keys.whole("seq"),
        heartbeat=keys.time("heartbeat"),
        written_by=keys.text("written_by", WORD_LIMIT),
        more=keys.rest(),
    )
    if status.started is not None and status.completed is not None and status.completed < status.started:
        findings.append("`completed` is before `started`")
    return replace(status, findings=tuple(findings[:_MOST_FINDINGS]))


def _error(keys: Keys) -> TaskError:
    return TaskError(
        type=keys.text("type", WORD_LIMIT),
        message=keys.text("message", TEXT_LIMIT),
        details=keys.any_text("details", TEXT_LIMIT),
        recoverable=keys.unless_false("recoverable"),
    )


def _progress(keys: Keys) -> Progress:
    done, total = keys.whole("steps_completed"), keys.whole("total_steps")
    if done is not None and total is not None and done > total:
        keys.findings.append("`progress.steps_completed` is more than `progress.total_steps`")
    return Progress(keys.text("current_step", WORD_LIMIT), done, total)


def _time_or_null(at: float | None) -> str | None:
    return None if at is None else time_text(at)


def _unreadable(why: str) -> Reading:
    return Reading(problem=f"{FILE} cannot be read: {why}")
