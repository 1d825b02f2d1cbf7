"""Labelled lines of an entry, `Owner: Alice` or `- **Decision:** …` or `**Bob recommended:**`, with all that belongs to each.

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
_WORDS = "|".join(sorted(map(re.escape, _KNOWN), key=len, reverse=True))
_LABEL = re.compile(
    rf"^(?:[-*+] )?(?:\*\*(?P<bold>{_WORDS}|(?P<by>[^*\n]{{1,100}}) recommended|(?P<self>[^*\n]{{0,100}}?)counter-recommendation)"
    rf"(?::\*\*|\*\*:)|(?P<plain>{_WORDS}):|####? (?P<headed>reasoning):?$)[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_FENCE_LINE = re.compile(r"^[ \t]{0,3}(?:`{3,}|~{3,})", re.MULTILINE)
_BULLET = re.compile(r"\s*[-*+] ")


def read_fields(body: str) -> dict[str, str]:
    """By our names for them; of equal labels the first counts."""
    found: dict[str, str] = {}
    marks = list(_LABEL.finditer(body))
    ends = [*(mark.start() for mark in marks[1:]), len(body)]
    for mark, end in zip(marks, ends, strict=False):
        value = _value(body[mark.end() : end])
        for name, text in _named(mark, value):
            found.setdefault(name, text)
    return found


def _named(mark: re.Match[str], value: str) -> list[tuple[str, str]]:
    if mark["by"]:
        return [("recommended_by", mark["by"].strip()), ("recommended", value)]
    if mark["bold"] and mark["bold"].casefold().endswith("counter-recommendation"):
        return [
            ("countered_by", (mark["self"] or "").strip().removesuffix("'s").removesuffix("’s")),
            ("counter", value),
        ]
    word = (mark["bold"] or mark["plain"] or mark["headed"]).casefold()
    return [(_KNOWN[word], "" if value.casefold().rstrip(".") in NOBODY else value)]


def _value(text: str) -> str:
    """The part of what follows a label that belongs to it."""
    first, *rest = text.split("\n")
    lines = [first.strip()]
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
    return "\n".join(lines).strip("\n")


def items(value: str) -> tuple[str, ...]:
    """Of a list: one for each bullet, with the lines below it; without bullets, what commas part."""
    if not value:
        return ()
    found: list[str] = []
    is_list = False
    for line in value.split("\n"):
        bullet = _BULLET.match(line)
        if bullet:
            is_list = True
            found.append(line[bullet.end() :])
        elif found and is_list:
            found[-1] += "\n" + line.removeprefix("  ")
        elif line.strip():
            found.extend(part.strip() for part in line.split(", "))
    return tuple(item.strip("\n") for item in found if item.strip())
