"""`examine` of the command agent: whatever keeps a script from starting is found without running it."""

from __future__ import annotations

import os
import stat
import sys

import pytest

from sortie.agents.command import CommandAgent

ENVIRONMENT = {"PATH": os.environ["PATH"]}
MARK = "touch ran-it\n"


@pytest.fixture
def examine(tmp_path):
    """The one finding about `./agent`, with this content."""

    async def examine(content: str | bytes, command: str = "./agent -x", mode: int = 0o755):
        script = tmp_path / "agent"
        script.write_bytes(content if isinstance(content, bytes) else content.encode())
        script.chmod(mode)
        (found,) = await CommandAgent(command, tmp_path).examine(ENVIRONMENT)
        assert [path.name for path in tmp_path.iterdir()] == ["agent"]
        return found

    return examine


@pytest.mark.parametrize(
    ("content", "says", "fix"),
    [
        (
            f"#!/no/such/sh\n{MARK}",
            "the interpreter of {agent}, /no/such/sh, was not found",
            "first line of {agent}",
        ),
        (f"#!/usr/bin/env nosuch\n{MARK}", "the interpreter of {agent}, nosuch, was not found", "Install it"),
        (f"#!/usr/bin/env -S X=1 nosuch -u\n{MARK}", "nosuch, was not found", "Install it"),
        (f"#! /usr/bin/env sh -e\n{MARK}", "sh -e, was not found", "first line"),
        (f"#!/bin/sh\r\n{MARK}", "(CRLF)", "sed -i 's/\\r$//' {agent}"),
        (f"#!/usr/bin/env python3\r\n{MARK}", "(CRLF)", "sed -i"),
        (f"#!/bin/sh\n{MARK}cd here\r\n", "(CRLF)", "sed -i"),
        (f"#!/bin/sh\n{MARK}if true; then\n", "{agent} has a syntax error: ", "Correct it there"),
        (f"#!/usr/bin/env bash\n{MARK}fi\n", "{agent} has a syntax error: ", "Correct it there"),
        (f"{MARK}done\n", "{agent} has a syntax error: ", "Correct it there"),
        (
            f"#!{sys.executable}\nopen('ran-it', 'w')\ndef f(:\n",
            "{agent} has a syntax error: line 3: ",
            "Correct it there",
        ),
    ],
)
async def test_a_script_that_cannot_start_fails_with_the_reason_and_the_fix(examine, tmp_path, content, says, fix):
    found = await examine(content)
    assert found.verdict == "FAIL"
    assert says.format(agent=tmp_path / "agent") in found.detail
    assert fix.format(agent=tmp_path / "agent") in found.fix


@pytest.mark.parametrize(
    "content",
    [
        f"#!/bin/sh -e\n{MARK}",
        f"#!/usr/bin/env -S sh -e\n{MARK}",
        f"#!/usr/bin/env bash\n{MARK}a=(1 2)\n",
        MARK,
        "",
        "#!/usr/bin/env python3\nopen('ran-it', 'w')\r\n",
        "#!/bin/cat\nif then (\n",
        b"\x7fELF\0\0 no program that runs here",
    ],
)
async def test_a_script_that_can_start_passes_and_is_not_run(examine, content):
    found = await examine(content)
    assert (found.verdict, found.detail) == ("PASS", "./agent")


async def test_a_script_that_is_found_by_its_name_is_looked_at_too(tmp_path):
    script = tmp_path / "my-agent"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    (found,) = await CommandAgent("FOO=1 exec my-agent", tmp_path).examine(environment)
    assert (found.verdict, "/no/such/interpreter" in found.detail) == ("FAIL", True)


async def test_a_directory_is_no_agent(tmp_path):
    (tmp_path / "agent").mkdir()
    (found,) = await CommandAgent("./agent", tmp_path).examine(ENVIRONMENT)
    assert (found.verdict, found.detail) == ("FAIL", f"{tmp_path / 'agent'} is a directory.")
    assert "agent.command" in found.fix


