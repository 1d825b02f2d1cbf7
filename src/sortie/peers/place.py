"""Where the documents of a repository are, and where our private state about them lies.

The state directory survives `git clean -fdx` and is never committed. Losing it loses no text of any document.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ..errors import SortieError
from ..protocol.safefiles import UnsafeFile, open_directory, read_bounded, write_new

WORKLOG = "WORKLOG.md"
MAILBOX = "MAILBOX.md"
CHARTER = "CHARTER.md"
SETTINGS = "peers.yaml"

_OURS = "sortie"
_LONGEST_POINTER = 4096
_POINTER = b"gitdir:"


class Place(Struct, frozen=True, kw_only=True):
    """The checkout that peers share, and its documents."""

    root: Path
    worklog: Path
    mailbox: Path
    charter: Path
    settings: Path

    @property
    def state(self) -> Path:
        return state_directory(self.root)


def place_at(root: Path) -> Place:
    root = root.absolute()
    return Place(
        root=root,
        worklog=root / WORKLOG,
        mailbox=root / MAILBOX,
        charter=root / CHARTER,
        settings=root / SETTINGS,
    )


def find_place(start: Path) -> Place:
    """The nearest directory from here upwards that has one of the documents."""
    start = start.absolute()
    for directory in (start, *start.parents):
        if any((directory / name).is_file() for name in (WORKLOG, MAILBOX, CHARTER, SETTINGS)):
            return place_at(directory)
    raise SortieError(
        f"Neither {start} nor a directory above it has a {WORKLOG}, {MAILBOX}, {CHARTER} or {SETTINGS}.",
        fix="Go to the repository that the agents share, or run `sortie peers init` there.",
    )


def state_directory(root: Path) -> Path:
    """Inside the git directory, where there is one; asking does not create it."""
    git = root / ".git"
    if git.is_dir():
        return git / _OURS
    named = _named_git_directory(root)
    return root / ".sortie" if named is None else named / _OURS


def make_state_directory(root: Path) -> Path:
    """The state directory, made where it is missing: nobody but us reads it, and git does not see it."""
    state = state_directory(root)
    try:
        state.mkdir(mode=0o700, exist_ok=True)
        with open_directory(state) as descriptor:
            if state.parent == root:
                with suppress(FileExistsError):
                    write_new(descriptor, ".gitignore", b"*\n", 0o644)
    except FileExistsError as error:
        raise _unusable(state, "it is not a directory") from error
    except UnsafeFile as error:
        raise _unusable(state, "it is a link" if error.is_link else "it is not a directory") from error
    except OSError as error:
        raise _unusable(state, (error.strerror or str(error)).lower()) from error
    return state


def _named_git_directory(root: Path) -> Path | None:
    """What `.git` names where it is a file, as in a worktree; None where that is no git directory."""
    try:
        with open_directory(Path(os.path.realpath(root))) as directory:
            pointer = read_bounded(directory, ".git", _LONGEST_POINTER, linked=True)
    except OSError:
        return None
    first = pointer.partition(b"\n")[0].rstrip(b"\r")
    if not first.startswith(_POINTER) or b"\0" in first:
        return None
    named = root / os.fsdecode(first.removeprefix(_POINTER).strip())
    return named if (named / "HEAD").is_file() else None


def _unusable(state: Path, reason: str) -> SortieError:
    return SortieError(
        f"The directory {state}, where Sortie keeps who wrote what, cannot be used: {reason}.",
        fix="Let this user write there, or remove what stands at that name.",
    )
