"""The program behind an agent: found or not, which version, and never waited for without end."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from sortie.agents.command import CommandAgent
from sortie.agents.command_line import check_command, locate, missing_program, shell_command
from sortie.agents.program import Program, run_command
from sortie.errors import AgentError

PROGRAM = Program(name="Agent", command="agent", install="npm install -g agent", tested=("1.2.0", "1.10.3"))
ENVIRONMENT = {"PATH": os.environ["PATH"]}
NOBODY = 65534


@pytest.mark.parametrize(
    ("printed", "verdict"),
    [
        ("1.2.0", "PASS"),
        ("agent/1.10.3 linux-x64", "PASS"),
        ("1.9.99 (Agent)", "PASS"),
        ("1.10.4", "WARN"),
        ("0.9", "WARN"),
        ("2.0.0-beta.1", "WARN"),
        ("no number at all", "WARN"),
    ],
)
async def test_the_version_is_held_against_the_tested_range(tmp_path, printed, verdict):
    program, version = await PROGRAM.examine(f"echo {printed!r} #", tmp_path, ENVIRONMENT)
    assert (program.verdict, version.verdict) == ("PASS", verdict)
    assert "tested with 1.2.0 to 1.10.3" in version.detail


async def test_a_missing_program_names_the_way_to_get_it(tmp_path):
    (found,) = await PROGRAM.examine("no-such-agent", tmp_path, ENVIRONMENT)
    assert found.verdict == "FAIL"
    assert "npm install -g agent" in found.fix


async def test_a_program_that_fails_says_why(tmp_path):
    (found,) = await PROGRAM.examine("sh -c 'echo broken >&2; exit 3' #", tmp_path, ENVIRONMENT)
    assert (found.verdict, "broken" in found.detail) == ("FAIL", True)


async def test_a_script_beside_the_workflow_is_found(tmp_path):
    script = tmp_path / "agent.sh"
    script.write_text("#!/bin/sh\necho 1.2.3\n")
    script.chmod(0o755)
    assert (await PROGRAM.examine("./agent.sh", tmp_path, ENVIRONMENT))[1].verdict == "PASS"


async def test_an_answer_holds_both_outputs_and_takes_what_is_fed(tmp_path):
    answer = await run_command(["sh", "-c", "cat; echo problem >&2; exit 4"], tmp_path, ENVIRONMENT, b"fed\n")
    assert answer is not None
    assert (answer.code, answer.stdout, answer.stderr) == (4, "fed", "problem")


async def test_arguments_reach_the_command_as_they_are(tmp_path):
    arguments = ["a b", "$HOME", "'\"", "", "-n"]
    answer = await run_command(shell_command("printf '%s|'", arguments), tmp_path, ENVIRONMENT)
    assert answer is not None
    assert answer.stdout == "a b|$HOME|'\"||-n|"


@pytest.mark.parametrize(("command", "wrong"), [("", False), ("claude", False), ("  ", True), ("a\0b", True)])
def test_a_command_that_cannot_be_run_is_named(command, wrong):
    assert bool(check_command(command)) == wrong


@pytest.mark.parametrize(
    "command",
    [
        "sh -c true",
        "true",
        "cd sub && ./agent",
        "./made-by-a-hook.sh",
        "sub/agent.sh",
        "./agent.sh --flag",
        "/bin/sh agent.sh",
        "X=1 exec sh",
        '"$HOME"/bin/agent',
        "$(which agent)",
        "if true; then x; fi",
        "env -i sh",
        "'unclosed",
        "",
    ],
)
def test_a_look_finds_nothing_wrong_where_it_cannot_be_sure(tmp_path, command):
    script = tmp_path / "agent.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert missing_program(command, tmp_path, ENVIRONMENT) is None


def test_a_look_finds_a_missing_program_a_directory_and_a_script_that_cannot_be_run(tmp_path):
    (tmp_path / "agent.sh").write_text("#!/bin/sh\n")
    (tmp_path / "agents").mkdir()
    found = {
        command: missing_program(command, tmp_path, ENVIRONMENT)
        for command in ("no-such-agent --go", "/no/such/agent", "./agent.sh", "./agents", f"{tmp_path}/agent.sh x")
    }
    assert {command: error.kind if error else None for command, error in found.items()} == {
        "no-such-agent --go": AgentError.NOT_FOUND,
        "/no/such/agent": AgentError.NOT_FOUND,
        "./agent.sh": AgentError.NOT_EXECUTABLE,
        "./agents": AgentError.NOT_EXECUTABLE,
        f"{tmp_path}/agent.sh x": AgentError.NOT_EXECUTABLE,
    }


@pytest.fixture
def locked():
    """A directory that the user as whom the test runs may not enter, with a script in it."""
    place = Path(tempfile.mkdtemp(prefix="sortie-test-"))
    was_root = os.geteuid() == 0
    script = place / "locked" / "agent.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    script.parent.chmod(0)
    place.chmod(0o755)
    if was_root:
        os.seteuid(NOBODY)
    try:
        yield script
    finally:
        if was_root:
            os.seteuid(0)
        script.parent.chmod(0o755)
        shutil.rmtree(place)


def test_a_program_in_a_place_that_may_not_be_entered_cannot_be_executed(locked):
    place = locked.parent.parent
    for command in (str(locked), "./locked/agent.sh --go"):
        error = missing_program(command, place, ENVIRONMENT)
        assert error is not None
        assert (error.kind, "Permission denied" in error.message) == (AgentError.NOT_EXECUTABLE, True)
        assert "agent.command" in error.fix
        assert locate(command, place, place) == command


@pytest.mark.parametrize("name", ["./" + 300 * "a", "/" + 300 * "a", 300 * "a"])
async def test_a_name_that_is_too_long_is_a_program_that_is_not_there(tmp_path, name):
    error = missing_program(name, tmp_path, ENVIRONMENT)
    assert error is not None
    assert (error.kind, bool(error.fix)) == (AgentError.NOT_FOUND, True)
    assert locate(name, tmp_path, tmp_path) == name
    for findings in (
        await PROGRAM.examine(name, tmp_path, ENVIRONMENT),
        await CommandAgent(name, tmp_path).examine(ENVIRONMENT),
    ):
        assert [(found.verdict, bool(found.fix)) for found in findings] == [("FAIL", True)]


def test_a_path_with_places_of_the_workspace_is_not_judged(tmp_path):
    environment = {**ENVIRONMENT, "PATH": f"bin:{ENVIRONMENT['PATH']}"}
    assert missing_program("no-such-agent", tmp_path, environment) is None
