"""The skeleton of a plan: whatever the goal holds, it is a plan that lacks nothing but what has to be filled in."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.errors import ConfigurationError
from sortie.plans.beginning import LONGEST_GOAL, SCHEMA_LINE, goal_of, name_for, read_goal, skeleton
from sortie.plans.load import examine
from sortie.plans.markdown import placeholders

PLACEHOLDER = re.compile(r"\{[A-Z][A-Z_]+\}")


def test_every_placeholder_is_a_mistake_and_nothing_else_is(tmp_path):
    text = skeleton(tmp_path / "plan.yaml", "Make tea.")
    plan, problems = examine(tmp_path / "plan.yaml", text.encode())
    assert plan is None
    told = {one for problem in problems for one in PLACEHOLDER.findall(problem.message)}
    assert told == set(PLACEHOLDER.findall(text)) - {"{PLACEHOLDER}"}
    assert len(problems) == len(told)


def test_filled_in_it_is_a_plan_of_three_tasks(tmp_path):
    text = PLACEHOLDER.sub("done", skeleton(tmp_path / "plan.yaml", "Make tea."))
    plan, problems = examine(tmp_path / "plan.yaml", text.encode())
    assert plan is not None, problems
    assert [task.name for task in plan.tasks] == ["research", "make", "review"]
    assert plan.goal == "Make tea."
    assert text.splitlines()[0] == SCHEMA_LINE


@given(st.binary() | st.text().map(str.encode))
def test_any_text_can_be_the_goal(tmp_path_factory, content):
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return
    path = tmp_path_factory.getbasetemp() / "plan.yaml"
    goal = goal_of(content, "GOAL.md")
    text = PLACEHOLDER.sub("done", skeleton(path, "@@")).replace("goal: |-\n  @@", skeleton_goal(path, goal))
    plan, problems = examine(path, text.encode())
    if not goal.strip():
        assert [problem.key for problem in problems] == ["goal"]
    elif placeholders(goal):
        assert {problem.key for problem in problems} == {"goal"}
    else:
        assert plan is not None, problems
        assert plan.goal == goal


def skeleton_goal(path, goal):
    """The part of a skeleton with the goal in it."""
    text = skeleton(path, goal)
    return text[text.index("\ngoal:") + 1 : text.index("\n\nmax_parallel:")]


def test_the_form_of_a_goal_is_kept_and_what_commands_terminals_is_not():
    content = "\ufeff# Tea\r\n\r\n\t- hot \r\n  - \x1b[31mred\u2028✓ 🫖\n\n".encode()
    assert goal_of(content, "GOAL.md") == "# Tea\n\n    - hot\n  - [31mred\n✓ 🫖"


def test_a_long_goal_is_cut_and_says_where_the_rest_is(tmp_path):
    goal = goal_of(("word " * LONGEST_GOAL).encode(), "GOAL.md")
    assert len(goal) < LONGEST_GOAL + 100
    assert goal.endswith("[The rest is in GOAL.md.]")


@pytest.mark.parametrize(
    ("file", "name"),
    [("plan.yaml", "plan"), ("My Great Plan!.yaml", "my-great-plan"), ("größe.yml", "gr-e"), ("---.yaml", "plan")],
)
def test_the_name_is_as_near_to_that_of_the_file_as_possible(tmp_path, file, name):
    assert name_for(tmp_path / file) == name
    text = PLACEHOLDER.sub("done", skeleton(tmp_path / file, "Tea."))
    assert examine(tmp_path / file, text.encode())[1] == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.write_bytes(b" \n\t"), "empty"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "not UTF-8"),
        (lambda path: path.write_bytes(b"x" * (1024 * 1024 + 1)), "larger than 1 MiB"),
        (lambda path: path.mkdir(), "not a regular file"),
        (lambda path: os.mkfifo(path), "not a regular file"),
    ],
)
def test_what_is_no_goal_is_told_in_a_sentence(tmp_path, make, said):
    make(tmp_path / "GOAL.md")
    with pytest.raises(ConfigurationError, match=said):
        read_goal(tmp_path / "GOAL.md")
