"""What keeps a script from starting, as far as it shows without running it: interpreter, line ends, syntax."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from ..core.model import Finding
from .program import run_command
from .turn_reader import shorten

_LARGEST = 1024 * 1024
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
_PYTHON = re.compile(r"python[\d.]*")
# Interpreters; their options (letters) after which no script comes, and those that have a value of their own.
_INTERPRETERS = (
    (_PYTHON, "cm", ("-W", "-X")),
    (re.compile("|".join(_SHELLS)), "cs", ("-o", "+o", "-O", "+O")),
    (re.compile("node|perl|ruby"), "ep", ("-I", "-r", "--require", "--import")),
)
_WORKFLOW_DIR = "$SORTIE_WORKFLOW_DIR"
_PLAIN = re.compile(r"[^~$`*?;&|<>()\[\]{}#]+")
_PYTHON_CHECK = """\
import sys
try:
    compile(open(sys.argv[1], "rb").read(), sys.argv[1], "exec")
except SyntaxError as error:
    sys.exit("line %s: %s" % (error.lineno, error.msg))
"""


async def check_script(script: Path, environment: Mapping[str, str]) -> Finding | None:
    """The first thing that is wrong with a file that is to be run; None for programs and for good scripts.

    None too for what is not there, or where nobody may look: the shell tells that.
    """
    try:
        mode = script.stat().st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        return _failed(f"{script} is a directory.", "Name the program or script in it in agent.command.")
    if not stat.S_ISREG(mode):  # a pipe or a device: whoever opens one may wait without end
        return _failed(f"{script} is not a file.", "Name a program or a script in agent.command.")
    if not os.access(script, os.X_OK):
        return _failed(f"{script} is not executable.", f"Run: chmod +x {shlex.quote(str(script))}")
    content = _beginning(script)
    if b"\0" in content[:512]:
        return None  # a program, not a script
    first, _, _ = content.partition(b"\n")
    words = _interpreter(first) if first.startswith(b"#!") else ["sh"]  # without one, a shell runs it
    if first.endswith(b"\r") or (_is_shell(words[-1]) and b"\r\n" in content):
        return _with_windows_lines(script)
    for word in words:
        if shutil.which(word, path=environment.get("PATH", os.defpath)) is None:
            fix = f"Install it, or correct the first line of {script}."
            return _failed(f"the interpreter of {script}, {word}, was not found.", fix)
    return await _fault_of_syntax(words[-1], script, environment)


async def check_syntax(command: str, base: Path, environment: Mapping[str, str]) -> Finding | None:
    """A mistake in the command itself, which a shell finds without running it."""
    answer = await run_command(["sh", "-n", "-c", command], base, environment)
    if answer is None or answer.code == 0:
        return None
    return _failed(f"`{command}` has a syntax error: {shorten(answer.stderr)}.", "Correct agent.command.")


async def check_argument(command: str, program: str, base: Path, environment: Mapping[str, str]) -> Finding | None:
    """The same where an interpreter is handed the script, which then need not be executable.

    It is looked for in the workspace, where the command runs: one beside the workflow file is not found.
    """
    word = _script_of(command, program)
    if not word:
        return None
    script = Path(word.replace(_WORKFLOW_DIR, str(base)))
    if not script.is_absolute():
        if not (base / script).exists():
            return None  # the workspace may have it
        fix = f'In agent.command, name it by its place: "{_WORKFLOW_DIR}/{script}"'
        detail = (
            f"{word} lies beside the workflow, but the command runs in the workspace: a hook must put it there."
        )
        return Finding("WARN", "program", detail, fix)
    if not script.exists():
        return _failed(f"{script} was not found.", "Correct agent.command.")
    if not os.access(script, os.R_OK):
        return _failed(f"{script} cannot be read.", f"Run: chmod +r {shlex.quote(str(script))}")
    if _is_shell(program) and b"\r\n" in _beginning(script):
        return _with_windows_lines(script)
    return await _fault_of_syntax(program, script, environment) if script.is_file() else None


def _script_of(command: str, program: str) -> str:
    """What an interpreter is given to run: its first argument that is no option, if that is sure to be a file."""
    name = Path(program).name
    inline, valued = next((rest for names, *rest in _INTERPRETERS if names.fullmatch(name)), ("", None))
    try:
        words = iter(shlex.split(command))
    except ValueError:
        return ""
    if valued is None or program not in words:  # which takes the words up to the program
        return ""
    for word in words:
        if word in valued:
            next(words, "")
        elif not word.startswith(("-", "+")):
            return word if _PLAIN.fullmatch(word.replace(_WORKFLOW_DIR, "")) else ""
        elif word.startswith(("--eval", "--print")) or (word[:2] != "--" and set(word) & set(inline)):
            return ""
    return ""


def _beginning(script: Path) -> bytes:
    """Enough of it to judge; a NUL, which programs have, where nobody may look inside."""
    try:
        with script.open("rb") as file:
            return file.read(_LARGEST)
    except OSError:
        return b"\0"


def _interpreter(first_line: bytes) -> list[str]:
    """What must be found: the program after `#!`, and the one that it looks up where it is `env`.

    The kernel hands everything after the program over as one word; only `env -S` splits it.
    """
    program, *rest = first_line[2:].decode("utf-8", "replace").split(None, 1) or ["sh"]
    if not rest or Path(program).name != "env":
        return [program]
    split = rest[0].startswith("-S")
    words = rest[0].removeprefix("-S").split() if split else [rest[0].rstrip()]
    named = [word for word in words if not word.startswith("-") and "=" not in word]
    return [program, *named[:1]]


def _is_shell(interpreter: str) -> bool:
    return Path(interpreter).name in _SHELLS


async def _fault_of_syntax(interpreter: str, script: Path, environment: Mapping[str, str]) -> Finding | None:
    if _is_shell(interpreter):
        check = [interpreter, "-n", str(script)]
    elif _PYTHON.fullmatch(Path(interpreter).name):
        check = [interpreter, "-I", "-S", "-c", _PYTHON_CHECK, str(script)]
    else:
        return None
    answer = await run_command(check, script.parent, environment)
    if answer is None or answer.code == 0:
        return None
    return _failed(f"{script} has a syntax error: {shorten(answer.stderr)}.", "Correct it there.")


def _with_windows_lines(script: Path) -> Finding:
    fix = f"Run: sed -i 's/\\r$//' {shlex.quote(str(script))}"
    return _failed(f"{script} has the line ends of Windows (CRLF), which its interpreter takes for text.", fix)


def _failed(detail: str, fix: str) -> Finding:
    return Finding("FAIL", "program", detail, fix)
