"""Text, times and JSON as agents write them, made harmless: bounded, printable, of the right types, finite.

Also how we write them ourselves, so that whatever we write we would accept.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

MOST_NESTED = 32
_MOST_NUMBER = 2**53
_LAST_SECOND = 253_402_300_799  # of the year 9999
_SHOWN_KEY = 40
_SHOWN_WORD = 100
_SHOWN_REASON = 500

# Printable by its category, and yet nobody sees it: joiners, fillers, blanks, and selectors of variants, but for
# one that an emoji has. A text could be written in them beside the one that people read.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\uffa0\U00016fe4\U0001d159"
    "\ufe00-\ufe0d\U000e0100-\U000e01ef]"
    "|(?<![\u00a9\u00ae\u203c\u2049\u2122-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff])"
    "[\ufe0e\ufe0f](?!\u20e3)"
)

Word = TypeVar("Word", bound=str)


class Malformed(ValueError):
    """Bytes that are no JSON object, or none that we accept; the text says why."""


def escape(line: str) -> str:
    """One line that can be shown anywhere: what is not printable, or shows nothing, is spelled out."""
    if not line.isprintable():
        line = "".join(c if c.isprintable() else _spelled(c) for c in line)
    return line if line.isascii() else _UNSEEN.sub(lambda found: _spelled(found[0]), line)


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def readable(text: str, most: int) -> str:
    """The lines that say something, each escaped; at most this many characters."""
    lines = (escape(line.strip()) for line in text[: 2 * most].split("\n"))
    return shortened("\n".join(line for line in lines if line), most)


def parse_object(raw: bytes, most: int) -> tuple[dict[str, Any], list[str]]:
    """The object, and the paths of numbers in it that are not finite: those count as not given.

    A mark of the byte order and line ends of Windows are accepted. Anything else raises `Malformed`.
    """
    if len(raw) > most:
        raise Malformed(f"It is larger than {most // 1024} KiB")
    if not raw.strip():
        raise Malformed("It is empty")
    try:
        document = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"It is not JSON: {shortened(escape(str(error)), _SHOWN_REASON)}") from None
    if not isinstance(document, dict):
        raise Malformed("It must be an object")
    endless: list[str] = []
    checked: dict[str, Any] = _checked(document, "", 1, endless)
    return checked, endless


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """As UTF-8 for people to read. Half of a surrogate pair, which UTF-8 does not have, stays an escape of JSON."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def parse_time(text: str) -> float | None:
    """Seconds since the epoch; None for what is no time after it, or does not say in which zone."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    at = moment.timestamp() if moment.tzinfo else -1
    return at if 0 <= at <= _LAST_SECOND else None


def time_text(at: float) -> str:
    """UTC by RFC 3339, to the second."""
    return datetime.fromtimestamp(int(at), UTC).isoformat().replace("+00:00", "Z")


class Keys:
    """The keys of one object. One that is null is not given; one of the wrong type raises, with its path.

    `findings` gathers what has the right type and yet cannot be; it counts as not given.
    """

    def __init__(self, document: Mapping[str, Any], path: str, findings: list[str]) -> None:
        self._document = dict(document)
        self._path = path
        self.findings = findings

    def one_of(self, key: str, words: Sequence[Word]) -> Word:
        """This key has to be there."""
        given = self._take(key, str, "a text")
        for word in words:
            if word == given:
                return word
        called = f"one of {', '.join(words)}"
        if given is None:
            raise Malformed(f"`{self._path}{key}` must be {called}")
        shown = shortened(escape(given[:_SHOWN_WORD]), _SHOWN_WORD)
        raise Malformed(f"`{self._path}{key}` must be {called}, not `{shown}`")

    def text(self, key: str, most: int) -> str:
        return readable(self._take(key, str, "a text") or "", most)

    def any_text(self, key: str, most: int) -> str:
        """For a key of which the format says only that it is there: a text, or any other value as JSON."""
        value = self._document.pop(key, None)
        if value is None:
            return ""
        return readable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), most)

    def unless_false(self, key: str) -> bool:
        return self._take(key, bool, "true or false") is not False

    def whole(self, key: str) -> int | None:
        value = self._take(key, (int, float), "a number")
        if value is None:
            return None
        if not 0 <= value <= _MOST_NUMBER or value != int(value):
            self.findings.append(f"`{self._path}{key}` is not a whole number from 0 to {_MOST_NUMBER}")
            return None
        return int(value)

    def time(self, key: str) -> float | None:
        text = self._take(key, str, "a time as text")
        at = parse_time(text) if text else None
        if text and at is None:
            self.findings.append(f"`{self._path}{key}` is not a time like 2024-01-15T10:30:00Z")
        return at

    def inner(self, key: str) -> Keys | None:
        value = self._take(key, dict, "an object")
        return None if value is None else Keys(value, f"{self._path}{key}.", self.findings)

    def rest(self) -> dict[str, Any]:
        """What nobody asked for."""
        return self._document

    def _take(self, key: str, kind: type | tuple[type, ...], called: str) -> Any:
        value = self._document.pop(key, None)
        is_right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if value is not None and not is_right:
            raise Malformed(f"`{self._path}{key}` must be {called}")
        return value


def _checked(value: Any, path: str, depth: int, endless: list[str]) -> Any:
    if depth > MOST_NESTED:
        raise Malformed(f"It is nested more than {MOST_NESTED} deep at `{path}`")
    if isinstance(value, dict):
        return {key: _checked(inner, _below(path, key), depth + 1, endless) for key, inner in value.items()}
    if isinstance(value, list):
        return [_checked(inner, _below(path, str(i)), depth + 1, endless) for i, inner in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        endless.append(path)
        return None
    return value


def _below(path: str, key: str) -> str:
    shown = shortened(escape(key[:_SHOWN_KEY]), _SHOWN_KEY)
    return f"{path}.{shown}" if path else shown
