"""The folder of a task before its agent starts: SKILL.md, inbox, outbox, workspace, status.json, earlier attempts.

The inbox is made aside and put in place whole, from files that are exactly those on record; the agent may read it,
and `seal` tells afterwards what it changed all the same. What an earlier attempt left is never mixed with the next
one: it goes to `attempts/NNN`. Everything is done through descriptors; nothing an agent left there is followed.
"""

from __future__ import annotations

import hashlib
import json
import mimetypes
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import SortieError, WorkspaceError
from ..protocol.delivered_copy import ChangedSince, copy_out
from ..protocol.outbox import Delivered
from ..protocol.safefiles import open_directory, write_atomic
from ..protocol.seals import seal
from ..protocol.session_files import DIRECTORY as SESSION
from ..protocol.task_status import write_pending
from ..protocol.tree_walk import Check, remove_entry
from ..workspace.directory import INBOX, OUTBOX, workspace_error
from .spec import InboxFile, Received, TaskSpec

SKILL = "SKILL.md"
WORKSPACE = "workspace"
STATUS = "status.json"
ATTEMPTS = "attempts"
RECEIVED = ".received.json"

_KEPT = {SKILL, INBOX, ATTEMPTS, SESSION}
_NEW_INBOX = ".inbox.new"
_UNDER_WAY = ".next"
_NUMBER = re.compile(r"[0-9]{3,9}")
_CHUNK = 1 << 20
_MORE_FILES = 1_000
_MORE_BYTES = 1 << 26


class InputsChanged(SortieError):
    """What a task is to be given is not what was recorded of it; to try again would end the same way."""


def lay_out(folder: int, task: TaskSpec, check: Check, *, may_go_on: bool) -> tuple[int, bool]:
    """Prepare the folder for the next turn; the answer is the number of the attempt, and whether it goes on with
    what is there: only if that is allowed and all that the agent was given is still the same."""
    _fill_inbox(folder, task, check)
    attempt = _last_attempt(folder) + 1
    goes_on = task.resumes and may_go_on and _is_as_given(folder, task, check)
    if not goes_on and _has_leftovers(folder):
        _put_away(folder, attempt, check)
        attempt += 1
    _take_new_inbox(folder, check)
    _write_read_only(folder, SKILL, task.skill.encode())
    for name in (OUTBOX, WORKSPACE):
        _make_directory(folder, name, check)
    if not goes_on:
        write_pending(folder, attempt)
    return attempt, goes_on


def seal_of(folder: int, task: TaskSpec, check: Check, inbox: str = INBOX) -> dict[str, str]:
    """What the agent was given, or is about to be; bounded, because an agent may put more into its inbox."""
    given = [file.size for file in task.inputs]
    given += [size for received in task.received for _, _, size, _ in received.files]
    return seal(
        folder,
        (SKILL, inbox),
        most_files=2 * len(given) + _MORE_FILES,
        most_bytes=2 * sum(given) + _MORE_BYTES,
        check=check,
    )


# -- what earlier attempts left ---------------------------------------------------------------------------------


def _last_attempt(folder: int) -> int:
    try:
        with open_directory(folder, ATTEMPTS) as opened:
            attempts: int = opened
            return max((int(name) for name in os.listdir(attempts) if _NUMBER.fullmatch(name)), default=0)
    except OSError:
        return 0


def _has_leftovers(folder: int) -> bool:
    """Whether anything but what we made is there: an agent had the folder, or a part of it is moved already."""
    names = set(os.listdir(folder)) - _KEPT - {_NEW_INBOX}
    if names - {OUTBOX, WORKSPACE, STATUS} or _is_moving(folder):
        return True
    return any(_holds_something(folder, name) for name in (OUTBOX, WORKSPACE)) or _was_written(folder)


def _holds_something(folder: int, name: str) -> bool:
    try:
        with open_directory(folder, name) as opened:
            inner: int = opened
            with os.scandir(inner) as entries:
                return next(entries, None) is not None
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _was_written(folder: int) -> bool:
    """Whether the status is another than the one that we begin with."""
    from ..protocol.task_status import read_task_status

    reading = read_task_status(folder)
    return not reading.absent and (reading.status is None or reading.status.state != "pending")


def _is_moving(folder: int) -> bool:
    with suppress(OSError), open_directory(folder, ATTEMPTS, _UNDER_WAY):
        return True
    return False


def _put_away(folder: int, number: int, check: Check) -> None:
    """All that the attempt left, to `attempts/NNN`. A death in between leaves `.next`, which is gone on with."""
    _make_directory(folder, ATTEMPTS, check)
    with open_directory(folder, ATTEMPTS) as attempts:
        with suppress(FileExistsError):
            os.mkdir(_UNDER_WAY, 0o750, dir_fd=attempts)
        with open_directory(attempts, _UNDER_WAY) as opened:
            target: int = opened
            taken = set(os.listdir(target))
            for name in sorted(set(os.listdir(folder)) - _KEPT - {_NEW_INBOX}):
                check()
                os.rename(name, _unused(name, taken), src_dir_fd=folder, dst_dir_fd=target)
        os.rename(_UNDER_WAY, f"{number:03}", src_dir_fd=attempts, dst_dir_fd=attempts)


def _unused(name: str, taken: set[str]) -> str:
    """A move that died may have taken one of that name already."""
    while name in taken:
        name += "+"
    return name


