"""Whether an agent left alone what it was given to read: the hash of each file before and after.

A seal has the SHA-256 of every file by its path. What is no regular file has the reason instead, so that whatever
takes the place of a file shows; a directory that cannot be walked through has the problem.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence

from .outbox import digest_of, open_delivered, take_stock
from .tree_walk import Check, Descent, go_on


def seal(
    folder: int, names: Sequence[str], *, most_files: int, most_bytes: int, check: Check = go_on
) -> dict[str, str]:
    """Of these files and directories in the task folder that is open as `folder`; what is not there is left out."""
    sealed = dict[str, str]()
    for name in names:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(found.st_mode):
            sealed[name] = _of_file(folder, name, most_bytes, check)
            continue
        stock = take_stock(folder, name, most_files=most_files, most_bytes=most_bytes, check=check)
        if stock.problem:
            sealed[name] = stock.problem
        else:
            sealed.update({file.path: file.sha256 for file in stock.files})
            sealed.update(stock.refused)
    return sealed


def broken_seals(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What was given and is something else now, or gone, in sentences.

    Of a directory in whose place something else stands one sentence is enough.
    """
    replaced = _replaced(before, after)
    sentences = [f"{path} was replaced: {after[path].removesuffix('.')}." for path in replaced]
    for path, digest in before.items():
        if path in after:
            if after[path] != digest:
                sentences.append(f"{path} was changed.")
        elif not any(above in replaced for above in _above(path)):
            sentences.append(f"{path} was removed.")
    return sorted(sentences)


def added_since(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What was not given and is there now: weaker, because all that was given may still be as it was."""
    replaced = _replaced(before, after)
    return sorted(f"{path} was added." for path in after if path not in before and path not in replaced)


def _of_file(folder: int, name: str, most_bytes: int, check: Check) -> str:
    try:
        with Descent(folder) as place, open_delivered(place, name) as (descriptor, found):
            if found.st_size > most_bytes:
                return f"{name} holds more than {most_bytes} bytes."
            return digest_of(descriptor, found, check)
    except OSError as error:
        return error.strerror or str(error)


def _replaced(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    directories = {above for path in before for above in _above(path)}
    return {path for path in after if path in directories}


def _above(path: str) -> list[str]:
    """The directories on the way to it."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
