"""docs/plans.md shows what happens: its example is run as it stands, its tables are those of the code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sortie.cli.plan import HOMES
from sortie.plans import standing
from sortie.plans.load import load_plan
from sortie.plans.plan import ESCALATIONS, FIXES, MESSAGES, STORE

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plan"
PAGE = (ROOT / "docs" / "plans.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
WIDTH = "100"
# What is another every time, or on another machine: times, numbers of runs, seconds, and blanks between columns.
VARIES = [
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
    (r"\b[0-9a-f]{11}-[0-9a-f]{8}\b", "RUN"),
    (r" +\d+s(?= )", ""),
    (r"\b\d+ s\b", "N s"),
    (r" +", " "),
]


def comparable(line: str) -> str:
    for pattern, instead in VARIES:
        line = re.sub(pattern, instead, line)
    return line.strip()


def steps(page: str) -> list[tuple[str, list[str]]]:
    """Every command of the blocks of a page, in order, with what it is shown to print."""
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.S | re.M)
    commands = [step for block in blocks for step in re.split(r"^\$ ", block, flags=re.M) if step]
    return [(lines[0], lines[1:]) for lines in (command.splitlines() for command in commands)]


@pytest.fixture
def shell(tmp_path):
    """A copy of the example, and our command on the PATH."""
    place, programs = tmp_path / "plan", tmp_path / "bin"
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns("plan.work"))
    programs.mkdir()
    sortie = programs / "sortie"
    sortie.write_text(f"#!{sys.executable}\nfrom sortie.cli.main import main\nraise SystemExit(main())\n")
    sortie.chmod(0o755)
    environ = {**os.environ, "PATH": f"{programs}:/usr/bin:/bin", "COLUMNS": WIDTH}

    def shell(command):
        done = subprocess.run(
            ["sh", "-c", command], cwd=place, env=environ, capture_output=True, timeout=50, check=False
        )
        return done.stdout.decode()

    return shell


def assert_shown(command: str, shown: list[str], printed: str) -> None:
    """Line by line, with nothing between two lines that the page does not leave out by a `…`."""
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


def test_the_worked_example_is_what_happens(shell):
    """BOX-07 BOX-12: also the decisions of a person, and what a change touches."""
    worked = steps(PAGE)
    assert len(worked) > 8
    for command, shown in worked:
        assert_shown(command, shown, shell(command))


def test_the_readme_shows_a_plan_as_it_runs(shell):
    ((command, shown),) = steps(README)
    assert_shown(command, shown, shell(command))


def test_the_task_that_is_shown_is_one_of_the_example():
    (task,) = re.findall(r"^```yaml\n(  - name: notes.*?)^```", PAGE, re.S | re.M)
    assert task in (EXAMPLE / "plan.yaml").read_text("utf-8")
    assert task in README


def test_the_states_are_those_of_the_code():
    in_code = re.findall(r"^\| (\w+) +\| (.*?) +\|$", standing.__doc__ or "", re.M)
    assert [(state, meaning) for state, meaning in in_code if state != "state"] == re.findall(
        r"^\| `(\w+)` \| (.*?) \|$", PAGE.partition("## States")[2].partition("##")[0], re.M
    )


@pytest.mark.parametrize("page", [PAGE, README], ids=["plans.md", "README.md"])
def test_every_command_is_described(page):
    described = set(re.findall(r"sortie plan ([a-z]+)", page)) | set(re.findall(r"`([a-z]+)[ `]", page))
    assert set(HOMES) <= described, set(HOMES) - described


def test_the_folder_is_described():
    folder = PAGE.partition("## The folder of a task")[2].partition("\n## ")[0]
    for name in (MESSAGES, FIXES, ESCALATIONS, STORE, load_plan(EXAMPLE / "plan.yaml").root.name):
        assert f"`{name}" in folder, name