def _make_directory(folder: int, name: str, check: Check) -> None:
    """A directory of ours at this name; what else an agent put there is moved out of the way."""
    try:
        with open_directory(folder, name):
            return
    except FileNotFoundError:
        pass
    except OSError:
        os.rename(name, f".{name}.{os.urandom(6).hex()}.not-ours", src_dir_fd=folder, dst_dir_fd=folder)
    check()
    os.mkdir(name, 0o750, dir_fd=folder)


# -- the inbox --------------------------------------------------------------------------------------------------


def _fill_inbox(folder: int, task: TaskSpec, check: Check) -> None:
    with suppress(FileNotFoundError):
        remove_entry(folder, _NEW_INBOX, check)
    os.mkdir(_NEW_INBOX, 0o750, dir_fd=folder)
    with open_directory(folder, _NEW_INBOX) as inbox:
        _write_read_only(inbox, "instructions.md", task.instructions.encode())
        _write_read_only(inbox, "dependencies.json", _json(task.dependencies))
        for file in task.inputs:
            check()
            if file.by_reference:
                _write_reference(inbox, file)
            else:
                _copy_input(inbox, file, check)
        for received in task.received:
            _receive(inbox, received, check)
        if task.received:
            _write_read_only(inbox, RECEIVED, _json(_receipt(task.received)))


def _receipt(received: tuple[Received, ...]) -> list[dict[str, object]]:
    return [
        {"agent": one.task, "file": path, "copied_to": here, "size": size, "sha256": digest}
        for one in received
        for path, here, size, digest in one.files
    ]


def _receive(inbox: int, received: Received, check: Check) -> None:
    folder = Path(received.folder)
    try:
        with open_directory(folder) as other:
            for path, here, size, digest in received.files:
                check()
                copy_out(other, Delivered(path, size, digest), inbox, here.removeprefix(f"{INBOX}/"))
    except ChangedSince as changed:
        name = received.task
        fix = f"`sortie plan retry {name}` makes it anew, `sortie plan accept {name}` takes it as it is."
        message = f"What {name} delivered was changed after it had been completed: {changed}."
        raise InputsChanged(message, fix=fix) from changed
    except OSError as error:
        raise workspace_error(f"What {received.task} delivered cannot be copied", error) from error


def _copy_input(inbox: int, file: InboxFile, check: Check) -> None:
    with _source(file) as source, _parent(inbox, file.name) as (directory, name):
        target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444, dir_fd=directory)
        try:
            digest, size = hashlib.sha256(), 0
            while size <= file.size and (chunk := os.read(source, _CHUNK)):
                check()
                digest.update(chunk)
                size += len(chunk)
                while chunk:
                    chunk = chunk[os.write(target, chunk) :]
        finally:
            os.close(target)
    if (size, digest.hexdigest()) != (file.size, file.sha256):
        raise WorkspaceError(f"The input {file.path} changed while it was copied.", fix="It is tried again.")


def _write_reference(inbox: int, file: InboxFile) -> None:
    with _source(file) as source:
        if os.fstat(source).st_size != file.size:
            raise WorkspaceError(f"The input {file.path} changed since it was looked at.", fix="It is tried again.")
    media_type = mimetypes.guess_type(file.path)[0] or "application/octet-stream"
    reference = {"path": file.path, "size": file.size, "sha256": file.sha256, "media_type": media_type}
    with _parent(inbox, f"{file.name}.ref.json") as (directory, name):
        _write_read_only(directory, name, _json(reference))


@contextmanager
def _source(file: InboxFile) -> Iterator[int]:
    """A file of the person who wrote the plan: no link, and never waited for."""
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise workspace_error(f"The input {file.path} cannot be read", error) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise WorkspaceError(f"The input {file.path} is not a regular file any more.")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _parent(inbox: int, path: str) -> Iterator[tuple[int, str]]:
    """The directory in which the last part of a path stands, made with those above it."""
    *above, name = path.split("/")
    for depth in range(len(above)):
        with open_directory(inbox, *above[:depth]) as directory, suppress(FileExistsError):
            os.mkdir(above[depth], 0o750, dir_fd=directory)
    with open_directory(inbox, *above) as directory:
        yield directory, name


def _is_as_given(folder: int, task: TaskSpec, check: Check) -> bool:
    """Whether inbox and skill are what they would be made to now."""
    then, now = seal_of(folder, task, check), seal_of(folder, task, check, _NEW_INBOX)
    now = {path.replace(_NEW_INBOX, INBOX, 1): digest for path, digest in now.items()}
    return then == now | {SKILL: hashlib.sha256(task.skill.encode()).hexdigest()}


def _take_new_inbox(folder: int, check: Check) -> None:
    with suppress(FileNotFoundError):
        remove_entry(folder, INBOX, check)
    os.rename(_NEW_INBOX, INBOX, src_dir_fd=folder, dst_dir_fd=folder)
    _forbid_changes(folder, INBOX)


def _forbid_changes(parent: int, name: str) -> None:
    """A help against mistakes, not a lock: the hashes tell."""
    with open_directory(parent, name) as opened:
        directory: int = opened
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _forbid_changes(directory, entry.name)
        os.fchmod(directory, 0o550)


def _write_read_only(directory: int, name: str, data: bytes) -> None:
    write_atomic(directory, name, data, mode=0o444)


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
