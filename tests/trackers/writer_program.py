"""A second process with a file tracker of its own. Run as a program: writer_program.py FILE NAME COUNT."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from sortie.trackers.file import FileTracker


async def main(path: Path, name: str, count: int) -> None:
    tracker = FileTracker(path, (), (), [f"State {number}" for number in range(count)])
    for number in range(count):
        async with anyio.create_task_group() as group:
            group.start_soon(tracker.comment, "shared", f"{name} {number}")
            group.start_soon(tracker.transition, name, f"State {number}")


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
