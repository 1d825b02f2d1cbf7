"""Reads a server's answer: JSON into a type, the message of an error, and HTML pages instead of JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct

from ..errors import TrackerError
from ..protocol.foreign_text import readable

T = TypeVar("T")

LONGEST_MESSAGE = 500
PAGES = frozenset({"text/html", "application/xhtml+xml"})
# Half of a surrogate pair is no character, yet JSON can spell it.
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


class TooLarge(TrackerError):
    """An answer has more bytes than anybody keeps: less at once may be asked for."""


class Reply(Struct, frozen=True, kw_only=True):
    """An answer that is no error. `unchanged`: the server said that it is the same as before. `next_page` are the
    parameters of the page after this one, None on the last."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    unchanged: bool = False
    next_page: dict[str, str] | None = None

    def read(self, kind: type[T]) -> T:
        """The JSON in it as this type; what does not fit raises `TrackerError` of kind PAYLOAD. Text that is no
        Unicode has a replacement character there: it spoils no other."""
        try:
            try:
                return msgspec.json.decode(self.body, type=kind)
            except msgspec.ValidationError:
                raise
            except (msgspec.DecodeError, UnicodeDecodeError):
                return msgspec.json.decode(_in_unicode(self.body), type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problem = f"The tracker's answer cannot be used: {readable(str(error), LONGEST_MESSAGE)}."
            raise TrackerError(TrackerError.PAYLOAD, problem, fix="Check tracker.endpoint.") from error


def refusal_in(body: bytes) -> str:
    """What a server says about its refusal: the words of GitHub, Jira and Redmine are looked for; else nothing."""
    try:
        said = msgspec.json.decode(body[:65536])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    if not isinstance(said, dict):
        return ""
    parts: list[str] = []
    for key in ("message", "errorMessages", "error", "errors"):
        value = said.get(key)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, str):
                parts.append(part)
            elif isinstance(part, dict):
                parts += [f"{name}: {text}" for name, text in part.items() if isinstance(text, str)]
    return "; ".join(parts)


def is_page(headers: Mapping[str, str], body: bytes) -> bool:
    """Whether this is to be looked at in a browser; servers call nothing at all so too."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() in PAGES and bool(body.strip())


def _in_unicode(body: bytes) -> bytes:
    text = body.decode("utf-8", "replace").encode()
    return _ESCAPES.sub(lambda found: rb"\ufffd" if found["half"] else found[0], text)
