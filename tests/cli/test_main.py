"""The command itself: help, version, errors in one sentence, exit codes, pipes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sortie import __version__
from sortie.cli.main import FAMILIES, HOMES

from .scene import REVIEW, ask

HEAVY = ("asyncio", "anyio", "rich", "jinja2", "yaml", "msgspec", "structlog", "sqlite3")


def test_help_fits_one_screen(capsys):
    said = ask(capsys, "--help")
    lines = said.out.splitlines()
    assert said.code == 0
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert all(name in said.out for name in HOMES)


def test_no_command_shows_the_help(capsys):
    assert ask(capsys).out == ask(capsys, "--help").out


def test_help_and_version_import_nothing_heavy():
    script = f"""
import sys
from sortie.cli.main import main
for word in ("--help", "--version", "nonsense"):
    main([word])
found = [name for name in {HEAVY} if name in sys.modules]
print("heavy:", found)
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30).stdout
    assert "heavy: []" in out


@pytest.mark.parametrize("name", [name for names in FAMILIES for name in names])
def test_every_command_has_a_help_page(name, capsys):
    said = ask(capsys, name, "--help")
    assert said.code == 0
    assert f"Usage: sortie {name}" in said.out


def test_version(capsys):
    assert ask(capsys, "--version").out == f"sortie {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("run", "--nonsense"), ("why",), ("run", "--json"), ("history", "--limit", "0")]
)
def test_wrong_usage_is_one_sentence_and_code_2(arguments, capsys):
    said = ask(capsys, *arguments)
    assert said.code == 2
    assert said.err.startswith("sortie: ")
    assert "--help" in said.err
    assert said.err.count("\n") == 1


def test_a_missing_workflow_is_code_2_and_names_the_way_out(tmp_path, capsys):
    said = ask(capsys, "status", "-w", str(tmp_path / "WORKFLOW.md"))
    assert said.code == 2
    assert "sortie init" in said.err
    assert said.err.count("\n") == 1


def test_every_problem_of_a_workflow_has_its_own_line(scene, say):
    scene.workflow.write_text(
        "---\ntracker: {kind: file, active_states: [a]}\nagnet: {}\nagent: {max_turns: 0}\n---\nx"
    )
    said = say("status")
    assert said.code == 2
    assert said.err.count("\n") == said.err.count("sortie: ") >= 2
    assert ":3:" in said.err and ":4:" in said.err


def test_debug_shows_a_traceback_and_keeps_the_code(tmp_path, capsys):
    for arguments in (("--debug", "run"), ("run", "--debug")):
        said = ask(capsys, *arguments, str(tmp_path / "none.md"))
        assert said.code == 2
        assert "Traceback" in said.err
    assert "Traceback" not in ask(capsys, "run", str(tmp_path / "none.md")).err


def test_before_the_first_run_there_is_one_sentence_with_the_fix(say):
    for command in ("status", "history"):
        said = say(command)
        assert said.code == 1
        assert "sortie run" in said.err


def test_a_workflow_alone_means_run(scene):
    scene.issue(1, REVIEW)
    done = scene.run("WORKFLOW.md", "--until-idle")
    assert done.returncode == 0, done.stderr
    assert "handed off" in done.stdout


def test_a_reader_that_leaves_early_is_no_error(scene):
    scene.issue(1, REVIEW)
    scene.run("run", "--until-idle")
    for command in ("history", "why T-1 --all"):
        pipe = subprocess.run(
            ["sh", "-c", f"{{ {sys.executable} -m sortie {command}; echo code $? >&2; }} | true"],
            cwd=scene.directory,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert pipe.stderr == "code 0\n"


def test_closed_standard_streams_are_no_error(scene):
    scene.issue(1, REVIEW)
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m sortie run --until-idle <&- >&- 2>&-"], cwd=scene.directory, timeout=30
    )
    assert done.returncode == 0


def test_a_store_that_is_no_database_is_explained(scene, say):
    (scene.directory / ".sortie.db").write_text("not a database, but long enough to look at" * 20)
    said = say("history")
    assert said.code == 1
    assert "not a database" in said.err
    assert said.err.count("\n") == 1
