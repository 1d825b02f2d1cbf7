"""A plan as a graph: every task where it stands and how, also of one that never ran or whose file is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sortie.plans.plan import Plan
from sortie.reports.plan import PlanReport, load_to_look, plan_report, task_detail
from tests.cli.test_reading_little import statements

PLAN = """\
goal: Write it down.
defaults: {retries: 0, agent: {kind: command, env: [THE_API_KEY]}}
tasks:
  - name: collect
    objective: Collect it.
    success_criteria: [It is there.]
    outputs: [all.txt]
    agent: {command: "echo x | tee outbox/all.txt outbox/summary.md"}
  - name: sort
    objective: "Sort it, not by hunter2-hunter2."
    requirements: [Sort all.]
    success_criteria: [It is sorted.]
    outputs: [{path: sorted.txt, description: All of it.}]
    wait_for: [collect]
    agent: {command: "exit 1"}
  - name: publish
    objective: Publish it.
    success_criteria: [It is published.]
    outputs: [published.txt]
    depends_on: [{task: sort, outputs: [sorted.txt], copy_to: inbox/}]
    agent: {command: "true"}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("THE_API_KEY", "hunter2-hunter2")
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    return path


def loaded(path: Path) -> Plan:
    plan, remark = load_to_look(path)
    assert plan is not None
    assert remark == ""
    return plan


def states(report: PlanReport) -> dict[str, str]:
    return {node.name: node.state for node in report.nodes}


def test_of_a_plan_that_never_ran_nothing_began(file):
    report = plan_report(loaded(file))
    assert states(report) == {"collect": "ready", "sort": "waiting", "publish": "waiting"}
    assert (report.served, report.counts) == (False, {"ready": 1, "waiting": 2})
    assert {(edge.before, edge.after, edge.kind) for edge in report.edges} == {
        ("collect", "sort", "order"),
        ("sort", "publish", "data"),
    }


def test_boxes_stand_apart_within_the_drawing_and_lines_lead_from_one_to_the_next(file):
    report = plan_report(loaded(file))
    boxes = {node.name: node for node in report.nodes}
    assert [boxes[name].layer for name in ("collect", "sort", "publish")] == [0, 1, 2]
    assert all(node.x >= 0 and node.x + node.width <= report.width for node in report.nodes)
    assert all(node.y >= 0 and node.y + node.height <= report.height for node in report.nodes)
    for edge in report.edges:
        assert edge.points[0][0] == boxes[edge.before].x + boxes[edge.before].width
        assert edge.points[-1][0] == boxes[edge.after].x


def test_a_plan_that_ran_is_told_as_it_stands_and_what_its_tasks_took(file):
    run = [sys.executable, "-m", "sortie", "plan", "run", str(file)]
    assert subprocess.run(run, capture_output=True, timeout=50, check=False).returncode == 3
    plan = loaded(file)
    report = plan_report(plan)
    assert states(report) == {"collect": "completed", "sort": "failed", "publish": "blocked"}
    assert next(node.seconds for node in report.nodes if node.name == "collect") > 0
    detail = task_detail(plan, "sort")
    assert detail is not None
    assert detail.objective == "Sort it, not by [redacted]."
    assert (detail.waits_for, detail.waited_for_by) == ({"collect": "completed"}, {"publish": "blocked"})
    assert [(output.path, output.description) for output in detail.outputs] == [("outbox/sorted.txt", "All of it.")]
    assert (detail.agent, detail.node.state, detail.requirements) == ("command", "failed", ("Sort all.",))
    with statements() as asked:
        assert task_detail(plan, "sort") == detail
    assert sum(" FROM retries" in one for one in asked) == 1, "all of it is of one moment"
    file.unlink()
    gone, remark = load_to_look(file)
    assert gone is not None
    assert "is gone; this is the plan as it last ran" in remark
    assert states(plan_report(gone)) == states(report)


def test_inputs_that_did_not_change_are_not_read_for_every_page(file):
    """They may be large, and a page is shown again every few seconds."""
    given = file.parent / "given.txt"
    given.write_text("one")
    file.write_text(
        PLAN.replace("    objective: Collect it.", "    objective: Collect it.\n    inputs: [given.txt]")
    )
    run = [sys.executable, "-m", "sortie", "plan", "run", str(file)]
    assert subprocess.run(run, capture_output=True, timeout=50, check=False).returncode == 3
    assert states(plan_report(loaded(file)))["collect"] == "completed"
    before = given.stat()
    given.write_text("two")
    os.utime(given, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert states(plan_report(loaded(file)))["collect"] == "completed"
    os.utime(given)
    assert states(plan_report(loaded(file)))["collect"] == "outdated"


def test_a_task_that_the_plan_has_not_and_a_file_that_is_no_plan_are_none(file):
    assert task_detail(loaded(file), "nobody") is None
    file.write_text("tasks: 7")
    assert load_to_look(file) == (None, "")
