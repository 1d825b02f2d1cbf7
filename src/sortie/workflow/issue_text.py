"""What a template sees of an issue; where its authors were judged, every text is in a place that it cannot leave.

The fields know their marks, so a template marks whatever it shows: text of strangers and text of people whose word
counts stand in blocks that say which it is and who wrote it. Everything is bounded.
What nobody judged comes from the owner of the workflow, and is given as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from secrets import token_hex
from typing import Any, NamedTuple, TypeVar

import msgspec

from ..core.model import Issue
from ..protocol.foreign_text import escape, shortened
from ..protocol.marked_text import fenced, harmless, unused_mark
from .foreign_pieces import Foreign, Place

T = TypeVar("T", bound=Mapping[str, Any])

LONGEST_DESCRIPTION = 64 * 1024
LONGEST_COMMENT = 16 * 1024
LONGEST_COMMENTS = 128 * 1024
LONGEST_LINE = 1_000
LONGEST_NAME = 200
MOST_NAMES = 100

# How it is run, what its source remembers and by what its authors were judged is no part of what an issue says.
HIDDEN = frozenset({"agent", "memo", "author_id", "association"})
_LONG_LINES = frozenset({"title", "url"})
# More than what stands around a comment, so that those which say nothing are bounded too.
_AROUND = 400
# A name of one word says nothing; any other of a stranger is marked.
_PLAIN_NAME = re.compile(r"[\w.@+-]{1,64}(\[bot\])?")
_LONGEST_IN_LABEL = 64
_NO_QUOTES = str.maketrans('`"', "''")


class Excerpt(NamedTuple):
    """`text` is harmless and bounded; `whole` is the length of a text of which that is only the beginning."""

    text: str
    whole: int = 0


def issue_fields(issue: Issue) -> tuple[dict[str, Any], str]:
    """All that can be shown, and the mark that is in it; an empty mark where nothing was judged."""
    fields = _visible(msgspec.to_builtins(issue))
    comments = None if issue.comments is None else [*map(_visible, fields["comments"])]
    if issue.trusted is None and all(comment.trusted is None for comment in issue.comments or ()):
        lists = {"labels": [*fields["labels"]], "comments": comments, "blocked_by": [*fields["blocked_by"]]}
        return fields | lists, ""
    # Where others were judged, whoever was not is a stranger.
    shown = {**bounded_lines({**fields, "description": "", "comments": None}), "trusted": bool(issue.trusted)}
    description = excerpt(issue.description, LONGEST_DESCRIPTION)
    kept = newest(comments or [], LONGEST_COMMENTS, lambda comment: len(fenced("", _body(comment).text)))
    bodies = [
        ({**bounded_lines({**comment, "body": ""}), "trusted": bool(comment["trusted"])}, _body(comment))
        for comment in kept
    ]
    mark = unused_mark(token_hex(6), _strings((shown, description, bodies)))
    marks = Marks(mark)
    earlier = len(comments or ()) - len(bodies)
    shown |= marks.pieces(shown, "description", "description", description)
    if not shown["trusted"]:
        shown["title"] = marks.one_line("title", shown["title"])
    if comments is not None:
        shown["comments"] = [{**one, **marks.pieces(one, "body", "comment", body)} for one, body in bodies]
    if earlier:
        first = shown["comments"][0]
        first["body"] = first["body"].below(f"\n({earlier:,} earlier comments are left out)\n")
    return shown, mark


def _visible(fields: dict[str, Any]) -> dict[str, Any]:
    for name in HIDDEN:
        fields.pop(name, None)
    return fields


def bounded_lines(value: Any, most: int = LONGEST_NAME) -> Any:
    """The same with every text on one line."""
    match value:
        case str():
            return shortened(escape(value[: most + 1]), most)
        case dict():
            return {
                name: bounded_lines(inner, LONGEST_LINE if name in _LONG_LINES else LONGEST_NAME)
                for name, inner in value.items()
            }
        case list() | tuple():
            return [bounded_lines(inner) for inner in value[:MOST_NAMES]]
    return value


def excerpt(text: str, most: int) -> Excerpt:
    shown = harmless(text[:most])
    return Excerpt(shown[:most], len(text) if len(text) > most or len(shown) > most else 0)


def newest(comments: Sequence[T], room: int, length: Callable[[T], int]) -> list[T]:
    """As many of the last ones as there is room for, in their order; the trackers tell the oldest first.

    Strangers get the room that the others leave: no flood of theirs hides an answer.
    """
    kept = set[int]()
    for number in sorted(range(len(comments)), key=lambda number: (not comments[number]["trusted"], -number)):
        room -= length(comments[number]) + _AROUND
        if room < 0:
            break
        kept.add(number)
    return [comments[number] for number in sorted(kept)]


def _body(comment: Mapping[str, Any]) -> Excerpt:
    return excerpt(comment["body"], LONGEST_COMMENT)


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            yield from _strings([*value.values()])
        case list() | tuple():
            for inner in value:
                yield from _strings(inner)


class Marks:
    """Of texts in their places: `mark` is in none of the texts that are marked with it."""

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def signed(self, fields: Mapping[str, Any], name: str, what: str, text: Excerpt) -> dict[str, str]:
        """The text under its name, and its author; both as they are shown."""
        return {key: str(value) for key, value in self.pieces(fields, name, what, text).items()}

    def pieces(self, fields: Mapping[str, Any], name: str, what: str, text: Excerpt) -> dict[str, str]:
        """The same for a template, which may cut them."""
        author, trusted = fields["author"], fields["trusted"]
        is_plain = trusted or _PLAIN_NAME.fullmatch(author)
        place = Place(self._mark, what, _in_label(author), trusted)
        rest = f"; the rest of its {text.whole:,} characters is left out" if text.whole else ""
        return {
            "author": author if is_plain else self.one_line("author", author),
            name: Foreign(text.text, place, place.block(text.text, rest)),
        }

    def line(self, text: str, *, trusted: bool) -> str:
        return text if trusted else str(self.one_line("title", text))

    def one_line(self, what: str, text: str) -> Foreign:
        """Of a stranger."""
        place = Place(self._mark, what, "a stranger", trusted=False)
        return Foreign(text, place, place.line(text))


def _in_label(author: str) -> str:
    if not author or _PLAIN_NAME.fullmatch(author):
        return author or "an unknown author"
    name = shortened(author, _LONGEST_IN_LABEL).translate(_NO_QUOTES)
    return f'"{name}"'
