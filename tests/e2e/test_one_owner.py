"""Two services never share workspaces, whatever becomes of their stores; one that lost its store ends."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from sortie.core import events as ev

from .processes import is_alive
from .project import Project, merged
from .shell import BLOCKED, FOR_EVER, says

WAITS = f"{says('working')}; while :; do sleep 0.05; done"


@pytest.fixture
def working(project):
    """A service whose agent for T-1 works until it is ended."""
    project.add("1", WAITS)
    service = project.start()
    service.until(lambda: "working" in project.diary())
    return service


def second_workflow(project: Project, **settings) -> str:
    (project.root / "second").mkdir()
    front = merged({"workspace": {"root": "../workspaces"}, "file": {"path": "../issues.json"}}, settings)
    original = project.workflow_path
    project.workflow_path = project.root / "second" / "WORKFLOW.md"
    project.workflow(front)
    project.workflow_path = original
    return "second/WORKFLOW.md"


def test_a_second_workflow_on_the_same_root_is_refused_with_the_holder(project, working):
    """Another store is no way to run the same issues twice."""
    second = second_workflow(project)
    refused = project.sortie("run", second, "--until-idle")
    assert refused.returncode == 1
    assert f"pid {working.pid}" in refused.stderr
    assert f"workflow {project.workflow_path}" in refused.stderr
    assert f"store {project.db_path}" in refused.stderr
    assert "workspace.root of its own" in refused.stderr
    assert not (project.root / "second" / ".sortie.db").exists(), "nothing was begun"
    (finding,) = [
        check
        for check in json.loads(project.sortie("doctor", second, "--json").stdout)["checks"]
        if check["name"] == "workspaces"
    ]
    assert finding["verdict"] == "FAIL"
    assert f"pid {working.pid}" in finding["detail"]
    assert project.diary() == ["working"]


def test_a_second_service_after_the_database_was_deleted_is_refused(project, working):
    """At most one live run of an issue, also where the first has not noticed yet that its store is gone."""
    working.signal(signal.SIGSTOP)
    for path in project.root.glob(".sortie.db*"):
        path.unlink()
    refused = project.sortie("run", "--until-idle")
    assert refused.returncode == 1
    assert f"pid {working.pid}" in refused.stderr
    assert not project.db_path.exists()
    working.signal(signal.SIGCONT)
    assert working.wait() == 1


def test_agents_of_a_service_that_died_with_its_store_are_ended_before_their_issue_runs_again(project):
    """The new store knows nothing of them, but they work in the workspaces that the new service owns."""
    project.add("1", "echo $$ > ../pid; " + WAITS)
    service = project.start()
    service.until(lambda: "working" in project.diary())
    service.kill()
    orphan = int((project.workspaces / "pid").read_text())
    assert is_alive(orphan)
    delete_everything(project.db_path)
    (project.root / "agents" / "1.sh").write_text(
        f"grep -q 'State:.[RSDT]' /proc/{orphan}/status && {says('both')}; {BLOCKED}"
    )
    assert project.run() == 3
    assert project.diary() == ["working"]
    assert not is_alive(orphan)


def test_a_second_service_on_the_same_store_is_not_told_to_use_another(project, working):
    refused = project.sortie("run", "--until-idle")
    assert refused.returncode == 1
    assert f"pid {working.pid}" in refused.stderr
    assert "Stop it first" in refused.stderr
    assert "db_path" not in refused.stderr


def test_roots_inside_one_another_are_two_roots(project, working):
    """An agent may run a service of its own in its workspace."""
    second = second_workflow(project, workspace={"root": "../workspaces/T-1/inner"}, file={"path": "none.json"})
    (project.root / "second" / "none.json").write_text("[]")
    done = project.sortie("run", second, "--until-idle")
    assert done.returncode == 0, done.stderr
    assert working.popen.poll() is None


def test_a_root_changed_while_the_service_runs_waits_for_the_restart(project, working):
    """The lock is on the first root, so work goes on there."""
    project.workflow({"workspace": {"root": "others"}, "agent": {"max_concurrent_agents": 5}})
    working.until(lambda: "only after a restart: workspace.root" in project.output())
    project.add("2", f"{says('second')}; {BLOCKED}")
    working.until(lambda: "second" in project.diary())
    assert project.workspace("2").is_dir()
    assert not (project.root / "others").exists()


def test_a_root_that_cannot_be_made_is_said_at_the_start(project):
    (project.root / "workspaces").write_text("not a directory")
    assert project.run() == 1
    assert "workspaces cannot be locked: file exists" in project.output()
    assert "Set workspace.root to a directory" in project.output()


# -- a store that disappears ----------------------------------------------------------------------------------


def delete(path: Path) -> None:
    path.unlink()


def delete_everything(path: Path) -> None:
    for found in path.parent.glob(f"{path.name}*"):
        found.unlink()


def put_a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("happen", [delete, delete_everything, put_a_fifo])
def test_a_store_that_disappears_ends_the_service_and_is_saved(project, working, happen):
    """Noticed without being asked: nothing more starts, agents end as in a drain, and the way back works."""
    happen(project.db_path)
    assert working.wait() == 1
    assert project.living() == []
    last = project.output().splitlines()[-1]
    assert str(project.db_path) in last
    found = re.search(rf"is in (\S+\.rescued-\S+): move that to {re.escape(str(project.db_path))}", last)
    assert found, last
    assert '"level": "error"' in project.output()
    project.db_path.unlink(missing_ok=True)
    Path(found[1]).rename(project.db_path)
    (project.root / "agents" / "1.sh").write_text(f"{says('again')}; {BLOCKED}")
    assert project.run() == 3
    assert [run.status for run in project.runs("1")] == ["cancelled", "succeeded"]
    assert project.diary() == ["working", "again"]


def test_nothing_starts_with_a_store_that_is_gone(project, working):
    """An issue that appears together with the loss is not begun."""
    working.signal(signal.SIGSTOP)
    delete(project.db_path)
    project.add("2", says("second"))
    working.signal(signal.SIGCONT)
    assert working.wait() == 1
    assert project.diary() == ["working"]


def test_a_store_cut_short_ends_the_service_although_nothing_can_be_written(project):
    """Where not even the end of the runs can be recorded, they end all the same."""
    project.add("0", BLOCKED)
    assert project.run() == 3
    project.add("1", WAITS)
    service = project.start()
    service.until(lambda: "working" in project.diary())
    os.truncate(project.db_path, 0)
    assert service.wait() == 1
    assert project.living() == []
    assert "was cut short" in project.output().splitlines()[-1]


@pytest.mark.parametrize("part", ["-wal", ".lock"])
def test_a_part_of_the_store_that_disappears_ends_the_service_too(project, working, part):
    """Others would not see what is written, or would believe that nobody owns the store."""
    project.db_path.with_name(project.db_path.name + part).unlink()
    assert working.wait() == 1
    assert f"{part} was deleted" in project.output()
    assert "Nothing that it held is lost" in project.output()
    (project.root / "agents" / "1.sh").write_text(BLOCKED)
    assert project.run() == 3
    assert [run.status for run in project.runs("1")] == ["cancelled", "succeeded"]


def test_a_workflow_that_names_another_store_and_root_gets_no_second_service(project):
    """Whatever is changed in the workflow under the service: its issues have one, and commands reach it."""
    project.workflow({"budget": {"per_issue": {"sessions": 9}}})
    project.add("1", FOR_EVER)
    service = project.start()
    service.until(lambda: project.schedule().running)
    project.workflow({"db_path": "state.db", "workspace": {"root": "elsewhere"}})
    service.until(lambda: "only after a restart" in project.notes())
    second = project.sortie("run")
    assert second.returncode == 1
    assert f"pid {service.pid}" in second.stderr
    assert not (project.root / "state.db").exists()
    assert "T-1" in project.sortie("status").stdout
    assert project.sortie("stop", "T-1").returncode == 0
    service.until(lambda: project.parked())
    service.stop()


def test_a_damaged_store_ends_the_service_and_says_so(project):
    """What cannot be written to is not tried again for ever."""
    project.add("1", FOR_EVER)
    service = project.start()
    service.until(lambda: project.schedule().running and project.living())
    with project.db_path.open("r+b") as database:
        database.write(b"\xff" * project.db_path.stat().st_size)
    project.db_path.with_name(f"{project.db_path.name}-wal").write_bytes(b"")
    project.add("2", BLOCKED)
    assert service.wait() == 1
    assert "was damaged" in project.output() or "was replaced" in project.output()
    assert project.living() == []


def test_a_start_without_memory_names_the_copy_of_a_lost_store(project):
    """Whoever restarts a service by itself must be told that it forgot what is parked."""
    rescued = project.db_path.with_name(f"{project.db_path.name}.rescued-20260101T000000Z")
    rescued.write_bytes(b"")
    project.run()
    assert any(str(rescued) in note.message for note in project.events(ev.Noted))
    project.add("1", BLOCKED)
    project.run()
    project.run()
    assert sum(str(rescued) in note.message for note in project.events(ev.Noted)) == 2
