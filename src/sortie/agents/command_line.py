"""How `agent.command` becomes a process: as `sh -c` starts it, and without the shell where that changes nothing.

The command may hold arguments, quotes and variables. A script usually lies beside the workflow file: a first word
that starts with `./` or `../` and names a file there, but nothing in the workspace, is made absolute.

Plain words need no shell: it would only look up the program and start it. Whatever is not certain to mean the same
without a shell goes through one, and so does what fails without one: then a shell's exit code and message tell why.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AgentError
from .agent import SessionOrder
from .turn_reader import shorten

if TYPE_CHECKING:
    from ..process.child import Child

_RELATIVE_PROGRAM = re.compile(r"\s*(\.{1,2}/[^\s;&|<>()$`\"'\\*?\[]+)(?=[\s;&|<>()]|$)")

# What a shell knows without looking for a program of that name: POSIX, and what bash, ksh, zsh and BusyBox add.
_SHELL_WORD = re.compile(
    r"[.:]|alias|autoload|bg|bind|break|builtin|caller|case|cat|cd|chdir|command|compgen|complete|compopt|continue|"
    r"coproc|declare|dirs|disown|do|done|echo|elif|else|emulate|enable|esac|eval|exec|exit|export|false|fc|fg|fi|for|"
    r"foreach|function|getopts|hash|help|history|if|in|integer|jobs|kill|let|local|login|logout|mapfile|namespace|"
    r"newgrp|nocorrect|noglob|popd|print|printf|pushd|pwd|read|readarray|readonly|realpath|rehash|rename|repeat|return|"
    r"select|set|shift|shopt|sleep|source|stop|suspend|test|then|time|times|trap|true|type|typeset|ulimit|umask|unalias|"
    r"unfunction|unset|until|wait|whence|where|which|while"
)

# Words of characters that mean themselves, and quotes in which nothing is expanded.
_PLAIN_WORD = r"""(?:[\w./:=@%+,-]|'[^']*'|"[^"$`\\]*")+"""
_PLAIN_COMMAND = re.compile(rf"[ \t]*{_PLAIN_WORD}(?:[ \t]+{_PLAIN_WORD})*[ \t]*", re.ASCII)

# A variable that a shell hands on as it is. The others it sets itself, drops, or acts upon.
_PASSED_VARIABLE = re.compile(
    r"(?!(?:_|BASHOPTS|BASH_ENV|DIRSTACK|ENV|EUID|FPATH|FUNCNAME|GROUPS|HISTCMD|IFS|LINENO|OLDPWD|OPTARG|OPTERR|OPTIND|"
    r"POSIXLY_CORRECT|PPID|PS[1-4]|RANDOM|SECONDS|SHELLOPTS|SHLVL|UID)\Z)[A-Za-z_]\w*",
    re.ASCII,
)
_PROGRAM_MAGIC = (b"\x7fELF", b"#!")


async def start_command(
    command: str, arguments: Sequence[str], order: SessionOrder, environment: Mapping[str, str]
) -> Child:
    """The command with these arguments after its own, in the workspace of the session."""
    words = plain_words(command)
    if words and _needs_no_shell(words[0], order, environment):
        try:
            return await _start([*words, *arguments], order, environment)
        except AgentError:
            pass  # no such interpreter, no program but a script without one: a shell knows, or says why
    return await _start(shell_command(command, arguments), order, environment)


async def _start(argv: Sequence[str], order: SessionOrder, environment: Mapping[str, str]) -> Child:
    from ..process.child import start  # brings asyncio, which whoever only checks a command does without

    return await start(
        argv,
        cwd_fd=order.workspace_fd,
        env=environment,
        run_id=order.run_id,
        workspace=order.workspace,
        separate_stderr=True,
    )


def shell_command(command: str, arguments: Sequence[str]) -> list[str]:
    """The command by way of a shell, with these arguments after its own."""
    return ["sh", "-c", f'{command} "$@"', "sh", *arguments] if arguments else ["sh", "-c", command]


