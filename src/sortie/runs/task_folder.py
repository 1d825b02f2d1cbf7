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
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import SortieError, WorkspaceError
from ..protocol.delivered_copy import ChangedSince, copy_out
from ..protocol.outbox import Delivered
from ..protocol.safefiles import UnsafeFile, open_directory, remove_half_written, write_new
from ..protocol.seals import seal
from ..protocol.session_files import DIRECTORY as SESSION
from ..protocol.task_status import ATTEMPTS, last_attempt, read_task_status, write_pending
from ..protocol.tree_walk import Check, remove_entry
from ..workspace.directory import INBOX, OUTBOX, workspace_error
from .spec import InboxFile, Received, TaskSpec

SKILL = "SKILL.md"
WORKSPACE = "workspace"
STATUS = "status.json"
RECEIVED = ".received.json"

_KEPT = {SKILL, INBOX, ATTEMPTS, SESSION}
_NEW_INBOX = ".inbox.new"
_UNDER_WAY = ".next"
_CHUNK = 1 << 20
_MORE_FILES = 1_000
_MORE_BYTES = 1 << 26


class InputsChanged(SortieError):
    """What a task is to be given is not what was recorded of it; to try again would end the same way."""


class LaidOut(NamedTuple):
    """The number of the attempt, whether it goes on with what is there, and the hash of each file that is given."""

    attempt: int
    goes_on: bool
    given: dict[str, str]


def lay_out(folder: int, task: TaskSpec, check: Check, *, may_go_on: bool) -> LaidOut:
    """Prepare the folder for the next turn. It goes on with what is there only if that is allowed and all that the
    agent was given is still the same."""
    remove_half_written(folder, STATUS)
    there = set(os.listdir(folder))
    attempt = last_attempt(folder) + 1 if ATTEMPTS in there else 1
    if not there - {SESSION}:
        given = _give(folder, INBOX, task, check)
        goes_on = False
    else:
        with suppress(FileNotFoundError):
            remove_entry(folder, _NEW_INBOX, check)
        given = _give(folder, _NEW_INBOX, task, check)
        goes_on = task.resumes and may_go_on and seal_of(folder, task, check) == given
        if not goes_on and _has_leftovers(folder, there):
            _put_away(folder, attempt, check)
            attempt += 1
        _take_new_inbox(folder, check)
    if not goes_on:
        write_pending(folder, attempt)
    for name in (OUTBOX, WORKSPACE):
        _make_directory(folder, name)
    _put_skill(folder, task.skill.encode(), check)
    return LaidOut(attempt, goes_on, given)


def seal_of(
    folder: int, task: TaskSpec, check: Check, more_files: int = _MORE_FILES, more_bytes: int = _MORE_BYTES
) -> dict[str, str]:
    """What is in the place of what the agent was given; bounded, because an agent may put more into its inbox.
    Beyond the bounds the inbox as a whole has a reason instead of hashes."""
    given = [0 if file.by_reference else file.size for file in task.inputs]
    given += [size for received in task.received for _, _, size, _ in received.files]
    return seal(
        folder,
        (SKILL, INBOX),
        most_files=2 * len(given) + more_files,
        most_bytes=2 * sum(given) + more_bytes,
        check=check,
    )


# -- what earlier attempts left ---------------------------------------------------------------------------------


def _has_leftovers(folder: int, there: set[str]) -> bool:
    """Whether anything but what we made is there: an agent had the folder, or a part of it is moved already."""
    if there - _KEPT - {_NEW_INBOX, OUTBOX, WORKSPACE, STATUS} or (ATTEMPTS in there and _is_moving(folder)):
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
    reading = read_task_status(folder)
    return not reading.absent and (reading.status is None or reading.status.state != "pending")


def _is_moving(folder: int) -> bool:
    with suppress(OSError), open_directory(folder, ATTEMPTS, _UNDER_WAY):
        return True
    return False


def _put_away(folder: int, number: int, check: Check) -> None:
    """All that the attempt left, to `attempts/NNN`. A death in between leaves `.next`, which is gone on with."""
    _make_directory(folder, ATTEMPTS)
    with open_directory(folder, ATTEMPTS) as attempts:
        _make_directory(attempts, _UNDER_WAY)
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


