"""The command itself: help, version, errors in one sentence, exit codes, pipes."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from sortie import __version__
from sortie.cli.main import FAMILIES, HOMES

from .scene import BLOCK, REVIEW, Scene, ask

HEAVY = ("asyncio", "anyio", "rich", "jinja2", "yaml", "msgspec", "sqlite3")


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
def test_every_command_has_a_help_page_of_at_most_80_columns(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    said = ask(capsys, name, "--help")
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 80
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
    for command in ("history", "why T-1 --all", "doctor"):
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


def test_an_output_that_is_full_is_one_sentence(scene):
    with open("/dev/full", "w") as full:
        argv, pipe = scene.command("validate"), subprocess.PIPE
        done = subprocess.run(argv, cwd=scene.directory, stdout=full, stderr=pipe, text=True, timeout=30)
    assert done.returncode == 1
    assert done.stderr == "sortie: The output, or a file, cannot be written or read: No space left on device.\n"


def test_a_working_directory_that_is_gone_is_one_sentence(scene, tmp_path_factory):
    gone = tmp_path_factory.mktemp("gone")
    argv = ["sh", "-c", 'rmdir "$0"; exec "$@"', str(gone), *scene.command("status", "-w", "WORKFLOW.md")]
    done = subprocess.run(argv, cwd=gone, capture_output=True, text=True, timeout=30)
    assert done.returncode in (1, 2)
    assert done.stderr.count("\n") == 1 and "unforeseen" not in done.stderr, done.stderr


@pytest.mark.parametrize("command", ["why", "logs", "history", "unpark", "status", "validate", "init"])
def test_arguments_that_are_not_utf8_are_one_sentence(elsewhere, command):
    argv = [*map(os.fsencode, elsewhere.command(command)), b"\xff\xfe"]
    done = subprocess.run(argv, cwd=elsewhere.directory, capture_output=True, text=True, timeout=30)
    assert "unforeseen" not in done.stderr
    assert done.returncode in (0, 1, 2)


@pytest.mark.parametrize(("command", "code"), [(("run",), 2), (("validate",), 2), (("doctor",), 1)])
def test_a_project_in_a_directory_that_is_not_utf8_is_refused_with_the_fix(tmp_path, command, code):
    """What is remembered of a run names its workspace, in UTF-8."""
    directory = tmp_path / os.fsdecode(b"gr\xfc\xdfe")
    directory.mkdir()
    argv = [sys.executable, "-m", "sortie"]
    subprocess.run([*argv, "init"], cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    done = subprocess.run([*argv, *command], cwd=directory, capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert (
        "the path of its directory is not UTF-8 text; rename that, or move the project" in done.stdout + done.stderr
    )


def test_an_env_file_that_is_not_there_is_wrong_usage(scene, say):
    for command in ("run", "validate", "doctor"):
        said = say(command, "--env-file", str(scene.directory / "no.env"))
        assert (said.code, "no.env" in said.err) == (2, True)


def test_a_store_that_is_no_database_is_explained(scene, say):
    (scene.directory / ".sortie.db").write_text("not a database, but long enough to look at" * 20)
    said = say("history")
    assert said.code == 1
    assert "not a database" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "meant"), [("stauts", "status"), ("valdate", "validate"), ("Run", "run"), ("mcpserver", "mcp-server")]
)
def test_a_misspelt_command_is_answered_with_the_one_meant(typed, meant, capsys):
    said = ask(capsys, typed)
    assert said.code == 2
    assert f"Did you mean '{meant}'?" in said.err


def test_a_word_like_no_command_is_answered_without_a_guess(capsys):
    assert "Did you mean" not in ask(capsys, "xyzzy").err
    assert "Did you mean '--json'?" in ask(capsys, "status", "--jsn").err


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A project that is not the current directory, after a run."""
    scene = Scene(tmp_path_factory.mktemp("elsewhere"))
    scene.issue(1, BLOCK)
    assert scene.run("run", "--until-idle").returncode == 3
    return scene