@lru_cache(maxsize=64)
def plain_words(command: str) -> tuple[str, ...]:
    """The words of a command that means a program and its arguments and nothing else; empty for any other."""
    if command.startswith(("-", "+")) or "\0" in command or not _PLAIN_COMMAND.fullmatch(command):
        return ()
    words = shlex.split(command)
    program = words[0]
    return () if not program or "=" in program or _SHELL_WORD.fullmatch(program) else tuple(words)


def _needs_no_shell(program: str, order: SessionOrder, environment: Mapping[str, str]) -> bool:
    if not all(map(_PASSED_VARIABLE.fullmatch, environment)):
        return False
    if "/" not in program and not _is_on_path(program, environment.get("PATH", "")):
        return False
    try:  # a shell replaces a PWD that is not the directory that it is in
        return os.path.samestat(order.workspace.stat(), os.fstat(order.workspace_fd))
    except OSError:
        return False


def _is_on_path(program: str, path: str) -> bool:
    """Whether the first file of this name is one that can be executed, so that no later one can be meant."""
    for place in path.split(os.pathsep):
        if not place.startswith("/"):
            return False
        try:
            file = os.open(f"{place}/{program}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return False
        try:
            mode = os.fstat(file).st_mode
            return bool(stat.S_ISREG(mode) and mode & 0o111) and os.read(file, 4).startswith(_PROGRAM_MAGIC)
        finally:
            os.close(file)
    return False


def locate(command: str, base: Path, workspace: Path) -> str:
    """The command with a script beside the workflow file in its first word made absolute; see the module."""
    word = _RELATIVE_PROGRAM.match(command)
    if word is None:
        return command
    beside = base / word[1]
    try:
        if not beside.is_file() or (workspace / word[1]).exists():
            return command
    except OSError:  # a place that nobody can look at; the shell will say the same
        return command
    return shlex.quote(str(beside)) + command[word.end() :]


def first_word(command: str) -> str:
    """The first word that is neither an assignment nor a prefix: the program, in all but odd commands."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return next((word for word in words if "=" not in word and word not in ("exec", "env")), "")


def missing_program(command: str, base: Path, environment: Mapping[str, str]) -> AgentError | None:
    """Why the command cannot start, seen without starting anything; None where it can, or where nobody can tell.

    A script that is named relative to the workspace, or a word that only a shell understands, shows when it runs.
    """
    word = first_word(command)
    if not re.fullmatch(r"[\w./+@-]+", word) or _SHELL_WORD.fullmatch(word) or word.startswith("-"):
        return None
    if "/" in word:
        return _unusable(base / word, word)
    places = environment.get("PATH", os.defpath)
    if shutil.which(word, path=places) or not all(map(os.path.isabs, places.split(os.pathsep))):
        return None
    return not_found(word)


def _unusable(path: Path, word: str) -> AgentError | None:
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return not_found(word) if path == Path(word) else None
    except OSError as error:
        kind = AgentError.NOT_EXECUTABLE if isinstance(error, PermissionError) else AgentError.NOT_FOUND
        fix = "Correct agent.command, or let this user into the directories above it."
        return AgentError(kind, f"{shorten(word, 80)} cannot be reached: {error.strerror}.", fix=fix)
    if is_file and os.access(path, os.X_OK):
        return None
    fix = f"Run: chmod +x {shlex.quote(str(path))}" if is_file else "Correct agent.command."
    return AgentError(AgentError.NOT_EXECUTABLE, f"{word} cannot be executed.", fix=fix)


def not_found(word: str) -> AgentError:
    fix = "Install it, or correct agent.command."
    return AgentError(AgentError.NOT_FOUND, f"The program {word} was not found.", fix=fix)


def check_command(command: str) -> list[tuple[str, str]]:
    if command and not command.strip():
        return [("agent.command", "The command is blank; name a program or a script.")]
    if "\0" in command:
        return [("agent.command", "The command holds a NUL character, which no shell accepts.")]
    return []
