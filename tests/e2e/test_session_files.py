"""What a run leaves in `.sortie/` for its agent, and what the first prompt says of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sortie.protocol.status_file import STATUS_INSTRUCTIONS
from sortie.tools.definitions import BUILTIN, FOR_ISSUES, advertise

from .project import PROMPT, Project
from .shell import BLOCKED, says

KEY = "sk-tracker-0123456789abcdef"
NAMES = (".gitignore", "mcp.json", "state.json")
TOOLS = advertise([BUILTIN[name] for name in FOR_ISSUES], "")
KEEP_PROMPT = f'cat > "$SORTIE_WORKFLOW_DIR/prompt-$SORTIE_TURN"; {says("${SORTIE_MCP_CONFIG-no tools}")}'


# Done by an agent: a copy of what it found, with modes and times, for the configuration goes with its session.
KEEP_FILES = 'cp -rp .sortie "$SORTIE_WORKFLOW_DIR/kept"'


def session_file(project: Project, name: str) -> Path:
    return project.workspace("1") / ".sortie" / name


def kept(project: Project, name: str) -> Path:
    return project.root / "kept" / name


def server(project: Project) -> dict[str, Any]:
    config = json.loads(kept(project, "mcp.json").read_bytes())
    entry: dict[str, Any] = config["mcpServers"]["sortie-tools"]
    return entry


def prompt(project: Project, turn: int) -> str:
    return (project.root / f"prompt-{turn}").read_text()


# -- the files --------------------------------------------------------------------------------------------------


def test_the_files_are_for_the_owner_only_and_the_gitignore_comes_first(project):
    """EXT-01 EXT-02 EXT-12: all three are there when the agent starts, in their order, whatever the umask is."""
    project.add("1", f"{KEEP_FILES}; {says('$(ls -A .sortie | tr -s [:space:] :)')}; {BLOCKED}")
    project.run()
    assert project.diary() == [".gitignore:mcp.json:state.json:"]
    assert session_file(project, ".gitignore").read_text() == "*\n"
    stats = [kept(project, name).stat() for name in NAMES]
    assert [oct(found.st_mode & 0o777) for found in stats] == ["0o600"] * 3
    written = [found.st_mtime_ns for found in stats]
    assert written == sorted(written)


def test_the_configuration_says_how_to_start_the_server_from_anywhere(project):
    """EXT-01: an absolute command that exists, the absolute workflow, the session's facts in the environment."""
    project.add("1", f"{KEEP_FILES}; {BLOCKED}")
    project.run()
    entry = server(project)
    assert os.path.isabs(entry["command"]) and os.access(entry["command"], os.X_OK)
    assert entry["args"][-3:] == ["mcp-server", "--workflow", str(project.workflow_path)]
    expected = {
        "SORTIE_ISSUE_ID": "1",
        "SORTIE_ISSUE_IDENTIFIER": "T-1",
        "SORTIE_WORKSPACE": str(project.workspace("1")),
        "SORTIE_DB_PATH": str(project.db_path),
        "SORTIE_RUN_ID": project.only_run("1").session_id,
        "SORTIE_ATTEMPT": "1",
    }
    assert {name: entry["env"].get(name) for name in expected} == expected


def test_credentials_are_in_the_environment_block_and_other_secrets_are_not(project):
    """EXT-01: the service's `SORTIE_*`, and what `$MY_KEY` stood for; nothing relies on inheritance."""
    project.workflow({"tracker": {"api_key": "$MY_KEY"}})
    project.add("1", f"{KEEP_FILES}; {BLOCKED}")
    project.run(MY_KEY=KEY, SORTIE_TEAM_TOKEN="team-token", UNRELATED_TOKEN="unrelated")
    environment = server(project)["env"]
    assert environment["SORTIE_TRACKER_API_KEY"] == KEY
    assert environment["SORTIE_TEAM_TOKEN"] == "team-token"
    assert "unrelated" not in kept(project, "mcp.json").read_text()


def test_the_services_own_key_reaches_the_block(project):
    """EXT-01: `SORTIE_TRACKER_API_KEY` in the environment of the service, without a word in the workflow."""
    project.add("1", f"{KEEP_FILES}; {BLOCKED}")
    project.run(SORTIE_TRACKER_API_KEY=KEY)
    assert server(project)["env"]["SORTIE_TRACKER_API_KEY"] == KEY


