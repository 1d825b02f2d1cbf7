"""Who runs when: blockers, priorities, slots, and issues that change under a running agent."""

from __future__ import annotations

import tarfile

import pytest

from sortie.core import events as ev

from .project import Project
from .shell import BLOCKED, FOR_EVER, REVIEW, says


def test_a_blocked_issue_waits_for_its_blocker(project):
    """It starts as soon as the blocker is done, and `why` names the blocker until then."""
    project.add("1", f"{says('first')}; {BLOCKED}")
    project.add("2", f"{says('second')}; {BLOCKED}", blocked_by=[{"id": "1", "identifier": "T-1"}])
    service = project.start()
    service.until(lambda: project.schedule().skips.get("2", ("",))[0] == "blocked-by" and project.runs("1"))
    assert "T-1" in project.sortie("why", "T-2").stdout
    assert project.diary() == ["first"]
    project.edit("1", state="Done")
    service.until(lambda: project.runs("2"))
    service.stop()
    assert project.diary() == ["first", "second"]


def test_issues_start_in_the_order_of_priority_and_age(project):
    """Priority first, then the oldest; no priority comes last."""
    project.workflow({"agent": {"max_concurrent_agents": 1}})
    script = f"{says('$SORTIE_ISSUE_ID')}; {BLOCKED}"
    project.add("none", script)
    project.add("young", script, priority=2, created_at="2026-02-01T00:00:00Z")
    project.add("old", script, priority=2, created_at="2026-01-01T00:00:00Z")
    project.add("urgent", script, priority=1)
    project.run()
    assert project.diary() == ["urgent", "old", "young", "none"]


def test_slots_bound_all_runs_and_those_of_each_state(project):
    """Two in all, one of them in the state that has a limit of its own."""
    project.workflow({"agent": {"max_concurrent_agents": 2, "max_concurrent_agents_by_state": {"to do": 1}}})
    gate = project.root / "gate"
    script = f"{says('$SORTIE_ISSUE_ID')}; while [ ! -e {gate} ]; do sleep 0.05; done; {BLOCKED}"
    for number in range(3):
        project.add(f"todo{number}", script, priority=1)
    for number in range(2):
        project.add(f"progress{number}", script, state="In Progress", priority=2)
    service = project.start(until_idle=True)
    service.until(lambda: len(project.diary()) == 2)
    reasons = [(skip.issue_id, skip.rule) for skip in project.events(ev.Skipped)][:3]
    assert sorted(project.diary()) == ["progress0", "todo0"]
    assert reasons == [("todo1", "no-state-slot"), ("todo2", "no-state-slot"), ("progress1", "no-slot")]
    gate.touch()
    service.wait()
    assert len(project.diary()) == 5
    assert most_at_once(project) == 2


# -- items that do not follow the workflow in everything --------------------------------------------------------


def test_an_issue_names_its_agent_its_turns_and_its_limits(project):
    """The rest of the issues follow the workflow, which has a block for the other kind."""
    project.workflow({"mock": {"turns": [{"input_tokens": 100}]}, "budget": {"per_issue": {"sessions": 1}}})
    project.add("1", BLOCKED)
    project.add("2", agent={"kind": "mock", "max_turns": 3})
    project.add("3", agent={"kind": "mock", "max_turns": 9, "limits": {"tokens": 150}})
    assert project.run() == 3
    runs = {issue_id: project.runs(issue_id)[0] for issue_id in "123"}
    assert {key: run.agent for key, run in runs.items()} == {"1": "command", "2": "mock", "3": "mock"}
    assert (runs["2"].turns, runs["3"].turns) == (3, 2)
    assert "all of 150 tokens used" in project.parked()["3"][1]


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [({"kind": "robot"}, 'There is no agent of kind "robot"'), ({"model": "large"}, "command.model")],
)
def test_an_issue_whose_agent_does_not_exist_is_parked_alone(project, choice, sentence):
    """It costs one session, not one after the other, and holds nobody up."""
    project.add("1", agent=choice)
    project.add("2", BLOCKED)
    assert project.run() == 3
    assert len(project.runs("1")) == len(project.runs("2")) == 1
    kind, reason = project.parked()["1"]
    assert kind == "error"
    assert sentence in reason


def test_what_waits_for_an_issue_that_failed_does_not_start(project):
    """A failed dependency is not a finished one."""
    project.workflow({"tracker": {"terminal_states": ["Done", "Cancelled"], "failed_states": ["cancelled"]}})
    project.add("1", state="Cancelled")
    project.add("2", BLOCKED, blocked_by=["T-1"])
    assert project.run() == 3
    assert project.runs("2") == []
    assert "T-1 (Cancelled)" in project.sortie("why", "T-2").stdout


# -- what a person starts ---------------------------------------------------------------------------------------


