"""Commands read what they show: SQLite says how it finds each answer, and reads through no table of the past.
They load what they need for that, and nothing else.

The statements are those of the connections that the commands really open.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import Any

import pytest

from sortie.store.connect import connect_readonly

from .scene import BLOCK, REVIEW, Scene, ask

# They grow with all that ever happened; the others with what is going on now.
OF_THE_PAST = {"events", "run_history", "budget", "workspaces", "commands"}
OF_NOW = {"issues", "claims", "retries", "parked", "effects"}


@contextmanager
def statements() -> Iterator[list[str]]:
    """Everything that is asked of SQLite meanwhile, through connections for looking."""
    asked: list[str] = []

    def opened(frame: FrameType, event: str, answer: Any) -> None:
        if event == "return" and frame.f_code is connect_readonly.__code__ and answer:
            answer.set_trace_callback(asked.append)

    sys.setprofile(opened)
    try:
        yield asked
    finally:
        sys.setprofile(None)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    scene = Scene(tmp_path_factory.mktemp("ended"))
    scene.issue(1, REVIEW)
    scene.issue(2, BLOCK)
    assert scene.run("run", "--until-idle").returncode == 3
    return scene


def read_through(scene: Scene, asked: list[str]) -> set[str]:
    """The tables that these statements would read from one end to the other."""
    scanned = set()
    with closing(sqlite3.connect(scene.directory / ".sortie.db")) as db:
        for statement in asked:
            if statement.lstrip().upper().startswith("SELECT"):
                for *_, detail in db.execute(f"EXPLAIN QUERY PLAN {statement}"):
                    words = detail.split()
                    if words[0] == "SCAN" and ("WHERE" in statement or "LIMIT" not in statement):
                        scanned.add(words[1])
    return scanned


@pytest.mark.parametrize(
    ("command", "spared"),
    [
        (("status",), OF_THE_PAST),
        (("why", "T-2"), OF_THE_PAST | OF_NOW),
        (("why", "2", "--all"), OF_THE_PAST | OF_NOW),
        (("logs", "T-1"), OF_THE_PAST | OF_NOW),
        (("logs", "T-1", "--follow"), OF_THE_PAST | OF_NOW),
        (("history", "T-1"), OF_THE_PAST | OF_NOW),
        (("history",), OF_THE_PAST | OF_NOW),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_reads_through_no_table_that_it_need_not(ended, capsys, command, spared):
    with statements() as asked:
        said = ask(capsys, *command, "-w", str(ended.workflow))
    assert said.code == 0, said.err
    assert any("FROM" in statement for statement in asked), "the statements were not heard"
    assert read_through(ended, asked) & spared == set()


def test_following_a_run_asks_for_one_row_at_a_time(ended, capsys):
    """It is asked ten times a second, so it is about that run alone, found by its number."""
    with statements() as once:
        ask(capsys, "logs", "T-1", "-w", str(ended.workflow))
    with statements() as following:
        ask(capsys, "logs", "T-1", "--follow", "-w", str(ended.workflow))
    (more,) = [statement for statement in following if statement not in once]
    assert "FROM claims WHERE run_id =" in more


# What running agents and drawing live takes; each is a third or more of the time of such a command.
NOT_FOR_LOOKING = {"anyio", "asyncio", "importlib.metadata", "rich", "sortie.engine", "sortie.agents"}

LOADED = """
import sys
from sortie.cli.main import main
code = main()
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "command",
    ["status", "status --json", "history", "history T-1 --json", "why T-2", "why T-2 --json", "logs T-1"],
)
def test_looking_loads_no_more_than_it_needs(ended, command):
    program = (
        "import sys, sortie.cli.main as m\ncode = m.main()\nprint(*sys.modules, file=sys.stderr)\nsys.exit(code)"
    )
    asked = [sys.executable, "-c", program, *command.split(), "-w", str(ended.workflow)]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert set(done.stderr.split()) & NOT_FOR_LOOKING == set()


def test_a_block_for_an_agent_that_is_not_in_use_is_no_mistake(scene, say):
    """Which agents there are is looked up only where something seems to be wrong."""
    scene.workflow.write_text(scene.workflow.read_text().replace("agent:", "codex: {model: x}\nagent:", 1))
    scene.issue(1, BLOCK)
    assert scene.run("run", "--until-idle").returncode == 3
    shown = say("status")
    assert (shown.code, shown.err) == (0, "")
    assert say("status", "--json").json()["workflow_broken"] is False
    assert say("validate").out.endswith(" is valid.\n")
