"""Agents that use the tools: the real service, the official client, the server the client starts for itself."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest

from sortie.store import queries as reading
from sortie.tools.broker_client import call as ask_broker
from sortie.tools.calls import Cancellation

from .processes import is_alive, wait_for
from .project import Project
from .shell import BLOCKED, FOR_EVER, says
from .test_full_disk import can_mount, small_disk

KEY = "sk-tracker-0123456789abcdef"
AGENT = Path(__file__).with_name("mcp_agent.py")
TEAM_TOOL = Path(__file__).parents[2] / "examples" / "team-tool"
BLOCKING_COMMENT = {"id": "c1", "author": "alice", "body": "Blocked on the API key.", "created_at": "2026-03-25"}

COMMENTS = ["call", "tracker_api", {"operation": "fetch_comments", "issue_id": "1"}]
STATUS = ["call", "sortie_status", {}]
HISTORY = ["call", "workspace_history", {}]


def agent(*steps: list[Any]) -> str:
    return f"{sys.executable} {AGENT} {shlex.quote(json.dumps(steps))}"


def shell(command: str) -> list[Any]:
    return ["shell", command]


def waits_for(gate: Path) -> list[Any]:
    return shell(f"{says('waiting')}; while [ ! -e {gate} ]; do sleep 0.05; done")


def answers(project: Project) -> list[Any]:
    return [json.loads(line) for line in project.diary()]


def counted(project: Project) -> dict[str, dict[str, int]]:
    with project.store() as db:
        return reading.tool_calls(db)


def servers(project: Project) -> list[int]:
    """Processes of the tool server that serve this project."""
    mark = str(project.workflow_path).encode()
    found = [Path(path).parent for path in Path("/proc").glob("[0-9]*/cmdline")]
    commands = {int(process.name): _words(process) for process in found}
    return [pid for pid, words in commands.items() if b"mcp-server" in words and mark in words]


def _words(process: Path) -> list[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []  # it ended in the meantime


# -- both channels in one session -------------------------------------------------------------------------------


def test_an_agent_reads_its_comments_checks_its_budget_and_says_that_it_is_blocked(project):
    """EXT-01 EXT-06 EXT-07 EXT-11 EXT-13 EXT-14 COM-02: asked over MCP, answered by file, shown to people."""
    project.workflow({"agent": {"max_turns": 4}, "budget": {"per_issue": {"sessions": 2}}})
    steps = (["tools"], COMMENTS, ["call", "no_such_tool", {}], STATUS, HISTORY)
    gives_up = f"{BLOCKED}; echo 'reason: no key' >> .sortie/status"
    script = f"[ $SORTIE_ATTEMPT = 1 ] && exit 7; {agent(*steps)} && {{ {gives_up}; }}"
    project.add("1", script, comments=[BLOCKING_COMMENT])
    assert project.run() == 3
    tools, comments, unknown, status, history = answers(project)
    assert list(tools) == ["tracker_api", "sortie_status", "workspace_history"]
    assert comments == {"success": True, "data": [BLOCKING_COMMENT]}
    assert unknown == {"lost": "MCPError"}
    assert (status["turn_number"], status["turns_remaining"], status["attempt"]) == (1, 3, 1)
    assert [(entry["attempt"], entry["status"]) for entry in history["entries"]] == [(1, "failed")]
    assert project.parked()["1"] == ("signal", "no key")

    once = {"success": 1}
    ours = {"tracker_api": once, "sortie_status": once, "workspace_history": once}
    assert counted(project) == {**ours, "unknown": {"error": 1}}
    why, logs = project.sortie("why", "T-1").stdout, project.sortie("logs", "T-1").stdout
    for tool in ours:
        assert re.search(rf"tool {tool}: success after \d+ ms", why)
        assert re.search(rf"tool: {tool}: success after \d+ ms", logs)
    assert not list(project.db_path.with_suffix(".logs").glob("*.tools")), "counted and cleared away"


def test_variables_of_the_workflow_need_not_be_known_to_the_server(project):
    """EXT-01 EXT-04 EXT-07: what `$NAMES` stood for when the service started holds, beside an `mcp_config`."""
    (project.root / "servers.json").write_text('{"mcpServers": {"other": {"command": "true"}}}')
    project.workflow(
        {
            "tracker": {"api_key": "$MY_KEY", "handoff_state": "$HANDOFF", "in_progress_state": "$WORKING"},
            "workspace": {"root": "$ROOT"},
            "db_path": "$STORE",
            "command": {"mcp_config": "servers.json"},
        }
    )
    move = {"operation": "transition_issue", "issue_id": "1", "target_state": "Done"}
    project.add("1", agent(["call", "tracker_api", move]))
    values = {"MY_KEY": KEY, "HANDOFF": "Review", "WORKING": "In Progress"}
    project.run(**values, ROOT=str(project.workspaces), STORE=str(project.db_path))
    assert answers(project) == [{"success": True, "data": {"transitioned": True}}]
    assert project.state("1") == "Done"


# -- the channels fail independently ----------------------------------------------------------------------------


def test_the_status_file_works_when_the_server_is_dead(project):
    """COM-01: the server is killed in the middle of the session; the agent's word is heard all the same."""
    project.add("1", agent(STATUS, ["kill"], STATUS, shell(BLOCKED)))
    project.run()
    before, killed, after, written = answers(project)
    assert before["turn_number"] == 1
    assert not is_alive(killed)
    assert "lost" in after
    assert written == 0
    assert project.only_run("1").soft_stop == "blocked"
    assert counted(project) == {"sortie_status": {"success": 1}}


