"""`python -m bench [NAME ...]` measures and prints a table; `python -m bench profile drain|calls` finds costs."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from .bench import Bench, Others
from .drains import drain, sizes
from .latencies import kill, start, turns, written
from .mailbox import mailbox
from .plans import plans
from .profiling import profile
from .project import Service
from .reading import commands, look, sessions
from .reports import reports
from .sidecar import tool_server
from .streams import readers, streaming
from .table import Row, as_table
from .trackers import trackers
from .web import web
from .worklog import worklog

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
ALL: dict[str, Callable[[Bench], list[Row]]] = {
    "drain": drain,
    "sizes": sizes,
    "turns": turns,
    "start": start,
    "written": written,
    "kill": kill,
    "sessions": sessions,
    "look": look,
    "commands": commands,
    "reports": reports,
    "tools": tool_server,
    "readers": readers,
    "streaming": streaming,
    "plans": plans,
    "worklog": worklog,
    "mailbox": mailbox,
    "trackers": trackers,
    "web": web,
}


def main() -> None:
    # Nobody who works with it runs it without byte code, so nothing here may either.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Who measures the dashboard asks for one.
    os.environ["SORTIE_SERVER_PORT"] = "0"
    if sys.argv[1:2] == ["profile"]:
        profile(sys.argv[2] if sys.argv[2:] else "drain")
        return
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(ALL)}; all by default")
    parser.add_argument("--quick", action="store_true", help="one round of each, shorter waits: under two minutes")
    parser.add_argument("--write", action="store_true", help=f"write the results to {PAGE.name}")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(ALL)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(ALL)}, or `profile`")
    text = measured(arguments.names or list(ALL), quick=arguments.quick)
    print(f"\n{text}")
    if arguments.write:
        PAGE.write_text(page(text, arguments.names, quick=arguments.quick))
        print(f"written to {PAGE}", file=sys.stderr)


def measured(names: list[str], *, quick: bool) -> str:
    rows, others = [], Others()
    with tempfile.TemporaryDirectory(prefix="sortie-bench-") as scratch:
        bench = Bench(Path(scratch), quick=quick)
        try:
            for name in names:
                print(f"bench: {name} ... ", end="", file=sys.stderr, flush=True)
                before = time.perf_counter()
                rows += ALL[name](bench)
                print(f"{time.perf_counter() - before:.1f} s", file=sys.stderr)
        finally:
            Service.end_all()
        agent = bench.program.described
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
    busy = f"Other programs took {others.share():.0%} of the machine meanwhile."
    return f"{machine}. The agent is {agent}.\n{busy}\n\n{as_table(rows)}"


def page(text: str, names: list[str], *, quick: bool) -> str:
    command = " ".join(["python3 dev.py bench", *names, *(["--quick"] if quick else []), "--write"])
    return f"""\
# Benchmarks

Made by `{command}` on {datetime.now(UTC):%Y-%m-%d}: {text}

Every measurement runs the real service on the file tracker with real agent processes, which stamp their own first
and last instruction. Absolute times depend on the machine and on what else it does: where others took a good part
of it, only CPU, memory and counts mean much. *Times the floor* carries over to other machines: the floor is
measured in the same run, in turns with ours and with as many at once, and is the same program or call with
nothing of ours around it. *Reach* is the goal, in the unit of the row. *Go, earlier* are figures of the
implementation in Go from another day, quoted and not measured again; it keeps in memory what is on disk here
before anything follows from it.

| command | does |
|---|---|
| `python3 dev.py bench` | all of it, in some fifteen minutes; with `--quick` fewer rounds, in four |
| `python3 dev.py bench drain turns` | only these; `--help` names all |
| `python3 dev.py bench --write` | writes this page |
| `python3 dev.py bench profile drain` | cProfile of the service over a drain of 500 issues at 10 slots |
| `python3 dev.py bench profile calls` | its system calls for each issue of such a drain, by perf |

How each is taken is said where it is: `bench/drains.py`, `latencies.py`, `reading.py`, `sidecar.py`, `streams.py`,
`plans.py`, `worklog.py`, `mailbox.py`, `web.py`.
"""


if __name__ == "__main__":
    main()
