"""What pages show of a terminal: commands with their output, run as they stand and compared with what happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

WIDTH = "100"
# What is another every time, or on another machine: times, numbers of runs, seconds, and blanks between columns.
VARIES = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
    (r"\b[0-9a-f]{11}-[0-9a-f]{8}\b", "RUN"),
    (r" +\d+s(?= )", ""),
    (r"\b\d+ s\b", "N s"),
    (r" +", " "),
)
_FENCE = re.compile(r"`{3,}")
_BLOCK = re.compile(r"^(`{3,})console\n(.*?)^\1$", re.S | re.M)

Step = tuple[str, list[str]]
Shell = Callable[[str], str]


def steps(page: str) -> list[Step]:
    """Every command of the blocks of a page, in order, with what it is shown to print."""
    blocks = [block[2] for block in _BLOCK.finditer(page)]
    commands = [step for block in blocks for step in re.split(r"^\$ ", block, flags=re.M) if step]
    return [(lines[0], lines[1:]) for lines in (command.splitlines() for command in commands)]


def section(page: str, title: str) -> str:
    """The text below a heading of the second level; what stands in a block is no heading."""
    found, fence, is_inside = [], "", False
    for line in page.splitlines(keepends=True):
        if mark := _FENCE.match(line):
            fence = "" if mark[0] == fence else fence or mark[0]
        elif line.startswith("## ") and not fence:
            is_inside = line.strip() == f"## {title}"
            continue
        if is_inside:
            found.append(line)
    return "".join(found)


def open_shell(place: Path, programs: Path, **environ: str) -> Shell:
    """Runs commands in a directory, with ours on the PATH; the answer is their standard output."""
    programs.mkdir()
    sortie = programs / "sortie"
    sortie.write_text(f"#!{sys.executable}\nfrom sortie.cli.main import main\nraise SystemExit(main())\n")
    sortie.chmod(0o755)
    # Nothing of ours: whoever runs the tests may be an agent, and the pages show what a person sees.
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    told = {**kept, "LANG": "C.UTF-8", "PATH": f"{programs}:/usr/bin:/bin", "COLUMNS": WIDTH, **environ}

    def shell(command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command], cwd=place, env=told, capture_output=True, timeout=50, check=False
        )
        return done.stdout.decode()

    return shell


def assert_shown(step: Step, printed: str, varies: Iterable[tuple[str, str]] = ()) -> None:
    """Line by line, with nothing between two lines that the page does not leave out by a `…`."""

    def comparable(line: str) -> str:
        for pattern, instead in (*varies, *VARIES):
            line = re.sub(pattern, instead, line)
        return line.strip()

    command, shown = step
    left = [comparable(line) for line in printed.splitlines()]
    jumps = False
    for line in shown:
        if line == "…":
            jumps = True
            continue
        assert comparable(line) in (left if jumps else left[:1]), f"{command}: {line}\n{printed}"
        del left[: left.index(comparable(line)) + 1]
        jumps = False
    assert jumps or not left, f"{command} prints more than is shown:\n{printed}"
