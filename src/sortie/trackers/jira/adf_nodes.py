"""One node of a document in Atlassian's format (ADF), whatever it really is: asked for anything, it never fails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

INLINE = frozenset(
    {"text", "hardBreak", "mention", "emoji", "date", "status", "inlineCard", "mediaInline", "placeholder"}
)

# From the outermost to the innermost, as they are written around a text; code has no others inside.
SIGNS = ("link", "strike", "strong", "em", "code")
AROUND = {"strike": "~~", "strong": "**", "em": "*"}

_MARK_TEXT = re.compile(r"sortie:[0-9A-Za-z._:-]+")


def type_of(node: Any) -> str:
    found = node.get("type") if isinstance(node, dict) else None
    return found if isinstance(found, str) else ""


def children(node: Any) -> list[Any]:
    found = node.get("content") if isinstance(node, dict) else None
    return found if isinstance(found, list) else []


def attributes(node: Any) -> dict[str, Any]:
    found = node.get("attrs") if isinstance(node, dict) else None
    return found if isinstance(found, dict) else {}


def whole(node: Any, name: str, otherwise: int) -> int:
    value = attributes(node).get(name)
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**31 else otherwise


def words(node: Any) -> str:
    found = node.get("text") if isinstance(node, dict) else node
    return found if isinstance(found, str) else ""


def marks(node: Any) -> dict[str, str]:
    """Those that are shown, by name; of a link the address."""
    found: dict[str, str] = {}
    given = node.get("marks") if isinstance(node, dict) else None
    for mark in given if isinstance(given, list) else ():
        href = attributes(mark).get("href")
        if type_of(mark) in SIGNS:
            found[type_of(mark)] = href if isinstance(href, str) else ""
    return found


def mark_in(node: Any) -> str:
    """`sortie:EFFECT`, where that is all that a paragraph has, written as code: so our comments end in Jira."""
    content = children(node)
    if type_of(node) != "paragraph" or len(content) != 1 or type_of(content[0]) != "text":
        return ""
    text = words(content[0])
    return text if _MARK_TEXT.fullmatch(text) and [*marks(content[0])] == ["code"] else ""


def leaf(node: Any) -> str:
    """The text of a node that has nothing inside."""
    match type_of(node):
        case "mention":
            name = _first(node, "text", "id")
            return name if name.startswith("@") or not name else f"@{name}"
        case "date":
            return _day(attributes(node).get("timestamp"))
        case "status":
            return f"[{_first(node, 'text')}]"
        case "media" | "mediaInline":
            return _first(node, "url") or f"[attachment: {_first(node, 'alt', '__fileName', 'id')}]"
        case "inlineCard" | "blockCard" | "embedCard":
            data = attributes(node).get("data")
            return _first(node, "url") or _first({"attrs": data}, "url")
        case "extension" | "inlineExtension" | "bodiedExtension" | "multiBodiedExtension":
            # What an app shows there is not in the document: that something is there, is.
            key = _first(node, "extensionKey")
            return _first(node, "text") or (f"[extension: {key}]" if key else "[extension]")
        case _:
            return words(node) or _first(node, "text", "shortName", "url", "title")


def _first(node: Any, *names: str) -> str:
    found = (attributes(node).get(name) for name in names)
    return next((one_line(text) for text in found if isinstance(text, str) and text), "")


def _day(timestamp: Any) -> str:
    """Atlassian has milliseconds since the epoch, as text."""
    try:
        return datetime.fromtimestamp(int(timestamp) / 1000, UTC).date().isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def one_line(text: str) -> str:
    return " ".join(text.split())


def marked(run: Sequence[tuple[str, dict[str, str]]], signs: Sequence[str] = SIGNS) -> str:
    """Texts beside each other, each with its marks; a mark that several share is written once around them."""
    if not signs:
        return "".join(text for text, _ in run)
    sign, *inner = signs
    found: list[str] = []
    for value, group in groupby(run, lambda item: item[1].get(sign)):
        same = [*group]
        text = marked(same, inner)
        # An address that is its own name is written once.
        is_bare = value is None or (sign == "link" and "".join(each for each, _ in same).strip() == value)
        found.append(text if is_bare else _around(text, sign, value or ""))
    return "".join(found)


def _around(text: str, sign: str, value: str) -> str:
    """Space at the ends stays outside: signs with a space behind them are read as themselves."""
    bare = text.strip()
    if not bare:
        return text
    if sign == "code":
        return f"`` {text} ``" if "`" in text else f"`{text}`"
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    shown = f"[{bare}]({value})" if sign == "link" else f"{AROUND[sign]}{bare}{AROUND[sign]}"
    return f"{before}{shown}{after}"
