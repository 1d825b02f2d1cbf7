"""The tool server of a session is the service's own code, and answers an agent as the documents say."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import sortie

from .project import PROMPT, Project
from .shell import BLOCKED, says
from .test_tools_end_to_end import COMMENTS, HISTORY, STATUS, agent, answers, counted

EARLIER = 12
TWICE = {"budget": {"per_issue": {"sessions": 2}}}
ISSUE: dict[str, Any] = {
    "description": "It fails silently.",
    "priority": 2,
    "labels": ["backend"],
    "assignee": "alice",
    "issue_type": "Bug",
    "url": "https://tracker.example.com/T-1",
    "branch_name": "T-1-fix",
    "parent": {"id": "9", "identifier": "T-9"},
    "comments": [{"id": "c1", "author": "bob", "body": "Seen.", "created_at": "2026-03-25T10:00:00Z"}],
    "blocked_by": [],
    "created_at": "2026-03-20T09:00:00Z",
    "updated_at": "2026-03-25T14:30:00Z",
}


def asks(operation: str, **fields: str) -> list[Any]:
    return ["call", "tracker_api", {"operation": operation, **fields}]


# -- the same code ----------------------------------------------------------------------------------------------


@pytest.fixture
def copy(project: Project) -> Iterator[Path]:
    """Another copy of the package, whose `sortie_status` counts turns from 1001."""
    package = project.root / "copy" / "sortie"
    shutil.copytree(Path(sortie.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    source = package / "tools" / "sortie_status.py"
    changed = source.read_text().replace('"turn_number": turn,', '"turn_number": turn + 1000,')
    assert changed != source.read_text()
    source.write_text(changed)
    yield package.parent


@pytest.mark.parametrize("path", ["copy", "{root}/copy"], ids=["relative", "absolute"])
def test_the_server_is_the_code_of_the_service_wherever_that_came_from(project, copy, path):
    """EXT-01: not what happens to be installed beside the interpreter."""
    project.add("1", f"{agent(STATUS)}; {BLOCKED}")
    project.run(PYTHONPATH=path.format(root=project.root))
    (status,) = answers(project)
    assert status["turn_number"] == 1001


def test_the_server_finds_the_tracker_that_the_service_found(project):
    """EXT-01 EXT-07: a tracker of another package, known by PYTHONPATH alone."""
    project.workflow(project.record_tracker_calls())
    project.add("1", f"{says('agent')}; {agent(asks('fetch_issue', issue_id='1'))}; {BLOCKED}")
    project.run()
    diary = [line for line in project.diary() if not line.startswith("tracker aclose")]
    called, answer = diary[diary.index("agent") + 1 :][:2]
    assert called == "tracker fetch_issue 1"
    assert json.loads(answer)["data"]["identifier"] == "T-1"


# -- its answers ------------------------------------------------------------------------------------------------


def test_issues_are_read_whole_moved_and_kept_within_the_project(project):
    """EXT-07 EXT-08 EXT-09: each operation, each form of answer, over the server that a runtime started."""
    project.workflow({"tracker": {"project": "T"}})
    steps = (
        asks("fetch_issue", issue_id="1"),
        COMMENTS,
        asks("search_issues"),
        asks("fetch_issue", issue_id="foreign"),
        asks("fetch_issue", issue_id="nobody"),
        asks("transition_issue", issue_id="1"),
        asks("delete_issue", issue_id="1"),
        asks("transition_issue", issue_id="1", target_state="Done"),  # the last, because it ends the run
    )
    project.add("1", agent(*steps), **ISSUE)
    project.add("foreign", BLOCKED, identifier="OTHER-1", state="Backlog")
    project.run()
    record = {"id": "1", "identifier": "T-1", "title": "Task 1", "state": "To Do", **ISSUE}
    fetched, comments, found, *refused, moved = answers(project)
    assert fetched == {"success": True, "data": record}
    assert comments == {"success": True, "data": ISSUE["comments"]}
    assert found == {"success": True, "data": [record]}
    assert moved == {"success": True, "data": {"transitioned": True}}
    assert [(answer["success"], answer["error"]["kind"]) for answer in refused] == [
        (False, "project_scope_violation"),
        (False, "tracker_not_found"),
        (False, "invalid_input"),
        (False, "unsupported_operation"),
    ]
    assert project.state("1") == "Done"
    assert counted(project) == {"tracker_api": {"success": 4, "error": 4}}


def test_the_status_of_the_session_is_what_the_run_knows(project):
    """EXT-11: turns, tokens and time, in the second turn of a first run."""
    project.workflow({"agent": {"max_turns": 3}})
    project.add("1", f"[ $SORTIE_TURN = 1 ] && exit; {agent(STATUS)}; {BLOCKED}")
    project.run()
    (status,) = answers(project)
    assert 0 < status.pop("session_duration_seconds") < 60
    nothing = dict.fromkeys(("input_tokens", "output_tokens", "total_tokens", "cache_read_tokens"), 0)
    expected = {"turn_number": 2, "max_turns": 3, "turns_remaining": 1, "attempt": None, "tokens": nothing}
    assert status == expected


def test_the_history_is_the_last_ten_runs_of_this_issue_newest_first(project):
    """EXT-13: completed runs, with their numbers, times, ends and errors; nobody else's."""
    project.add("2", BLOCKED)
    project.run()
    with closing(sqlite3.connect(project.db_path)) as db, db:
        for number in range(1, EARLIER + 1):
            day = f"2026-03-{number:02}T10:00:00Z"
            db.execute(
                "INSERT INTO run_history VALUES (NULL, ?, '1', 'T-1', ?, 'codex', '/w', ?, ?, 'failed', ?,"
                " 1, '', '', '', 0, 0, 0, 0, 0.0, '', 1)",
                (f"r{number}", number, day, day, f"error {number}"),
            )
    project.add("1", f"{agent(HISTORY)}; {BLOCKED}")
    project.run()
    (history,) = answers(project)
    numbers = list(range(EARLIER, EARLIER - 10, -1))
    assert history["issue_id"] == "1"
    assert [(entry["attempt"], entry["error"]) for entry in history["entries"]] == [
        (number, f"error {number}") for number in numbers
    ]
    newest = history["entries"][0]
    assert newest == {
        "attempt": EARLIER,
        "agent_adapter": "codex",
        "started_at": "2026-03-12T10:00:00Z",
        "completed_at": "2026-03-12T10:00:00Z",
        "status": "failed",
        "error": f"error {EARLIER}",
    }


