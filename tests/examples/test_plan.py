"""The plan among the examples does what its page says, and the demo embeds it as it is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .embedded import PLAN

TASKS = ["collect", "features", "fixes", "credits", "notes", "review", "announce", "benchmarks", "speed"]


class Copy:
    """A copy of the example, and the command run in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = shutil.copytree(PLAN.example, directory, ignore=shutil.ignore_patterns("plan.work"))

    def sortie(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "sortie", "plan", *words]
        return subprocess.run(
            argv, cwd=self.directory, capture_output=True, text=True, timeout=50, check=False, encoding="utf-8"
        )

    def states(self) -> dict[str, str]:
        told = json.loads(self.sortie("status", "--json").stdout)
        return {task["task"]: task["state"] for task in told["tasks"]}

    def read(self, path: str) -> str:
        return (self.directory / "plan.work" / path).read_text("utf-8")


@pytest.fixture
def copy(tmp_path):
    return Copy(tmp_path / "plan")


def test_the_demo_embeds_it_as_it_is():
    assert PLAN.contents(PLAN.copy) == PLAN.contents(PLAN.example), "run: python -m tests.examples.embedded"


def test_the_plan_has_no_mistake(copy):
    done = copy.sortie("check", "plan.yaml")
    assert (done.returncode, done.stdout) == (
        0,
        "release-notes: 9 tasks, 5 layers deep, up to 3 at a time: no problem found.\n",
    )


def test_the_plan_runs_to_its_decisions_and_with_them_to_its_end(copy):
    """BOX-07 BOX-09 BOX-12: fan-out, fan-in, a retry, a failure of one branch, an escalation; then what a person
    can do about the rest, with nothing done twice."""
    done = copy.sortie("run")
    assert done.returncode == 3, done.stderr
    odd = {"review": "escalated", "announce": "blocked", "benchmarks": "failed", "speed": "blocked"}
    assert copy.states() == {task: odd.get(task, "completed") for task in TASKS}

    notes = copy.read("notes/outbox/release-notes.md")
    assert [line for line in notes.splitlines() if line.startswith("#")] == [
        "# Kettle 2.4",
        "## New features",
        "## Fixes",
        "## Thanks to",
    ]
    assert notes.count("\n- ") == 9
    assert (copy.directory / "plan.work/credits/attempts/001/status.json").exists()
    assert "may it be released?" in copy.read("ESCALATIONS.md")

    assert copy.sortie("fix", "benchmarks", "--input", "corrected/benchmarks.csv").returncode == 0
    assert copy.sortie("accept", "review").returncode == 0
    again = copy.sortie("run")
    assert again.returncode == 0, again.stderr
    assert copy.states() == dict.fromkeys(TASKS, "completed")
    assert copy.read("announce/outbox/announcement.md") == "Kettle 2.4 is out: 3 new features and 3 fixes.\n"
    assert "find kettles: 38% faster" in copy.read("speed/outbox/speed.md")
    started = [line.split()[2] for line in again.stderr.splitlines() if " started run " in line]
    assert sorted(started) == ["announce", "benchmarks", "speed"]