def test_a_person_starts_by_its_name_what_no_rule_would_start_and_it_stays_parked(project):
    """Blocked stays blocked, wherever the issue is; `unpark` lets it go on there."""
    project.workflow({"budget": {"per_issue": {"sessions": 9}}})
    project.add("1", f"{says('$SORTIE_ATTEMPT')}; {BLOCKED}", state="Backlog")
    service = project.start()
    service.until(lambda: project.sortie("start", "T-1").returncode == 0)
    service.until(lambda: "1" in project.parked())
    service.stop()
    assert project.run() == 3
    assert project.parked()["1"][0] == "signal"
    assert project.sortie("unpark", "T-1").returncode == 0
    assert project.run() == 3
    assert project.diary() == ["1", "2"]


def test_a_start_that_was_asked_for_before_is_made_though_there_is_nothing_else_to_do(project):
    project.workflow({"tracker": {"handoff_state": "Review"}})
    project.add("1", REVIEW, state="Backlog")
    assert project.run() == 0
    assert project.sortie("start", "T-1", "T-2").returncode == 1  # there is no T-2
    assert project.run() == 0
    assert project.state("1") == "Review"
    assert len(project.runs("1")) == 1


def test_a_run_that_a_person_started_ends_with_its_issue(project):
    """It goes on where the issue was, and is stopped when that is closed or gone."""
    for issue_id in "12":
        project.add(issue_id, f"{says('$SORTIE_ISSUE_ID')}; {FOR_EVER}", state="Backlog")
    service = project.start()
    service.until(lambda: project.sortie("start", "T-1", "T-2").returncode == 0)
    service.until(lambda: len(project.diary()) == 2)
    project.edit("1", state="Done")
    project.write_issues([record for record in project.issues() if record["id"] != "2"])
    service.until(lambda: project.runs("1") and project.runs("2"))
    service.stop()
    assert [project.runs(issue_id)[0].status for issue_id in "12"] == ["cancelled", "cancelled"]
    assert project.schedule().waiting == {}


def most_at_once(project: Project) -> int:
    running = most = 0
    for event in project.events(ev.AnyEvent):
        running += isinstance(event, ev.Claimed) - isinstance(event, ev.Settled)
        most = max(most, running)
    return most


def test_an_issue_that_leaves_the_tracker_stops_its_run(project):
    """Gone is an order to stop: the agent is ended, and nothing is tried again."""
    project.add("1", f"{says('started')}; {FOR_EVER}")
    service = project.start()
    service.until(lambda: project.diary())
    project.write_issues([])
    service.until(lambda: project.runs("1"))
    assert project.living() == []
    service.stop()
    run = project.only_run("1")
    assert (run.status, run.error) == ("cancelled", "the issue is no longer in the tracker")
    assert project.schedule().waiting == {}
    assert project.parked() == {}


def test_an_issue_that_is_done_stops_its_run_and_its_workspace_is_archived(project):
    """Everything the agent made is in the archive, untracked files too, before the directory goes."""
    project.add("1", f"git init -q 2>/dev/null; echo work > untracked; {says('started')}; {FOR_EVER}")
    service = project.start()
    service.until(lambda: project.diary())
    project.edit("1", state="Done")
    gone = service.until(lambda: project.events(ev.WorkspaceGone))
    service.stop()
    assert project.only_run("1").status == "cancelled"
    assert project.only_run("1").error == "the issue moved to Done"
    assert not project.workspace("1").exists()
    assert project.living() == []
    with tarfile.open(gone[0].archive) as archive:
        kept = archive.extractfile("T-1/untracked")
        assert kept and kept.read() == b"work\n"


def test_a_finite_run_waits_for_its_own_cleaning_up(project):
    """`--until-idle` does not leave a workspace half removed."""
    project.add("1", f"echo work > kept; {BLOCKED}")
    project.run()
    project.edit("1", state="Done")
    assert project.run() == 0
    assert not project.workspace("1").exists()
    assert len(project.events(ev.WorkspaceGone)) == 1


def test_an_issue_that_is_taken_out_of_the_active_states_stops_but_keeps_its_workspace(project):
    """Waiting is neither active nor done."""
    project.add("1", f"touch kept; {says('started')}; {FOR_EVER}")
    service = project.start()
    service.until(lambda: project.diary())
    project.edit("1", state="Waiting")
    service.until(lambda: project.runs("1"))
    service.stop()
    assert project.only_run("1").status == "cancelled"
    assert (project.workspace("1") / "kept").exists()
    assert project.living() == []


def test_an_agent_that_moves_its_own_issue_to_the_hand_off_state_ends_its_turn_in_peace(project):
    """The agent's own hand-off is not taken for somebody else's order to stop."""
    project.workflow({"tracker": {"handoff_state": "Review"}})
    gate = project.root / "gate"
    project.add("1", f"{says('started')}; while [ ! -e {gate} ]; do sleep 0.05; done; {says('ended')}")
    service = project.start(until_idle=True)
    service.until(lambda: project.diary())
    project.edit("1", state="Review")
    service.until(lambda: any(seen.view.state == "Review" for seen in project.events(ev.IssueSeen, "1")))
    gate.touch()
    assert service.wait() == 0
    assert project.diary() == ["started", "ended"]
    assert project.only_run("1").status == "succeeded"


