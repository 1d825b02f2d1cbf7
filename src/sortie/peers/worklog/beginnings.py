"""What a line begins: a session, the index, another section, or an entry of one of the forms that people write."""

from __future__ import annotations

import re

from . import scan
from .entry import Session
from .heading import is_name, is_strict, read_heading
from .log import PartKind

_HEADING = re.compile(rb"(#{1,3})[ \t]+([^\n]{0,500})")
_NUMBER = re.compile(r"[0-9]{1,3}[.)] ?")
_SESSION = re.compile(r"session\b", re.IGNORECASE)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LABEL_END = re.compile(r"—|\u2013| - |\(|:")
_TIMED = re.compile(rb"(?:[-*+] )?\[?(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}:[0-9]{2}\b)")
_NAME = r"[^\W\d_][\w.'\u2019-]{0,60}(?: [A-Z0-9&/+][\w.'\u2019-]{0,60}){0,3}"
_LED_BY_NAME = re.compile(rf"\**({_NAME})(?: ?\([^()\n]{{1,60}}\))?\**:\**(?:\s|\Z)")
_LABELS = (b"Escalated:", b"**Escalated:**", b"Handoff:", b"**Handoff:**")
_IN_FENCE = re.compile(rb"[ \t]*(?:Handoff|Escalated):")
# Lines that a file begins with and that nobody said.
_ON_TOP = frozenset(
    ("maintainer", "agents", "agent", "session id", "date initialized", "full history", "last format migration")
)
PINNED_LABELS = ("maintainer focus", "next review checkpoint")


def is_heading(data: bytes, at: int) -> bool:
    return data.startswith(b"#", at) and _HEADING.match(data, at) is not None


def is_apart(line: bytes) -> bool:
    """A blank line or a rule: what follows is another paragraph."""
    return not line.strip(b"-*_ \t\r\v\f")


def heading_kind(data: bytes, at: int, *, is_first: bool) -> PartKind:
    """What a heading of the first three levels begins; `is_first` where no entry was before it."""
    found = _HEADING.match(data, at)
    if found is None or is_strict(data, at):
        return "entry"
    level, title = len(found[1]), found[2].decode("utf-8", "replace").strip()
    number = _NUMBER.match(title)
    words = (title[number.end() :] if number else title).casefold()
    if words.startswith("decision index"):
        return "index"
    if level == 3:
        return "entry"
    if words.startswith("archived"):
        return "archive"
    if _SESSION.match(words):
        return "session"
    if _DATE.match(title):
        return "entry" if read_heading(title).actor else "session"
    return "preamble" if level == 1 and is_first else "section"


def ends_entry(data: bytes, at: int) -> bool:
    """Of a heading: a comment in a script that somebody pasted looks like one of the first level."""
    return data.startswith(b"##", at) or heading_kind(data, at, is_first=False) != "section"


def session_at(data: bytes, at: int) -> Session:
    found = _HEADING.match(data, at)
    title = found[2].decode("utf-8", "replace").strip() if found else ""
    date = _DATE.search(title)
    end = _LABEL_END.search(title)
    return Session(label=title[: end.start()].strip() if end else title, date=date[0] if date else "")


def begins_entry(data: bytes, at: int, line: bytes, kind: PartKind, *, is_paragraph: bool) -> bool:
    """Whether a line that is no heading begins an entry; `kind` is `entry` where another one would end."""
    if kind == "archive" or line.startswith((b"<!--", b"|")):
        return False
    if _TIMED.match(line):
        quick = line.removeprefix(b"- ").removeprefix(b"* ")
        return (is_paragraph and quick is line) or scan.is_quick_at(quick, 0)
    if not is_paragraph or kind == "index":
        return False
    if scan.opens_fence(line):
        after = scan.line_end(data, at) + 1
        return kind != "preamble" and _IN_FENCE.match(data, after) is not None
    if line.startswith(_LABELS):
        return True
    if line.startswith(scan.WORKING):
        return kind != "preamble"
    if kind == "session":
        return True
    named = _LED_BY_NAME.match(line.decode("utf-8", "replace"))
    if named is None or not is_name(named[1]):
        return False
    return kind != "preamble" or named[1].casefold() not in (*PINNED_LABELS, *_ON_TOP)
