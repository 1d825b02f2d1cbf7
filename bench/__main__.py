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
from .page import PAGE, write
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
    parser.add_argument("--quick", action="store_true", help="one round of each, shorter waits")
    parser.add_argument("--write", action="store_true", help=f"write the results into {PAGE.name}")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(ALL)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(ALL)}, or `profile`")
    sections = measured(arguments.names or list(ALL), quick=arguments.quick)
    for name, section in sections.items():
        print(f"\n## {name}\n\n{section}")
    if arguments.write:
        write(sections, ALL)
        print(f"written to {PAGE}", file=sys.stderr)


def measured(names: list[str], *, quick: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="sortie-bench-") as scratch:
        bench = Bench(Path(scratch), quick=quick)
        try:
            for name in names:
                print(f"bench: {name} ... ", end="", file=sys.stderr, flush=True)
                others, before = Others(), time.perf_counter()
                rows = ALL[name](bench)
                took = f"{time.perf_counter() - before:.1f} s"
                found[name] = f"{_taken(bench, others, quick=quick)}\n\n{as_table(rows)}"
                print(took, file=sys.stderr)
        finally:
            Service.end_all()
    return found


def _taken(bench: Bench, others: Others, *, quick: bool) -> str:
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
    how = ", with `--quick`" if quick else ""
    busy = f"Other programs took {others.share():.0%} of the machine meanwhile."
    return f"{datetime.now(UTC):%Y-%m-%d}{how}: {machine}. The agent is {bench.program.described}. {busy}"


if __name__ == "__main__":
    main()