# -- the number of a run ----------------------------------------------------------------------------------------

WHERE = """\
from sortie.tools import tool


@tool(name="where", description="Which run this is.")
def where(arguments, context):
    return context.attempt
"""


def quotes(text: str) -> str:
    """A line for the diary that is JSON, like the answers of tools."""
    return says(f'\\"{text}\\"')


def install_where(project: Project) -> None:
    """A team's tool that answers with the number of the run, in the place of other packages."""
    place = project.root / "plugins"
    metadata = place / "where-1.0.dist-info"
    metadata.mkdir(parents=True)
    (place / "where_tool.py").write_text(WHERE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: where\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[sortie.tools]\nwhere = where_tool:where\n")
    project.find_modules_in(place)


def test_the_number_of_a_run_means_the_same_everywhere(project):
    """SORTIE_ATTEMPT counts from 1 for agents, hooks, the server and team tools; `attempt` counts earlier runs."""
    install_where(project)
    names = ("after_create", "before_run", "after_run", "before_remove")
    hooks = {name: quotes(f"{name} $SORTIE_ATTEMPT") for name in names}
    project.workflow({**TWICE, "hooks": hooks}, prompt=PROMPT + " {{ attempt }}")
    served = "sed -n 's/.*\"SORTIE_ATTEMPT\": //p' .sortie/mcp.json | tr -d , >> $DIARY"
    said = f"read -r prompt; {quotes('agent $SORTIE_ATTEMPT after ${prompt##* }')}"
    tools = agent(["call", "where", {}], STATUS, HISTORY)
    project.add("1", f"{said}; {served}; {tools}; [ $SORTIE_ATTEMPT = 2 ] && {BLOCKED}")
    project.run()
    project.edit("1", state="Done")
    project.run()
    diary = answers(project)
    first, second = diary[2:7], diary[9:14]
    assert diary[0:2] == ["after_create 1", "before_run 1"]
    assert (first[0:3], first[3]["attempt"], first[4]["entries"]) == (["agent 1 after 0", "1", 1], None, [])
    assert diary[7:9] == ["after_run 1", "before_run 2"]
    assert (second[0:3], second[3]["attempt"]) == (["agent 2 after 1", "2", 2], 1)
    assert [entry["attempt"] for entry in second[4]["entries"]] == [1]
    assert diary[14:] == ["after_run 2", "before_remove 2"]
    assert [run.attempt for run in project.runs("1")] == [1, 2]
