"""Inputs are looked at before anything runs, and nothing lands where something else does."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from sortie.plans.inbox_check import MOST_ENTRIES

from .sample import load_tasks, problems_of_tasks


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.csv").write_text("a")
    (tmp_path / "data/deep").mkdir(parents=True)
    (tmp_path / "data/deep/b.csv").write_text("b")
    return tmp_path


def problems_of_inputs(folder, *inputs, **others):
    return [text.removeprefix("tasks.one.") for text in problems_of_tasks(folder, {"inputs": [*inputs]}, **others)]


def test_files_and_directories_anywhere_are_inputs(folder, tmp_path_factory):
    """BOX-04"""
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "c.csv"
    elsewhere.touch()
    inputs = ["a.csv", "data", "data/deep/b.csv", str(elsewhere)]
    (task,) = load_tasks(folder, {"inputs": inputs}).tasks
    assert [each.name for each in task.inputs] == ["a.csv", "data", "b.csv", "c.csv"]


def test_inputs_that_are_missing_or_no_files_are_refused(folder):
    """BOX-04, TBX-08"""
    os.mkfifo(folder / "fifo")
    (folder / "nested").mkdir()
    os.mkfifo(folder / "nested/fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
        found = problems_of_inputs(folder, "none.csv", "fifo", "socket", "nested", "a.csv/x", "/dev/null")
    assert found == [
        "inputs.0: none.csv does not exist; correct the path, which is relative to the plan file",
        "inputs.1: fifo is neither a file nor a directory; only these can be copied",
        "inputs.2: socket is neither a file nor a directory; only these can be copied",
        f"inputs.3: nested cannot be copied: {folder}/nested/fifo is neither a file nor a directory; remove it",
        "inputs.4: a.csv/x cannot be looked at: not a directory",
        "inputs.5: /dev/null is neither a file nor a directory; only these can be copied",
    ]


def test_links_are_refused_on_the_way_at_the_end_and_inside(folder):
    """BOX-04, TBX-08"""
    (folder / "link.csv").symlink_to("a.csv")
    (folder / "away").symlink_to("/etc")
    (folder / "data/deep/inner").symlink_to("/etc/passwd")
    found = problems_of_inputs(folder, "link.csv", "away/hostname", "data")
    said = "is a link, and links are not followed; name what it leads to"
    assert found == [
        f"inputs.0: link.csv cannot be copied: {folder}/link.csv {said}",
        f"inputs.1: away/hostname cannot be copied: {folder}/away {said}",
        f"inputs.2: data cannot be copied: {folder}/data/deep/inner is neither a file nor a directory; remove it",
    ]


def test_a_plan_in_a_directory_that_is_reached_through_a_link_may_have_inputs(folder, tmp_path_factory):
    link = tmp_path_factory.mktemp("links") / "here"
    link.symlink_to(folder)
    assert problems_of_tasks(link, {"inputs": ["a.csv"]}) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_input_that_cannot_be_read_is_refused(folder):
    (folder / "a.csv").chmod(0)
    assert problems_of_inputs(folder, "a.csv") == ["inputs.0: a.csv cannot be read; change its mode or its owner"]


def test_huge_directories_are_looked_at_within_bounds(folder):
    """What lies beyond is looked at when it is copied."""
    (folder / "later").mkdir()
    (folder / "later/link").symlink_to("/etc/passwd")
    assert len(problems_of_inputs(folder, "data", "later")) == 1
    for number in range(MOST_ENTRIES):
        (folder / f"data/{number}").touch()
    assert problems_of_inputs(folder, "data", "later") == []


def test_an_input_needs_a_name(folder):
    assert problems_of_inputs(folder, ".", {"path": "..", "as": "up"}, "a\tb") == [
        "inputs.0: needs a name below inbox/: add one with `as`",
        "inputs.1: .. and the workspace of the plan must not contain each other; move one of them",
        'inputs.2: must be a path without control characters, not "a\\tb"',
    ]


@pytest.mark.parametrize(
    "name", ["instructions.md", "inbox/dependencies.json", ".received.json", "Instructions.md/x"]
)
def test_what_we_write_ourselves_cannot_be_replaced(folder, name):
    """BOX-08, TBX-07"""
    (problem,) = problems_of_inputs(folder, {"path": "a.csv", "as": name})
    assert "which is written by Sortie; rename it" in problem


def test_outputs_of_others_cannot_replace_it_either(folder):
    """BOX-08, TBX-07"""
    two = {"name": "two", "depends_on": [{"task": "one", "copy_to": "inbox/"}]}
    (problem,) = problems_of_tasks(folder, {"outputs": ["instructions.md"]}, two)
    assert problem == (
        "tasks.two.depends_on.0: an output of one would land on inbox/instructions.md, which is written by Sortie; "
        "rename it"
    )


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (["a.csv", "a.csv"], "the input a.csv and the input a.csv would both land on inbox/a.csv"),
        (["a.csv", {"path": "data", "as": "a.csv"}], "the input data and the input a.csv would both land"),
        (
            ["data", {"path": "a.csv", "as": "data/x"}],
            "the input a.csv and the input data would both land on inbox/data",
        ),
        (
            [{"path": "a.csv", "as": "x/y"}, {"path": "a.csv", "as": "x"}],
            "would land on inbox/x, the input a.csv inside",
        ),
        (["a.csv", {"path": "a.csv", "as": "a.csv.ref.json"}], "would both land on inbox/a.csv;"),
        ([{"path": "a.csv", "as": "a.csv.ref.json"}, "a.csv"], "would both land on inbox/a.csv.ref.json;"),
    ],
)
def test_two_inputs_never_land_in_the_same_place(folder, inputs, said):
    """BOX-04, TBX-07"""
    (problem,) = problems_of_inputs(folder, *inputs)
    assert problem.startswith("inputs.1: ")
    assert said in problem


def test_outputs_of_two_tasks_never_land_in_the_same_place(folder):
    """BOX-08, TBX-07"""
    edges = [{"task": "one", "copy_to": "x"}, {"task": "two", "copy_to": "x"}]
    tasks: list[dict[str, Any]] = [{}, {"name": "two"}, {"name": "three", "depends_on": edges}]
    assert problems_of_tasks(folder, *tasks) == [
        "tasks.three.depends_on.1: an output of two and an output of one would both land on inbox/x/result.md; "
        "rename one",
        "tasks.three.depends_on.1: an output of two and an output of one would both land on inbox/x/summary.md; "
        "rename one",
    ]
    apart = {"name": "three", "depends_on": ["one", "two"], "inputs": [{"path": "a.csv", "as": "one/a.csv"}]}
    assert problems_of_tasks(folder, {}, {"name": "two"}, apart) == []


@pytest.mark.parametrize("workspace", [".", "..", "/", "data/.."])
def test_the_workspace_is_a_directory_of_its_own(folder, workspace):
    found = problems_of_tasks(folder, {}, workspace=workspace)
    assert found == [
        "workspace: must be a directory of its own, which can be archived or removed as a whole; name another"
    ]


def test_the_workspace_and_the_inputs_do_not_contain_each_other(folder):
    said = "data and the workspace of the plan must not contain each other; move one of them"
    for workspace in ("data", "data/deep/run"):
        assert problems_of_inputs(folder, "data", workspace=workspace) == [f"inputs.0: {said}"]
    assert "inputs.0: data/deep/b.csv and the" in problems_of_inputs(folder, "data/deep/b.csv", workspace="data")[0]
    assert problems_of_inputs(folder, "data", workspace="database") == []


def test_a_workspace_that_is_a_file_or_a_link_is_refused(folder):
    (folder / "link").symlink_to("data")
    for name in ("a.csv", "link"):
        assert problems_of_tasks(folder, {}, workspace=name) == [
            "workspace: must be a directory, and no link; something else has that name"
        ]
    assert "git cannot be kept below" in problems_of_tasks(folder, {}, workspace="a:b")[0]
    assert not Path(folder / "sample.work").exists()
