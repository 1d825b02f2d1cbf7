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

from .bench import Bench
from .drains import drain, sizes
from .profiling import profile
from .sidecar import tool_server
from .streams import readers, streaming
from .table import Row, as_table

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
ALL: dict[str, Callable[[Bench], list[Row]]] = {
    "drain": drain,
    "sizes": sizes,
    "tools": tool_server,
    "readers": readers,
    "streaming": streaming,
}


def main() -> None:
    # Nobody who works with it runs it without byte code, so nothing here may either.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
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
    rows = []
    with tempfile.TemporaryDirectory(prefix="sortie-bench-") as scratch:
        bench = Bench(Path(scratch), quick=quick)
        for name in names:
            print(f"bench: {name} ... ", end="", file=sys.stderr, flush=True)
            before = time.perf_counter()
            rows += ALL[name](bench)
            print(f"{time.perf_counter() - before:.1f} s", file=sys.stderr)
        agent = bench.program.described
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
    return f"{machine}. The agent is {agent}.\n\n{as_table(rows)}"


def page(text: str, names: list[str], *, quick: bool) -> str:
    command = " ".join(["python3 dev.py bench", *names, *(["--quick"] if quick else []), "--write"])
    return f"# Benchmarks\n\nMade by `{command}` on {datetime.now(UTC):%Y-%m-%d}: {text}\n\n"


if __name__ == "__main__":
    main()
