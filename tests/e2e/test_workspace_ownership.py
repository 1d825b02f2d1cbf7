"""Workspaces are ours: what somebody else put in the place of one, or of their root, is noticed and never used."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from .project import COMMAND, Project
from .shell import BLOCKED, FOR_EVER, says

MOVED = "is not its workspace stood in the place of it and is in the archive now"


def workflow(project: Project, sessions: int = 1, max_turns: int = 1) -> None:
    project.workflow(
        {
            "hooks": {"after_create": f"{says('created $SORTIE_ISSUE_IDENTIFIER')}; touch made"},
            "agent": {"max_turns": max_turns, "max_concurrent_agents": 1},
            "budget": {"per_issue": {"sessions": sessions}},
        }
    )


def archived(project: Project, issue_id: str) -> list[str]:
    """The names in the one archive of which the notes of the issue tell."""
    (line,) = [line for line in project.notes(issue_id).splitlines() if MOVED in line]
    with tarfile.open(Path(line.rpartition(": ")[2])) as archive:
        return archive.getnames()


def test_a_folder_planted_as_the_workspace_of_another_issue_is_not_used(project):
    """A2O-01 A2O-02: it goes into the archive, the log says where, and the issue gets a workspace of its own."""
    workflow(project)
    project.add("1", f"mkdir ../T-2; echo trap > ../T-2/trap; {BLOCKED}", priority=1)
    project.add("2", f'ls >> "$DIARY"; {BLOCKED}', priority=2)
    project.run()
    assert project.diary() == ["created T-1", "created T-2", "made"]
    assert archived(project, "2") == ["T-2", "T-2/trap"]
    assert MOVED not in project.notes("1")


def test_a_workspace_that_the_store_knows_is_used_again(project):
    """Within a service and by the next one."""
    workflow(project, sessions=3)
    project.add("1", f"echo more >> work; {BLOCKED}")
    project.run()
    project.edit("1", title="Go on")
    project.run()
    assert project.diary() == ["created T-1"]
    assert len((project.workspace("1") / "work").read_text().splitlines()) == 2
    assert MOVED not in project.notes("1")


def test_another_directory_in_place_of_a_known_workspace_is_not_used(project):
    """A2O-02: swapped while no run was in it."""
    workflow(project, sessions=2)
    project.add("1", BLOCKED)
    project.run()
    place = project.workspace("1")
    place.rename(place.with_name("aside"))
    place.mkdir()
    (place / "trap").touch()
    project.edit("1", title="Go on")
    project.run()
    assert project.diary() == ["created T-1", "created T-1"]
    assert archived(project, "1") == ["T-1", "T-1/trap"]


SWAPS = {
    "another directory": "mv $place ../aside; mkdir -p $place/.sortie; echo blocked > $place/.sortie/status",
    "a link": "mv $place ../aside; ln -s aside $place; mkdir -p .sortie; echo blocked > .sortie/status",
    "nothing": "rm -r $place",
}


@pytest.mark.parametrize("swap", SWAPS.values(), ids=SWAPS)
def test_an_agent_that_swaps_its_own_workspace_is_not_heard(project, swap):
    """A2O-19 A2O-13: a read error with a warning, as of an absent file; no further turn starts there (A2O-02)."""
    workflow(project, max_turns=2)
    project.add("1", f"{says('turn')}; place=$(pwd -P); {swap}")
    project.run()
    run = project.only_run("1")
    assert (run.status, run.soft_stop, run.turns) == ("failed", "", 1)
    assert "is no longer the directory that was opened" in (run.error or "")
    assert "the status file could not be read and is ignored" in project.notes("1")
    assert project.diary() == ["created T-1", "turn"]


def test_what_an_agent_put_in_place_of_its_own_workspace_is_not_used_by_the_next_run(project):
    """A2O-02: the next run begins in a new workspace."""
    workflow(project, sessions=2)
    first = "mv $place ../aside; mkdir $place; echo trap > $place/trap"
    project.add("1", f'place=$(pwd -P); if [ ! -e ../aside ]; then {first}; else ls >> "$DIARY"; {BLOCKED}; fi')
    project.run()
    assert project.diary() == ["created T-1", "created T-1", "made"]
    assert archived(project, "1") == ["T-1", "T-1/trap"]


def test_after_a_crash_the_word_in_another_directory_is_not_the_agents(project):
    """A2O-19: the turn had completed, but what stands at the path now is not where the agent worked."""
    gate = project.root / "gate"
    waits = f"{says('after')}; [ -e {gate} ] || {FOR_EVER}"
    project.workflow({"hooks": {"after_run": waits}, "budget": {"per_issue": {"sessions": 2}}})
    project.add("1", says("turn"))
    service = project.start()
    service.until(lambda: "after" in project.diary())
    service.kill()
    place = project.workspace("1")
    place.rename(place.with_name("aside"))
    (place / ".sortie").mkdir(parents=True)
    (place / ".sortie/status").write_text("blocked\n")
    gate.touch()
    project.run()
    assert project.runs("1")[0].soft_stop == ""
    assert "T-1/.sortie/status" in archived(project, "1")


REPLACED = {
    "a link": lambda root: root.symlink_to("aside"),
    "another directory": lambda root: root.mkdir(),
    "nothing": lambda root: None,
}


@pytest.mark.parametrize("replace", REPLACED.values(), ids=REPLACED)
def test_a_root_that_was_replaced_is_noticed_before_the_next_dispatch(project, replace):
    """A2O-02: nothing starts and nothing is charged until it is back; the message says what to do."""
    workflow(project)
    project.add("1", BLOCKED)
    service = project.start()
    service.until(project.parked)
    project.workspaces.rename(project.root / "aside")
    replace(project.workspaces)
    project.add("2", BLOCKED)
    service.until(lambda: "the place of the workspaces cannot be used; nothing new starts" in project.notes())
    assert "Put the directory back" in project.notes()
    assert list(project.parked()) == ["1"]
    assert project.schedule().running == {} and not (project.root / "aside/T-2").exists()
    if project.workspaces.is_symlink():
        project.workspaces.unlink()
    elif project.workspaces.exists():
        project.workspaces.rmdir()
    (project.root / "aside").rename(project.workspaces)
    service.until(lambda: len(project.parked()) == 2)
    assert service.stop() == 0


def test_a_note_of_another_agent_costs_no_work(project):
    """A note that its creation did not finish is not believed of a workspace in which an agent has worked."""
    workflow(project, sessions=2)
    project.add("2", f"echo work >> days-of-work; {BLOCKED}")
    project.run()
    project.add("1", f"touch ../.incomplete/T-2; {BLOCKED}")
    project.run()
    project.edit("2", title="Go on")
    project.run()
    assert (project.workspace("2") / "days-of-work").read_text() == "work\nwork\n"
    assert project.diary() == ["created T-2", "created T-1"]


TRAPS = ("rm -r ../.incomplete; touch ../.incomplete", "touch ../T-2", "ln -s /etc ../T-2")


@pytest.mark.parametrize("trap", TRAPS)
def test_what_an_agent_puts_in_the_way_stops_nobody_else(project, trap):
    """It goes into the archive, and the next issue gets its workspace."""
    workflow(project)
    project.add("1", f"{trap}; {BLOCKED}", priority=1)
    project.add("2", BLOCKED, priority=2)
    project.run()
    assert project.diary() == ["created T-1", "created T-2"]
    assert "stood in the place of it and is in the archive now" in project.notes("2")


def test_a_new_issue_with_the_name_of_an_old_one_gets_a_workspace_of_its_own(project):
    """What the old one left goes into the archive."""
    workflow(project)
    project.add("1", f"echo secret > left; {BLOCKED}")
    project.run()
    project.write_issues([])
    project.add("99", f'ls >> "$DIARY"; {BLOCKED}', identifier="T-1")
    project.run()
    assert project.diary() == ["created T-1", "created T-1", "made"]
    assert "T-1/left" in archived(project, "99")


def test_workspaces_survive_that_their_project_is_moved(project, tmp_path):
    """The same directories at another path are still ours."""
    workflow(project, sessions=2)
    project.add("1", f"echo more >> work; {BLOCKED}")
    project.run()
    project.edit("1", title="Go on")
    project.root.rename(tmp_path / "elsewhere")
    there = tmp_path / "elsewhere"
    command = [*COMMAND, "run", "--until-idle"]
    subprocess.run(command, cwd=there, env=project.environment, timeout=30, capture_output=True)
    assert (there / "workspaces/T-1/work").read_text() == "more\nmore\n"
    (there / "issues.json").write_text((there / "issues.json").read_text().replace("To Do", "Done"))
    subprocess.run(command, cwd=there, env=project.environment, check=True, timeout=30, capture_output=True)
    assert not (there / "workspaces/T-1").exists()
    there.rename(project.root)
