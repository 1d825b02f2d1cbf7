"""The section about the plan file has every key with its default, and shows a plan that is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sortie.plans.keys import DEFAULTS, PLAN, TASK
from sortie.plans.load import examine
from sortie.plans.shape import Many, Section
from sortie.workflow.fields import Kind

PAGE = (Path(__file__).parents[2] / "docs" / "plans.md").read_text("utf-8").partition("## The plan file\n")[2]
ROWS = {
    row[0].strip(" `"): row[1:]
    for row in (line.strip("| ").split(" |") for line in re.findall(r"^\| `.*$", PAGE, re.M))
}


def keys_below(section: Section, prefix: str = "") -> dict[str, str]:
    """Each key as the page names it, and its default as the page writes it."""
    found: dict[str, str] = {}
    for name, key in section.keys.items():
        default = section.default_of(name)
        shown = str(default).lower() if isinstance(default, bool) else default
        found[prefix + name] = "required" if key.required else "" if default is None else f"`{shown}`"
        # Those of tasks and defaults stand for themselves.
        if not isinstance(key.content, Kind) and name not in ("tasks", "defaults"):
            inner = key.content.of if isinstance(key.content, Many) else key.content
            found |= keys_below(inner, f"{name}.")
    return found


WANTED = {**keys_below(TASK), **keys_below(PLAN)}
# Both have a name, which is told in two rows.
WANTED["name"] = "required"


@pytest.mark.parametrize("key", WANTED)
def test_every_key_is_described_with_its_default(key):
    assert ROWS[key][0].strip() == WANTED[key]
    assert ROWS[key][-1].strip()


def test_nothing_else_is_described():
    assert set(ROWS) == set(WANTED)


def test_the_page_says_what_can_stand_in_the_defaults():
    marked = {key for key, row in ROWS.items() if len(row) == 3 and row[1].strip() == "yes"}
    assert marked == set(DEFAULTS.keys) - {"on_failure"}
    assert "`defaults.on_failure`" in PAGE


def test_the_plan_of_the_page_is_good(tmp_path):
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    (tmp_path / "data").mkdir()
    for name in ("commits.txt", "issues.json"):
        (tmp_path / "data" / name).touch()
    plan, problems = examine(path)
    assert problems == []
    assert plan is not None
