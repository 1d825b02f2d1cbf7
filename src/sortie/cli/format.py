"""How values look on a terminal: text of strangers made harmless and short, amounts, our commands as typed."""

from __future__ import annotations

import os
import re
import shlex
import sys
from contextvars import ContextVar
from pathlib import Path

from ..reports.words import amount as amount
from ..reports.words import clean as clean
from ..reports.words import count as count
from ..reports.words import duration as duration
from ..reports.words import seconds_of as seconds_of
from ..reports.words import stamp as stamp

# As it was named on the command line; empty where it was not.
named_workflow: ContextVar[str] = ContextVar("named_workflow", default="")
_ADVICE = re.compile(r"`(sortie ([a-z][a-z-]*)[^`\n]*)`")
_WITHOUT_WORKFLOW = ("init", "demo", "mcp-server", "turn", "peers", "worklog", "mailbox", "charter")
# Advice with one of these needs no further word.
_COMPLETE = (" --help", " -w ", " -p ", " -o ")


def short(text: str, width: int) -> str:
    """Harmless, and at most this many characters, which take at most this many columns of a terminal."""
    line = clean(text)
    if len(line) <= width and cell_width(line) <= width:
        return line
    line = line[: width - 1]
    while cell_width(line) > width - 1:
        line = line[:-1]
    return line.rstrip() + "…"


def cell_width(text: str) -> int:
    """How many columns of a terminal it takes; the widths of characters are loaded only where they differ."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def program() -> str:
    """What a person types to get us: not every way to start us puts `sortie` on the PATH."""
    started = Path(sys.argv[0])
    if started.name != "sortie":
        return f"{typed(Path(sys.executable))} -m sortie"
    return typed(started)


def typed(path: Path) -> str:
    """How a person names it here: a program by its name alone, where that leads to it."""
    on_path = (os.path.join(directory, path.name) for directory in os.get_exec_path())  # noqa: PTH118
    if next((place for place in on_path if os.access(place, os.X_OK)), "") == str(path):
        return path.name
    try:
        return shlex.quote(str(path.relative_to(Path.cwd())))
    except (ValueError, OSError):  # it is elsewhere, or we are nowhere
        return shlex.quote(str(path))


def runnable(text: str) -> str:
    """The same advice, with our commands as they work here, on the workflow that was named."""
    if "`sortie " not in text:
        return text
    return _ADVICE.sub(_on_the_workflow, text).replace("`sortie ", f"`{program()} ")


def _on_the_workflow(advice: re.Match[str]) -> str:
    place, (words, verb) = named_workflow.get(), advice.group(1, 2)
    if not place or verb in _WITHOUT_WORKFLOW or any(option in words for option in _COMPLETE):
        return advice[0]
    if verb == "plan" and place.endswith(".db"):  # the store of a plan was named, and not the plan
        return advice[0]
    return f"`{words} {'-p' if verb == 'plan' else '-w'} {shlex.quote(place)}`"
