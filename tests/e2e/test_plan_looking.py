"""Looking at a plan, and deciding about its tasks, whatever became of its file, its inputs and its neighbours."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from ..web.server_scene import free_port
from .processes import wait_for

GATE = 'until [ -e "$SORTIE_WORKFLOW_DIR/go" ]; do :; done'


@pytest.mark.parametrize("broken", ["tasks: [", None])
def test_a_plan_that_is_broken_or_gone_while_it_runs_can_be_looked_at_and_stopped(plan, broken):
    plan.task("one", f"say begins; {GATE}; deliver")
    running = plan.start()
    plan.until_said("one begins")
    if broken:
        plan.path.write_text(broken)
    else:
        plan.path.unlink()
    done = plan.sortie("status")
    assert "running" in done.stdout and "as it last ran" in done.stderr
    assert "one is running" in plan.sortie("why", "one").stdout
    plan.sortie("stop", "one")
    assert running.wait(30) == 3
    assert plan.sortie("run", code=2).stderr, "it does not begin by what it was"


@pytest.mark.parametrize("named", [(), (".",), ("plan.yaml",)])
def test_the_link_into_the_dashboard_of_a_plan_is_revoked_as_the_log_says(plan, named):
    plan.task("one", f"{GATE}; deliver")
    running = plan.start(*named, "--port", str(free_port()))
    wait_for(lambda: "token revoke" in plan.log())
    _, command, _ = re.split("`.* -m (sortie token revoke.*)`", plan.log())
    revoked = subprocess.run(
        [sys.executable, "-m", *command.split(), "--all"], cwd=plan.root, capture_output=True, text=True
    )
    assert (revoked.returncode, revoked.stdout) == (0, "Revoked 1 token.\n")
    (plan.root / "go").touch()
    assert running.wait(30) == 0


def test_of_a_store_that_is_that_of_a_plan_the_commands_of_plans_are_named(plan):
    plan.task("one", "exit 3", when_failed="escalate")
    plan.run(3)

    def said(command: str) -> str:
        words = [sys.executable, "-m", "sortie", *command.split(), "-w", str(plan.store)]
        return subprocess.run(words, cwd=plan.root, capture_output=True, text=True).stdout

    assert "sortie plan retry one`" in said("why one")
    status = said("status")
    assert "sortie plan run` starts it" in status and "sortie plan retry TASK`" in status
    assert "unpark" not in status


def test_inputs_that_vanished_keep_nobody_from_looking(plan):
    (plan.root / "data").write_text("x")
    plan.task("one", inputs=["data"])
    plan.run()
    (plan.root / "data").unlink()
    assert "outdated" in plan.sortie("status").stdout
    plan.sortie("why", "one")
    plan.sortie("collect", code=None)
    assert "data" in plan.sortie("run", code=2).stderr


def test_what_the_next_run_does_again_is_shown_before(plan):
    """BOX-12, TBX-12"""
    plan.task("one")
    plan.run()
    assert plan.states() == {"one": "completed"}
    plan.task("one", objective="Do it otherwise.")
    assert plan.states() == {"one": "outdated"} and "does it again" in plan.note("one")


def test_two_plans_cannot_have_one_workspace(plan):
    plan.plan(workspace="shared")
    plan.task("one")
    plan.run()
    other = plan.root / "other.yaml"
    other.write_text(plan.path.read_text())
    for words in (("run",), ("status",), ("retry", "one")):
        done = plan.sortie(*words, "-p", "other.yaml", code=2)
        assert "is the workspace of" in done.stderr and "plan.yaml" in done.stderr
    plan.path.unlink()  # a plan that was renamed is the same
    plan.sortie("run", "-p", "other.yaml")


def test_a_changed_input_frees_one_that_waited_for_a_person(plan):
    (plan.root / "data").write_text("bad")
    plan.task("asks", "grep -q good inbox/data || exit 1; deliver", inputs=["data"], when_failed="escalate")
    plan.run(3)
    assert plan.states() == {"asks": "escalated"}
    (plan.root / "data").write_text("good")
    plan.run()


def test_a_limit_given_by_hand_outlives_a_change_of_the_plan(plan):
    for name in ("a", "b"):
        plan.task(name, f"say begins; {GATE}; deliver")
    running = plan.start("--max-parallel", "1")
    plan.until_said("a begins")
    plan.task("c", "say begins; deliver")
    wait_for(lambda: "c" in plan.states())
    wait_for(lambda: "the plan changed" in plan.log())
    plan.sortie("status")
    assert plan.diary() == ["a begins"]
    (plan.root / "go").touch()
    assert running.wait(30) == 0


def test_only_what_can_be_decided_is_left_to_a_person(plan):
    plan.task("bad", "exit 1")
    plan.task("with", wait_for=[{"task": "bad", "on_failure": "fail"}])
    told = plan.sortie("run", code=3).stdout
    assert "Left to you: bad." in told


def test_a_damaged_store_is_named_in_a_sentence(plan):
    plan.task("one")
    plan.run()
    content = bytearray(plan.store.read_bytes())
    content[4096:] = b"garbage!" * ((len(content) - 4096) // 8)
    for part in plan.work.glob(".sortie.db-*"):
        part.unlink()
    plan.store.write_bytes(content)
    for words in (("status",), ("why", "one"), ("run",), ("retry", "one")):
        done = plan.sortie(*words, code=1)
        assert str(plan.store) in done.stderr and "unforeseen" not in done.stderr, done.stderr