def test_the_in_progress_transition_and_comments_are_written_and_count_as_ours(project):
    """People see in the tracker that work began and how it ended; none of it frees a parked issue."""
    project.workflow(
        {
            "tracker": {
                "in_progress_state": "In Progress",
                "handoff_state": "Review",
                "comments": {"on_dispatch": True, "on_completion": True, "on_failure": True},
            }
        }
    )
    project.add("1", REVIEW)
    project.add("2", BLOCKED)
    project.add("3", "echo broken; exit 1")
    project.run()
    project.run()
    assert [project.state(i) for i in ("1", "2", "3")] == ["Review", "In Progress", "To Do"]
    bodies = {i: [c["body"] for c in project.issue(i)["comments"]] for i in ("1", "2", "3")}
    assert [len(found) for found in bodies.values()] == [2, 2, 1], "an agent that failed at once was never at work"
    assert "`blocked`" in bodies["2"][1]
    assert "exit code 1: broken" in bodies["3"][0]
    assert len(project.runs("2")) == 1


def test_a_comment_claims_no_more_than_is_known(project):
    """An agent that ended without a signal may have done anything."""
    project.workflow({"tracker": {"comments": {"on_completion": True}}})
    project.add("1")
    project.run()
    (comment,) = project.issue("1")["comments"]
    assert "ended its turns without a signal" in comment["body"]
    assert "completed its work" not in comment["body"]


def test_an_issue_is_in_progress_while_its_agent_is_at_work(project):
    """Tokens show that it is; a silent one is believed after a few seconds."""
    project.workflow(
        {
            "tracker": {"in_progress_state": "In Progress"},
            "agent": {"kind": "mock"},
            "mock": {"turns": [{"input_tokens": 10, "outcome": "hang"}]},
        }
    )
    project.add("1")
    service = project.start()
    service.until(lambda: project.state("1") == "In Progress")
    service.stop()
    project.workflow({"tracker": {"in_progress_state": "In Progress"}})
    project.add("2", FOR_EVER)
    service = project.start()
    service.until(lambda: project.state("2") == "In Progress")
    service.stop()


def test_an_agent_that_moved_its_own_issue_is_not_contradicted(project):
    """The in-progress transition is for issues that are where they were when the run began."""
    project.workflow({"tracker": {"in_progress_state": "In Progress", "handoff_state": "Review"}})
    move = (
        "import json, os; p = os.environ['SORTIE_WORKFLOW_DIR'] + '/issues.json'; d = json.load(open(p));"
        "d[0]['state'] = 'Review'; open(p + '.new', 'w').write(json.dumps(d)); os.rename(p + '.new', p)"
    )
    project.add("1", f'python3 -c "{move}"')
    assert project.run() == 0
    assert project.state("1") == "Review"
    assert "In Progress" not in [seen.view.state for seen in project.events(ev.IssueSeen, "1")]


def test_an_agent_whose_issue_is_closed_may_end_its_turn_and_begins_no_other(project):
    """It may have closed the issue itself: it is not cut off in the sentence in which it says so."""
    gate = project.root / "gate"
    project.add("1", f"while [ ! -e {gate} ]; do sleep 0.05; done; {says('last words')}")
    service = project.start()
    service.until(lambda: project.events(ev.TurnStarted, "1"))
    project.edit("1", state="Done")
    service.until(lambda: project.events(ev.Stopping, "1"))
    gate.touch()
    (ended,) = service.until(lambda: project.events(ev.RunEnded, "1"))
    service.stop()
    assert project.diary() == ["last words"]
    assert (ended.status, ended.stop, ended.turns) == ("succeeded", "", 1)


@pytest.mark.parametrize(("verb", "parked"), [("stop", True), ("retry", False)])
def test_an_operator_stops_a_run_or_hurries_a_retry(project, verb, parked):
    """Commands reach the running service and are answered."""
    project.workflow({"budget": {"per_issue": {"sessions": 9}}, "agent": {"max_retry_backoff_ms": 60_000}})
    script = FOR_EVER if verb == "stop" else f"[ $SORTIE_ATTEMPT = 1 ] && exit 1; {BLOCKED}"
    project.add("1", f"{says('$SORTIE_ATTEMPT')}; {script}")
    service = project.start()
    service.until(lambda: project.diary() and (verb == "stop" or project.schedule().waiting))
    answer = project.sortie(verb, "T-1")
    assert answer.returncode == 0, answer.stderr
    service.until(lambda: project.parked())
    service.stop()
    assert project.living() == []
    assert (project.parked()["1"][0] == "operator") == parked
    assert project.runs("1")[-1].attempt == (1 if verb == "stop" else 2)