def _make_directory(folder: int, name: str) -> None:
    """A directory of ours at this name; what else an agent put there is moved out of the way."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o750, dir_fd=folder)
        return
    try:
        with open_directory(folder, name):
            return
    except OSError:
        os.rename(name, f".{name}.{os.urandom(6).hex()}.not-ours", src_dir_fd=folder, dst_dir_fd=folder)
        os.mkdir(name, 0o750, dir_fd=folder)


# -- what the agent is given ------------------------------------------------------------------------------------


def _give(folder: int, inbox: str, task: TaskSpec, check: Check) -> dict[str, str]:
    """Make the inbox under this name; the hash of all that is given, by the path that it will have.

    Modes that forbid changes are a help against mistakes, not a lock: the hashes tell.
    """
    os.mkdir(inbox, 0o750, dir_fd=folder)
    with open_directory(folder, inbox) as directory:
        giving = _Giving(directory, check)
        giving.text("instructions.md", task.instructions.encode())
        giving.text("dependencies.json", _json(task.dependencies))
        for file in task.inputs:
            giving.input(file)
        for received in task.received:
            giving.received(received)
        if task.received:
            giving.text(RECEIVED, _json(_receipt(task.received)))
        giving.close()
    return giving.given | {SKILL: hashlib.sha256(task.skill.encode()).hexdigest()}


def _put_skill(folder: int, skill: bytes, check: Check) -> None:
    try:
        write_new(folder, SKILL, skill, 0o444)
    except FileExistsError:
        remove_entry(folder, SKILL, check)
        write_new(folder, SKILL, skill, 0o444)


def _receipt(received: tuple[Received, ...]) -> list[dict[str, object]]:
    return [
        {
            "agent": one.task,
            "attempt": one.attempt or None,
            "file": path,
            "copied_to": here,
            "size": size,
            "sha256": digest,
        }
        for one in received
        for path, here, size, digest in one.files
    ]


class _Giving:
    """Fills one inbox that is new and ours alone."""

    def __init__(self, inbox: int, check: Check) -> None:
        self._inbox = inbox
        self._check = check
        self._directories: list[str] = []
        self.given: dict[str, str] = {}

    def text(self, name: str, data: bytes) -> None:
        self._put(name, hashlib.sha256(data).hexdigest())
        with self._parent(name) as (directory, last):
            write_new(directory, last, data, 0o444)

    def input(self, file: InboxFile) -> None:
        self._check()
        if file.by_reference:
            self.text(f"{file.name}.ref.json", _reference_to(file))
            return
        self._put(file.name, file.sha256)
        with _source(file) as source, self._parent(file.name) as (directory, name):
            target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444, dir_fd=directory)
            try:
                digest, size = hashlib.sha256(), 0
                while size <= file.size and (chunk := os.read(source, _CHUNK)):
                    self._check()
                    digest.update(chunk)
                    size += len(chunk)
                    while chunk:
                        chunk = chunk[os.write(target, chunk) :]
            finally:
                os.close(target)
        if (size, digest.hexdigest()) != (file.size, file.sha256):
            raise WorkspaceError(f"The input {file.path} changed while it was copied.", fix="It is tried again.")

    def received(self, received: Received) -> None:
        name = received.task
        try:
            with _folder_of(received) as other:
                for path, here, size, digest in received.files:
                    self._check()
                    inner = here.removeprefix(f"{INBOX}/")
                    self._put(inner, digest)
                    with self._parent(inner) as (directory, last):
                        copy_out(other, Delivered(path, size, digest), directory, last, self._check)
        except ChangedSince as changed:
            anew = f"`sortie plan retry {name}` makes it anew, `sortie plan accept {name}` takes it as it is"
            fix = f"{anew}; then retry this task."
            message = f"What {name} delivered was changed after it had been completed: {str(changed).rstrip('.')}."
            raise InputsChanged(message, fix=fix) from changed
        except OSError as error:
            raise workspace_error(f"What {name} delivered cannot be copied", error) from error

    def close(self) -> None:
        for path in reversed(self._directories):
            with open_directory(self._inbox, *path.split("/")) as directory:
                os.fchmod(directory, 0o550)
        os.fchmod(self._inbox, 0o550)

    def _put(self, name: str, digest: str) -> None:
        self.given[f"{INBOX}/{name}"] = digest

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The directory in which the last part of a path stands, made with those above it."""
        *above, name = path.split("/")
        for depth in range(len(above)):
            inner = "/".join(above[: depth + 1])
            if inner not in self._directories:
                with open_directory(self._inbox, *above[:depth]) as directory:
                    os.mkdir(above[depth], 0o750, dir_fd=directory)
                self._directories.append(inner)
        with open_directory(self._inbox, *above) as directory:
            yield directory, name


@contextmanager
def _folder_of(received: Received) -> Iterator[int]:
    """Of the task that delivered. Where it is gone, or something else stands there, what was delivered is gone."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(open_directory(Path(received.folder)))
        except (FileNotFoundError, UnsafeFile) as error:
            raise ChangedSince(f"its folder cannot be opened any more: {error.strerror}") from error
        yield folder


def _reference_to(file: InboxFile) -> bytes:
    with _source(file) as source:
        if os.fstat(source).st_size != file.size:
            raise WorkspaceError(f"The input {file.path} changed since it was looked at.", fix="It is tried again.")
    media_type = mimetypes.guess_type(file.path)[0] or "application/octet-stream"
    return _json({"path": file.path, "size": file.size, "sha256": file.sha256, "media_type": media_type})


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


def _take_new_inbox(folder: int, check: Check) -> None:
    with suppress(FileNotFoundError):
        remove_entry(folder, INBOX, check)
    os.rename(_NEW_INBOX, INBOX, src_dir_fd=folder, dst_dir_fd=folder)


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
