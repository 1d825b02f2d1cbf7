"""Keeps secrets out of everything people read: each occurrence of a secret becomes `[redacted]`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

# Takes secrets out of a text.
Hide = Callable[[str], str]

MARK = "[redacted]"

# Shorter values are ordinary words too often; hiding them would make logs unreadable and hide nothing.
SHORTEST = 6


class Redactor:
    """Replaces secrets as they are written, and as they look inside a JSON string.

    Logs are read line by line, so a secret of several lines is hidden line by line as well. Overlapping
    secrets are hidden together: no rest of one stays visible beside the other.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._forms = tuple(sorted({form for secret in secrets for form in _forms(secret)}))
        self._raw_forms = tuple(_as_latin(form.encode("utf-8", "surrogateescape")) for form in self._forms)

    def text(self, text: str) -> str:
        return _hide(text, self._forms)

    def raw(self, data: bytes) -> bytes:
        """The same for output that is not decoded yet; what is not UTF-8 stays as it is."""
        return _hide(_as_latin(data), self._raw_forms).encode("latin-1")


def _forms(secret: str) -> set[str]:
    forms: set[str] = set()
    for part in {secret, *secret.splitlines()}:
        if len(part) >= SHORTEST and part not in MARK:
            forms |= {part, json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1]}
    return forms


def _as_latin(data: bytes) -> str:
    """One character for each byte, so that text and bytes are searched by the same code."""
    return data.decode("latin-1")


def _hide(text: str, forms: tuple[str, ...]) -> str:
    pieces: list[str] = []
    read_to = 0
    for start, end in sorted(span for form in forms for span in _occurrences(text, form)):
        if start >= read_to:  # else it overlaps with what is hidden already
            pieces += [text[read_to:start], MARK]
        read_to = max(read_to, end)
    return "".join([*pieces, text[read_to:]]) if pieces else text


def _occurrences(text: str, form: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at = text.find(form)
    while at >= 0:
        found.append((at, at + len(form)))
        at = text.find(form, at + 1)
    return found