@pytest.mark.parametrize("ends", [BLOCKED, "exit 7"])
def test_the_configuration_goes_with_its_session(project, ends):
    """EXT-01: however the run ends, what may hold the tracker's key is not left lying in the workspace."""
    project.workflow({"hooks": {"after_run": 'ls -A .sortie >> "$DIARY"'}})
    project.add("1", f"{KEEP_FILES}; {ends}")
    project.run(SORTIE_TRACKER_API_KEY=KEY)
    assert KEY in kept(project, "mcp.json").read_text()
    left = [path for path in project.workspace("1").rglob("*") if path.is_file()]
    assert [path.name for path in left if KEY in path.read_text()] == []
    assert "mcp.json" not in project.diary(), "gone before any hook looks"


def test_each_session_gets_its_own_configuration(project):
    """EXT-01 EXT-12: the second run finds the files of the first, hostile ones too, and replaces them."""
    project.workflow({"budget": {"per_issue": {"sessions": 2}}})
    look = """
        { cat .sortie/state.json; echo; grep -c '"SORTIE_ATTEMPT": "2"' .sortie/mcp.json; } >> "$DIARY"
    """
    spoil = "cd .sortie; rm mcp.json state.json; mkfifo mcp.json; ln -s ../elsewhere state.json; exit 1"
    project.add("1", look + spoil)
    project.run()
    first, tells_first, second, tells_second = map(json.loads, project.diary())
    assert (first["attempt"], second["attempt"]) == (None, 1)
    assert (tells_first, tells_second) == (0, 1)
    assert not (project.workspace("1") / "elsewhere").exists()
    assert not project.notes("1"), "nothing went wrong with the files"


def test_git_shows_nothing_of_it(project):
    """EXT-02: a workspace that is a repository is as clean after the run as before."""
    project.workflow({"hooks": {"after_create": "git init --quiet"}})
    project.add("1", "git add --all; git status --porcelain --untracked-files=all >> $DIARY; echo seen >> $DIARY")
    project.run()
    assert project.diary() == ["seen"]
    listed = ["git", "status", "--porcelain", "--untracked-files=all"]
    answer = subprocess.run(listed, cwd=project.workspace("1"), capture_output=True, text=True, check=True)
    assert answer.stdout == ""


def test_the_state_is_there_at_each_turn(project):
    """EXT-12: the agent reads the number of the turn it is in."""
    project.workflow({"agent": {"max_turns": 3}})
    project.add("1", 'cat .sortie/state.json >> "$DIARY"; echo >> "$DIARY"')
    project.run()
    states = [json.loads(line) for line in project.diary()]
    assert [state["turn_number"] for state in states] == [1, 2, 3]
    assert {(state["max_turns"], state["attempt"], state["total_tokens"]) for state in states} == {(3, None, 0)}
    assert len({state["started_at"] for state in states}) == 1


def test_tokens_reach_the_state_as_they_are_used(project):
    """EXT-12: written on each token event, summed over the session."""
    turn = {"input_tokens": 100, "output_tokens": 20, "cache_read_tokens": 7}
    project.workflow({"agent": {"kind": "mock", "command": "", "max_turns": 2}, "mock": {"turns": [turn]}})
    project.add("1")
    project.run()
    state = json.loads(session_file(project, "state.json").read_bytes())
    assert state["turn_number"] == 2
    assert (state["input_tokens"], state["output_tokens"], state["cache_read_tokens"]) == (200, 40, 14)
    assert state["total_tokens"] == project.only_run("1").tokens.total


# -- the operator's own servers ---------------------------------------------------------------------------------


def operator_config(project: Project, content: str) -> None:
    (project.root / "servers.json").write_text(content)
    project.workflow({"command": {"mcp_config": "servers.json"}})


def test_the_operators_servers_are_kept_beside_ours(project):
    """EXT-04: other servers and other keys stay as they are."""
    theirs = {"mcpServers": {"docs": {"command": "docs-server", "env": {"A": "b"}}}, "inputs": [{"id": "x"}]}
    operator_config(project, json.dumps(theirs))
    project.add("1", f"{KEEP_FILES}; {BLOCKED}")
    project.run()
    config = json.loads(kept(project, "mcp.json").read_bytes())
    assert list(config["mcpServers"]) == ["docs", "sortie-tools"]
    del config["mcpServers"]["sortie-tools"]
    assert config == theirs


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"mcpServers": {"sortie-tools": {"command": "x"}}}', "reserved"),
        ("{", "cannot be read"),
        ("[]", "must be a JSON object"),
        ('{"mcpServers": []}', "must be a JSON object"),
        (None, "cannot be read"),
    ],
)
def test_a_configuration_that_cannot_be_merged_is_refused_before_anything_starts(project, content, told):
    """EXT-04: `validate` names key and line, and the service does not start."""
    operator_config(project, content or "")
    if content is None:
        (project.root / "servers.json").unlink()
    line = 1 + project.workflow_path.read_text().splitlines().index("  mcp_config: servers.json")
    project.add("1", says("started"))
    answer = project.sortie("validate", "--json")
    assert answer.returncode == 2
    (problem,) = json.loads(answer.stdout)["errors"]
    assert (problem["key"], problem["line"]) == ("command.mcp_config", line)
    assert told in problem["message"]
    assert project.run() == 2
    assert told in project.output()
    assert project.diary() == []


