"""What a cell of a table, or the value of a label, says: as text, as a name, as paths, as code."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TICKS = re.compile("`+")
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()]*\)")
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\{[A-Z][A-Z0-9 _,'-]{2,80}\}")
_REMARK_AT_END = re.compile(r"\([^()]*\)\Z")
_BETWEEN_PATHS = re.compile(r",|;|<br ?/?>", re.IGNORECASE)
_BETWEEN_NAMES = re.compile(r",|/|&|\+|<br ?/?>|\band\b", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([*_\[\]{}!?.-])")
_NOTHING = frozenset({"", "-", "\u2013", "—", "none", "n/a", "(none)"})
_UNFINISHED = frozenset({"tbd", "todo", "...", "…", "???"})


def plain(text: str) -> str:
    """What a reader sees of it: no marks of code, emphasis, links and line breaks."""
    seen = _LINK.sub(r"\1", _BREAK.sub(" ", text)).replace("`", "").strip()
    for mark in ("**", "__", "*", "_"):
        if len(seen) > 2 * len(mark) and seen.startswith(mark) and seen.endswith(mark):
            seen = seen.removeprefix(mark).removesuffix(mark).strip()
    return seen


def code_spans(text: str) -> list[str]:
    """What stands between backticks; nothing of what follows one that has no second."""
    pieces = _TICKS.sub("`", text).split("`")
    return [piece.strip() for piece in pieces[1:-1:2] if piece.strip()]


def folded(text: str) -> str:
    """A title, label or name of a column, to be compared."""
    return " ".join(plain(text).replace("_", " ").replace("-", " ").casefold().split())


def is_nothing(text: str) -> bool:
    """Whether it stands for an empty cell, or for one that somebody meant to fill in."""
    said = plain(text).casefold()
    return said in _NOTHING or said in _UNFINISHED


def placeholders(text: str) -> list[str]:
    """`{WORDS LIKE THESE}`, which templates have where something is to be filled in."""
    return _PLACEHOLDER.findall(text)


def name_in(cell: str) -> str:
    """Without a remark in parentheses behind it."""
    return plain(_REMARK_AT_END.sub("", plain(cell))).removeprefix("@")


def names_in(cell: str) -> list[str]:
    pieces = _BETWEEN_NAMES.split(_REMARK_AT_END.sub("", plain(cell)))
    return [name for name in map(name_in, pieces) if not is_nothing(name)]


def paths_in(cell: str) -> Iterator[tuple[str, bool]]:
    """What names files: all that stands in code, or else the whole cell; and whether it stood in code."""
    spans = code_spans(cell)
    for text in spans or [_ESCAPED.sub(r"\1", _LINK.sub(r"\1", cell))]:
        for piece in _BETWEEN_PATHS.split(text):
            path = piece.strip() if spans else _REMARK_AT_END.sub("", piece.strip()).strip()
            if path.casefold() not in _NOTHING | _UNFINISHED:
                yield path, bool(spans)
