"""What a person decides about tasks while their plan does not run: it is said, done, and holds for the next run."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from .scene import ask, wait_until

AGENT = """\
#!/bin/sh
grep -q good inbox/data.txt || { echo "the data is bad" >&2; exit 1; }
cp inbox/data.txt outbox/result.txt
echo done > outbox/summary.md
"""
PLAN = """\
defaults: {retries: 0}
tasks:
  - name: first
    objective: Use the data.
    inputs: [data.txt]
    success_criteria: [It is used.]
    outputs: [result.txt]
    agent: {kind: command, command: ./agent.sh}
  - name: second
    objective: Use the result.
    success_criteria: [It is used.]
    outputs: [result.txt]
    depends_on: [{task: first, copy_to: inbox/, outputs: [result.txt]}]
    agent: {kind: command, command: "cp inbox/result.txt outbox/ && echo done > outbox/summary.md"}
"""


class FailedPlan:
    """Its first task failed for a bad input, and the second waits for it."""

    def __init__(self, directory, capsys):
        self._capsys = capsys
        self.file = directory / "plan.yaml"
        self.good = directory / "good.txt"
        self.good.write_text("good\n")
        (directory / "data.txt").write_text("bad\n")
        (directory / "agent.sh").write_text(AGENT)
        (directory / "agent.sh").chmod(0o755)
        self.file.write_text(PLAN)
        self.ended = self.run()

    def run(self):
        argv = [sys.executable, "-m", "sortie", "plan", "run", str(self.file)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=50, check=False)

    def ask(self, verb, *words):
        return ask(self._capsys, "plan", verb, *words, "-p", str(self.file))

    def states(self):
        return {task["task"]: task["state"] for task in json.loads(self.ask("status", "--json").out)["tasks"]}


@pytest.fixture
def plan(tmp_path, capsys):
    return FailedPlan(tmp_path, capsys)


def test_a_corrected_input_opens_a_failed_task_again(plan):
    """BOX-07: fix and retry, while nobody works on the plan."""
    said = plan.ask("fix", "first", "--input", f"{plan.good}=data.txt")
    assert (said.code, said.out, said.err) == (0, "first is tried again.\n", "")
    assert plan.states() == {"first": "ready", "second": "waiting"}
    assert plan.run().returncode == 0
    assert plan.states() == {"first": "completed", "second": "completed"}


def test_a_run_that_leaves_something_says_what_and_how_to_decide(plan):
    assert plan.ended.returncode == 3
    left = plan.ended.stdout.splitlines()[-1]
    assert left.startswith("Left to you: first. `")
    assert f"sortie plan why first -p {plan.file}` tells what happened" in left
    said = plan.ask("why", "first").out.splitlines()[0]
    assert said.startswith("first failed: The agent ended with exit code 1: the data is bad. `")


@pytest.mark.parametrize("verb", [("why",), ("retry",), ("skip",), ("fix", "--input", "x"), ("accept",)])
def test_a_task_that_is_not_there_is_refused_with_the_one_that_is_meant(plan, verb):
    said = plan.ask(*verb, "frist")
    assert (said.code, said.err) == (1, 'sortie: The plan has no task frist; did you mean "first"?\n')


def test_what_an_orchestrator_left_running_is_named_so_with_what_resumes_it(tmp_path, capsys):
    """A task that was at work when the orchestrator was killed is stale, until the next run."""
    plan = FailedPlan(tmp_path, capsys)
    (tmp_path / "agent.sh").write_text("#!/bin/sh\n: > ../../begun\nexec sleep 60\n")
    plan.ask("retry", "first")
    argv = [sys.executable, "-m", "sortie", "plan", "run", str(plan.file)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as service:
        wait_until((tmp_path / "begun").exists)
        service.kill()
    assert plan.states() == {"first": "stale", "second": "waiting"}
    assert "when the orchestrator died" in plan.ask("status").out
    assert "● first   stale" in plan.ask("graph").out
    (tmp_path / "agent.sh").write_text(AGENT.replace("good", "bad"))
    assert plan.run().returncode == 0


def test_what_a_change_touches_is_said_before_it_is_done(plan):
    """BOX-12: the changed one, and those that follow if they get something else."""
    (plan.file.parent / "data.txt").write_text("good\n")
    assert plan.run().returncode == 0
    (plan.file.parent / "data.txt").write_text("good, but different\n")
    assert [line.split(maxsplit=2)[1:] for line in plan.ask("run", "--dry-run").out.splitlines()[1:]] == [
        ["outdated", "would be done again: what it is asked for, or given, changed"],
        ["outdated", "would be done again if what it gets changes"],
    ]
    assert plan.run().stderr.splitlines()[:2] == [
        "To be done again: first (what it is asked for, or given, changed).",
        "After that, if what they get changes: second.",
    ]
    assert plan.run().stderr.count("To be done again") == 0


@pytest.mark.parametrize("name", ["instructions.md", "Instructions.md/x", "dependencies.json", ".received.json/x"])
def test_what_is_made_from_the_plan_is_no_input_to_correct(plan, name):
    said = plan.ask("fix", "first", "--input", f"{plan.good}={name}")
    assert said.code == 1 and "is made from the plan" in said.err
    assert not (plan.file.with_suffix(".work") / ".fixes").exists()


def test_a_correction_that_cannot_be_put_leaves_nothing_behind(plan):
    """Half a file, wherever it lay, would be one more input."""
    fixes = plan.file.with_suffix(".work") / ".fixes"
    fixes.mkdir()
    (fixes / "first").write_text("no directory")
    said = plan.ask("fix", "first", "--input", f"{plan.good}=data.txt")
    assert said.code == 1 and "cannot take the place of data.txt" in said.err
    assert [path.name for path in fixes.iterdir()] == ["first"]


def test_an_agent_of_the_plan_decides_nothing_about_its_tasks(tmp_path, capsys):
    """Neither directly nor by a shell that dropped its variables; nor does it put a correction into place first."""
    plan = FailedPlan(tmp_path, capsys)
    fix = "fix second --input good.txt=result.txt"
    decisions = ("accept second", "skip second", "retry second", "stop second", fix)
    sortie = [f"{sys.executable} -m sortie plan {one} -p {plan.file}" for one in decisions]
    said = tmp_path / "said"
    lines = [f"cd {tmp_path}", *(f"{how}{one} 2>> {said}" for one in sortie for how in ("", "env -i PATH=$PATH "))]
    (tmp_path / "agent.sh").write_text("#!/bin/sh\n" + "\n".join(lines) + "\nexit 1\n")
    plan.ask("retry", "first")
    assert plan.run().returncode == 3
    refused = [line for line in said.read_text().splitlines() if line.startswith("sortie: Only a person may ")]
    verbs = [one.split()[0] for one in decisions for _ in range(2)]
    assert [line.split()[5] for line in refused] == verbs
    assert " a task, and this command runs inside a run of the same plan. " in refused[0]
    assert plan.states() == {"first": "failed", "second": "blocked"}
