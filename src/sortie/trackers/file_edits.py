"""Changes of ours to the text of the issue file: whatever a change does not touch stays as it was written. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..errors import TrackerError
from .file_records import BYTE_ORDER_MARK, split

AUTHOR = "sortie"


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
_id = msgspec.json.Decoder(_Id)
_ids = msgspec.json.Decoder(list[_Id] | None)


class Document:
    """The file's text as records that can be changed one by one."""

    def __init__(self, raw: bytes, name: str) -> None:
        self._raw = raw
        self._name = name
        self._original = [bytes(record) for record in split(raw, name)]
        self._records = list(self._original)
        self._positions: dict[object, list[int]] = {}
        for position, record in enumerate(self._original):
            self._positions.setdefault(_id_of(record), []).append(position)

    def look(self, issue_id: str) -> Before:
        """How the issue stands now; `TrackerError` where there is none, or more than one."""
        fields = _fields.decode(self._records[self._position(issue_id)])
        return Before(_text_in(fields, "updated_at"), _text_in(fields, "state"))

    def apply(self, change: Change) -> Before | None:
        """Make the change; None when there is nothing to do, `TrackerError` when it cannot be made."""
        position = self._position(change.issue_id)
        layout = _Layout(self._records[position])
        fields = _fields.decode(self._records[position])
        before = self.look(change.issue_id)
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
        self._records[position] = layout.record(fields)
        return before

    def text(self) -> bytes:
        parts = []
        end = len(BYTE_ORDER_MARK) if self._raw.startswith(BYTE_ORDER_MARK) else 0
        parts.append(self._raw[:end])
        for original, record in zip(self._original, self._records, strict=True):
            # Only blanks and a comma stand between two records, so the first match is the record itself.
            start = self._raw.index(original, end)
            parts += (self._raw[end:start], record)
            end = start + len(original)
        parts.append(self._raw[end:])
        return b"".join(parts)

    def _position(self, issue_id: str) -> int:
        positions = self._positions.get(issue_id, [])
        if not positions:
            raise TrackerError(TrackerError.NOT_FOUND, f'{self._name} has no issue with the id "{issue_id}".')
        if len(positions) > 1:
            raise TrackerError(
                TrackerError.PAYLOAD,
                f'{self._name} has {len(positions)} records with the id "{issue_id}".',
                fix="Give each its own.",
            )
        return positions[0]

    def _with_comment(self, comments: bytes, change: NewComment, layout: _Layout) -> bytes | None:
        try:
            present = _ids.decode(comments) or []
        except msgspec.ValidationError as error:
            raise TrackerError(
                TrackerError.PAYLOAD,
                f'{self._name}: `comments` of issue "{change.issue_id}" is not a list of objects.',
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
        return b"[" + joined + self._newline + (self._inner if self._newline else b"") + b"]"

    def _join(self, items: list[bytes], indent: bytes) -> bytes:
        if not self._newline:
            return b", ".join(items)
        line = self._newline + indent
        return line + (b"," + line).join(items)


def _id_of(record: bytes) -> object:
    try:
        found = _id.decode(record).id
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, str) else None


def _text_in(fields: dict[str, Raw], key: str) -> str:
    value = msgspec.json.decode(fields.get(key, b'""'))
    return value if isinstance(value, str) else ""
