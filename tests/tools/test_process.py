"""The sidecar as a process: how it starts, what it survives, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sortie.runs.toolkit import server_command

from .scene import DEADLINE, Project, wait_until

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
MIB = 1024 * 1024

CLIENT = """
import subprocess, sys, threading
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\\n')
child.stdin.flush()
child.stdout.readline()
print(child.pid, flush=True)
threading.Event().wait()
"""

MODULES = """
import sys
from sortie.tools.server import main
code = main(sys.argv[1:])
print(*sorted(sys.modules), sep="\\n", file=sys.stderr)
sys.exit(code)
"""


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def test_the_end_of_the_input_ends_it_with_code_0(sidecar):
    assert sidecar.ask("ping")["result"] == {}
    assert sidecar.finish() == (0, [])


def test_calls_in_flight_are_answered_after_the_end_of_the_input(sidecar):
    for number in range(5):
        sidecar.send(
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "workspace_history"}}
        )
    code, answers = sidecar.finish()
    assert code == 0
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2, 3, 4]


def test_a_last_line_without_an_end_is_a_line(sidecar):
    sidecar.send_bytes(json.dumps(PING).encode())
    assert sidecar.finish() == (0, [{"jsonrpc": "2.0", "id": 1, "result": {}}])


def test_a_hanging_call_does_not_outlive_the_client(project, tmp_path):
    began = tmp_path / "began"
    with project.start(SORTIE_TOOL_PLUGINS="waits=team_tools:waits") as sidecar:
        call = {"name": "waits", "arguments": {"began": str(began)}}
        sidecar.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        wait_until(began.exists)
        assert sidecar.finish() == (0, [])


def test_no_sidecar_is_left_when_its_client_is_killed(project):
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, *project.command()],
        env=project.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert client.stdout is not None
    pid = int(client.stdout.readline())
    client.kill()
    client.wait(DEADLINE)
    client.stdout.close()
    wait_until(lambda: is_gone(pid))


def test_a_client_that_stops_reading_ends_it_quietly(project):
    read, write = os.pipe()
    process = subprocess.Popen(
        project.command(),
        env=project.environment(),
        stdin=subprocess.PIPE,
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    os.close(read)
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(json.dumps(PING).encode() + b"\n")
    process.stdin.flush()
    assert process.wait(DEADLINE) == 0
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()


def test_an_interrupted_agent_leaves_no_traceback(sidecar):
    sidecar.ask("ping")
    sidecar.process.send_signal(signal.SIGINT)
    code, _ = sidecar.finish()
    assert code == -signal.SIGINT
    assert sidecar.errors == ""


def test_a_line_of_ten_mebibytes_is_read(sidecar):
    frame = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"padding": ""}}
    frame["params"]["padding"] = "x" * (10 * MIB - len(json.dumps(frame)))  # type: ignore[index]
    sidecar.send(frame)
    assert sidecar.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_longer_line_is_refused_at_no_cost_of_memory_and_the_session_goes_on(sidecar):
    sidecar.ask("ping")
    for _ in range(30):
        sidecar.send_bytes(b"x" * MIB)
    sidecar.send_bytes(b"\n")
    answer = sidecar.receive()
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert sidecar.ask("ping")["result"] == {}
    (peak,) = [
        line
        for line in Path(f"/proc/{sidecar.process.pid}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    ]
    assert int(peak.split()[1]) < 45 * 1024


def test_nothing_but_answers_reaches_the_client(project):
    with project.start(SORTIE_TOOL_PLUGINS="prints=team_tools:prints") as sidecar:
        answer = sidecar.ask("tools/call", {"name": "prints"})
        assert answer["result"]["content"] == [{"type": "text", "text": "read ''"}]
        assert sidecar.finish() == (0, [])
        for word in ("printed", "written", "raw", "from a child"):
            assert word in sidecar.errors


def test_nothing_in_the_workspace_is_mistaken_for_a_module(project):
    """The command that a run writes down is started by the agent, in a directory that the agent fills."""
    for name in ("_json", "json", "os", "sortie", "typing"):
        (project.workspace / f"{name}.py").write_text("raise SystemExit(5)")
    done = subprocess.run(
        [*server_command(), "mcp-server", "--workflow", str(project.workflow)],
        cwd=project.workspace,
        env=project.environment(),
        input=json.dumps(PING).encode(),
        capture_output=True,
        timeout=DEADLINE,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["result"] == {}


def test_it_works_without_a_standard_error(project):
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *project.command()]
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sortie_status"}})
    done = subprocess.run(
        command,
        env=project.environment(),
        input=line.encode(),
        stdout=subprocess.PIPE,
        timeout=DEADLINE,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["structuredContent"]["max_turns"] == 20


def test_a_client_that_never_reads_the_log_lines_is_still_answered(project):
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(write, True)
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sortie_status"}})
    done = subprocess.run(
        project.command(),
        env=project.environment(),
        input=line.encode(),
        stdout=subprocess.PIPE,
        stderr=write,
        timeout=DEADLINE,
        check=True,
    )
    os.close(read)
    os.close(write)
    assert json.loads(done.stdout)["id"] == 1


def test_twenty_at_once(project):
    """Twenty sessions start together, each with twenty calls at once, and everybody is answered."""
    sidecars = [project.start() for _ in range(20)]
    names = ("tracker_api", "sortie_status", "workspace_history")
    for sidecar in sidecars:
        for number in range(20):
            call = {"name": names[number % 2 + 1], "arguments": {}}
            sidecar.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call})
    for sidecar in sidecars:
        code, answers = sidecar.finish()
        assert code == 0
        assert sorted(answer["id"] for answer in answers) == list(range(20))
        assert not any("isError" in answer["result"] for answer in answers)
    assert len(project.counted()) == 400


@pytest.mark.parametrize("arguments", [[], ["--workflow"], ["--workflow", "a", "b"], ["--work", "a"]])
def test_wrong_usage_is_code_2_and_a_sentence(arguments):
    done = subprocess.run(
        [sys.executable, "-m", "sortie", "mcp-server", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--workflow PATH" in done.stderr


@pytest.mark.parametrize(
    "arguments", [["--workflow", "FILE"], ["--workflow=DIR"], ["-w", "FILE"], ["-w", "DIR"], ["FILE"], ["DIR"]]
)
def test_the_workflow_is_named_as_everywhere(project, arguments):
    """By option or position, the file or its directory: the tracker tool is there, so the workflow was read."""
    places = {"FILE": str(project.workflow), "DIR": str(Path(project.workflow).parent)}
    words = [word.replace("DIR", places["DIR"]).replace("FILE", places["FILE"]) for word in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "sortie", "mcp-server", *words],
        env=project.environment(),
        input=json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}) + "\n",
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    assert "tracker_api" in done.stdout


def test_help_is_for_people(project):
    done = subprocess.run(
        [sys.executable, "-m", "sortie", "mcp-server", "--help"],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    assert done.stdout.startswith("Usage: sortie mcp-server")


def modules_after(project: Project, frames: list[Any], **changes: str | None) -> tuple[set[str], list[Any]]:
    done = subprocess.run(
        [sys.executable, "-c", MODULES, f"--workflow={project.workflow}"],
        env=project.environment(**changes),
        input="".join(json.dumps(frame) + "\n" for frame in frames),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    return set(done.stderr.split()), [json.loads(line) for line in done.stdout.splitlines()]


def test_starting_and_listing_loads_little(project):
    """The list of loaded modules is the budget: a clock would measure the machine."""
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"],
        env=project.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded, answers = modules_after(project, [hello, listing])
    assert len(answers[1]["result"]["tools"]) == 3
    new = loaded - set(bare.stdout.split())
    ours = {"definitions", "json_text", "mcp_session", "mcp_versions", "rpc", "server", "stdio", "toolbox"}
    assert {name for name in new if name.partition(".")[0] not in sys.stdlib_module_names} == {
        "sortie",
        "sortie.tools",
        *(f"sortie.tools.{name}" for name in ours),
    }
    assert {name for name in new if name.partition(".")[0] in sys.stdlib_module_names} == {"__future__", "_json"}


def test_without_a_history_the_database_is_not_loaded_either(project):
    loaded, _ = modules_after(project, [PING], SORTIE_TOOLS="tracker_api,sortie_status")
    assert "sqlite3" not in loaded


@pytest.mark.parametrize("tool", ["sortie_status", "workspace_history"])
def test_arguments_that_a_schema_does_not_have_are_refused(sidecar, tool):
    """EXT-05: what `tools/list` says is what holds."""
    assert sidecar.call(tool, {"verbose": True}) == {"error": f"{tool} takes no arguments"}
    assert "error" not in sidecar.call(tool, {})


def test_a_working_directory_that_is_gone_is_told_in_a_sentence(project, tmp_path):
    """EXT-04: the tools that need no workflow are there."""
    gone = tmp_path / "gone"
    gone.mkdir()
    program = [sys.executable, "-m", "sortie", "mcp-server", "--workflow", "WORKFLOW.md"]
    shell = 'rmdir "$PWD"; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", shell, "sh", *program],
        cwd=gone,
        env=project.environment(SORTIE_TOOLS=None),
        input=json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}) + "\n",
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 0
    assert "tracker_api is left out: The working directory is gone, so WORKFLOW.md leads nowhere." in done.stderr
    assert "Traceback" not in done.stderr
    assert [tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]][:2] == [
        "sortie_status",
        "workspace_history",
    ]
