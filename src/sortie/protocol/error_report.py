"""The `error_report.md` of a task whose agent wrote none: the sections of the format, and no others.

Agents, and what they ran, have their say in the sections; whatever it is, it adds no heading and ends no section.
"""

from __future__ import annotations

from .foreign_text import escape, shortened

FILE = "error_report.md"
TITLE = "# Error Report"
SECTION_LIMIT = 8000
_NOTHING = "None."
# What may come before a heading: a quotation, a list.
_MARKERS = " >*+-0123456789.)"


def error_report(kind: str, description: str, attempted: str, suggestion: str, partial: str) -> str:
    """A section without text says that there is nothing to say."""
    sections = {
        "Error Type": " ".join(kind.split()),
        "Description": description,
        "Attempted Recovery": attempted,
        "Suggested Resolution": suggestion,
        "Partial Work": partial,
    }
    parts = [f"## {heading}\n{_prose(text)}\n" for heading, text in sections.items()]
    return "\n".join([f"{TITLE}\n", *parts])


def one_line(text: str) -> str:
    """Words of an agent as a line that is no heading."""
    return _prose(" ".join(text.split()))


def _prose(text: str) -> str:
    lines = [_line(line) for line in shortened(text, SECTION_LIMIT).splitlines()]
    return "\n".join(lines).strip() or _NOTHING


def _line(line: str) -> str:
    # A tab, or four spaces, would make it a line of code, in which nothing can be escaped.
    plain = escape(line.replace("\t", " ")).strip().replace("<", "&lt;")
    for opening in (plain.lstrip(" >"), plain.lstrip(_MARKERS)):
        # A heading, a fence that would swallow the next ones, or the line below a heading.
        if opening.startswith(("#", "```", "~~~")) or set(opening) in ({"-"}, {"="}):
            return f"{plain.removesuffix(opening)}\\{opening}"
    return plain
