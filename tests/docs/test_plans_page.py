"""docs/plans.md shows what happens: its example is run as it stands, its tables are those of the code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from sortie.cli.plan import HOMES
from sortie.plans import standing
from sortie.plans.load import load_plan
from sortie.plans.plan import ESCALATIONS, FIXES, MESSAGES, STORE

from .console import assert_shown, open_shell, section, steps

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plan"
PAGE = (ROOT / "docs" / "plans.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


@pytest.fixture
def shell(tmp_path):
    """A copy of the example, and our command on the PATH."""
    place = shutil.copytree(EXAMPLE, tmp_path / "plan", ignore=shutil.ignore_patterns("plan.work"))
    return open_shell(place, tmp_path / "bin")


def test_the_worked_example_is_what_happens(shell):
    """BOX-07 BOX-12: also the decisions of a person, and what a change touches."""
    worked = steps(PAGE)
    assert len(worked) > 8
    for step in worked:
        assert_shown(step, shell(step[0]))


def test_the_readme_shows_a_plan_as_it_runs(shell):
    (step,) = steps(section(README, "Plans"))
    assert_shown(step, shell(step[0]))


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
