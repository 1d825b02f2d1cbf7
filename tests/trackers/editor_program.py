"""An editor that has never heard of a lock: read, change one field, write a new file, rename. Run as a program.

Usage: editor_program.py FILE STOP. Until the file STOP exists, it adds one to `edits` of the first record. It waits
for its edit to be seen before it makes the next, and for somebody else's write, so that it always edits what was
just written. At the end it prints how many edits it made.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

DEADLINE = 20.0


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"waited {DEADLINE} s for {what}")
        time.sleep(0.0005)


def edit(path: Path) -> None:
    records = json.loads(path.read_bytes())
    records[0]["edits"] += 1
    written = path.with_name("editor.tmp")
    written.write_text(json.dumps(records, indent=2))
    written.rename(path)


def has_edits(path: Path, count: int) -> bool:
    return int(json.loads(path.read_bytes())[0]["edits"]) >= count


def version_of(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def has_changed(path: Path, seen: tuple[int, int], stop: Path) -> bool:
    return stop.exists() or version_of(path) != seen


def main(path: Path, stop: Path) -> None:
    edits = 0
    while not stop.exists():
        edit(path)
        edits += 1
        wait_for(partial(has_edits, path, edits), f"edit {edits} to be seen")
        wait_for(partial(has_changed, path, version_of(path), stop), "another write, or the end")
    print(edits)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
