"""How values look to a person: text of strangers made harmless, times and amounts short, our commands as typed."""

from __future__ import annotations

import os
import re
import shlex
import sys
import unicodedata
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# As it was named on the command line; empty where it was not.
named_workflow: ContextVar[str] = ContextVar("named_workflow", default="")
_ADVICE = re.compile(r"`(sortie ([a-z][a-z-]*)[^`\n]*)`")
_WITHOUT_WORKFLOW = ("init", "demo", "mcp-server")
# Advice with one of these needs no further word.
_COMPLETE = (" --help", " -w ", " -p ", " -o ")
_LINE_ENDS = re.compile(r"[\n\r\v\f\u0085\u2028\u2029]+")


def clean(text: str) -> str:
    """One line that no terminal obeys: line ends become ` / `, colours go, other controls are spelled out.

    Directions are control characters too: they could show a sentence in another order than it is written.
    """
    first, *rest = _LINE_ENDS.split(_COLOURS.sub("", text).strip("\r\n"))
    line = first
    if rest:
        between = [piece.strip() for piece in rest[:-1] if not piece.isspace()]
        line = " / ".join([first.rstrip(), *between, rest[-1].lstrip()])
    if line.isprintable():
        return line
    return "".join(character if character.isprintable() else _spelled(character) for character in line)


def _spelled(character: str) -> str:
    if character == "\t" or unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")


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
        return f"{_typed(Path(sys.executable))} -m sortie"
    return _typed(started)


def _typed(path: Path) -> str:
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
    return f"`{words} {'-p' if verb == 'plan' else '-w'} {shlex.quote(place)}`"


def duration(seconds: float) -> str:
    """`7s`, `3m05s`, `2h04m`, `3d02h`."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def count(number: int, noun: str) -> str:
    """`1 task`, `1,200 tasks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def amount(number: int) -> str:
    """`950`, `12.3k`, `4.1M`: for tokens, where the third digit does not matter."""
    for limit, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}"
    return str(number)


def stamp(at: float) -> str:
    """The time in the form of the logs; `?` for one that no calendar has."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "?"


def seconds_of(stamped: str) -> float:
    """The reverse of `stamp`."""
    return datetime.fromisoformat(stamped.replace("Z", "+00:00")).timestamp()
