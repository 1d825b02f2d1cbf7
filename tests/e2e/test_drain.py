"""Asked to stop while others are signalled too, or while the tracker keeps us waiting."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from sortie.core import events as ev

from .project import Project
from .shell import FOR_EVER, REVIEW, says

MANY = {"budget": {"per_issue": {"sessions": 50}}}
AT_WORK = f"[ $SORTIE_ATTEMPT = 1 ] || {{ {REVIEW}; exit 0; }}; {says('pid $$')}; {FOR_EVER}"


@pytest.fixture
def hold(project: Project) -> Path:
    """While this file exists the tracker answers nobody; its neighbour `hold.reached` shows that somebody waits."""
    return project.root / "hold"


def reached(hold: Path) -> bool:
    return hold.with_name("hold.reached").exists()


def agent_of(project: Project) -> int:
    return next((int(line.split()[1]) for line in project.diary() if line.startswith("pid ")), 0)


def drained(project: Project) -> None:
    """Check that issue 1 was cut short by us and by nobody else, and that nobody waited for the tracker."""
    assert project.living() == []
    (stopping,) = project.events(ev.Stopping)
    (ended,) = project.events(ev.RunEnded)
    assert (stopping.cause, ended.status, ended.stop) == ("shutdown", "cancelled", "shutdown")
    assert [item.retry.kind for item in project.schedule().waiting.values()] == ["resume"]
    assert project.schedule().spent["1"].sessions == 0
    assert "did not answer" not in project.notes()


@pytest.mark.parametrize("hangs", [False, True], ids=["", "tracker-hangs"])
@pytest.mark.parametrize("agent_too", [False, True], ids=["service", "service-and-agent"])
def test_a_stop_is_ours_whoever_else_is_signalled_and_whatever_we_wait_for(project, hold, hangs, agent_too):
    """It is on record before anything happens to an agent; one that dies of the same signal, even first, did not
    fail."""
    project.workflow({**MANY, **project.record_tracker_calls(hold=str(hold))})
    project.add("1", AT_WORK)
    service = project.start()
    agent = service.until(lambda: agent_of(project))
    if hangs:
        hold.touch()
        service.until(lambda: reached(hold))
    service.signal(signal.SIGSTOP)
    if agent_too:
        os.kill(agent, signal.SIGTERM)
    service.signal(signal.SIGTERM)
    service.signal(signal.SIGCONT)
    assert service.wait() == 0
    drained(project)


def test_a_run_that_has_not_begun_is_given_up_while_the_tracker_hangs(project, hold):
    """Nothing is prepared and nothing is moved for an agent that will not start."""
    calls = project.record_tracker_calls(hold=str(hold), on_fetch_issue=f"touch {hold}")
    calls["tracker"]["in_progress_state"] = "In Progress"
    project.workflow({**MANY, **calls})
    project.add("1", AT_WORK)
    service = project.start()
    service.until(lambda: reached(hold))
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    drained(project)
    assert project.state("1") == "To Do"
    assert project.events(ev.WorkspaceMade) == []


def test_a_drain_during_recovery_leaves_the_rest_to_the_next_start(project, hold):
    """The orphans are ended; the claims, which need the tracker, stay as they were."""
    project.workflow({**MANY, **project.record_tracker_calls(hold=str(hold))})
    project.add("1", AT_WORK)
    service = project.start()
    service.until(lambda: agent_of(project))
    service.kill()
    hold.touch()
    service = project.start()
    service.until(lambda: reached(hold))
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    assert project.living() == []
    assert "did not answer" not in project.notes()
    assert [claim.stop for claim in project.schedule().running.values()] == [""]
    hold.unlink()
    project.run()
    assert [run.status for run in project.runs("1")] == ["cancelled", "succeeded"]


def test_a_signal_that_somebody_has_us_ignore_is_ignored(project):
    """`nohup sortie run &` goes on when its terminal is closed."""
    project.prefix = ["nohup"]
    project.workflow(MANY)
    project.add("1", f"{says('first')}; {FOR_EVER}")
    service = project.start()
    service.until(project.diary)
    service.signal(signal.SIGHUP)
    project.add("2", f"{says('second')}; {REVIEW}")
    service.until(lambda: "second" in project.diary())
    assert service.stop() == 0
