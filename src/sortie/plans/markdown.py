"""Texts of people inside Markdown of ours: whatever they hold, they end where they end and add no heading."""

from __future__ import annotations

import re
from collections.abc import Iterable

# A line that begins a heading, a fence or HTML, or that makes the line above it a heading.
_STRUCTURE = re.compile(r"^[ \t]*(?:#|```|~~~|<|=+[ \t]*$|-+[ \t]*$)", re.M)

# What templates leave to be filled in: those of the protocol under any circumstances, others unless it is code.
_OURS = re.compile(
    r"\{(?:task_id|task_name|agent_name|agent-[ab]|filename|primary_deliverable|"
    r"Clear statement[^{}\n]*|Background information[^{}\n]*|Specific requirement[^{}\n]*|"
    r"Measurable outcome[^{}\n]*|Time/resource constraints|Quality standards)\}"
)
_CAPITALS = re.compile(r"(?<!\$)\{[A-Z][A-Z0-9_]{2,63}\}")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)


def as_body(text: str) -> str:
    """A text of any number of lines between two headings of ours. One with a structure of its own is quoted: a
    quote ends whatever was begun in it."""
    lines = _lines(text)
    plain = "\n".join(lines)
    return _quoted(lines, "") if _STRUCTURE.search(plain) else plain


def as_entry(marker: str, text: str) -> str:
    """A text as an entry of a list; `marker` is `- ` or `1. `."""
    lines = _lines(text)
    return marker + (_quoted(lines, " " * len(marker)) if len(lines) > 1 else "".join(lines).strip())


def one_line(text: str) -> str:
    return " ".join(text.split())


def code(text: str) -> str:
    """Between backticks, more of them where it has some itself."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    if not longest:
        return f"`{text}`"
    ticks = "`" * (longest + 1)
    return f"{ticks} {text} {ticks}"


def placeholders(text: str) -> list[str]:
    """What was never filled in, each once. In backticks, capitals in braces are code."""
    if "{" not in text:
        return []
    return list(dict.fromkeys((*_OURS.findall(text), *_CAPITALS.findall(_CODE.sub("", text)))))


def _lines(text: str) -> list[str]:
    """Also at those characters that only some readers take for the end of a line."""
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        del lines[0]
    return lines


def _quoted(lines: Iterable[str], indent: str) -> str:
    return f"\n{indent}".join(f"> {line}".rstrip() for line in lines)
