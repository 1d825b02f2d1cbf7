"""Why an agent stopped, where its status file does not say so: its own last words, and nobody else's."""

from __future__ import annotations

import shlex
import sys

from .shell import BLOCKED, REVIEW

COMMENTED = {"tracker": {"comments": {"on_completion": True}}}

# Starts the tool server as its configuration says, with one tool more, which cannot be loaded.
NOISY_SERVER = """
import json, os, subprocess
entry = json.load(open(os.environ["SORTIE_MCP_CONFIG"]))["mcpServers"]["sortie-tools"]
environment = {**os.environ, **entry["env"], "SORTIE_TOOL_PLUGINS": "broken=no_such_module:tool"}
subprocess.run([entry["command"], *entry["args"]], env=environment, stdin=subprocess.DEVNULL, check=True)
"""
START_SERVER = f"{shlex.quote(sys.executable)} -c {shlex.quote(NOISY_SERVER)}"


def test_the_reason_is_what_the_agent_said_and_not_what_our_server_complains_of(project):
    """The standard error of whatever an agent starts is in the log, in no reason and in no comment."""
    project.workflow(COMMENTED)
    project.add("1", f"echo 'Which database shall it be?'; {START_SERVER}; {BLOCKED}")
    project.run()
    assert "stderr: sortie-tools: The tool broken is left out." in project.run_log()
    assert project.parked()["1"] == ("signal", "Which database shall it be?")
    assert project.only_run("1").reason == "Which database shall it be?"
    (comment,) = project.issue("1")["comments"]
    assert "> Which database shall it be?" in comment["body"]
    assert "left out" not in comment["body"]
    shown = project.sortie("status", "--json").stdout
    assert "Which database shall it be?" in shown
    assert "left out" not in shown


def test_without_a_word_of_its_own_the_signal_is_the_reason(project):
    project.workflow(COMMENTED)
    project.add("1", f"echo; {START_SERVER}; {BLOCKED}")
    project.add("2", f"echo 'about to ask' >&2; {REVIEW}")
    project.run()
    assert project.parked() == {"1": ("signal", "blocked"), "2": ("signal", "needs-human-review")}
    for issue_id in ("1", "2"):
        (comment,) = project.issue(issue_id)["comments"]
        assert "\n> " not in comment["body"]


def test_what_our_server_complains_of_is_not_why_a_turn_failed(project):
    project.workflow({"tracker": {"comments": {"on_failure": True}}})
    project.add("1", f"echo 'no such branch' >&2; {START_SERVER}; exit 3")
    project.run()
    assert "The tool broken is left out." in project.run_log()
    (comment,) = project.issue("1")["comments"]
    assert "exit code 3: no such branch" in comment["body"]
    assert "left out" not in comment["body"]
    assert "left out" not in project.only_run("1").error


def test_text_that_is_none_reaches_people_as_text(project):
    """Bytes that are no UTF-8, in a reason and in the output of an agent that goes on to complete its turn."""
    project.workflow(COMMENTED)
    project.add("1", f"printf 'half a \\303 letter\\n'; {BLOCKED}")
    project.run()
    reason = "half a \N{REPLACEMENT CHARACTER} letter"
    assert project.parked()["1"] == ("signal", reason)
    (comment,) = project.issue("1")["comments"]
    assert f"> {reason}" in comment["body"]
