"""What a check of the shared documents found: one thing that somebody did against the rules, or that went stale."""

from __future__ import annotations

from msgspec import Struct


class Finding(Struct, frozen=True, kw_only=True):
    """`subject` is the ID of the entry or message it is about, `line` is 0 where no line can be named, and `owner`
    is whose text was touched."""

    kind: str
    subject: str = ""
    line: int = 0
    sentence: str
    owner: str = ""
