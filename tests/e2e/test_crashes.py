"""The end of the service, asked for or not: agents never survive it, and no work is lost or done twice."""

from __future__ import annotations

import signal
import sqlite3
import time
from contextlib import closing

import pytest

from sortie.core import events as ev
from sortie.core.replay import replay

from .processes import is_alive, wait_for
from .project import Project
from .shell import BLOCKED, FOR_EVER, REVIEW, says

MANY = {"budget": {"per_issue": {"sessions": 50}}}
FIRST_WAITS = (
    f"{says('$SORTIE_ATTEMPT $SORTIE_SESSION_ID')}; [ $SORTIE_ATTEMPT = 1 ] || {{ {BLOCKED}; exit 0; }}; {FOR_EVER}"
)


def resumed(project: Project) -> None:
    """Check that the second run of issue 1 went on where the first was cut short, for the same session."""
    first, second = project.runs("1")
    assert (first.status, first.attempt, second.attempt) == ("cancelled", 1, 2)
    assert second.soft_stop == "blocked"
    assert project.diary() == [f"1 {first.session_id}", f"2 {first.session_id}"]
    assert project.schedule().spent["1"].sessions == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_drains_and_the_next_start_resumes(project, number):
    """Exit code 0, the agents are gone, the session id is kept, the session is not charged."""
    project.workflow(MANY)
    project.add("1", FIRST_WAITS)
    service = project.start()
    service.until(lambda: project.diary())
    service.signal(number)
    assert service.wait() == 0
    assert project.living() == []
    assert project.schedule().running == {}
    assert [item.retry.kind for item in project.schedule().waiting.values()] == ["resume"]
    project.run()
    resumed(project)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_at_once_without_orphans(project, number):
    """An agent that does not listen holds up the drain; the second signal does not wait for it."""
    project.workflow(MANY)
    project.add("1", f"trap '' TERM; {FIRST_WAITS}")
    service = project.start()
    service.until(lambda: project.diary())
    service.signal(number)
    service.until(lambda: "once more to force" in project.output())
    service.signal(number)
    service.wait()
    assert project.living() == []
    project.run()
    resumed(project)


def test_after_kill_the_next_start_ends_the_orphans_and_resumes(project):
    """SIGKILL of the service leaves the agent alive; the next start finds it before anything else."""
    project.workflow(MANY)
    daemon = f"setsid sh -c '{FOR_EVER}' & "
    project.add("1", f"[ $SORTIE_ATTEMPT = 1 ] && {{ {daemon} }}; {FIRST_WAITS}")
    service = project.start()
    service.until(lambda: project.diary())
    service.kill()
    orphans = project.living()
    assert len(orphans) >= 2
    project.run()
    assert not any(is_alive(pid) for pid in orphans)
    assert "left behind by an orchestrator that died" in project.notes("1")
    resumed(project)


def test_an_issue_never_has_two_agents_however_often_the_service_is_killed(project):
    """Each agent holds a lock for as long as it lives; nobody ever finds it taken."""
    project.workflow({**MANY, "agent": {"max_turns": 1}})
    script = f"""exec 9> {project.root}/lock.$SORTIE_ISSUE_ID
    flock -n 9 || {says("TWICE $SORTIE_ISSUE_ID")}
    {says("begin $SORTIE_ISSUE_ID")}
    [ -e {project.root}/gate ] || {{ {FOR_EVER}; }}
    {BLOCKED}"""
    for number in range(3):
        project.add(str(number), script)
    for round_number in range(1, 4):
        service = project.start()
        service.until(lambda expected=3 * round_number: len(project.diary()) >= expected)
        service.kill()
    (project.root / "gate").touch()
    project.run()
    assert not [line for line in project.diary() if "TWICE" in line]
    for number in range(3):
        assert project.runs(str(number))[-1].soft_stop == "blocked"
        assert project.runs(str(number))[-1].attempt == 4
    assert project.schedule().spent["0"].sessions == 1


def test_a_crash_during_the_hand_off_is_made_good_once(project):
    """The verdict is on disk before the transition: killed in between, the next start delivers it exactly once."""
    stop = f"[ -e {project.root}/crashed ] || {{ touch {project.root}/crashed; kill -9 $PPID; }}"
    settings = project.record_tracker_calls(before_transition=stop)
    settings["tracker"].update({"handoff_state": "Review", "comments": {"on_completion": True}})
    project.workflow(settings)
    project.add("1", f"{says('agent')}; {REVIEW}")
    assert project.run() == -signal.SIGKILL
    assert project.state("1") == "To Do"
    assert project.run() == 0
    assert project.state("1") == "Review"
    assert len(project.issue("1")["comments"]) == 1
    assert project.diary().count("agent") == 1
    assert project.only_run("1").soft_stop == "needs-human-review"


def test_one_store_has_one_orchestrator(project):
    """The second is refused, told who holds it, and changes nothing."""
    project.add("1", f"{says('agent')}; {FOR_EVER}")
    first = project.start()
    first.until(lambda: project.diary())
    second = project.start()
    assert second.wait() == 1
    assert f"pid {first.pid}" in project.output().splitlines()[-1]
    assert project.diary() == ["agent"]
    assert len(project.living()) >= 1
    first.stop()


def test_a_retry_far_in_the_future_is_brought_back(project):
    """A clock that was set back must not postpone work for days."""
    project.workflow({**MANY, "agent": {"max_retry_backoff_ms": 60_000}})
    project.add("1", f"{says('run $SORTIE_ATTEMPT')}; [ $SORTIE_ATTEMPT = 1 ] && exit 1; {BLOCKED}")
    service = project.start()
    service.until(lambda: project.schedule().waiting)
    service.stop()
    with closing(sqlite3.connect(project.db_path)) as db, db:
        db.execute("UPDATE retries SET due_at = ?", (time.time() + 10 * 86400,))
    project.workflow(MANY)
    project.run()
    assert "further ahead" in project.events(ev.RetryDue, "1")[0].why
    assert project.runs("1")[-1].soft_stop == "blocked"


def test_the_log_can_be_replayed_after_all_of_this(project):
    """Every decision of two services, one killed, follows from the events before it."""
    project.workflow({**MANY, "agent": {"max_concurrent_agents": 2}})
    for number in range(4):
        project.add(str(number), f"{says('x')}; [ $SORTIE_ATTEMPT = 1 ] && exit 1; {BLOCKED}", priority=number)
    service = project.start()
    service.until(lambda: len(project.diary()) >= 3)
    service.kill()
    project.run()
    wait_for(lambda: len(project.parked()) == 4)
    assert list(replay(project.events(ev.AnyEvent))) == []
