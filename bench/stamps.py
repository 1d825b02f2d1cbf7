"""The agent program of the measurements, built once, and what its processes stamped of themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LINE = 40
COMPILERS = ("cc", "gcc", "clang", "tcc")

# Where there is no C compiler. Its clock ticks a hundred times a second, so that short times mean little.
SCRIPT = """\
#!/bin/sh
read -r up _ </proc/uptime
cd "$SORTIE_WORKSPACE" || exit 3
issue=$SORTIE_ISSUE_IDENTIFIER
stamps=$SORTIE_WORKFLOW_DIR/stamps
held=$SORTIE_WORKFLOW_DIR/held-$issue
stamp() { printf '%s %-16s %20s\\n' "$1" "$issue" "${up%.*}${up#*.}0000000" >>"$stamps"; }
case $0 in *hold)
  if read -r other 2>/dev/null <"$held" && kill -0 "$other" 2>/dev/null; then stamp X; else stamp S; fi
  echo $$ >"$held"
  exec sleep 100000;;
esac
stamp S
while read -r _; do :; done
case $0 in
  *done) mkdir -p .sortie; echo needs-human-review >.sortie/status;;
  *task) echo "$issue" >outbox/result.md; echo Done. >outbox/summary.md;;
esac
read -r up _ </proc/uptime
stamp E
"""


class Stamp(NamedTuple):
    what: str
    issue: str
    at: float


class Program:
    """The agent under the names by which it is told what to do; see `agent.c`."""

    def __init__(self, folder: Path, compilers: tuple[str, ...] = COMPILERS) -> None:
        path = folder / "agent"
        self.described = _build(path, compilers)
        names = self.done, self.turn, self.hold, self.task = tuple(
            path.with_name(f"agent-{word}") for word in ("done", "turn", "hold", "task")
        )
        for name in names:
            os.link(path, name)


def _build(path: Path, compilers: tuple[str, ...]) -> str:
    compiler = next(filter(None, map(shutil.which, compilers)), "")
    source = Path(__file__).with_name("agent.c")
    for flags in (["-static"], []) if compiler else ():
        built = subprocess.run([compiler, "-O2", *flags, "-o", path, source], capture_output=True, check=False)
        if built.returncode == 0:
            return f"`bench/agent.c`, {'static' if flags else 'dynamic'}, by {Path(compiler).name}"
    path.write_text(SCRIPT)
    path.chmod(0o755)
    return "a script of `sh`, because no C compiler works here: its clock has steps of 10 ms"


class Stamps:
    """The stamps of one project, as they are written."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "stamps"

    def count(self) -> int:
        try:
            return self._path.stat().st_size // LINE
        except FileNotFoundError:
            return 0

    def __iter__(self) -> Iterator[Stamp]:
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            what, issue, at = line.split()
            yield Stamp(what, issue, int(at) / 1e9)

    def starts(self) -> list[float]:
        return sorted(stamp.at for stamp in self if stamp.what != "E")

    def ends(self) -> list[float]:
        return sorted(stamp.at for stamp in self if stamp.what == "E")

    def rate(self) -> float:
        """Agents per second, from the first instruction of the first to the last of the last."""
        ends = self.ends()
        return len(ends) / (ends[-1] - self.starts()[0])

    def gaps(self) -> list[float]:
        """From the end of each to the start of the next, for agents that come one after the other."""
        return [start - end for end, start in zip(self.ends(), self.starts()[1:], strict=False)]

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)
