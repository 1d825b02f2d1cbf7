"""The first line of an entry: who, when and about what, in the forms people and tools write.

The strict heading, `### 2026-11-18T02:00:00Z — Alice: title`, is the one that we write. It begins an entry wherever
it stands at the start of a line, even in a fence or a comment that nobody closed: so nothing that is in a file can
swallow what is appended to it.
"""

from __future__ import annotations

import re
from collections.abc import Set
from datetime import datetime
from typing import NamedTuple

from ...protocol.foreign_text import time_text

DASH = "—"
MOST_NAME = 80

# Also as part of larger patterns, which look for the start of lines.
STRICT_FORM = (
    rb"### [0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z \xe2\x80\x94 [^\n:]{1,320}: [^\s]"
)
_STRICT = re.compile(STRICT_FORM)
_STRICT_TEXT = re.compile(r"### ([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9:]{8})Z — ([^:\n]{1,320}): (?=\S)")

_DATE = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"(?:[01]?[0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_ZONE = r"(?: ?(?:Z|UTC|GMT)\b|[+-][0-9]{2}:?[0-9]{2}\b)"
_TIME = re.compile(
    rf"\[?(?:(?P<date>{_DATE})(?:[T ](?P<at>{_CLOCK}))?|(?P<clock>{_CLOCK}))(?P<zone>{_ZONE})?\]?(?!\w)"
)
_TIME_AT_END = re.compile(rf"\s(?:—|\u2013|--?)\s({_DATE})[T ]({_CLOCK})({_ZONE})?$")
_WORKING = re.compile(r"Now Working \(([^()\n]{1,80})\):\s*", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*(?:—|\u2013|--?|\||:)?\s*")
_NAME = r"[^\W\d_][\w.'\u2019-]{0,60}(?: [A-Z0-9&/+][\w.'\u2019-]{0,60}){0,3}"
_ACTOR = re.compile(rf"\**(?P<name>{_NAME})(?P<model> ?\([^()\n]{{1,60}}\))?\**:\**(?:\s+|$)")
_ACTOR_AT_END = re.compile(rf"\((?P<name>{_NAME})\)$")
_IN_BRACKETS = re.compile(r"\([^()]{0,200}\)")
_BETWEEN_NAMES = re.compile(r" (?:/|and|—|\u2013|->|→|\+|&) |[,;] ")
_HASHES = re.compile(r"#{1,6}[ \t]+")

# Words that stand before a colon and are nobody's name.
_WORDS = """
    action actions agenda amended author background blocked blocker blockers branch caveat caveats
    change changed changes claimed closed commit commits completed context counter-recommendation date
    decided decision decisions deliverable deliverables done entries error escalated escalation example
    fact facts file files fix fixed format from goal goals handoff heartbeat history id info issue
    issues legend link links log mode next note notes open outcome owner owners participants path paths
    phase plan priority project proposal protocol purpose question questions ready reason reasoning
    recommendation ref refs repeat repo repository result results rev review revision risk risks
    rollback rule rules scope section see session sessions start started starting state status step
    steps subject summary surprise surprises task tasks template test tests timestamp title to todo type
    update updated usage version warning why wins worklog workspace
"""
_NO_NAMES = frozenset(_WORDS.split())
_NO_FIRST_NAMES = ("session", "phase", "step", "prd", "now")


class Heading(NamedTuple):
    """`date` and `clock` as they are written; a full timestamp has both."""

    actor: str = ""
    date: str = ""
    clock: str = ""
    zone: str = ""
    title: str = ""


def is_strict(data: bytes, start: int = 0) -> bool:
    return _STRICT.match(data, start) is not None


def strict_heading(actor: str, at: float, title: str) -> str:
    return f"### {time_text(at)} {DASH} {actor}: {title}"


def read_heading(line: str, names: Set[str] = frozenset()) -> Heading:
    """`names` are those of agents, folded: they are believed where nothing but the name says that it is one."""
    if strict := _STRICT_TEXT.match(line):
        return Heading(strict[3].strip(), strict[1], strict[2], "Z", line[strict.end() :].strip())
    text = bare(line)
    if working := _WORKING.match(text):
        return _status(working[1].strip(), text[working.end() :].strip())
    when = _TIME.match(text)
    date, clock, zone = "", "", ""
    if when:
        date, clock = when["date"] or "", when["at"] or when["clock"] or ""
        zone = _zone(when["zone"])
        text = text[when.end() :]
        between = _BETWEEN.match(text)
        text = text[between.end() :] if between else text
    actor, title = _actor_and_title(text, names, is_timed=when is not None)
    return Heading(actor, date, clock, zone, title)


def _status(agent: str, task: str) -> Heading:
    """A status line in the body says at its end when it was written."""
    when = _TIME_AT_END.search(task[-60:])
    if when is None:
        return Heading(agent, title=task)
    return Heading(agent, when[1], when[2], _zone(when[3]), task[: len(task) - len(when[0])])


def bare(line: str) -> str:
    """Without the marks of a heading or of a list."""
    hashes = _HASHES.match(line)
    text = line[hashes.end() :] if hashes else line.removeprefix("- ").removeprefix("* ")
    return text.strip().rstrip("#").rstrip() if hashes else text.strip()


def _actor_and_title(text: str, names: Set[str], *, is_timed: bool) -> tuple[str, str]:
    named = _ACTOR.match(text)
    if named and is_name(named["name"]):
        return named["name"], text[named.end() :].strip()
    at_end = _ACTOR_AT_END.search(text[-100:]) if text.endswith(")") else None
    if at_end and is_name(at_end["name"]) and (is_timed or at_end["name"].casefold() in names):
        return at_end["name"], text[: len(text) - len(at_end[0])].strip()
    for words in (3, 2, 1):
        start = text.split(None, words)[:words]
        name = " ".join(start).rstrip(",")
        if name.casefold() in names:
            return name, text[len(" ".join(start)) :].strip().lstrip(f"{DASH}\u2013-:, ").strip()
    return "", text


def is_name(words: str) -> bool:
    """Whether these words, which stand before a colon, may be somebody's name."""
    folded = words.casefold()
    return folded not in _NO_NAMES and folded.split()[0] not in _NO_FIRST_NAMES


def person(text: str) -> str:
    """The first name in a field like `Claude (awaiting review) / Codex`."""
    return names_in(text)[0] if names_in(text) else ""


def names_in(text: str) -> tuple[str, ...]:
    line = " ".join(_IN_BRACKETS.sub(" ", text[:1000].partition("\n")[0]).split())
    cleaned = (part.strip(" .*_`") for part in _BETWEEN_NAMES.split(line))
    return tuple(name for name in cleaned if name and name.casefold() not in NOBODY)


NOBODY = frozenset(
    ("none", "n/a", "na", "-", "—", "\u2013", "tbd", "nobody", "no one", "unassigned", "nothing", "null", "")
)


def iso(date: str, clock: str, zone: str = "") -> str:
    """ISO-8601 of what is known, or nothing: a time of day without its day is no timestamp."""
    if not date:
        return ""
    if clock and clock.index(":") == 1:
        clock = f"0{clock}"
    stamp = f"{date}T{clock}{zone}" if clock else date
    try:
        datetime.fromisoformat(stamp)
    except ValueError:
        return ""
    return stamp


def timestamp_in(text: str, date: str = "") -> str:
    """The one that a text begins with; `date` completes a time of day."""
    when = _TIME.match(text.lstrip("*_` "))
    if when is None:
        return ""
    return iso(when["date"] or date, when["at"] or when["clock"] or "", _zone(when["zone"]))


def _zone(text: str | None) -> str:
    word = (text or "").strip()
    return "Z" if word in ("UTC", "GMT") else word
