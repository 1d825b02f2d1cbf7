"""What turns put into a checkout is hidden from git: the files of a session, and who holds the checkout now.

In `.git/info/exclude`, so nothing that is committed changes. The lines that are there stay.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...protocol.safefiles import open_directory, read_bounded, write_atomic
from ..place import Place
from .checkout import open_checkout

EXCLUDED = ("/.sortie/", "/.sortie.lock")
_LARGEST = 1024 * 1024


def to_exclude(place: Place) -> list[str]:
    """The lines that are still missing; none where there is no repository."""
    path = _file(place)
    if path is None:
        return []
    try:
        present = _content(path).splitlines()
    except OSError:
        present = []
    return [line for line in EXCLUDED if line.encode() not in present]


def exclude(place: Place, lines: list[str]) -> bool:
    """Whether they are there now: a link, or what cannot be written, is left as it is."""
    path = _file(place)
    if path is None or not lines:
        return True
    try:
        path.parent.mkdir(exist_ok=True)
        if path.is_symlink():
            return False
        present = _content(path)
        new_line = b"" if present.endswith(b"\n") or not present else b"\n"
        with open_directory(path.parent) as directory:
            added = "".join(f"{line}\n" for line in lines).encode()
            write_atomic(directory, path.name, present + new_line + added, 0o644)
    except OSError:
        return False
    return True


def _file(place: Place) -> Path | None:
    if not os.path.lexists(place.root / ".git"):
        return None
    return open_checkout(place.root).common_dir / "info" / "exclude"


def _content(path: Path) -> bytes:
    try:
        with open_directory(path.parent) as directory:
            return read_bounded(directory, path.name, _LARGEST, linked=True)
    except FileNotFoundError:
        return b""