CANNOT_SIGNAL = shell("echo blocked > .sortie/status")


def becomes_read_only(project: Project) -> list[Any]:
    """The step after which the workspace cannot be written: for most a mode will do, root needs a file system."""
    if os.geteuid() != 0:
        return shell("chmod 500 . .sortie")
    if not can_mount():
        pytest.skip("NOT TESTED: a workspace that becomes read-only, because nothing is forbidden to root")
    return shell(f"mount -o remount,ro {small_disk(project, 'workspaces')}")


def test_tools_answer_when_the_workspace_has_become_read_only(project):
    """COM-01: nothing can be signalled any more, everything can be asked, in the next turn too."""
    project.workflow({"agent": {"max_turns": 2}})
    project.add("1", agent(becomes_read_only(project), CANNOT_SIGNAL, COMMENTS, STATUS, HISTORY))
    project.run()
    locked, signalled, comments, status, history = answers(project)[:5]
    assert locked == 0
    assert signalled != 0
    assert comments == {"success": True, "data": []}
    assert status["turn_number"] == 1
    assert history == {"issue_id": "1", "entries": []}
    assert len(answers(project)) == 10
    assert project.notes("1").count("state.json cannot be written any more") == 1
    run = project.only_run("1")
    assert (run.status, run.turns, run.soft_stop) == ("succeeded", 2, "")
    assert counted(project)["tracker_api"] == {"success": 2}


@pytest.mark.skipif("not can_mount()", reason="NOT TESTED: a full workspace, because mounting needs CAP_SYS_ADMIN")
def test_tools_answer_when_the_workspaces_disk_is_full(project):
    """COM-01: not a byte fits beside the agent's files, and every tool answers."""
    small_disk(project, "workspaces")
    fill = shell("cat /dev/zero > filler; for n in $(seq 100); do printf x >> filler || break; done")
    project.add("1", agent(fill, CANNOT_SIGNAL, COMMENTS, STATUS, HISTORY))
    project.run()
    _, signalled, comments, status, history = answers(project)
    assert signalled != 0
    assert comments == {"success": True, "data": []}
    assert status["turn_number"] == 1
    assert history == {"issue_id": "1", "entries": []}
    assert counted(project)["workspace_history"] == {"success": 1}


