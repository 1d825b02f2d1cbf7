"""The page of results: a section for each measurement, with its day and machine. What is measured anew replaces its
own section, and all others stay."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
HEAD = """\
# Benchmarks

Written by `python3 dev.py bench --write`. Each section has a name for `bench`, says when and where it was
taken, and is replaced alone where only some are measured.

Every measurement runs the real service with real agent processes, which stamp their own first and last
instruction. Absolute times depend on the machine and on what else it does: where others took a good part of it,
only CPU, memory and counts mean much, and rows of different days are not to be compared. *Times the floor*
carries over to other machines: the floor is measured in the same run, in turns with ours and with as many at
once, and is the same program or call with nothing of ours around it. *Reach* is the goal, in the unit of the
row. *Go, earlier* are figures of the implementation in Go from another day, quoted and not measured again; it
keeps in memory what is on disk here before anything follows from it.

| command | does |
|---|---|
| `python3 dev.py bench` | all of it; with `--quick` fewer rounds and shorter waits |
| `python3 dev.py bench drain turns` | only these; `--help` names all |
| `python3 dev.py bench --write` | writes what it measured into this page |
| `python3 dev.py bench profile drain` | cProfile of the service over a drain of 500 issues at 10 slots |
| `python3 dev.py bench profile calls` | its system calls for each issue of such a drain, by perf |

How each is taken is said where it is: `drains.py`, `latencies.py`, `reading.py`, `reports.py`, `sidecar.py`,
`streams.py`, `plans.py`, `worklog.py`, `mailbox.py`, `trackers.py` and `web.py` in `bench/`.
"""
_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)


def write(measured: Mapping[str, str], order: Iterable[str]) -> None:
    """`order` are the names of all sections; one that is none of them any more is dropped."""
    PAGE.write_text(page(PAGE.read_text() if PAGE.exists() else "", measured, order))


def page(before: str, measured: Mapping[str, str], order: Iterable[str]) -> str:
    _, *parts = _SECTION.split(before)
    sections = {**dict(zip(parts[::2], parts[1::2], strict=True)), **measured}
    return "\n".join([HEAD, *(f"## {name}\n\n{sections[name].strip()}\n" for name in order if name in sections)])
