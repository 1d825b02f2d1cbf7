"""Text of anybody made fit for the log: harmless to terminals, bounded, and never read as structure.

A line that would begin an entry, a fence or a comment, or set a status, gets a backslash in front, which reading
takes off again. Fences that are closed within the text stay as they are: what stands in them is no structure, but
for a strict heading, which counts everywhere.
"""

from __future__ import annotations

import re
import unicodedata

from ...errors import SortieError
from ...protocol.foreign_text import shortened
from .heading import is_strict

MOST_TITLE = 200
MOST_TEXT = 65_536

_LINE_ENDS = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_JOINERS = "\u200c\u200d"  # parts of words and of signs in many languages, and harmless
# Time of day, dash, name, colon: a quick handoff begins an entry wherever it stands outside of fences.
_DASH = r"(?:—|\u2013|--?)"
_NAME = r"\**[^\W\d_][\w.'\u2019-]{0,60}(?: [\w.'\u2019&/+-]{1,60}){0,3}(?: ?\([^()\n]{1,60}\))?\**"
_CLOCK = r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ])?[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?: ?(?:Z|UTC))?"
_QUICK_FORM = rf"{_CLOCK} {_DASH} {_NAME}:(?=\s|\Z)"
_QUICK = re.compile(_QUICK_FORM)
_STRUCTURE = re.compile(rf"\\*(?:#{{1,3}}[ \t]|`{{3}}|~{{3}}|<!--|Now Working \(|{_QUICK_FORM})")
_BACKTICKS = re.compile(r"`{3,}")
_FENCE = re.compile(r"(?:(`{3,})[^`]*|(~{3,}).*)")


def is_quick(line: str) -> bool:
    return _QUICK.match(line) is not None


def one_line(text: str, most: int = MOST_TITLE) -> str:
    """Bounded and printable, with single spaces."""
    return shortened(" ".join(plain(text[: 4 * most]).split()), most)


def plain(text: str) -> str:
    """Printable lines without spaces at their ends or blank lines around. What would move a cursor or turn the
    direction of text is spelled out."""
    unified = _LINE_ENDS.sub("\n", _COLOURS.sub("", text))
    return "\n".join(_printable(line).rstrip() for line in unified.split("\n")).strip("\n")


def bounded(text: str, what: str, most: int = MOST_TEXT) -> str:
    """Plain text of at most this many characters, or an error: text that is cut off would say something else."""
    if len(text) > most:
        raise SortieError(
            f"The {what} has {len(text):,} characters; a work log takes at most {most:,} at once.",
            fix="Say it in short, and put the rest into a file that the entry names.",
        )
    return plain(text)


def escaped(text: str) -> str:
    """Free text as the body of an entry."""
    lines = text.split("\n")
    fences = _closed_fences(lines)
    return "\n".join(_escaped(line, is_fenced=n in fences) for n, line in enumerate(lines))


def unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return "\n".join(
        line[1:] if line.startswith("\\") and _STRUCTURE.match(line) else line for line in text.split("\n")
    )


def indented(text: str, by: str = "  ") -> str:
    """The value of a field: all lines but the first are indented, so that none is taken for structure."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"{by}{line}" if line else "" for line in rest)])


def fence_for(text: str) -> str:
    """Longer than any in the text."""
    return "`" * max(3, *(len(run[0]) + 1 for run in _BACKTICKS.finditer(text)), 0)


def _escaped(line: str, *, is_fenced: bool) -> str:
    if line.startswith("\\"):
        return f"\\{line}" if _STRUCTURE.match(line) else line
    is_structure = is_strict(line.encode("utf-8", "replace")) if is_fenced else _STRUCTURE.match(line)
    return f"\\{line}" if is_structure else line


def _closed_fences(lines: list[str]) -> set[int]:
    """The numbers of all lines that belong to fences with both an opening and a closing line."""
    inside: set[int] = set()
    opened = -1
    mark = ""
    for n, line in enumerate(lines):
        if opened < 0:
            fence = _FENCE.fullmatch(line)
            if fence:
                opened, mark = n, fence[1] or fence[2]
        elif closes(line, mark):
            inside.update(range(opened, n + 1))
            opened = -1
    return inside


def closes(line: str, mark: str) -> bool:
    bare = line.strip()
    indent = len(line) - len(line.lstrip(" "))
    return indent <= 3 and len(bare) >= len(mark) and not bare.strip(mark[0])


def _printable(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(character if character.isprintable() else _spelled(character) for character in line)


def _spelled(character: str) -> str:
    if character == "\t" or character in _JOINERS:
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")
