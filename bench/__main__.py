"""`python -m bench [NAME ...] [--write]`: measure, print a table; --write also keeps it in docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from .baseline import bare_python, bare_spawn
from .measures import ALL
from .row import Row

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(ALL)}; all by default")
    parser.add_argument("--write", action="store_true", help=f"write the results to {PAGE.name}")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(ALL)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(ALL)}")
    rows = measure(arguments.names or list(ALL))
    table = as_table(rows)
    print(f"\n{table}")
    if arguments.write:
        PAGE.write_text(page(table, arguments.names))
        print(f"written to {PAGE}")


def measure(names: list[str]) -> list[Row]:
    rows = [
        Row("bare spawn (`sh -c :`)", bare_spawn() * 1e3, "ms", 1.0, "itself"),
        Row("bare Python (`python -c pass`)", bare_python() * 1e3, "ms", 1.0, "itself"),
    ]
    with tempfile.TemporaryDirectory(prefix="sortie-bench-") as scratch:
        for name in names:
            print(f"bench: {name} ... ", end="", file=sys.stderr, flush=True)
            before = time.perf_counter()
            rows += ALL[name](Path(scratch))
            print(f"{time.perf_counter() - before:.1f} s", file=sys.stderr)
    return rows


def as_table(rows: list[Row]) -> str:
    lines = ["| what | measured | ratio | to |", "|---|---:|---:|---|"]
    for row in rows:
        value = f"{row.value:,.0f}" if row.value >= 100 else f"{row.value:.3g}"
        lines.append(f"| {row.what} | {value} {row.unit} | {row.ratio:.2f} | {row.yardstick} |")
    return "\n".join(lines)


def page(table: str, names: list[str]) -> str:
    command = " ".join(["python3 dev.py bench", *names, "--write"])
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
    return (
        "# Benchmarks\n\n"
        f"Made by `{command}` on {datetime.now(UTC):%Y-%m-%d}: {machine}.\n"
        "Absolute times depend on the machine and move by a fifth or more between runs; the ratios carry over.\n"
        "Every measurement runs the real service on the file tracker with real agent processes.\n\n"
        f"{table}\n\n"
        "How each is taken is said in `bench/measures.py`, one function for each group.\n"
    )


if __name__ == "__main__":
    main()