# -- the prompt -------------------------------------------------------------------------------------------------


def test_the_first_prompt_is_template_tools_and_status_instructions(project):
    """EXT-05 EXT-03 A2O-23: in this order; the next turn has the template alone; the agent knows the path."""
    project.workflow({"agent": {"max_turns": 2}})
    project.add("1", KEEP_PROMPT)
    project.run()
    assert prompt(project, 1) == f"Work on T-1: Task 1\n\n{TOOLS}\n\n{STATUS_INSTRUCTIONS}"
    for name in FOR_ISSUES:
        assert f"### {name}" in TOOLS
        assert json.dumps(BUILTIN[name].input_schema, indent=2) in TOOLS
    assert prompt(project, 2).strip() == "Work on T-1: Task 1"
    assert project.diary() == [str(session_file(project, "mcp.json"))] * 2


def without_tools(project: Project) -> None:
    """The run went its way, the prompt is that of an agent without tools, and a person is told why."""
    assert prompt(project, 1) == f"Work on T-1: Task 1\n\n{STATUS_INSTRUCTIONS}"
    assert project.diary() == ["no tools"]
    assert project.notes("1").count("the agent has no tools: its workspace cannot be written") == 1


def test_a_link_in_the_place_of_the_folder_costs_the_tools_and_nothing_else(project):
    """EXT-01 COM-03: nothing is written behind the link, and the agent still works."""
    outside = project.root / "outside"
    outside.mkdir()
    project.workflow({"hooks": {"after_create": f"ln -s {outside} .sortie"}})
    project.add("1", f"{KEEP_PROMPT}; rm .sortie; {BLOCKED}")
    project.run()
    without_tools(project)
    assert list(outside.iterdir()) == []
    assert project.only_run("1").soft_stop == "blocked"


def test_a_workspace_that_cannot_be_written_costs_the_tools_and_nothing_else(unprivileged):
    """COM-01 COM-03: the run completes; where the agent makes room for its word again, it is heard."""
    unprivileged.workflow({"hooks": {"before_run": "chmod 500 ."}})
    unprivileged.add("1", f"{KEEP_PROMPT}; chmod 700 .; {BLOCKED}")
    unprivileged.run()
    without_tools(unprivileged)
    assert unprivileged.only_run("1").soft_stop == "blocked"


def test_a_workspace_that_stays_read_only_ends_no_run(unprivileged):
    """COM-01: neither channel can be used; the run succeeds and goes on by the usual rules."""
    unprivileged.workflow({"hooks": {"before_run": "chmod 500 ."}, "agent": {"max_turns": 2}})
    unprivileged.add("1", f"{says('turn')}; mkdir .sortie && echo blocked > .sortie/status; true")
    unprivileged.run()
    run = unprivileged.only_run("1")
    assert (run.status, run.turns, run.soft_stop) == ("succeeded", 2, "")


def test_what_an_issue_says_cannot_change_the_section_about_tools(project):
    """EXT-05: braces and headings of a title stay text of the template."""
    project.workflow(prompt=f"{PROMPT}\n{{{{ issue.description }}}}")
    project.add("1", KEEP_PROMPT, description="## Available Sortie tools\n{{ 7 * 7 }}")
    project.run()
    assert prompt(project, 1).endswith(f"{{{{ 7 * 7 }}}}\n\n{TOOLS}\n\n{STATUS_INSTRUCTIONS}")


def test_the_broker_is_a_setting_with_two_words(project):
    """EXT-01: anything else is refused before a start."""
    project.workflow({"tools": {"credentials": "nowhere"}})
    answer = project.sortie("validate")
    assert answer.returncode == 2
    assert "tools.credentials" in answer.stdout + answer.stderr
