"""`sortie plan check` and `sortie plan schema`: every problem with its line; a schema that replaces no other."""

from __future__ import annotations

import json
import os

import jsonschema
import pytest
from click.testing import CliRunner

from sortie.cli.plan_file import check_command, schema_command
from sortie.errors import SortieError

GOOD = """\
name: release-notes
max_parallel: 2
defaults: {agent: {kind: mock}}
tasks:
"""
TASK = "- {name: %s, objective: x, success_criteria: [y], outputs: [z], wait_for: [%s]}\n"


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.yaml"
    edges = {"a": "", "b": "", "c": "a, b", "d": "a", "e": "b", "f": "e"}
    path.write_text(GOOD + "".join(TASK % edge for edge in edges.items()))
    return path


def call(command, *words):
    """Exit code and what was printed; errors come out as they are."""
    context = command.make_context("x", [str(word) for word in words])
    runner = CliRunner()
    with runner.isolation() as (out, *_):
        code = command.invoke(context)
        return code, out.getvalue().decode()


def test_a_good_plan_is_told_in_one_line_and_nothing_is_created(plan):
    before = sorted(plan.parent.iterdir())
    said = "release-notes: 6 tasks, 3 layers deep, up to 2 at a time: no problem found.\n"
    assert call(check_command, plan) == (0, said)
    assert sorted(plan.parent.iterdir()) == before


def test_one_task_is_one_task(plan):
    plan.write_text(GOOD + TASK % ("a", ""))
    assert call(check_command, plan)[1].startswith("release-notes: 1 task, 1 layer deep, up to 1 at a time")


def test_every_problem_is_told_with_file_and_line(plan):
    plan.write_text(GOOD.replace("2", "0") + TASK % ("a", "b") + TASK % ('"B\\e[31m"', ""))
    code, out = call(check_command, plan)
    assert code == 2
    assert f"error: {plan}:2: max_parallel: must be a whole number of at least 1, not 0\n" in out
    assert f'error: {plan}:5: tasks.a.wait_for.0: there is no task "b"' in out
    assert out.endswith("errors.\n")
    assert "\x1b" not in out


def test_json_for_programs(plan):
    code, out = call(check_command, plan, "--json")
    assert (code, json.loads(out)) == (0, {"valid": True, "errors": [], "warnings": []})
    plan.write_text(plan.read_text().replace("max_parallel", "max_paralel"))
    code, out = call(check_command, plan, "--json")
    assert (code, json.loads(out)) == (
        2,
        {
            "valid": False,
            "errors": [
                {
                    "file": str(plan),
                    "line": 2,
                    "key": "max_paralel",
                    "message": 'there is no such key of a plan; did you mean "max_parallel"?',
                }
            ],
            "warnings": [],
        },
    )


def test_a_missing_file_is_a_problem_too(tmp_path):
    assert call(check_command, tmp_path / "none.yaml") == (
        2,
        f"error: {tmp_path}/none.yaml: there is no such file\n{tmp_path}/none.yaml cannot be used: 1 error.\n",
    )


def test_the_schema_is_written_and_written_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(schema_command) == (0, "wrote plan.schema.json\n")
    schema = json.loads((tmp_path / "plan.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert call(schema_command, tmp_path / "plan.schema.json")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["plan.schema.json"]


def test_the_schema_goes_to_standard_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out = call(schema_command, "-")
    assert (code, json.loads(out)["title"]) == (0, "A plan of Sortie")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}", b"[1]", b'{"title": "Mine"}', b"[" * 100_000])
def test_a_file_that_is_no_schema_of_a_plan_stays(tmp_path, content):
    path = tmp_path / "mine.json"
    path.write_bytes(content)
    with pytest.raises(SortieError, match=r"is no schema of a plan. Name another file, or add --force."):
        call(schema_command, path)
    assert path.read_bytes() == content
    assert call(schema_command, path, "--force")[0] == 0
    assert json.loads(path.read_bytes())["title"] == "A plan of Sortie"


def test_what_is_no_regular_file_is_neither_opened_nor_replaced(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("target")
    for name in ("fifo", "link", "."):
        with pytest.raises(SortieError, match="is no regular file"):
            call(schema_command, tmp_path / name, "--force")
    assert not (tmp_path / "target").exists()


def test_a_schema_that_cannot_be_written_is_an_error_with_a_fix(tmp_path):
    with pytest.raises(SortieError, match=r"absent/x\.json cannot be written: No such file") as error:
        call(schema_command, tmp_path / "absent" / "x.json")
    assert error.value.fix == "Name another file."
