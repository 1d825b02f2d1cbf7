"""Where the parts of a work log begin: one pass forward over its bytes, which nothing that follows can change.

What was read of a file stays as it was read, whatever is appended to it. So nobody looks ahead whether an open
fence or comment will be closed: it lasts until it is, or until a strict heading.
"""

from __future__ import annotations

import codecs
import re

from .body import is_quick
from .heading import STRICT_FORM

# What a line is can be told by this many of its bytes.
LOOKED_AT = 2000
WORKING = b"Now Working ("

# The groups of MARK, by number. The heading of an entry and the opening of a fence are there as whole lines. A
# plain fence is passed over as a whole and has no group. The first byte of most lines shows that they are no mark.
ENTRY, FENCE, HEADING, COMMENT, TIMED, STATUS = 1, 2, 3, 4, 5, 6
_PLAIN_FENCE = rb"```(?!`)[^`\n]*+\n(?:(?! {0,3}```|###)[^\n]*+\n){0,200}+```[ \t]*+\r?(?=\n|\Z)"
_FENCE_FORM = rb"`{3,}[^`\n]*+(?=\n|\Z)|~{3,}[^\n]*+"
MARK = re.compile(
    rb"\n(?=[#`~<0-9N])(?:(### (?![^\n]{0,20}(?i:decision index))[^\n]*+)"
    rb"|" + _PLAIN_FENCE + rb"|(" + _FENCE_FORM + rb")|(#{1,3}[ \t])|(<!--)"
    rb"|([0-9]{1,2}:[0-9]{2}|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ])|(Now Working \())"
)
# No line of it begins like a heading, so nothing that is appended can complete one.
_FRONT_MATTER = re.compile(
    rb"---[ \t]*\r?\n(?:(?!---)(?:[\w-]{1,60}:|[ \t-])[^\n]{0,1000}\n|\r?\n){0,200}---[ \t]*\r?(?:\n|\Z)"
)
_FENCE = re.compile(_FENCE_FORM)
_CLOSING = re.compile(rb"\n(?=[`~# ])(?: {0,3}(`{3,}+|~{3,}+)[ \t]*+\r?(?=\n|\Z)|" + STRICT_FORM + rb")")
_COMMENT_END = re.compile(rb"-->|\n" + STRICT_FORM)


def first_line_start(data: bytes) -> int:
    """Behind a byte order mark, and front matter where the file has it."""
    start = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    matter = _FRONT_MATTER.match(data, start)
    return matter.end() if matter else start


def line_end(data: bytes, start: int) -> int:
    """Where the line feed stands, or the end."""
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def opens_fence(line: bytes) -> bool:
    return line.startswith((b"```", b"~~~")) and _FENCE.match(line) is not None


def past_fence(data: bytes, start: int) -> tuple[int, bool]:
    """The end of the line that closes it, or of the last before a strict heading; and whether it was closed."""
    kind = data[start : start + 1]
    at = line_end(data, start)
    opening = data[start:at]
    length = len(opening) - len(opening.lstrip(kind))
    while found := _CLOSING.search(data, at):
        closing = found[1]
        if closing is None:
            return found.start(), False
        if len(closing) >= length and closing.startswith(kind):
            return found.end(), True
        at = found.end()
    return len(data), False


def past_comment(data: bytes, start: int) -> tuple[int, bool]:
    """The end of the line on which it is closed, or of the last before a strict heading; and whether it was."""
    found = _COMMENT_END.search(data, start + 2)
    if found is None:
        return len(data), False
    if found[0] != b"-->":
        return found.start(), False
    return line_end(data, found.end()), True


def is_quick_at(data: bytes, start: int) -> bool:
    stop = data.find(b"\n", start, start + LOOKED_AT)
    return is_quick(data[start : start + LOOKED_AT if stop < 0 else stop].decode("utf-8", "replace"))