@pytest.mark.parametrize("type", [stat.S_IFIFO, stat.S_IFSOCK])
async def test_a_pipe_or_a_socket_is_no_agent_and_is_never_opened(tmp_path, type):
    """Who opened the pipe would wait for its other end."""
    os.mknod(tmp_path / "agent", type | 0o755)
    (found,) = await CommandAgent("./agent", tmp_path).examine(ENVIRONMENT)
    assert (found.verdict, found.detail) == ("FAIL", f"{tmp_path / 'agent'} is not a file.")
    assert "agent.command" in found.fix


async def test_a_device_is_no_agent(tmp_path):
    (found,) = await CommandAgent("/dev/null", tmp_path).examine(ENVIRONMENT)
    assert (found.verdict, found.detail) == ("FAIL", "/dev/null is not a file.")


async def test_a_file_that_may_not_be_run_is_no_agent(examine):
    found = await examine(MARK, mode=0o644)
    assert (found.verdict, found.fix[:13]) == ("FAIL", "Run: chmod +x")


@pytest.mark.parametrize("command", ["cd /", "true", "./nothing-here", "no-such-program"])
async def test_anything_else_is_found_or_not(tmp_path, command):
    (found,) = await CommandAgent(command, tmp_path).examine(ENVIRONMENT)
    assert found.verdict == ("FAIL" if "no" in command else "PASS")


GOOD, BAD = "print('ran')\n", "def f(:\n"


@pytest.mark.parametrize(
    ("command", "content", "says", "fix"),
    [
        ("python3 agent", GOOD, "agent lies beside the workflow", '"$SORTIE_WORKFLOW_DIR/agent"'),
        ("exec python3 -u ./agent -x", GOOD, "./agent lies beside", '"$SORTIE_WORKFLOW_DIR/agent"'),
        ("sh -e agent", "true\n", "lies beside", "SORTIE_WORKFLOW_DIR"),
        ("bash -o pipefail agent", "true\n", "lies beside", "SORTIE_WORKFLOW_DIR"),
        ('python3 "$SORTIE_WORKFLOW_DIR/agent"', BAD, "{agent} has a syntax error: line 1", "Correct it there"),
        ('sh "$SORTIE_WORKFLOW_DIR/agent"', "if true; then\n", "{agent} has a syntax error", "Correct it there"),
        ('sh "$SORTIE_WORKFLOW_DIR/agent"', "cd here\r\n", "(CRLF)", "sed -i"),
        ('python3 "$SORTIE_WORKFLOW_DIR/other"', GOOD, "other was not found", "agent.command"),
        ("python3 /no/such/agent.py", GOOD, "/no/such/agent.py was not found", "agent.command"),
        ("if true; then ./agent", GOOD, "has a syntax error", "agent.command"),
        ("./agent 'unfinished", GOOD, "has a syntax error", "agent.command"),
    ],
)
async def test_an_interpreter_that_cannot_run_its_script_is_told(examine, tmp_path, command, content, says, fix):
    """The script is looked for where the command runs, and need not be executable; a hook may put it there."""
    found = await examine(content, command, mode=0o644)
    assert found.verdict == ("WARN" if "lies beside" in says else "FAIL")
    assert says.format(agent=tmp_path / "agent") in found.detail
    assert fix in found.fix


@pytest.mark.parametrize(
    "command",
    [
        'python3 "$SORTIE_WORKFLOW_DIR/agent" --fast',
        "python3 -X dev -W ignore in-the-workspace.py",
        "python3 -m agent",
        "python3 -c 'import agent'",
        "sh -c ./agent",
        "sh -s agent",
        'sh "$HOME/agent"',
        "python3 - < agent",
        "cat agent",
    ],
)
async def test_an_interpreter_is_not_doubted_without_reason(examine, command):
    assert (await examine(GOOD, command, mode=0o644)).verdict == "PASS"
