"""Where the service spends its time: cProfile over a drain, or the system calls it makes."""

from __future__ import annotations

import pstats
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from .project import Project
from .stamps import Program

ISSUES = 500
SLOTS = 10
TOP = 60


def profile(kind: str) -> None:
    """Work off 500 issues at 10 slots under the profiler; times are longer than without it, shares are not."""
    with tempfile.TemporaryDirectory(prefix="sortie-bench-") as scratch:
        root = Path(scratch)
        project = Project(root / "project", command=Program(root).done, slots=SLOTS)
        project.write_issues(ISSUES)
        if kind == "calls":
            _counted(project, root / "calls")
        else:
            _profiled(project, root / "profile")


def _profiled(project: Project, output: Path) -> None:
    service = project.start("--until-idle", python=("-m", "cProfile", "-o", str(output)))
    service.wait()
    print(f"{ISSUES} issues, {SLOTS} slots, {project.stamps.rate():.0f} issues/s under the profiler, one thread\n")
    for order in ("tottime", "cumulative"):
        pstats.Stats(str(output)).strip_dirs().sort_stats(order).print_stats(TOP)


def _counted(project: Project, output: Path) -> None:
    """The service's own system calls for each issue: of the threads it has when it is warm, not of its children."""
    perf = shutil.which("perf")
    if perf is None:
        sys.exit("bench: `profile calls` needs perf.")
    service = project.start("--until-idle")
    service.until_stamped(ISSUES // 2)
    tracer = subprocess.Popen([perf, "trace", "-s", "--no-inherit", "-p", str(service.pid), "-o", output])
    before = project.stamps.count()
    service.wait()
    tracer.wait()
    issues = (project.stamps.count() - before) / 2
    calls, milliseconds = Counter[str](), defaultdict[str, float](float)
    for name, count, _, total, *_ in re.findall(r"^ +(\w+) +(\d+) +(\d+) +([\d.]+)", output.read_text(), re.M):
        calls[name] += int(count)
        milliseconds[name] += float(total)
    print(f"{sum(calls.values()) / issues:.0f} system calls for each of {issues:.0f} issues, {SLOTS} slots\n")
    print("   calls        ms  name")
    for name, count in calls.most_common():
        print(f"{count / issues:8.1f}  {milliseconds[name] / issues:8.2f}  {name}")
