"""The questions we ask in Jira's query language, JQL: whatever a name holds, it is one word of the question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

# A quotation mark that is not closed reaches to the end: to look on from behind it would take for ever.
_WORD = re.compile(r"""(?P<mark>["'])(?:(?!(?P=mark))[^\\]|\\.)*(?P<end>(?P=mark))?|[()]|[^\s"'()]+""", re.DOTALL)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(text: str) -> str:
    """One string of JQL that means exactly this text."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(letter: str) -> str:
    return _ESCAPES.get(letter) or (letter if letter >= " " else f"\\u{ord(letter):04x}")


def candidates(project: str, active_states: Sequence[str], query_filter: str) -> str:
    """All that may be worked on, the most urgent first: the last in Jira's order of priorities is the highest."""
    parts = [f"project = {quoted(project)}"]
    if active_states:
        parts.append(f"status IN ({', '.join(map(quoted, active_states))})")
    else:
        parts.append("statusCategory != Done")
    if query_filter.strip():
        parts.append(f"({query_filter.strip()})")
    return f"{' AND '.join(parts)} ORDER BY priority DESC, created ASC"


def filter_problem(query_filter: str) -> str:
    """Why it cannot stand in parentheses beside our own conditions; empty where it can."""
    depth = 0
    words: list[str] = []
    for match in _WORD.finditer(query_filter):
        if match["mark"] and not match["end"]:
            return "has a quotation mark that is not closed"
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth < 0:
            break
        words.append(match[0].lower())
    if depth:
        return "has parentheses that do not match"
    if ("order", "by") in pairwise(words):
        return "must not have ORDER BY, because issues are ordered by priority and age"
    return ""