def test_the_worker_never_starts_the_server_itself(project):
    """COM-02 COM-03: an agent that is a shell script has no server beside it, and is a full citizen."""
    gate = project.root / "gate"
    project.add("1", f"{says('working')}; while [ ! -e {gate} ]; do sleep 0.05; done; {BLOCKED}")
    service = project.start()
    service.until(lambda: project.diary() == ["working"])
    assert servers(project) == []
    gate.touch()
    service.until(lambda: "1" in project.parked())
    assert service.stop() == 0
    assert project.only_run("1").soft_stop == "blocked"
    assert counted(project) == {}


def test_a_service_that_is_killed_leaves_no_server_behind_for_long(project):
    """COM-02 EXT-14: the next start ends the agent and its server, counts its calls once, removes its socket."""
    more = {"agent": {"max_turns": 3}, "budget": {"per_issue": {"sessions": 3}}}
    project.workflow({"tools": {"credentials": "broker"}, **more})
    talk, wait = agent(STATUS), agent(STATUS, shell(FOR_EVER))
    project.add(
        "1", f"[ -e resumed ] && {{ {BLOCKED}; exit; }}; [ $SORTIE_TURN = 1 ] && exec {talk}; touch resumed; {wait}"
    )
    service = project.start()
    service.until(lambda: len(project.diary()) == 2)
    (before,) = servers(project)
    service.kill()
    assert list(project.db_path.with_suffix(".sockets").iterdir())
    project.run()
    assert not is_alive(before)
    assert servers(project) == []
    assert project.runs("1")[-1].soft_stop == "blocked"
    assert counted(project) == {"sortie_status": {"success": 2}}
    assert list(project.db_path.with_suffix(".sockets").iterdir()) == []


# -- credentials that stay with the orchestrator ----------------------------------------------------------------


def test_with_the_broker_the_tools_work_and_no_secret_leaves_the_orchestrator(project):
    """EXT-01 EXT-07: the key is in no file below the workspace and in no environment of the agent or its server."""
    project.workflow({"tracker": {"api_key": "$MY_KEY"}, "tools": {"credentials": "broker"}})
    gate = project.root / "gate"
    move = {"operation": "transition_issue", "issue_id": "1", "target_state": "Done"}
    project.add("1", agent(COMMENTS, waits_for(gate), ["call", "tracker_api", move]), comments=[BLOCKING_COMMENT])
    service = project.start(until_idle=True, MY_KEY=KEY, SORTIE_TRACKER_API_KEY=KEY)
    service.until(lambda: "waiting" in project.diary())
    assert len(servers(project)) == 1
    for pid in project.living():
        assert KEY.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    files = [path for path in project.workspace("1").rglob("*") if path.is_file()]
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []

    config = json.loads((project.workspace("1") / ".sortie" / "mcp.json").read_bytes())
    environment = config["mcpServers"]["sortie-tools"]["env"]
    socket, token = environment["SORTIE_BROKER"], environment["SORTIE_BROKER_TOKEN"]
    refused = ask_broker(socket, token[::-1], "tracker_api", COMMENTS[2], Cancellation())
    assert refused["error"]["kind"] == "tracker_auth_error"
    assert ask_broker(socket, token, "tracker_api", COMMENTS[2], Cancellation())["success"]

    gate.touch()
    service.wait()
    comments, *_, moved = [json.loads(line) for line in project.diary() if line != "waiting"]
    assert comments["data"] == [BLOCKING_COMMENT]
    assert moved == {"success": True, "data": {"transitioned": True}}
    assert project.state("1") == "Done"
    assert not Path(socket).exists()
    assert counted(project) == {"tracker_api": {"success": 3}}, "the one over the socket alone was made too"


