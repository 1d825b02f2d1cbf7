"""A workflow that changes while the service runs: what needs a restart waits for it, the rest does not."""

from __future__ import annotations

from sortie.core import events as ev

from .project import merged
from .shell import REVIEW, says

WAIT = 'while [ ! -e "$SORTIE_WORKFLOW_DIR/go" ]; do sleep 0.02; done'


def test_what_needs_a_restart_changes_nothing_until_then(project):
    """Logs, sockets, archives and workspaces of new runs are where those of the old ones are."""
    recording = project.record_tracker_calls()
    broker = {"tools": {"credentials": "broker"}}
    project.workflow(broker)
    project.add("1", f"echo at work; {WAIT}; {REVIEW}")
    service = project.start()
    service.until(lambda: project.events(ev.TurnStarted, "1"))
    elsewhere = {"db_path": "elsewhere/other.db", "workspace": {"root": "elsewhere/workspaces"}}
    project.workflow(merged(merged(broker, recording), elsewhere))
    service.until(lambda: "after a restart: db_path, tracker.kind, workspace.root" in project.notes())
    project.add("2", f"echo at work; {WAIT}")
    service.until(lambda: project.events(ev.TurnStarted, "2"))
    service.until(lambda: project.run_log().count("at work") == 2)
    project.edit("2", state="Done")
    service.until(lambda: project.events(ev.WorkspaceGone, "2"))
    (project.root / "go").touch()
    service.until(lambda: project.events(ev.Settled, "1"))
    assert service.stop() == 0
    assert not (project.root / "elsewhere").exists()
    assert project.workspace("1").is_dir()
    logs = {path.stem for path in project.db_path.with_suffix(".logs").glob("*.log")}
    assert logs == {claim.run_id for claim in project.events(ev.Claimed)}
    assert list(project.db_path.with_suffix(".archive").iterdir())
    assert not [line for line in project.diary() if line.startswith("tracker ")], "the tracker stays too"


def test_a_tracker_that_is_exchanged_is_closed_when_no_run_uses_it_any_more(project):
    project.workflow(project.record_tracker_calls(name="first"))
    project.add("1", f"{WAIT}; {REVIEW}")
    service = project.start()
    service.until(lambda: project.events(ev.TurnStarted, "1"))
    project.workflow(merged(project.record_tracker_calls(), {"recording": {"name": "second"}}))
    service.until(lambda: "new runs follow it" in project.notes(level="info"))
    project.add("2", f"{says('2 is at work')}; {REVIEW}")
    service.until(lambda: project.events(ev.Settled, "2"))
    assert "tracker aclose first" not in project.diary(), "the run of issue 1 began with it"
    (project.root / "go").touch()
    service.until(lambda: "tracker aclose first" in project.diary())
    assert service.stop() == 0
    assert [line for line in project.diary() if "aclose" in line] == [
        "tracker aclose first",
        "tracker aclose second",
    ]
    assert project.events(ev.Settled, "1")
