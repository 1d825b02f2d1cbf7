"""What a person decides about tasks while their plan does not run: it is said, done, and holds for the next run."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from .scene import ask

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