def test_the_brokers_socket_goes_with_a_run_that_is_stopped(project):
    """EXT-01: its token is worth nothing afterwards."""
    project.workflow({"tools": {"credentials": "broker"}})
    project.add("1", f"{says('working')}; {FOR_EVER}")
    service = project.start()
    service.until(lambda: project.diary() == ["working"])
    sockets = project.db_path.with_suffix(".sockets")
    (socket,) = sockets.iterdir()
    assert oct(sockets.stat().st_mode & 0o777) == "0o700"
    assert oct(socket.stat().st_mode & 0o777) == "0o600"
    assert service.stop() == 0
    assert list(sockets.iterdir()) == []


# -- a tool of a team -------------------------------------------------------------------------------------------


def installation(folder: Path) -> Path:
    """A Python with everything this one has, and the example package installed; the path of its interpreter."""
    venv.create(folder, symlinks=True, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "everything.pth").write_text("\n".join([*filter(None, sys.path), str(TEAM_TOOL / "src")]))
    project = tomllib.loads((TEAM_TOOL / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["sortie.tools"]
    metadata = site / "team_tool-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    lines = [f"{name} = {target}" for name, target in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[sortie.tools]", *lines]))
    return folder / "bin" / "python"


def test_a_tool_of_a_team_is_told_listed_and_called(project, tmp_path):
    """EXT-15 EXT-05: installed beside Sortie, without a setting; no file of the core knows it."""
    python = installation(tmp_path / "venv")
    project.prefix = ["sh", "-c", f'shift; exec {python} "$@"', "sh"]
    keep = f"cat > {project.root}/prompt; printf '1\\n2\\n' > two.py"
    project.add("1", f"{keep}; {agent(['tools'], ['call', 'line_count', {'suffix': '.py'}])}")
    project.run()
    tools, lines = answers(project)
    assert list(tools) == ["tracker_api", "sortie_status", "workspace_history", "line_count"]
    assert lines == {"files": 1, "lines": 2}
    prompt = (project.root / "prompt").read_text()
    assert "### line_count" in prompt
    assert json.dumps(tools["line_count"], indent=2) in prompt
    assert counted(project) == {"line_count": {"success": 1}}


# -- what a hostile agent does to the count ---------------------------------------------------------------------


def test_whatever_an_agent_writes_in_the_place_of_the_record_the_run_ends_as_it_should(project):
    """EXT-14: the record lies within its reach; nonsense, depth, pipes and directories are passed over."""
    record = f"log={project.db_path.with_suffix('.logs')}/$SORTIE_RUN_ID.tools"
    true_call = '{"tool": "sortie_status", "result": "success", "ms": 1}'
    deep = f"""{sys.executable} -c 'print("{{\\"x\\":" + "[" * 100000)'"""
    project.add("1", f"{record}; {deep} > $log; echo '{true_call}' >> $log; {BLOCKED}")
    project.add("2", f"{record}; mkdir -p $log/inner; {BLOCKED}")
    project.add("3", f"{record}; mkfifo $log; {BLOCKED}")
    project.add("4", f"{record}; truncate -s 10G $log; {BLOCKED}")
    assert project.run() == 3
    assert {project.only_run(issue).soft_stop for issue in ("1", "2", "3", "4")} == {"blocked"}
    assert "internal error" not in project.output()
    assert counted(project) == {"sortie_status": {"success": 1}}


def test_nothing_of_a_session_with_tools_stays_alive(project):
    """COM-02: the server ends with the agent that started it, also where the agent is ended by us."""
    project.workflow({"agent": {"turn_timeout_ms": 30_000}})
    project.add("1", agent(STATUS, shell(FOR_EVER)))
    service = project.start()
    service.until(lambda: len(project.diary()) == 1)
    assert len(servers(project)) == 1
    assert project.sortie("stop", "T-1").returncode == 0
    service.until(lambda: "1" in project.parked())
    wait_for(lambda: not servers(project))
    assert service.stop() == 0
    assert counted(project) == {"sortie_status": {"success": 1}}, "calls of a run that was stopped count too"
