"""Untrusted text inside of our own: each in a marked place whose end it cannot fake, whatever it contains.

The marker has a random word that is in none of the texts, and a block has fences that are longer than any in it.
The text becomes printable lines: control characters, unusual line ends, text-direction marks and invisible
characters are shown as escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .foreign_text import escape

_TAB = 4
_BACKTICKS = re.compile(r"`+")


def harmless(text: str) -> str:
    """Lines that say what they show: no control characters, other line ends, marks of direction or unseen signs."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(_TAB).split("\n")
    return "\n".join(map(escape, lines)).strip("\n")


def unused_mark(token: str, texts: Iterable[str]) -> str:
    """Of letters and digits, made from a token that nobody could know before; in none of the texts, in any case."""
    mark = "".join(character for character in token if character.isalnum() and character.isascii()) or "0"
    lower = [text.lower() for text in texts]
    while any(mark.lower() in text for text in lower):
        mark += "0"
    return mark


def fenced(label: str, text: str) -> str:
    """A block of a text that is harmless; `label` is ours, and has the mark in it."""
    fence = fence_around(text)
    return f"{fence}{label}\n{text}\n{fence}"


def fence_around(text: str) -> str:
    return "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