@pytest.mark.parametrize("form", ["option", "directory by option", "position", "directory"])
@pytest.mark.parametrize("command", ["validate", "doctor", "status", "run --dry-run"])
def test_a_workflow_is_named_the_same_way_everywhere(elsewhere, tmp_path, monkeypatch, capsys, command, form):
    monkeypatch.chdir(tmp_path)
    place = elsewhere.directory if "directory" in form else elsewhere.workflow
    words = ("-w", str(place)) if "option" in form else (str(place),)
    said = ask(capsys, *command.split(), *words)
    assert said.code == 0, said.err
    other = ask(capsys, *command.split(), "--workflow", str(elsewhere.workflow)).out
    free = re.compile(r"[0-9.]+ GiB free")  # others use the disk meanwhile
    assert free.sub("", said.out).replace(f" -w {place}`", f" -w {elsewhere.workflow}`") == free.sub("", other)


def test_commands_about_an_issue_take_a_directory_too(elsewhere, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for command in ("history", "logs T-1", "why T-1", "retry T-1", "stop T-1", "unpark T-1"):
        said = ask(capsys, *command.split(), "-w", str(elsewhere.directory))
        assert said.code == 0, said.err


def test_history_of_a_workflow_that_stands_alone_on_the_line(elsewhere, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for place in (elsewhere.workflow, elsewhere.directory):
        said = ask(capsys, "history", str(place))
        assert (said.code, "T-1" in said.out) == (0, True), said.err
    assert "both name the workflow" in ask(capsys, "history", str(place), "-w", str(place)).err


def test_advice_names_the_workflow_as_it_was_named(scene, tmp_path_factory, monkeypatch, capsys):
    """What is printed works where it was printed."""
    scene.issue(1, BLOCK)
    scene.run("run", "--until-idle")
    monkeypatch.chdir(tmp_path_factory.mktemp("away"))
    said = ask(capsys, "status", "-w", str(scene.directory)).out
    assert f"unpark ISSUE -w {scene.directory}`" in said
    assert f"run -w {scene.directory}`" in said
    assert f"unpark T-1 -w {scene.workflow}`" in ask(capsys, "why", "T-1", "-w", str(scene.workflow)).out
    monkeypatch.chdir(scene.directory)
    assert "unpark ISSUE`" in ask(capsys, "status").out


@pytest.mark.parametrize("command", ["logs", "why", "unpark", "retry", "stop"])
def test_a_workflow_in_the_place_of_an_issue_is_noticed(elsewhere, tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    for place in (elsewhere.workflow, elsewhere.directory):
        said = ask(capsys, command, str(place))
        assert said.code == 2
        assert f"`-w {place}`" in said.err


def test_two_workflows_on_one_line_are_refused(elsewhere, capsys):
    for line in (("-w", str(elsewhere.directory), "."), (".", "-w", str(elsewhere.directory))):
        said = ask(capsys, "status", *line)
        assert said.code == 2
        assert "both name the workflow" in said.err


def test_a_workspace_beside_the_workflow_is_no_workflow(scene, monkeypatch, capsys):
    scene.issue(1, BLOCK)
    (scene.directory / "T-1").mkdir()
    (scene.directory / "T-1" / "WORKFLOW.md").write_text("the repository has one of its own")
    monkeypatch.chdir(scene.directory)
    assert "no service has polled" in ask(capsys, "why", "T-1").out


@pytest.mark.parametrize("word", [".", "project"])
def test_a_directory_alone_means_run(scene, tmp_path_factory, word):
    link = tmp_path_factory.mktemp("around") / "project"
    link.symlink_to(scene.directory)
    scene.issue(1, REVIEW)
    done = subprocess.run(
        scene.command(word, "--until-idle"),
        cwd=link if word == "." else link.parent,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert "handed off" in done.stdout
