"""Whatever is in the file, it loads or is refused in words with a line of the file; nothing else happens."""

from __future__ import annotations

import string
from functools import partial
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sortie.plans.instructions import dependencies_json, instructions_md, lint_instructions
from sortie.plans.keys import PLAN
from sortie.plans.load import examine
from sortie.plans.shape import Many, Section
from sortie.workflow.fields import Kind

from .sample import TASK

quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        ["one", "two", "../x", "unlimited", "outbox/x", "inbox/", "research", "block", "mock", "a\x00b"]
    ),
    st.dates(),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


def of_section(section: Section, depth: int = 0) -> st.SearchStrategy[Any]:
    """Maps of the keys of a section, with values that may fit or not."""
    return st.dictionaries(st.sampled_from([*section.keys]), st.none(), max_size=8).flatmap(
        lambda chosen: st.fixed_dictionaries(
            {key: st.one_of(values, of_content(section.keys[key].content, depth + 1)) for key in chosen}
        )
    )


def of_content(content: Kind | Section | Many, depth: int) -> st.SearchStrategy[Any]:
    if depth > 3 or isinstance(content, Kind):
        return values
    if isinstance(content, Many):
        return st.lists(of_section(content.of, depth), max_size=3)
    return of_section(content, depth)


@pytest.fixture
def load_bytes(tmp_path):
    return partial(load_or_refuse, tmp_path / "plan.yaml")


def load_or_refuse(path, content):
    path.write_bytes(content)
    plan, problems = examine(path)
    errors = [problem for problem in problems if problem.severity == "error"]
    assert (plan is None) == bool(errors)
    lines = content.count(b"\n") + content.count(b"\r") + 1
    assert all(0 < problem.line <= lines and str(problem).startswith(str(path)) for problem in problems)
    if plan is None:
        return
    for task in plan.tasks:
        assert lint_instructions(instructions_md(plan, task, {})) == []
        assert {edge["agent"] for edge in dependencies_json(task, plan)["depends_on"]} <= set(plan.by_name)


@quick
@given(content=st.binary())
def test_any_bytes(load_bytes, content):
    load_bytes(content)


@quick
@given(text=st.text(alphabet=string.printable + "é\x85\u2028\0", max_size=80))
def test_any_text(load_bytes, text):
    load_bytes(f"name: a\ntasks:\n{text}".encode())


@quick
@given(plan=of_section(PLAN))
def test_any_map_of_known_keys(load_bytes, plan):
    load_bytes(yaml.safe_dump(plan, allow_unicode=True).encode("utf-8", "surrogatepass"))


edges = st.lists(
    st.sampled_from(["one", "two", "three"])
    | st.fixed_dictionaries(
        {"task": st.sampled_from(["one", "two", "four"])},
        optional={"outputs": st.lists(st.sampled_from(["result.md", "summary.md", "x"])), "copy_to": st.just("in")},
    ),
    max_size=3,
)


@quick
@given(tasks=st.lists(st.tuples(edges, edges, st.text(max_size=30)), min_size=1, max_size=3))
def test_any_graph_of_good_tasks(load_bytes, tasks):
    written = [
        {**TASK, "name": name, "depends_on": depends_on, "wait_for": wait_for, "objective": f"x {text}"}
        for name, (depends_on, wait_for, text) in zip(["one", "two", "three"], tasks, strict=False)
    ]
    load_bytes(yaml.safe_dump({"name": "a", "tasks": written}, allow_unicode=True).encode("utf-8", "surrogatepass"))
