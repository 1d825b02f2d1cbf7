"""A store is looked at and operated by its path, where its source has no workflow or the workflow is gone."""

from __future__ import annotations

import re

import anyio
import pytest

from sortie import Issue, Orchestrator
from sortie.testing.fake_host import FakeHost, one_turn
from sortie.testing.list_source import ListSource

from ..web.live_server import new_store
from .scene import BLOCK, ask

PLAN = """\
name: p
tasks: [{name: a, objective: do, success_criteria: [done], outputs: [x], agent: {kind: command, command: "true"}}]
"""


def test_the_store_of_a_source_of_ones_own_is_looked_at_and_operated(tmp_path, capsys):
    store = tmp_path / "chores.db"
    items = [Issue(id=name, identifier=name, title=f"Task {name}", state="todo") for name in ("a", "b")]
    source = ListSource(items, tmp_path / "work")
    anyio.run(lambda: Orchestrator(source, [FakeHost(one_turn)], store).run(until_idle=True))

    def say(*words):
        return ask(capsys, *words, "-w", str(store))

    assert {issue["identifier"] for issue in say("status", "--json").json()["parked"]} == {"a", "b"}
    assert "parked" in say("why", "a").out
    assert [run["identifier"] for run in say("history", "b", "--json").json()] == ["b"]
    assert say("unpark", "a").out == "a is free to start again.\n"
    assert [issue["identifier"] for issue in say("status", "--json").json()["parked"]] == ["b"]
    unknown = say("why", "c")
    assert (unknown.code, "c" in unknown.out + unknown.err) == (1, True)


def test_a_workflow_that_is_gone_hides_no_store(scene, say):
    scene.issue(1, BLOCK)
    assert scene.run("run", "--until-idle").returncode == 3
    scene.workflow.unlink()
    shown = say("status")
    assert (shown.code, "T-1" in shown.out) == (0, True)
    assert "is gone; this is" in shown.err
    assert say("unpark", "T-1").code == 0


@pytest.mark.parametrize("command", ["status", "history", "why T-1", "web", "answer T-1 Yes", "token list"])
def test_a_name_that_is_mistyped_leads_to_no_other_store(scene, capsys, command):
    scene.issue(1, BLOCK)
    assert scene.run("run", "--until-idle").returncode == 3
    said = ask(capsys, *command.split(), "-w", str(scene.workflow.with_name("WORKFLOWS.md")))
    assert (said.code, said.out) == (2, "")
    assert "WORKFLOWS.md" in said.err


@pytest.mark.parametrize(
    ("command", "knows_a_store_alone"),
    [("token list", True), ("history", True), ("notify list", False), ("notify test", False), ("status", False)],
)
def test_only_commands_that_know_nothing_but_a_store_take_a_plan(tmp_path, capsys, command, knows_a_store_alone):
    """A sub-command that is called like one of theirs is not one of them."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    said = ask(capsys, *command.split(), "-w", str(plan))
    assert said.code == (1 if knows_a_store_alone else 2)
    assert ("plan.yaml is a plan; see " in said.err) is not knows_a_store_alone


@pytest.mark.parametrize("command", ["web", "status"])
def test_where_there_is_no_workflow_what_there_is_instead_is_named(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    assert "or name another file.\n" in ask(capsys, command).err
    (tmp_path / "CHARTER.md").touch()
    (tmp_path / ".git" / "sortie").mkdir(parents=True)
    before = ask(capsys, command)
    assert (before.code, "peers.db" in before.err) == (2, False)
    assert re.search("`[^`]* turn` makes the store of the agents that share this checkout", before.err)
    new_store(tmp_path / ".git" / "sortie" / "peers.db")
    assert "or name another file, such as .git/sortie/peers.db.\n" in ask(capsys, command).err
    (tmp_path / "plan.yaml").touch()
    assert "such as plan.yaml or .git/sortie/peers.db.\n" in ask(capsys, command).err


@pytest.mark.parametrize(
    ("name", "made_by"), [(".git/sortie/peers.db", "turn` makes it"), ("chores.db", "starts, makes it")]
)
def test_a_store_that_is_not_there_is_not_said_to_be_written_by_hand(tmp_path, capsys, name, made_by):
    said = ask(capsys, "web", str(tmp_path / name))
    assert (said.code, "init" in said.err, made_by in said.err) == (2, False, True)


@pytest.mark.parametrize("command", ["web", "token new", "history", "logs only"])
def test_of_a_plan_that_never_ran_is_said_what_runs_it(tmp_path, capsys, command):
    plan = tmp_path / "plan.yaml"
    missing = ask(capsys, *command.split(), "-w", str(plan))
    assert missing.code == 2 and f"There is no {plan}" in missing.err and "plan new" in missing.err
    plan.write_text("tasks: 7\n")
    broken = ask(capsys, *command.split(), "-w", str(plan))
    assert broken.code == 2 and "tasks" in broken.err
    plan.write_text(PLAN)
    said = ask(capsys, *command.split(), "-w", str(plan))
    assert said.code == 1 and re.search(rf"has not been run yet.* plan run -p {plan}`", said.err)
