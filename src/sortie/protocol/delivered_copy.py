"""Copies of delivered files: what arrives is what was recorded, to the byte, or nothing arrives."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from .foreign_text import escape
from .outbox import Delivered, chunks, open_delivered
from .safefiles import CREATE, component, open_directory
from .tree_walk import Check, Descent, go_on


class ChangedSince(Exception):
    """A file is no longer what was recorded of it, or cannot be read any more."""


def copy_out(folder: int, delivered: Delivered, target: int, name: str, check: Check = go_on) -> None:
    """Copy a file of the task folder open as `folder` to a new, read-only one: `name` below the directory `target`.

    Directories that `name` leads through are made. Where the file is not what was recorded this raises
    `ChangedSince`, and where the target cannot be written or is there already, OSError; no part of a copy is left.
    """
    *above, last = name.split("/")
    with Descent(folder) as place, ExitStack() as stack:
        descriptor = stack.enter_context(_source(place, delivered))
        directory = stack.enter_context(_made(target, above))
        copy = os.open(component(last), CREATE, 0o600, dir_fd=directory)
        try:
            try:
                _copy(descriptor, copy, delivered, check)
                os.fchmod(copy, 0o444)
            finally:
                os.close(copy)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(last, dir_fd=directory)
            raise


@contextmanager
def _source(place: Descent, delivered: Delivered) -> Iterator[int]:
    *above, name = delivered.path.split("/")
    with ExitStack() as stack:
        try:
            for directory in above:
                place.enter(directory)
            descriptor, found = stack.enter_context(open_delivered(place, name))
        except OSError as error:
            raise _changed(delivered, error.strerror or str(error)) from None
        if found.st_size != delivered.size:
            raise _changed(delivered, "it has another size")
        yield descriptor


def _copy(source: int, copy: int, delivered: Delivered, check: Check) -> None:
    digest, size = hashlib.sha256(), 0
    for chunk in chunks(source, delivered.size, check):
        size += len(chunk)
        digest.update(chunk)
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(copy, rest) :]
    if (size, digest.hexdigest()) != (delivered.size, delivered.sha256):
        raise _changed(delivered, "it has another content")


@contextmanager
def _made(start: int, names: list[str]) -> Iterator[int]:
    """A descriptor of the directory `names` below `start`, each made if need be and none a link."""
    with ExitStack() as stack:
        current = start
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(component(name), 0o755, dir_fd=current)
            current = stack.enter_context(open_directory(current, name))
        yield current


def _changed(delivered: Delivered, why: str) -> ChangedSince:
    return ChangedSince(f"{escape(delivered.path)} changed since it was delivered: {why}.")
