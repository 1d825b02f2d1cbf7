"""An agent that cannot run costs nothing: dispatch is held with the reason, and goes on when the cause is gone."""

from __future__ import annotations

import json
from typing import Any

from sortie.core import events as ev
from sortie.core.policy import Spent

from .shell import BLOCKED, FOR_EVER, says

MANY = 60
BOARD: dict[str, Any] = {
    "tracker": {"in_progress_state": "In Progress", "comments": {"on_dispatch": True, "on_failure": True}}
}


def unspent(project) -> bool:
    schedule = project.schedule()
    return all(spent == Spent() for spent in (*schedule.spent.values(), *schedule.days.values()))


def untouched(project) -> bool:
    return all(record["state"] == "To Do" and not record.get("comments") for record in project.issues())


def skipped(project) -> set[str]:
    return {rule for rule, _ in project.schedule().skips.values()}


def test_without_its_program_nothing_starts_and_nothing_is_spent(project):
    """Sixty issues: none is started, moved, charged or parked; status and why tell the reason and the fix."""
    project.workflow({**BOARD, "agent": {"command": "no-such-agent --go"}})
    for number in range(MANY):
        project.add(str(number))
    assert project.run() == 3
    assert project.events(ev.Claimed) == []
    assert project.parked() == {}
    assert unspent(project)
    assert untouched(project)
    for told in (
        project.sortie("status").stdout,
        project.sortie("why", "T-7").stdout,
        project.sortie("run", "--dry-run").stdout,
    ):
        assert "no-such-agent was not found" in told
        assert "agent.command" in told
    (paused,) = json.loads(project.sortie("status", "--json").stdout)["paused"]
    assert (paused["agent"], paused["kind"]) == ("command", "agent_not_found")


def test_work_begins_by_itself_when_the_program_is_there(project):
    """The service looks for it; nobody has to start it again."""
    program = project.root / "agent"
    project.workflow({"agent": {"command": str(program)}})
    project.add("1", says("worked"))
    service = project.start()
    service.until(lambda: skipped(project) == {"agent-held"})
    program.write_text(f"#!/bin/sh\nexec sh {project.root}/agents/$SORTIE_ISSUE_ID.sh\n")
    program.chmod(0o755)
    service.until(lambda: project.diary() == ["worked"])
    service.stop()


def test_a_script_that_is_not_executable_holds_dispatch_with_the_fix(project):
    script = project.root / "agent.sh"
    script.write_text("#!/bin/sh\n")
    project.workflow({**BOARD, "agent": {"command": "./agent.sh"}})
    project.add("1")
    assert project.run() == 3
    assert project.events(ev.Claimed) == []
    assert untouched(project)
    assert "chmod +x" in project.sortie("why", "T-1").stdout


def test_a_refused_login_holds_dispatch_and_counts_as_no_run(project):
    """No session, no turn and no attempt is spent, no issue moved, no comment written, nothing parked."""
    refused = {"outcome": "auth", "reason": "not logged in"}
    project.workflow({**BOARD, "agent": {"kind": "mock"}, "mock": {"turns": [refused]}})
    for number in range(20):
        project.add(str(number))
    assert project.run() == 3
    runs = [claim.attempt for claim in project.events(ev.Claimed)]
    assert len(runs) == 10 + 2, "those that were under way together, and two that tried again"
    assert set(runs) == {1}
    assert unspent(project)
    assert untouched(project)
    assert project.parked() == {}
    assert "not logged in" in project.sortie("status").stdout
    assert "not logged in" in project.sortie("why", "T-19").stdout


def test_one_run_shows_that_a_login_is_accepted_again_and_all_others_follow(project):
    """Every issue is worked on once, none of them parked, each charged for one session."""
    refused = {"outcome": "auth", "reason": "not logged in"}
    accepted = {"status": "blocked", "reason": "done what I could"}
    project.workflow({"agent": {"kind": "mock"}, "mock": {"turns": [refused, accepted]}})
    for number in range(5):
        project.add(str(number))
    project.run()
    assert set(project.parked().values()) == {("signal", "done what I could")}
    assert len(project.parked()) == 5
    assert {spent.sessions for spent in project.schedule().spent.values()} == {1}
    assert project.schedule().pauses == {}


