"""The schema that editors use says what the reading says, as far as a schema can know."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sortie.plans.keys import PLAN
from sortie.plans.load import examine
from sortie.plans.schema import plan_schema
from sortie.plans.shape import Many, Section
from sortie.workflow.fields import Kind

from .sample import FULL, furnish, write

SCHEMA = plan_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
EXAMPLES = Path(__file__).parents[2] / "examples"
PLANS = [path for path in sorted(EXAMPLES.rglob("*.yaml")) if "\ntasks:" in path.read_text("utf-8")]

quick = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def folder(tmp_path):
    furnish(tmp_path)
    return tmp_path


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_a_plan_with_every_key_passes(folder):
    VALIDATOR.validate(yaml.safe_load(FULL))
    assert examine(write(folder, FULL))[1] == []


def test_every_example_passes():
    for path in PLANS:
        VALIDATOR.validate(yaml.safe_load(path.read_text()))


def described(section: Section) -> set[str]:
    """The keys of a section and of all below."""
    keys = set(section.keys)
    for key in section.keys.values():
        if not isinstance(key.content, Kind):
            keys |= described(key.content.of if isinstance(key.content, Many) else key.content)
    return keys


def properties(schema: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(schema, dict):
        found |= schema.get("properties", {})
        for inner in schema.values():
            found |= properties(inner)
    elif isinstance(schema, list):
        for inner in schema:
            found |= properties(inner)
    return found


def test_every_key_has_a_title_and_a_sentence():
    found = properties(SCHEMA)
    assert set(found) >= described(PLAN)
    for name, key in found.items():
        assert key["title"] == name
        assert key["description"].endswith(".")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value in a plan."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))][not path :]


GOOD = yaml.safe_load(FULL)
# Numbers that are whole are the same to a schema with and without a point; a line end before the end of a text is
# nothing to its patterns.
ODD = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        1.5,
        10**16,
        "",
        " ",
        "x",
        "X",
        "a b",
        "unlimited",
        "block",
        "../x",
        "/x",
        "a\\b",
    ),
    *("C:/x", ".", "a/..", "messages", "x" * 70_000, [], [""], ["x"], [1], [None], {}, {"x": 1}, {"path": "x"}),
    {"task": "x"},
]
odd_values = st.sampled_from(ODD)
SHAPE = ("must ", "is missing", "there is no such key", "is too large a number")
# Told by `must`, and beyond any schema: the agent's own options, folders by their names, what is said in two keys.
BEYOND = (
    "must be a directory",
    "must not contain each other",
    "must be a shorter path",
    "must name a deliverable",
    "not all of it",
    "not below",
    "needs a name",
)


@quick
@given(place=st.sampled_from(places(GOOD)), value=odd_values)
def test_schema_and_reading_agree_on_a_plan_with_one_odd_value(folder, place, value):
    plan = copy.deepcopy(GOOD)
    inner = plan
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    agree(folder, plan)


@quick
@given(
    place=st.sampled_from([place for place in places(GOOD) if isinstance(place[-1], str)]),
    name=st.text("abc_", max_size=9),
)
def test_schema_and_reading_agree_on_a_plan_with_a_key_lost_or_misspelt(folder, place, name):
    plan = copy.deepcopy(GOOD)
    inner = plan
    for step in place[:-1]:
        inner = inner[step]
    value = inner.pop(place[-1])
    if name:
        inner[name] = value
    agree(folder, plan)


def agree(folder: Path, plan: Any) -> None:
    problems = examine(write(folder, yaml.safe_dump(plan, allow_unicode=True, sort_keys=False)))[1]
    shape = [
        problem
        for problem in problems
        if any(word in problem.message for word in SHAPE)
        and not any(word in problem.message for word in BEYOND)
        and ".options." not in problem.key
    ]
    refused = [error.message for error in VALIDATOR.iter_errors(plan)]
    assert bool(shape) == bool(refused), (shape, refused)
