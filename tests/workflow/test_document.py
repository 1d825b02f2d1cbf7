from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sortie.errors import ConfigurationError
from sortie.workflow.document import LARGEST_FILE
from sortie.workflow.loader import check, load

from .sample import ISSUE, PROMPT, SETTINGS, load_text, problems_of, write


def only_problem(path):
    problems = check(path, environ={})
    assert len(problems) == 1, problems
    with pytest.raises(ConfigurationError) as caught:
        load(path, environ={})
    assert caught.value.problems == (str(problems[0]),)
    return problems[0]


def test_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path):
    path = tmp_path / "WORKFLOW.md"
    text = f"---\n{SETTINGS}--- \t\n{PROMPT}".replace("\n", "\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    workflow = load(path, environ={})
    assert workflow.config.tracker.active_states == ("To Do", "In Progress")
    assert workflow.template.render(ISSUE, attempt=0, turn=1, max_turns=2) == "Work on Paint it."


def test_only_the_first_later_fence_ends_the_settings(tmp_path):
    workflow = load_text(tmp_path, prompt="one\n---\ntwo")
    assert workflow.template.render(ISSUE, attempt=0, turn=1, max_turns=2) == "one\n---\ntwo"


def test_a_single_carriage_return_ends_a_line_in_both_halves(tmp_path):
    path = tmp_path / "WORKFLOW.md"
    path.write_bytes(f"---\n{SETTINGS}x: 1\r---\nprompt\r{{{{ y1 }}}}".encode())
    assert [problem.line for problem in check(path, environ={})] == [8, 11]


@pytest.mark.parametrize("content", [b"", b"---", b"Just a prompt\n", b" ---\na: 1\n---\nx"])
def test_a_file_without_settings_is_refused(tmp_path, content):
    path = tmp_path / "WORKFLOW.md"
    path.write_bytes(content)
    problem = only_problem(path)
    assert problem.line == 1
    assert "must begin with" in problem.message


def test_settings_that_never_end_are_refused(tmp_path):
    path = tmp_path / "WORKFLOW.md"
    path.write_text(f"---\n{SETTINGS}\nThe prompt\n")
    assert "never end" in only_problem(path).message


@pytest.mark.parametrize("prompt", ["", "\n \t\n"])
def test_an_empty_prompt_is_refused(tmp_path, prompt):
    assert problems_of(tmp_path, prompt=prompt) == ["WORKFLOW.md:8: the prompt is empty; write it after this line"]


def test_a_missing_file_is_refused(tmp_path):
    problem = only_problem(tmp_path / "WORKFLOW.md")
    assert (problem.line, problem.message) == (0, "there is no such file")


def test_a_pipe_a_directory_a_socket_and_a_device_are_refused_without_waiting(tmp_path):
    fifo, folder, listener = tmp_path / "fifo", tmp_path / "folder", tmp_path / "socket"
    os.mkfifo(fifo)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(listener))
        for path in (fifo, folder, Path("/dev/zero"), tmp_path / "nul\0"):
            message = only_problem(path).message
            assert message in ("this is not a regular file", "this is not a possible file name")
        assert "cannot be read" in only_problem(listener).message


def test_a_huge_file_is_refused(tmp_path):
    path = tmp_path / "WORKFLOW.md"
    path.write_bytes(b"x" * (LARGEST_FILE + 1))
    assert only_problem(path).message == "the file is larger than 1 MiB"


def test_text_that_is_not_utf8_is_refused_with_its_line(tmp_path):
    path = tmp_path / "WORKFLOW.md"
    path.write_bytes(b"---\na: 1\nb: \xff\n---\nx")
    assert only_problem(path).line == 3


def test_yaml_errors_have_the_line_of_the_file(tmp_path):
    assert problems_of(tmp_path, "tracker:\n  kind: file\n  kind file\nagent: {}\n") == [
        "WORKFLOW.md:5: not valid YAML: while scanning a simple key could not find expected ':'"
    ]
    assert problems_of(tmp_path, "# a\nb: \x07\n")[0].startswith("WORKFLOW.md:3: not valid YAML: control")
    assert problems_of(tmp_path, "a: [1,\n")[0].startswith("WORKFLOW.md:2: not valid YAML")


def test_a_yaml_error_never_quotes_the_file(tmp_path):
    for value in ("*hunter2", "!hunter2", "&hunter2 [", '"hunter2', "%hunter2", "@hunter2"):
        settings = f"{SETTINGS}file:\n  api_key: {value}\n"
        assert "hunter2" not in str(problems_of(tmp_path, settings))


@pytest.mark.parametrize("settings", ["just text\n", "- a\n- b\n", "42\n"])
def test_settings_that_are_no_map_are_refused(tmp_path, settings):
    assert "must be a map" in problems_of(tmp_path, settings)[0]


def test_lines_stay_exact_after_characters_that_only_yaml_takes_for_line_ends(tmp_path):
    settings = '# \x85# \u2028#\nnote: "😀"\n' + SETTINGS
    assert [problem.split(": ")[0] for problem in problems_of(tmp_path, settings)] == ["WORKFLOW.md:3"]


def test_a_key_given_twice_is_refused_with_both_lines(tmp_path):
    settings = SETTINGS + "  max_turns: 3\n  max_turns: 4\n"
    assert problems_of(tmp_path, settings) == ["WORKFLOW.md:9: agent.max_turns: is given twice, first on line 8"]


def test_values_may_be_repeated_by_alias(tmp_path):
    settings = SETTINGS.replace("[Done]", "&last [Done]") + "file: {done: *last}\n"
    assert load_text(tmp_path, settings).config.options["file"] == {"done": ["Done"]}


@pytest.mark.parametrize(
    "bomb",
    [
        "file: &a [*a]\n",
        "file: &a {b: *a}\n",
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"{b}: &{b} [{','.join(['*' + a] * 10)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)),
        "file: " + "[" * 200_000 + "\n",
        "file: " + "{a: " * 100_000 + "\n",
        "- " * 100_000 + "\n",
    ],
    ids=["list in itself", "map in itself", "billion laughs", "deep lists", "deep maps", "deep entries"],
)
def test_yaml_that_would_grow_without_bound_is_refused(tmp_path, bomb):
    (problem,) = problems_of(tmp_path, bomb)
    assert "too deeply" in problem or "too many values" in problem


def test_unusual_yaml_values_are_refused_once_each(tmp_path):
    settings = SETTINGS + (
        "  max_turns: !!int nine\n"
        "  env: [!!binary aGk=]\n"
        '  command: "a\\0b"\n'
        f"  max_sessions: 0x{'f' * 5000}\n"
        "file: {? [a] : 1, <<: {b: 1}, when: 2024-99-99}\n"
    )
    assert problems_of(tmp_path, settings) == [
        "WORKFLOW.md:8: agent.max_turns: cannot be understood; put it in quotes",
        "WORKFLOW.md:9: agent.env.0: cannot be understood; put it in quotes",
        "WORKFLOW.md:10: agent.command: contains a NUL character",
        "WORKFLOW.md:11: agent.max_sessions: is too large a number",
        "WORKFLOW.md:12: file: only plain keys are possible here",
    ]


def test_the_path_shown_is_the_path_given(tmp_path, monkeypatch):
    write(tmp_path, "x: 1\n")
    monkeypatch.chdir(tmp_path)
    path = tmp_path.joinpath("WORKFLOW.md").relative_to(tmp_path)
    assert str(check(path, environ={})[0]).startswith("WORKFLOW.md:")
