"""A plan from Python: the same orchestrator, the same events, in a loop of one's own."""

from __future__ import annotations

from contextlib import closing

import pytest
import yaml

import sortie
from sortie.core import events as ev
from sortie.core.replay import replay
from sortie.plans.escalations import put_report
from sortie.plans.standing import standings
from sortie.protocol.error_report import error_report
from sortie.store.connect import connect_readonly
from sortie.store.load import load
from sortie.store.queries import events

DELIVER = "echo $SORTIE_ISSUE_ID > outbox/result.md; echo done > outbox/summary.md"


def write_plan(path, **waits):
    tasks = [
        {
            "name": name,
            "objective": "Do it.",
            "success_criteria": ["done"],
            "outputs": ["result.md"],
            "depends_on": after,
        }
        for name, after in waits.items()
    ]
    agent = {"kind": "command", "command": f"sh -c '{DELIVER}'"}
    path.write_text(yaml.safe_dump({"name": "p", "defaults": {"agent": agent}, "tasks": tasks}))


@pytest.mark.anyio
async def test_a_plan_is_run_by_the_orchestrator_that_runs_issues(tmp_path):
    """BOX-09: and its log replays, as that of any source."""
    write_plan(tmp_path / "plan.yaml", a=[], b=["a"], c=["a"], d=["b", "c"])
    seen: list[ev.AnyEvent] = []
    orchestrator = sortie.Orchestrator.for_plan(tmp_path / "plan.yaml", listeners=[seen.append])
    summary = await orchestrator.run(until_idle=True)
    assert summary.clean and not summary.drained
    plan = sortie.load_plan(tmp_path / "plan.yaml")
    with closing(connect_readonly(plan.store)) as db:
        schedule, log = load(db).schedule, [entry.event for entry in events(db, limit=10_000)]
    assert {name: one.state for name, one in standings(plan, schedule, 0.0).items()} == dict.fromkeys(
        "abcd", "completed"
    )
    claims = [event.issue_id for event in seen if isinstance(event, ev.Claimed)]
    assert claims[0] == "a" and set(claims[1:3]) == {"b", "c"} and claims[3:] == ["d"]
    assert list(replay(log)) == []


@pytest.mark.anyio
async def test_a_dependant_is_freed_in_the_transaction_that_completes_what_it_waited_for(tmp_path):
    """BOX-09: no look at all tasks comes in between, and no crash."""
    write_plan(tmp_path / "plan.yaml", a=[], b=["a"])
    seen: list[ev.AnyEvent] = []
    orchestrator = sortie.Orchestrator.for_plan(tmp_path / "plan.yaml", listeners=[seen.append])
    await orchestrator.run(until_idle=True)
    settled = next(at for at, event in enumerate(seen) if isinstance(event, ev.Settled) and event.issue_id == "a")
    done, _, freed = seen[settled - 1 : settled + 2]
    assert isinstance(done, ev.IssueSeen) and (done.issue_id, done.view.state) == ("a", "completed")
    assert isinstance(freed, ev.IssueSeen) and (freed.issue_id, freed.view.blocked_by) == ("b", ())


@pytest.mark.anyio
async def test_a_look_at_all_tasks_reads_no_inputs(tmp_path):
    """The first one shows every task, and everybody waits for it: what a task is given is read for its own run."""
    (tmp_path / "data").write_text("1")
    task = {"name": "a", "objective": "Do it.", "success_criteria": ["done"], "outputs": ["result.md"]}
    agent = {"kind": "command", "command": "true"}
    text = yaml.safe_dump({"defaults": {"agent": agent}, "tasks": [{**task, "inputs": ["data"]}]})
    (tmp_path / "plan.yaml").write_text(text)
    source = sortie.PlanSource(sortie.load_plan(tmp_path / "plan.yaml"), {})
    (tmp_path / "plan.work").mkdir()
    (tmp_path / "data").unlink()
    looked = (await source.look(source.schedule)).issues["a"]
    assert "cannot be read" not in looked.description
    assert "cannot be read" in (await source.fetch("a")).description


@pytest.mark.anyio
async def test_what_a_death_left_of_a_status_goes_when_the_report_is_put(tmp_path):
    """BOX-12: killed when `status.json` said already that the task had failed; the report is then put again."""
    write_plan(tmp_path / "plan.yaml", a=[])
    plan = sortie.load_plan(tmp_path / "plan.yaml")
    folder = plan.root / "a"
    folder.mkdir(parents=True)
    (folder / "status.json").write_text('{"state": "failed", "written_by": "sortie"}')
    (folder / ".status.json.0123456789abcdef.tmp").write_text('{"state": "pending"}')
    await put_report(plan, "a", error_report("TaskFailed", "It failed.", "", "", ""))
    assert sorted(path.name for path in folder.iterdir()) == ["outbox", "status.json"]
    assert (folder / "outbox" / "error_report.md").exists()
