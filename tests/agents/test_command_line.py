"""A command means the same with and without a shell; where that is not sure, a shell starts it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sortie.agents.agent import AgentSettings
from sortie.agents.command import CommandAgent
from sortie.agents.command_line import plain_words, shell_command, start_command
from sortie.errors import AgentError

SHELLS = [["sh"], ["bash", "--posix"]] if shutil.which("bash") else [["sh"]]

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=12)
ODD = st.text(st.sampled_from("ab1/._-+=:@%,~$`'\"\\*?[]{}()<>|&;!#^ \t\n\rü\x01\x81"), max_size=12)
QUOTED = st.one_of(TEXT, ODD).map(shlex.quote)
DOUBLE_QUOTED = st.one_of(TEXT, ODD).map(lambda text: '"' + text.replace('"', "") + '"')
SAFE = st.text(st.sampled_from("abcZ019./:=@%+,_-"), min_size=1, max_size=8)
WORD = st.lists(st.one_of(SAFE, QUOTED, DOUBLE_QUOTED), min_size=1, max_size=3).map("".join)
SPACE = st.sampled_from([" ", "  ", "\t", " \t "])
PLAIN_ARGUMENTS = st.lists(st.tuples(SPACE, WORD).map("".join), max_size=4).map("".join)
ARGUMENTS = st.one_of(PLAIN_ARGUMENTS, PLAIN_ARGUMENTS, ODD)


@pytest.fixture(scope="module")
def show(tmp_path_factory):
    """A directory with a program `show` that prints its arguments, each with a NUL after it."""
    place = tmp_path_factory.mktemp("show")
    script = place / "show"
    script.write_text("#!/bin/sh\n[ $# = 0 ] || printf '%s\\0' \"$@\"\n")
    script.chmod(0o755)
    return place


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=ARGUMENTS)
@example(" 'a b' \"c d\" '' e=f g:h")
@example(" ~ ~/x a=~ $HOME \"$HOME\" '$HOME'")
@example(" a#b #c")
@example(" a\\ b")
@example(' "a\\b"')
@example(" {a,b} [x] *")
@example(" a\rb 'a\nb'")
@example("=x")
def test_plain_words_are_what_a_shell_makes_of_them(show, shell, arguments):
    command = f"./show{arguments}"
    words = plain_words(command)
    if not words or words[0] != "./show":
        return  # for the shell
    argv = [*shell, "-c", command]
    done = subprocess.run(argv, cwd=show, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=True)
    assert [os.fsencode(word) for word in words[1:]] == done.stdout.split(b"\0")[:-1]


@given(arguments=st.lists(st.one_of(TEXT, SAFE), max_size=4))
def test_every_quoted_argument_is_a_plain_word(arguments):
    assert plain_words(shlex.join(["./agent", *arguments])) == ("./agent", *arguments)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "   ",
        "''",
        "X=1 ./agent",
        "X=1",
        "a'b'=c d",
        "-x",
        "+x",
        "./agent &",
        "./agent; true",
        "./agent | cat",
        "./agent > out",
        "./agent 2>&1",
        "./agent $HOME",
        '"$HOME"/agent',
        "~/agent",
        "./agent ~",
        "./agent *.txt",
        "./agent a\\ b",
        "./agent # comment",
        "./agent\n./other",
        "./agent `pwd`",
        "(./agent)",
        "{ ./agent; }",
        "! ./agent",
        "'unclosed",
        "./agent\0",
        "./ägent",
        *(
            "cd",
            "exec",
            "eval",
            ".",
            ":",
            "true",
            "test",
            "if",
            "while",
            "echo",
            "export",
            "printf",
            "kill",
            "time",
        ),
        "[",
    ],
)
def test_whatever_a_shell_might_read_otherwise_is_left_to_it(command):
    assert plain_words(command) == ()


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_no_word_that_a_shell_knows_by_itself_is_taken_for_a_program(shell):
    """Asked of the shells that are here, for every program on the path and the builtins that have none."""
    names = {
        "bg",
        "caller",
        "compgen",
        "declare",
        "dirs",
        "enable",
        "fc",
        "getopts",
        "help",
        "jobs",
        "let",
        "shopt",
    }
    names |= {path.name for place in os.get_exec_path() for path in Path(place).glob("*")}
    names = {name for name in names if plain_words(name) == (name,)}
    argv = [*shell, "-c", 'type "$@"', *shell[:1], *sorted(names)]
    answer = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout
    assert "sh is" in answer
    assert [line for line in answer.splitlines() if line.endswith(("shell builtin", "shell keyword"))] == []


@pytest.fixture
def program(workspace):
    """`program(NAME, CONTENT)` puts a script into the workspace."""

    def program(name, content, mode=0o755):
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode())
        path.chmod(mode)
        return path

    return program


async def outcome(command, order, environment):
    """Exit code, signal, output and standard error."""
    child = await start_command(command, (), order, environment)
    await child.feed(b"")
    said = [line async for line in child.lines()]
    complained = [line async for line in child.error_lines()]
    exit = await child.wait()
    await child.end()
    return exit.code, exit.signal, said, complained


def by_shell(command: str) -> str:
    """The same command in a form that goes through a shell."""
    return f"{command} #"


@pytest.mark.parametrize(
    "command",
    [
        "/bin/cat /proc/self/cmdline /proc/self/environ",
        "tail -n +1 /proc/self/cmdline /proc/self/environ 'no such file'",
        "readlink /proc/self/cwd",
        "./script one 'two three'",
        "./no-interpreter",
        "./missing-interpreter",
        "./not-executable",
        "./nothing",
        "nothing-of-this-name",
        "./directory",
        "./exit-3",
        "'./script' \"$0\"",
    ],
)
async def test_a_program_is_started_as_a_shell_would_start_it(make_order, program, workspace, command):
    program("script", '#!/bin/sh\nprintf "%s|" "$0" "$@" "$PWD"\n')
    program("no-interpreter", 'printf "%s|" "$0" "$@" "$PWD"\n')
    program("missing-interpreter", "#!/no/such/interpreter\n")
    program("not-executable", "#!/bin/sh\n", 0o644)
    program("exit-3", "#!/bin/sh\nexit 3\n")
    (workspace / "directory").mkdir()
    order = make_order()
    environment = {**order.environment, "EMPTY": "", "TEXT": "ü ' $HOME\n"}
    code, signal, said, complained = await outcome(command, order, environment)
    shells = await outcome(by_shell(command), order, environment)
    variables = [
        [
            word for word in b"\n".join(lines).split(b"\0") if not word.startswith((b"SHLVL=", b"_="))
        ]  # of bash alone
        for lines in (said, shells[2])
    ]
    assert (code, signal, complained) == (shells[0], shells[1], shells[3])
    assert sorted(variables[0]) == sorted(variables[1])


@pytest.mark.parametrize(
    ("command", "directly"),
    [
        (f"{sys.executable} -c pass", True),
        ("tail -n 0", True),
        ("./script", True),
        ("./script # by a shell", False),
        ("./no-interpreter", False),
        ("nothing-of-this-name", False),
        ("printf x", False),
    ],
)
async def test_only_a_plain_program_is_started_without_a_shell(make_order, program, tmp_path, command, directly):
    program("script", "#!/bin/sh\n")
    program("no-interpreter", "exit 0\n")
    used = tmp_path / "shell-was-used"
    program("bin/sh", f'#!/bin/sh\n: > {used}\nexec /bin/sh "$@"\n')
    order = make_order()
    path = f"{order.workspace}/bin:{order.environment['PATH']}"
    await outcome(command, order, {**order.environment, "PATH": path})
    assert used.exists() != directly


@pytest.mark.parametrize(
    "environment",
    [
        {"A-B": "1"},
        {"IFS": ":"},
        {"OLDPWD": "/"},
        {"PS4": "x"},
        {"ENV": "/dev/null"},
        {"_": "x"},
        {"SHLVL": "3"},
        {"BASH_FUNC_tail%%": "() { echo taken; }"},
    ],
)
async def test_variables_that_concern_a_shell_are_left_to_one(make_order, environment):
    order = make_order()
    complete = {**order.environment, **environment}
    command = "tail -n +1 /proc/self/environ"
    given, shells = [await outcome(one, order, complete) for one in (command, by_shell(command))]
    assert sorted(b"".join(given[2]).split(b"\0")) == sorted(b"".join(shells[2]).split(b"\0"))


async def test_a_directory_that_was_swapped_is_told_as_a_shell_tells_it(make_order, workspace):
    order = make_order()
    workspace.rename(workspace.with_name("moved"))
    workspace.mkdir()
    _, _, said, _ = await outcome("tail -n +1 /proc/self/environ", order, order.environment)
    assert f"PWD={workspace.with_name('moved')}".encode() in b"".join(said).split(b"\0")


async def test_the_first_file_on_the_path_decides_even_where_it_has_no_interpreter(make_order, tmp_path):
    for place, content in (("one", "echo first\n"), ("two", "#!/bin/sh\necho second\n")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "tool").write_text(content)
        (tmp_path / place / "tool").chmod(0o755)
    order = make_order()
    path = f"{tmp_path}/one:{tmp_path}/two:{order.environment['PATH']}"
    _, _, said, _ = await outcome("tool", order, {**order.environment, "PATH": path})
    assert said == [b"first"]


async def test_arguments_follow_those_of_the_command(make_order):
    order = make_order()
    child = await start_command("printf '%s|' a", ("b c", "$HOME", ""), order, order.environment)
    await child.feed(b"")
    assert [line async for line in child.lines()] == [b"a|b c|$HOME||"]
    await child.end()
    assert shell_command("true # no arguments", ()) == ["sh", "-c", "true # no arguments"]


@pytest.mark.parametrize(
    ("name", "content", "mode", "kind"),
    [
        ("gone", "#!/no/such/interpreter\n", 0o755, AgentError.NOT_FOUND),
        ("locked", "#!/bin/sh\n", 0o644, AgentError.NOT_EXECUTABLE),
        ("killed", "#!/bin/sh\nkill -KILL $$\n", 0o755, AgentError.TURN_FAILED),
    ],
)
async def test_a_turn_fails_with_the_same_kind_either_way(
    make_order, recorder, program, tmp_path, name, content, mode, kind
):
    program(name, content, mode)
    errors = []
    for command in (f"./{name}", by_shell(f"./{name}")):
        agent = CommandAgent.from_settings(AgentSettings(kind="command", command=command, base=tmp_path))
        session = await agent.open(make_order(), recorder)
        with pytest.raises(AgentError) as caught:
            await session.turn("", 1)
        await session.close()
        errors.append(caught.value)
    assert [error.kind for error in errors] == [kind, kind]
    assert len(recorder.identities) == 2
    if kind == AgentError.TURN_FAILED:
        assert all("SIGKILL" in error.message for error in errors)