def test_retry_by_hand_tries_a_refused_login_at_once(project):
    """A person who has logged in need not wait for the next try."""
    refused = {"outcome": "auth", "reason": "not logged in"}
    project.workflow({"agent": {"kind": "mock"}, "mock": {"turns": [refused]}})
    project.add("1")
    service = project.start()
    service.until(lambda: [pause.tries for pause in project.events(ev.ProviderPaused)] == [1, 2, 3, 4])
    assert project.sortie("retry", "--all").returncode == 0
    service.until(lambda: project.schedule().pauses["mock"].tries == 5)
    service.stop()
    times = [pause.at for pause in project.events(ev.ProviderPaused)]
    assert times[-1] < times[3] + 8, "the next try was due eight seconds after the fourth"


def test_a_changed_workflow_is_tried_at_once(project):
    refused = {"turns": [{"outcome": "auth", "reason": "not logged in"}]}
    project.workflow({"agent": {"kind": "mock"}, "mock": refused})
    project.add("1")
    service = project.start()
    service.until(lambda: len(project.events(ev.ProviderPaused)) >= 3)
    project.workflow({"agent": {"kind": "mock"}, "mock": {"turns": [{"status": "blocked"}]}})
    service.until(lambda: project.parked())
    service.stop()
    assert project.schedule().pauses == {}


def test_a_fault_that_only_one_issue_meets_parks_that_issue_and_no_other(project):
    """A script that ends with code 127 looks like a missing program; the others show that it is not."""
    project.workflow({"agent": {"max_concurrent_agents": 1}, "budget": {"per_issue": {"sessions": 9}}})
    project.add("1", "exit 127", priority=1)
    project.add("2", BLOCKED, priority=2)
    project.add("3", BLOCKED, priority=2)
    assert project.run() == 3
    assert {issue: kind for issue, (kind, _) in project.parked().items()} == {
        "1": "error",
        "2": "signal",
        "3": "signal",
    }
    assert project.schedule().spent["1"].sessions == 1, "only the run that counted is charged"


def test_a_restart_tries_an_agent_again_that_could_not_run(project):
    """Whoever mends the login and starts the service anew does not wait."""
    refused = {"turns": [{"outcome": "auth", "reason": "not logged in"}]}
    project.workflow({"agent": {"kind": "mock"}, "mock": refused})
    project.add("1")
    assert project.run() == 3
    project.workflow({"agent": {"kind": "mock"}, "mock": {"turns": [{"status": "blocked"}]}})
    assert project.run() == 3
    assert project.parked()["1"][0] == "signal"
    assert {run.attempt for run in project.runs("1")} == {1}


def test_a_fault_after_a_completed_turn_is_charged(project):
    """Otherwise an agent that works for a turn and is refused in the next would cost money for ever."""
    project.workflow({"agent": {"max_turns": 2}, "budget": {"per_issue": {"sessions": 2}}})
    project.add("1", "[ $SORTIE_TURN = 1 ] && exit 0; exit 127")
    assert project.run() == 3
    assert [run.attempt for run in project.runs("1")] == [1, 2]
    assert project.parked()["1"][0] == "budget"


def test_two_issues_with_a_fault_of_their_own_do_not_keep_others_from_their_work(project):
    """Those that have not met the fault are tried before those that have, whatever their priority."""
    project.workflow({"agent": {"max_concurrent_agents": 2}, "budget": {"per_issue": {"sessions": 9}}})
    for number in (1, 2):
        project.add(str(number), "exit 127", priority=1)
    for number in (3, 4, 5):
        project.add(str(number), BLOCKED, priority=2)
    assert project.run() == 3
    assert {issue: kind for issue, (kind, _) in project.parked().items()} == {
        "1": "error",
        "2": "error",
        "3": "signal",
        "4": "signal",
        "5": "signal",
    }


def test_an_agent_that_runs_silently_is_known_to_work_before_its_turn_ends(project):
    """The others do not wait for a turn that may take an hour."""
    project.workflow({"agent": {"max_concurrent_agents": 2}, "budget": {"per_issue": {"sessions": 9}}})
    go = project.root / "go"
    project.add("1", f"[ -e {go} ] || exit 127; {FOR_EVER}")
    project.add("2", f"[ -e {go} ] || exit 127; {FOR_EVER}")
    service = project.start()
    service.until(lambda: project.schedule().pauses)
    go.touch()
    service.until(lambda: not project.schedule().pauses and len(project.schedule().running) == 2)
    service.stop()


def test_retry_without_an_issue_tries_the_agent(project):
    project.workflow({"agent": {"command": "no-such-agent"}})
    project.add("1")
    assert project.run() == 3
    assert project.sortie("retry").stdout == "The command agent is tried again now.\n"
