"""Labelled lines of an entry, as `Owner: Alice`, `- **Decision:** …`, `**Bob recommended:**`, with their values.

A value goes on over indented lines, bullets, and lines that follow without a blank one, up to the next label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .heading import NOBODY

Fields = Mapping[str, str]

_KNOWN = {
    "handoff": "handoff",
    "owner": "owner",
    "status": "status",
    "changed files": "changed_files",
    "files changed": "changed_files",
    "tests run": "tests",
    "tests": "tests",
    "risks/assumptions": "risks",
    "risks / assumptions": "risks",
    "risks": "risks",
    "blocking items": "blocking",
    "blocking": "blocking",
    "blockers": "blocking",
    "next owner": "next_owner",
    "id": "id",
    "author": "author",
    "date": "date",
    "scope": "scope",
    "proposal": "proposal",
    "change": "change",
    "rollback": "rollback",
    "objection deadline": "objection_deadline",
    "decision": "decision",
    "decision mode": "mode",
    "about": "about",
    "participants": "participants",
    "rationale": "rationale",
    "outcome": "outcome",
    "timestamp": "timestamp",
    "follow-up actions": "follow_up",
    "follow up actions": "follow_up",
    "follow-up": "follow_up",
    "reasoning": "reasoning",
    "proposed compromise": "compromise",
    "agreed action": "agreed_action",
    "escalated": "escalated",
}
# A label is looked up once it is found: one pattern with all of them would be tried at every line.
_LABEL = re.compile(
    r"^(?:[-*+] )?(?:\*\*(?P<bold>[^*:\n]{1,120})(?::\*\*|\*\*:)|(?P<plain>[A-Za-z][A-Za-z /-]{1,20}):"
    r"|####? (?P<headed>Reasoning):?$)[ \t]*",
    re.MULTILINE,
)
_FENCE_LINE = re.compile(r"^[ \t]{0,3}(?:`{3,}|~{3,})", re.MULTILINE)
_COUNTER = "counter-recommendation"
_POSSESSIVE = re.compile(r"['\u2019]s$")
_BULLET = re.compile(r"\s*[-*+] ")


def read_fields(body: str) -> dict[str, str]:
    """By our names for them; of equal labels the first counts."""
    found: dict[str, str] = {}
    marks = [(mark, names) for mark in _LABEL.finditer(body) if (names := _names(mark))]
    ends = [*(mark.start() for mark, _ in marks[1:]), len(body)]
    for (mark, names), end in zip(marks, ends, strict=False):
        value = _value(body[mark.end() : end])
        for name, given in names:
            found.setdefault(name, value if given is None else given)
    return found


def _names(mark: re.Match[str]) -> list[tuple[str, str | None]]:
    """Our names for what a label says, with a value where the label itself has it."""
    label = (mark["bold"] or mark["plain"] or mark["headed"]).strip()
    word = label.casefold()
    if known := _KNOWN.get(word):
        return [(known, None)]
    if mark["bold"] and word.endswith(" recommended"):
        return [("recommended_by", label[: -len(" recommended")].strip()), ("recommended", None)]
    if mark["bold"] and word.endswith(_COUNTER):
        return [("countered_by", _POSSESSIVE.sub("", label[: -len(_COUNTER)].strip())), ("counter", None)]
    return []


def _value(text: str) -> str:
    """The part of what follows a label that belongs to it."""
    first, _, below = text.partition("\n")
    lines = [first.strip()]
    rest = below.split("\n") if below else ()
    is_after_blank = False
    for line in rest:
        if _FENCE_LINE.match(line) and not line.startswith("  "):
            break
        if not line.strip():
            is_after_blank = True
        elif is_after_blank and not line.startswith((" ", "\t")) and not (_BULLET.match(line) and not lines[0]):
            break
        else:
            is_after_blank = False
        lines.append(line.removeprefix("  ").rstrip())
    value = "\n".join(lines).strip("\n")
    return "" if value.casefold().rstrip(".") in NOBODY else value


def items(value: str) -> tuple[str, ...]:
    """Of a list: one for each bullet, with the lines below it; without bullets, what commas part."""
    lines = value.split("\n")
    first = next((bullet for line in lines if (bullet := _BULLET.match(line))), None)
    if first is None:
        return tuple(part.strip() for line in lines for part in line.split(", ") if part.strip())
    mark, found = first[0], list[str]()
    for line in lines:
        if line.startswith(mark):
            found.append(line[len(mark) :])
        elif found:
            found[-1] += "\n" + line.removeprefix("  ")
        elif line.strip():
            found.append(line.strip())
    return tuple(item.strip("\n") for item in found if item.strip())
