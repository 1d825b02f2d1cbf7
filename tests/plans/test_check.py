"""Mistakes that only the whole plan shows: before anything runs, all at once, each where it was written."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.plans.check import LONGEST_CYCLE, MOST_CYCLES, MOST_SUGGESTIONS, _cycles
from sortie.plans.load import examine

from .sample import load_tasks, problems_of_tasks, write_tasks


def chain(*edges: str, field: str = "wait_for"):
    """`a>b`: a waits for b."""
    tasks: dict[str, list[str]] = {}
    for edge in edges:
        name, _, other = edge.partition(">")
        tasks.setdefault(name, []).extend([other] if other else [])
    return [{"name": name, field: others} for name, others in tasks.items()]


def test_unknown_names_are_refused_with_a_suggestion(tmp_path):
    """BOX-08, TBX-04"""
    tasks = ({"name": "collect"}, {"name": "two", "depends_on": ["colect"], "wait_for": ["nobody", "x" * 200]})
    assert problems_of_tasks(tmp_path, *tasks) == [
        'tasks.two.depends_on.0: there is no task "colect"; did you mean "collect"?',
        'tasks.two.wait_for.0: there is no task "nobody"',
        f'tasks.two.wait_for.1: there is no task "{"x" * 64}"',
    ]


def test_suggestions_are_given_for_the_first_mistakes_alone(tmp_path):
    """To look for one takes a comparison with every name there is."""
    tasks = [{"name": f"task-{number}", "wait_for": [f"tusk-{number}"]} for number in range(300)]
    found = problems_of_tasks(tmp_path, *tasks)
    assert len(found) == 300
    assert sum("did you mean" in text for text in found) == MOST_SUGGESTIONS


def test_a_task_that_waits_for_itself_is_refused(tmp_path):
    """BOX-08, TBX-04"""
    assert problems_of_tasks(tmp_path, {"depends_on": ["one"], "wait_for": ["one"]}) == [
        "tasks.one.depends_on.0: is the task itself; a task cannot wait for itself",
        "tasks.one.wait_for.0: is the task itself; a task cannot wait for itself",
    ]


def test_a_cycle_is_refused_with_its_whole_path_at_the_edge_that_begins_it(tmp_path):
    """BOX-08, TBX-04"""
    tasks: list[dict[str, Any]] = [
        {"name": "a", "depends_on": ["b"]},
        {"name": "b", "wait_for": ["d", "c"]},
        {"name": "c", "depends_on": ["a"]},
        {"name": "d"},
    ]
    path = write_tasks(tmp_path, *tasks)
    assert problems_of_tasks(tmp_path, *tasks) == [
        "tasks.a.depends_on.0: tasks wait for each other in a circle: a → b → c → a; remove one of these edges"
    ]
    line = path.read_text().split("\n").index("  - b") + 1
    assert [problem.line for problem in examine(path)[1]] == [line]


def test_every_independent_cycle_is_named(tmp_path):
    """BOX-08, TBX-04"""
    found = problems_of_tasks(tmp_path, *chain("a>b", "b>a", "c>d", "d>c", "d>e", "e>c", "f>a"))
    assert [text.split(": ")[2].split(";")[0] for text in found] == ["a → b → a", "c → d → c", "c → d → e → c"]


def test_many_cycles_and_long_ones_are_bounded(tmp_path):
    everybody = [f"t{number}" for number in range(12)]
    found = problems_of_tasks(tmp_path, *chain(*(f"{a}>{b}" for a in everybody for b in everybody if a != b)))
    assert len(found) == MOST_CYCLES + 1
    assert "tasks: there are more cycles; break those that are named first" in found
    (long,) = problems_of_tasks(tmp_path, *chain(*(f"t{number}>t{(number + 1) % 2000}" for number in range(2000))))
    assert long.count("→") == LONGEST_CYCLE
    assert f"t19 → ({2001 - LONGEST_CYCLE} more) → t1981" in long
    assert long.endswith("t1999 → t0; remove one of these edges")


names = st.sampled_from("abcdefgh")


@given(st.dictionaries(names, st.sets(names), min_size=1))
def test_cycles_are_real_begin_at_the_first_task_and_leave_none(edges):
    edges = {
        name: {other for other in others if other in edges and other != name} for name, others in edges.items()
    }
    position = {name: number for number, name in enumerate(edges)}
    left = {name: set(others) for name, others in edges.items()}
    found = list(_cycles({name: set(others) for name, others in edges.items()}, position))
    for cycle in found:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        assert all(second in edges[first] for first, second in pairwise(cycle))
        assert position[cycle[0]] == min(position[name] for name in cycle)
        left[cycle[-2]].discard(cycle[0])
    TopologicalSorter(left).prepare()
    if not found:
        return
    with pytest.raises(CycleError):
        TopologicalSorter(edges).prepare()


def test_the_same_name_twice_is_refused_also_in_other_letters(tmp_path):
    """TBX-19"""
    assert problems_of_tasks(tmp_path, {"name": "a"}, {"name": "a"}) == [
        "tasks.a.name: is the name of another task too, on line 3; change one"
    ]
    found = problems_of_tasks(tmp_path, {"name": "a"}, {"name": "A"}, {"name": "b", "wait_for": ["A"]})
    assert len(found) == 2
    assert "tasks.1.name: is the name of another task too, on line 3; change one" in found


@pytest.mark.parametrize(
    "name", ["messages", "consolidated", "_archive", ".records", "a/b", "..", "A", "-a", "a" * 65, "é"]
)
def test_names_that_are_no_folder_of_a_task_are_refused(tmp_path, name):
    """TBX-07"""
    (problem,) = problems_of_tasks(tmp_path, {"name": name})
    assert ".name: must be" in problem


def test_twice_in_one_list_is_refused_and_in_both_lists_is_not(tmp_path):
    two = {"name": "two", "depends_on": ["one", {"task": "one"}], "wait_for": ["one", "one"]}
    assert problems_of_tasks(tmp_path, {}, two) == [
        "tasks.two.depends_on.1: one is given twice in depends_on; keep one",
        "tasks.two.wait_for.1: one is given twice in wait_for; keep one",
    ]
    assert problems_of_tasks(tmp_path, {}, {"name": "two", "depends_on": ["one"], "wait_for": ["one"]}) == []


def test_only_outputs_that_somebody_owes_can_be_asked_for(tmp_path):
    """BOX-08, TBX-06"""
    giver = {"outputs": ["report.md", "data/"]}
    fine = ["report.md", "data/", "data/deep/x.csv", "summary.md", "changelog.md", "issues.md", "metadata.json"]
    asking = {"name": "two", "depends_on": [{"task": "one", "outputs": fine}]}
    assert problems_of_tasks(tmp_path, giver, asking) == []
    wrong = ["reprt.md", "database/x", "error_report.md"]
    asking["depends_on"] = [{"task": "one", "outputs": wrong}]
    assert problems_of_tasks(tmp_path, giver, asking) == [
        'tasks.two.depends_on.0: one does not declare the output outbox/reprt.md; did you mean "outbox/report.md"?',
        'tasks.two.depends_on.0: one does not declare the output outbox/database/x; did you mean "outbox/data/"?',
        "tasks.two.depends_on.0: one does not declare the output outbox/error_report.md; did you mean "
        '"outbox/report.md"?',
    ]


def test_a_task_with_a_wrong_output_is_not_blamed_again_by_those_that_ask_for_it(tmp_path):
    asking = {"name": "two", "depends_on": [{"task": "one", "outputs": ["x.md"]}]}
    found = problems_of_tasks(tmp_path, {"outputs": [3]}, asking)
    assert found == ["tasks.one.outputs.0: must be text or a map with path or description, not 3"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/passwd", "and not begin with a slash"),
        ("../x", 'without ".."'),
        ("a/../../x", 'without ".."'),
        ("outbox/..", 'without ".."'),
        ("", "and not be empty"),
        (".", "and not be empty"),
        ("./", "and not be empty"),
        ("a\\b", "with slashes and no backslashes"),
        ("C:/x", "and not begin with a drive letter"),
        ("a\nb", "without control characters"),
        ("outbox/", "not all of it"),
        ("inbox/x", "not below inbox/"),
        ("workspace/x", "not below workspace/"),
        ("x" * 300, "must be a shorter path"),
    ],
)
def test_outputs_cannot_leave_the_outbox(tmp_path, path, why):
    """BOX-08, TBX-07"""
    (problem,) = problems_of_tasks(tmp_path, {"outputs": [{"path": path}]})
    assert problem.startswith("tasks.one.outputs.0.path: must be")
    assert why in problem


@pytest.mark.parametrize("path", ["/inbox/x", "inbox/../..", "outbox/x", "C:\\x", "a/./../..", "\x7f"])
def test_what_is_handed_on_cannot_leave_the_inbox(tmp_path, path):
    """BOX-08, TBX-07"""
    two = {"name": "two", "depends_on": [{"task": "one", "copy_to": path}]}
    (problem,) = problems_of_tasks(tmp_path, {}, two)
    assert problem.startswith("tasks.two.depends_on.0.copy_to: must be a path below inbox/")
    (tmp_path / "x").touch()
    (problem,) = problems_of_tasks(tmp_path, {"inputs": [{"path": "x", "as": path}]})
    assert problem.startswith("tasks.one.inputs.0.as: must be a path below inbox/")


def test_paths_arrive_in_their_simplest_form(tmp_path):
    plan = load_tasks(
        tmp_path,
        {"outputs": ["./outbox//a/./b.md", "outbox/data/."]},
        {"name": "two", "depends_on": [{"task": "one", "copy_to": "inbox"}]},
    )
    assert [output.path for output in plan.tasks[0].outputs] == ["outbox/a/b.md", "outbox/data/"]
    assert plan.tasks[1].depends_on[0].copy_to == "inbox/"


def test_a_deliverable_besides_the_summary_is_owed(tmp_path):
    """BOX-05, TBX-06"""
    assert problems_of_tasks(tmp_path, {"outputs": ["summary.md"]}) == [
        "tasks.one.outputs: must name a deliverable besides summary.md"
    ]
    assert problems_of_tasks(tmp_path, {"outputs": ["summary.md", "x"]}) == []


def test_outputs_that_exclude_each_other_or_belong_to_failure_are_refused(tmp_path):
    """BOX-06, TBX-06"""
    outputs = ["a", "a/", "b", "b/c/d", "error_report.md", "partial/x", "partial/", "partially.md"]
    of_failure = "is where a task that failed leaves its work; choose another name"
    assert problems_of_tasks(tmp_path, {"outputs": outputs}) == [
        "tasks.one.outputs.0: outbox/a is given twice; keep one",
        "tasks.one.outputs.1: outbox/a/ is given twice; keep one",
        "tasks.one.outputs.3: outbox/b/c/d cannot be made below outbox/b, which is to be a file",
        f"tasks.one.outputs.4: outbox/error_report.md {of_failure}",
        f"tasks.one.outputs.5: outbox/partial/x {of_failure}",
        f"tasks.one.outputs.6: outbox/partial/ {of_failure}",
    ]


def test_placeholders_that_were_never_filled_in_are_refused_in_any_text(tmp_path):
    """BOX-03, TBX-18"""
    task = {
        "objective": "{INSERT_OBJECTIVE} and {INSERT_OBJECTIVE}",
        "context": "For {task_id}",
        "requirements": ["{Specific requirement 1}"],
        "success_criteria": ["{Measurable outcome 1}"],
        "constraints": ["${HOME} and `{LIKE_THIS}` and {name} are none", "{TASK_NAME}"],
        "outputs": [{"path": "x", "description": "{CONTENT}"}, "{filename}"],
    }
    defaults = {"constraints": ["{Quality standards}"]}
    found = problems_of_tasks(tmp_path, task, goal="{THE_GOAL}", defaults=defaults)
    wanted = {
        "goal": "{THE_GOAL}",
        "tasks.one.objective": "{INSERT_OBJECTIVE}",
        "tasks.one.context": "{task_id}",
        "tasks.one.requirements": "{Specific requirement 1}",
        "tasks.one.success_criteria": "{Measurable outcome 1}",
        "tasks.one.outputs.0": "{CONTENT}",
        "tasks.one.outputs.1": "{filename}",
    }
    for key, placeholder in wanted.items():
        assert f"{key}: still holds the placeholder {placeholder}; write what belongs there" in found
    assert len(found) == len(wanted) + 2
    assert sum("constraints: still holds" in text for text in found) == 2
