"""Changes of ours to the records of the issue file: whatever a change does not touch stays as it was written.

Those of the last minute are remembered, so that a change which another program's write dropped is made again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from time import monotonic
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..core.model import Issue
from ..errors import TrackerError
from .file_table import Table

AUTHOR = "sortie"

# Longer than programs take between reading a file and writing it; people's editors warn of a changed file.
REMEMBERED_SECONDS = 60.0


class Transition(Struct, frozen=True):
    """`stamp` becomes the issue's `updated_at`; it is the change's own, so a change can be recognised by it."""

    issue_id: str
    stamp: str
    state: str


class NewComment(Struct, frozen=True):
    issue_id: str
    stamp: str
    comment_id: str
    body: str


Change = Transition | NewComment


class Before(Struct, frozen=True):
    """What a change found, by which its loss can be recognised later."""

    updated_at: str
    state: str


class _Id(Struct):
    id: Any = None


_fields = msgspec.json.Decoder(dict[str, Raw])
_ids = msgspec.json.Decoder(list[_Id] | None)


class Draft:
    """Changes to records of a table that are not written yet; the table stays as it is."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.texts: dict[int, bytes] = {}

    def look(self, issue_id: str) -> Before:
        """How the issue stands now; `TrackerError` where there is none, or more than one."""
        _, _, before = self._record(issue_id)
        return before

    def apply(self, change: Change) -> Before | None:
        """Make the change; None when there is nothing to do, `TrackerError` when it cannot be made."""
        position, fields, before = self._record(change.issue_id)
        layout = _Layout(self._text(position))
        if isinstance(change, Transition):
            if before.state == change.state:
                return None
            fields["state"] = Raw(layout.encode(change.state))
        else:
            comments = self._with_comment(bytes(fields.get("comments", Raw(b"null"))), change, layout)
            if comments is None:
                return None
            fields["comments"] = Raw(comments)
        fields["updated_at"] = Raw(layout.encode(change.stamp))
        self.texts[position] = layout.record(fields)
        return before

    def text(self) -> bytes:
        return self._table.text(self.texts)

    def _record(self, issue_id: str) -> tuple[int, dict[str, Raw], Before]:
        position = self._table.position(issue_id)
        fields = _fields.decode(self._text(position))
        return position, fields, Before(_text_in(fields, "updated_at"), _text_in(fields, "state"))

    def _text(self, position: int) -> bytes:
        return self.texts.get(position) or self._table.text_of(position)

    def _with_comment(self, comments: bytes, change: NewComment, layout: _Layout) -> bytes | None:
        try:
            present = _ids.decode(comments) or []
        except msgspec.ValidationError as error:
            raise TrackerError(
                TrackerError.PAYLOAD,
                f'{self._table.name}: `comments` of issue "{change.issue_id}" is not a list of objects.',
                fix="Make it one, or remove it.",
            ) from error
        if any(comment.id == change.comment_id for comment in present):
            return None
        added = {
            "id": change.comment_id,
            "author": AUTHOR,
            "body": change.body,
            "created_at": change.stamp,
        }
        return layout.append(comments if present else b"[]", added)


class _Made(Struct, frozen=True):
    at: float
    before: Before
    change: Change


class RecentChanges:
    """What we did to each issue lately, oldest first, to notice when another program's write took it away.

    A program that read the file before our change and writes it back after knows nothing of the change and drops
    it. Every change stamps the issue's `updated_at`, so the loss shows: the issue has the stamp again that it had
    before. A person who takes a change back on purpose edits the state and leaves our stamp, and is left alone.
    """

    def __init__(self) -> None:
        # The issue that was changed last is at the end; each change found what the one before it left.
        self._made: dict[str, tuple[_Made, ...]] = {}

    def remember(self, change: Change, before: Before) -> None:
        now = monotonic()
        made = [entry for entry in self._made.pop(change.issue_id, ()) if entry.at >= now - REMEMBERED_SECONDS]
        self._made[change.issue_id] = (*made, _Made(now, before, change))
        while (oldest := next(iter(self._made.values())))[-1].at < now - REMEMBERED_SECONDS:
            del self._made[oldest[-1].change.issue_id]

    def lost(self, issue_id: str, found: Before) -> list[Change]:
        """The changes to make again, oldest first, when the issue looks like this."""
        made = self._made.get(issue_id, ())
        if made and made[-1].at < monotonic() - REMEMBERED_SECONDS:
            return []
        for position, entry in enumerate(made):
            if entry.before.updated_at == found.updated_at:
                later = [entry.change for entry in made[position:]]
                if entry.before.state == found.state:
                    return later
                # Whoever wrote last also moved the issue: their move stands, only what we said is missing.
                return [change for change in later if isinstance(change, NewComment)]
        return []

    def damaged(self, issues: Mapping[str, Issue]) -> list[str]:
        """The issues that have lost changes of ours in this version of the file."""
        known = [issues[issue_id] for issue_id in self._made if issue_id in issues]
        return [issue.id for issue in known if self.lost(issue.id, Before(issue.updated_at, issue.state))]


class _Layout:
    """How one record is laid out in the text, so that what is added to it looks the same."""

    def __init__(self, record: bytes) -> None:
        opening = re.match(rb"\{[ \t]*(\r?\n)([ \t]*)", record)
        closing = re.search(rb"\n([ \t]*)\}\Z", record)
        self._newline = opening[1] if opening else b""
        self._outer = closing[1] if closing else b""
        self._inner = opening[2] if opening else b""
        self._step = self._inner.removeprefix(self._outer) or b"  "

    def encode(self, value: object, indent: bytes | None = None) -> bytes:
        if indent is None or not self._newline:
            return json.dumps(value, ensure_ascii=False).encode()
        text = json.dumps(value, ensure_ascii=False, indent=self._step.decode()).encode()
        return text.replace(b"\n", self._newline + indent)

    def record(self, fields: dict[str, Raw]) -> bytes:
        pairs = [self.encode(key) + b": " + bytes(value) for key, value in fields.items()]
        return b"{" + self._join(pairs, self._inner) + self._newline + self._outer + b"}"

    def append(self, array: bytes, item: object) -> bytes:
        """The text of an array with one more item; the items it has stay as they are."""
        indent = self._inner + self._step
        present = array[1:-1].strip()
        items = [present] if present else []
        joined = self._join([*items, self.encode(item, indent)], indent)
        return b"[" + joined + self._newline + self._inner + b"]"

    def _join(self, items: list[bytes], indent: bytes) -> bytes:
        if not self._newline:
            return b", ".join(items)
        line = self._newline + indent
        return line + (b"," + line).join(items)


def _text_in(fields: dict[str, Raw], key: str) -> str:
    value = msgspec.json.decode(fields.get(key, b'""'))
    return value if isinstance(value, str) else ""
