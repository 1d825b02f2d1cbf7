"""An issue as `tracker_api` tells it: the documented fields alone, all text bounded, that of strangers marked.

A string of JSON is a place that no text can leave, so what nobody doubts stands in it as it is. What strangers
wrote has the marks that it has in a prompt, in the same string.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

from msgspec import to_builtins

from ..core.model import Issue
from ..protocol.foreign_text import shortened
from ..protocol.marked_text import unused_mark
from ..workflow.issue_text import (
    LONGEST_COMMENT,
    LONGEST_COMMENTS,
    LONGEST_DESCRIPTION,
    LONGEST_LINE,
    Marks,
    bounded_lines,
    excerpt,
    newest,
)

# In the documented order: exactly these, whatever else is known of them.
_RECORD = (
    "id", "identifier", "title", "description", "state", "priority", "labels", "assignee", "issue_type", "url",
    "branch_name", "parent", "comments", "blocked_by", "created_at", "updated_at",
)  # fmt: skip
_COMMENT = ("id", "author", "body", "created_at")
# What people choose or name instead of writing it.
_NAMES = ("labels", "assignee", "issue_type", "url", "branch_name", "parent", "blocked_by")

MOST_TEXT_OF_A_LIST = 512 * 1024
# Of each issue in a list so much is told however many there are.
_LEAST = 1024


def records(issues: Sequence[Issue]) -> list[dict[str, Any]]:
    """Issues of a list; the longest texts are cut where there are too many for one answer."""
    most = LONGEST_DESCRIPTION
    while most > _LEAST and sum(_length(issue, most) for issue in issues) > MOST_TEXT_OF_A_LIST:
        most //= 2
    return [record(issue, most) for issue in issues]


def record(issue: Issue, most: int = LONGEST_DESCRIPTION) -> dict[str, Any]:
    """One issue with so many characters of its description at most, and of its comments what goes with that;
    without comments that field is null, not empty."""
    plain = to_builtins(issue)
    written = plain["comments"] or ()
    room = LONGEST_COMMENTS * most // LONGEST_DESCRIPTION
    kept = newest(written, room, lambda comment: min(len(comment["body"]), LONGEST_COMMENT, most))
    # Where others were judged, whoever was not is a stranger.
    is_judged = any(text["trusted"] is not None for text in (plain, *written))
    if is_judged:
        plain |= bounded_lines({name: plain[name] for name in _NAMES})
    strings = [text[name] for text in (plain, *kept) for name in ("title", "description", "body") if name in text]
    marks = Marks(unused_mark(token_hex(6), [*strings, *(text["author"] for text in (plain, *kept))]))

    def told(text: Mapping[str, Any], name: str, what: str, longest: int) -> dict[str, Any]:
        if not is_judged or text["trusted"]:
            return {**text, name: _beginning(text[name], longest)}
        signed = {"author": bounded_lines(text["author"]), "trusted": False}
        return {**text, **marks.signed(signed, name, what, excerpt(text[name], longest))}

    fields = told(plain, "description", "description", most)
    is_strangers = is_judged and not issue.trusted
    title = bounded_lines(issue.title, LONGEST_LINE) if is_strangers else shortened(issue.title, LONGEST_LINE)
    fields["title"] = marks.line(title, trusted=not is_strangers)
    comments = [told(comment, "body", "comment", min(LONGEST_COMMENT, most)) for comment in kept]
    if earlier := len(written) - len(kept):
        comments[0]["body"] = f"({earlier:,} earlier comments are left out)\n\n{comments[0]['body']}"
    fields["comments"] = [{name: comment[name] for name in _COMMENT} for comment in comments] or None
    return {name: list(fields[name]) if isinstance(fields[name], tuple) else fields[name] for name in _RECORD}


def _length(issue: Issue, most: int) -> int:
    comments = sum(min(len(comment.body), most) for comment in issue.comments or ())
    return min(len(issue.description), most) + min(comments, LONGEST_COMMENTS * most // LONGEST_DESCRIPTION)


def _beginning(text: str, most: int) -> str:
    rest = f"\n(the rest of its {len(text):,} characters is left out)"
    return text if len(text) <= most else text[:most] + rest
