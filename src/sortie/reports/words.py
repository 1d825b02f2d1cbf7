"""Formatting of values in reports: untrusted text as one safe line, times and durations as in the logs, amounts."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

# Whoever works for such a file works for a plan.
PLANS = (".yaml", ".yml")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LINE_ENDS = r"\n\r\v\f\u0085\u2028\u2029"
_LINE_ENDS = re.compile(rf"[{LINE_ENDS}]+")


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
    return "".join(character if character.isprintable() else spelled(character) for character in line)


def spelled(character: str) -> str:
    """What is seen of a character that is not: a blank, or how it is written in a program."""
    if character == "\t" or unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")


def is_plan(owner: str | Path) -> bool:
    """Whether a store whose owner is called so is that of a plan."""
    return Path(owner).suffix in PLANS


def start_command(owner: str | Path) -> str:
    """What a person types to have it worked for."""
    return "sortie plan run" if is_plan(owner) else "sortie run"


def web_link(address: str) -> str:
    """Where people may be led to; empty where what a tracker says is no plain address of the web."""
    try:
        parts = urlsplit(address)
        is_plain = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return ""
    return address if is_plain and address.isprintable() and " " not in address else ""


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


def stamp(at: float) -> str:
    """The time in the form of the logs; `?` for one that no calendar has."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "?"


def seconds_of(stamped: str) -> float:
    """The reverse of `stamp`."""
    return datetime.fromisoformat(stamped.replace("Z", "+00:00")).timestamp()


def amount(number: float) -> str:
    """`950`, `12.3k`, `4.1M`: for tokens, where the third digit does not matter."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}"
    return f"{number:g}"


def count(number: int, noun: str, several: str = "") -> str:
    """`1 task`, `1,200 tasks`."""
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"
