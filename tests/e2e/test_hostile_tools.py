"""Agents that turn against what carries their tools: it costs them the tools, and nobody a run or a start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sortie.core import events as ev
from sortie.engine.tool_calls import ACTS_ON_ONE_ISSUE

from .project import Project
from .shell import BLOCKED, FOR_EVER, says
from .test_tools_end_to_end import KEY, agent, answers, counted
from .test_tools_in_the_open import moves

BROKER = {"tools": {"credentials": "broker"}}
TWICE = {"budget": {"per_issue": {"sessions": 3}}}


def sockets(project: Project) -> Path:
    return project.db_path.with_suffix(".sockets")


def replaces(project: Project, what: str) -> str:
    """Shell lines after which something else stands in the place of its socket, or of the folder of all sockets."""
    folder = sockets(project)
    if what == "socket":
        return f"rm {folder}/$SORTIE_RUN_ID; mkdir -p {folder}/$SORTIE_RUN_ID/inner"
    return f"rm -r {folder}; touch {folder}"


@pytest.mark.parametrize("what", ["socket", "folder"])
def test_whatever_stands_in_the_place_of_its_socket_finished_work_is_finished(project, what):
    """EXT-01: the removal of the socket is best effort."""
    project.workflow(BROKER)
    project.add("1", f"{replaces(project, what)}; {BLOCKED}")
    assert project.run() == 3
    assert project.only_run("1").soft_stop == "blocked"
    assert "internal error" not in project.output()


@pytest.mark.parametrize("what", ["socket", "folder"])
def test_whatever_stands_in_the_place_of_its_socket_the_next_start_comes_up(project, what):
    """EXT-01: also where the service was killed before; without its folder there are no tools, and that is said."""
    project.workflow({**BROKER, **TWICE})
    first = f"touch again; {replaces(project, what)}; {says('replaced')}; {FOR_EVER}"
    project.add("1", f"[ -e again ] && {{ {BLOCKED}; exit; }}; {first}")
    service = project.start()
    service.until(lambda: project.diary() == ["replaced"])
    service.kill()
    assert project.run() == 3
    assert project.runs("1")[-1].soft_stop == "blocked"
    assert (f"its socket cannot be made: [Errno 17] File exists: '{sockets(project)}'" in project.notes("1")) == (
        what == "folder"
    )


def test_a_folder_of_sockets_that_others_can_enter_costs_the_tools_only(project):
    """EXT-01: the warning names the folder and what to do about it."""
    project.workflow(BROKER)
    sockets(project).mkdir(mode=0o755)
    sockets(project).chmod(0o755)
    project.add("1", f"{says('${SORTIE_MCP_CONFIG-no tools}')}; {BLOCKED}")
    assert project.run() == 3
    assert project.diary() == ["no tools"]
    assert project.only_run("1").soft_stop == "blocked"
    assert f"no tools: its socket cannot be made: {sockets(project)}" in project.notes("1")
    assert f"chmod 700 {sockets(project)}" in project.notes("1")


@pytest.mark.parametrize("tool", ["tracker_api", "sortie_status", "made_up"])
def test_no_record_that_an_agent_writes_makes_an_act_on_an_issue(project, tool):
    """EXT-14: with the broker, by whatever tool it claims to have acted."""
    project.workflow(BROKER)
    forged = {"tool": tool, "result": "success", "ms": 1, "operation": "transition_issue"}
    line = json.dumps({**forged, "target": "2", "state": "Done"})
    project.add("1", f"echo '{line}' >> {project.db_path.with_suffix('.logs')}/$SORTIE_RUN_ID.tools; {BLOCKED}")
    project.add("2", state="Backlog")
    project.run()
    assert project.events(ev.ActedOn) == []
    assert counted(project) == {}


def test_what_is_not_recorded_is_not_done_and_no_issue_drowns_another(project):
    """EXT-14: with the broker, one move too many is refused; the first of another issue is done and told."""
    project.workflow(BROKER)
    often = [moves("3", state) for _ in range(ACTS_ON_ONE_ISSUE // 2) for state in ("Done", "Backlog")]
    project.add("1", agent(*often, moves("3", "Done"), moves("2", "Done")))
    project.add("2", state="Backlog")
    project.add("3", state="Backlog")
    project.run()
    *_, refused, moved = answers(project)
    assert refused["error"]["kind"] == "tracker_api_error"
    assert "Too many moves in one run" in refused["error"]["message"]
    assert moved["success"]
    assert (project.state("2"), project.state("3")) == ("Done", "Backlog")
    assert len(project.events(ev.ActedOn, "3")) == ACTS_ON_ONE_ISSUE
    assert len(project.events(ev.ActedOn, "2")) == 1
    assert "calls its tools too often" in project.notes("1")


def test_after_a_crash_the_key_is_taken_out_of_the_workspace(project):
    """EXT-01: half-written files too, by the next start, also of an issue that is not worked on again."""
    project.workflow({"tracker": {"api_key": KEY}})
    half = f".sortie/.mcp.json.{'0a' * 8}.tmp"
    opencode = ".sortie/opencode.json"
    copies = f"cp .sortie/mcp.json {half}; cp .sortie/mcp.json {opencode}; cp .sortie/mcp.json mine"
    project.add("1", f"{copies}; {says('working')}; {FOR_EVER}")
    service = project.start()
    service.until(lambda: project.diary() == ["working"])
    service.kill()
    assert with_key(project) == {"mine", ".sortie/mcp.json", half, opencode}
    project.edit("1", state="Backlog")
    project.run()
    assert with_key(project) == {"mine"}, "what the agent made of it is the agent's"
    assert (project.workspace("1") / ".sortie" / "state.json").exists()


def with_key(project: Project) -> set[str]:
    place = project.workspace("1")
    files = [path for path in place.rglob("*") if path.is_file()]
    return {str(path.relative_to(place)) for path in files if KEY.encode() in path.read_bytes()}


@pytest.mark.parametrize("link", ["workspace", "folder"])
def test_after_a_crash_nothing_is_removed_behind_a_link(project, link):
    """EXT-01: a file of that name somewhere else is somebody else's."""
    other = project.root / "other"
    (other / ".sortie").mkdir(parents=True)
    theirs = other / ".sortie" / "mcp.json"
    theirs.write_text("theirs")
    place = project.workspace("1")
    swap = {
        "workspace": f"mv {place} {place}.old; ln -s {other} {place}",
        "folder": f"mv .sortie old; ln -s {other}/.sortie .sortie",
    }
    project.add("1", f"{swap[link]}; {says('swapped')}; {FOR_EVER}")
    service = project.start()
    service.until(lambda: project.diary() == ["swapped"])
    service.kill()
    project.edit("1", state="Backlog")
    project.run()
    assert theirs.read_text() == "theirs"


@pytest.mark.parametrize("credentials", ["workspace", "broker"])
def test_what_only_the_env_file_says_holds_for_the_tools_too(project, credentials):
    """EXT-04: the server reads the workflow with the variables with which the service read it."""
    settings: dict[str, Any] = {"tools": {"credentials": credentials}}
    project.workflow(settings)
    (project.root / "settings.env").write_text("SORTIE_TRACKER_ACTIVE_STATES=Ready\n")
    project.add("1", agent(["call", "tracker_api", {"operation": "search_issues"}]), state="Ready")
    project.run(SORTIE_ENV_FILE="settings.env")
    (found,) = answers(project)
    assert [issue["id"] for issue in found["data"]] == ["1"]
