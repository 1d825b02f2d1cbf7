"""The changes in an issue's workspace: a git diff if possible, otherwise the files written since the run began."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ..core.redact import Hide
from ..errors import SortieError
from ..protocol.session_files import DIRECTORY as OUR_DIRECTORY
from .workspace_diff import MOST_FILES, SECONDS, FileChange, path_text, workspace_diff

MOST_WALKED = 20_000
OF_OTHERS = (".git", OUR_DIRECTORY)


class WorkspaceChanges(Struct, frozen=True, kw_only=True):
    """`kind`: `diff` against `base`, or only the `files` that were written since the run began; `gone` where there
    is no such directory any more, `unknown` where it cannot be read, or was not yet; `problem` says why. `is_cut`:
    there are more files than are listed."""

    kind: Literal["diff", "files", "gone", "unknown"]
    workspace: str
    base: str = ""
    files: list[FileChange] = []
    is_cut: bool = False
    problem: str = ""

    @property
    def not_shown(self) -> tuple[int, int]:
        """The files whose changes are left out, and how many lines of them are known to be changed."""
        left_out = [file for file in self.files if file.left_out]
        return len(left_out), sum((file.added or 0) + (file.removed or 0) for file in left_out)


def workspace_changes(workspace: Path, *, since: float, hide: Hide) -> WorkspaceChanges:
    """`since` is when the run began, for a directory that git knows nothing of. Blocks."""
    try:
        found = workspace.lstat()
    except OSError:
        return WorkspaceChanges(kind="gone", workspace=str(workspace), problem="The workspace is gone.")
    if not stat.S_ISDIR(found.st_mode):
        problem = "The workspace was replaced by something else."
        return WorkspaceChanges(kind="unknown", workspace=str(workspace), problem=problem)
    problem = ""
    if os.path.lexists(workspace / ".git"):
        try:
            diff = workspace_diff(workspace, hide)
            return WorkspaceChanges(
                kind="diff", workspace=str(workspace), base=diff.base, files=diff.files, is_cut=diff.is_cut
            )
        except (SortieError, OSError) as error:
            problem = hide(str(error))
    files, is_cut = _written_since(workspace, since)
    return WorkspaceChanges(kind="files", workspace=str(workspace), files=files, is_cut=is_cut, problem=problem)


def _written_since(workspace: Path, since: float) -> tuple[list[FileChange], bool]:
    """The newest first; and whether there are more."""
    found: list[tuple[float, FileChange]] = []
    walked, until = 0, time.monotonic() + SECONDS
    for directory, inner, names in os.walk(workspace):
        inner[:] = sorted(name for name in inner if name not in OF_OTHERS)
        for name in sorted(name for name in names if name not in OF_OTHERS):
            walked += 1
            place = Path(directory, name)
            with suppress(OSError):
                status = place.lstat()
                if status.st_mtime >= since:
                    path = path_text(place.relative_to(workspace).as_posix())
                    found.append((status.st_mtime, FileChange(path=path, how="modified", size=status.st_size)))
        if walked > MOST_WALKED or time.monotonic() > until:
            break
    found.sort(key=lambda one: one[0], reverse=True)
    is_cut = walked > MOST_WALKED or len(found) > MOST_FILES or time.monotonic() > until
    return [file for _, file in found[:MOST_FILES]], is_cut
