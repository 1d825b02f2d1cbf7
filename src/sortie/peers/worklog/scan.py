"""Where the parts of a work log begin: one pass forward over its bytes, which nothing that follows can change.

What was read of a file stays as it was read, whatever is appended to it. So nobody looks ahead whether an open fence or
comment will be closed: it lasts until it is, or until a strict heading.
"""

from __future__ import annotations

import re

from .body import is_quick
from .heading import STRICT_FORM

HASH, BACKTICK, TILDE, LESS, WORKING = b"#`~<N"

_MARK = re.compile(
    rb"\n(?:#{1,3}[ \t]|```|~~~|<!--|[0-9]{1,2}:[0-9]{2}|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]|Now Working \()"
)
_OPENING = re.compile(rb"(?:(`{3,})[^`\n]*|(~{3,})[^\n]*)(?=\n|\Z)")
_CLOSING = re.compile(rb"\n(?: {0,3}(`{3,}+|~{3,}+)[ \t]*+\r?(?=\n|\Z)|" + STRICT_FORM + rb")")
_COMMENT_END = re.compile(rb"-->|\n" + STRICT_FORM)

# The start of an entry is recognised by this many bytes of its line.
_LOOKED_AT = 2000


def next_mark(data: bytes, at: int) -> int:
    """The next line after `at` that may be structure: where it starts, or -1."""
    found = _MARK.search(data, at)
    return found.start() + 1 if found else -1


def line_end(data: bytes, start: int) -> int:
    """Where the line feed stands, or the end."""
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def opens_fence(data: bytes, start: int) -> bytes:
    """The mark of the fence that this line opens, or nothing."""
    found = _OPENING.match(data, start)
    return (found[1] or found[2]) if found else b""


def past_fence(data: bytes, start: int, mark: bytes) -> tuple[int, bool]:
    """The end of the line that closes it, or of the last before a strict heading; and whether it was closed."""
    at = line_end(data, start)
    while found := _CLOSING.search(data, at):
        if found[1] is None:
            return found.start(), False
        if found[1][:1] == mark[:1] and len(found[1]) >= len(mark):
            return line_end(data, found.end()), True
        at = found.end()
    return len(data), False


def past_comment(data: bytes, start: int) -> tuple[int, bool]:
    """The end of the line on which it is closed, or of the last before a strict heading; and whether it was closed."""
    found = _COMMENT_END.search(data, start + 2)
    if found is None:
        return len(data), False
    if found[0] != b"-->":
        return found.start(), False
    return line_end(data, found.end()), True


def is_quick_at(data: bytes, start: int) -> bool:
    stop = data.find(b"\n", start, start + _LOOKED_AT)
    return is_quick(data[start : start + _LOOKED_AT if stop < 0 else stop].decode("utf-8", "replace"))
