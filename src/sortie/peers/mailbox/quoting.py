"""How text is put into a card or a table so that it stays there, and how it is read back as it was."""

from __future__ import annotations

import re
from itertools import pairwise

# Controls, ends of lines that no line of ours has, directions that turn text around, and halves of characters.
_HARMFUL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_RULE_ROW = re.compile(r" {0,3}\|?[ :|-]*-[ :|-]*")


def harmless(text: str) -> str:
    """Lines that end with LF, with everything spelled out that a terminal, an editor or a parser would obey."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def quoted(text: str) -> str:
    """As a quotation: no line of it is a heading, a fence, a table or an answer of the card it stands in."""
    return "".join(f"> {line}\n" if line else ">\n" for line in text.split("\n"))


def unquoted(text: str) -> str:
    """What was quoted; what is not a quotation as a whole stays as it is."""
    lines = text.strip("\n").split("\n")
    if lines[0].startswith(">") and all(line.startswith(">") or not line.strip() for line in lines):
        return "\n".join(line[2:] if line.startswith("> ") else line[1:] for line in lines)
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def cell(text: str) -> str:
    """A value in a table: it ends neither the cell nor the row."""
    text = harmless(text).replace("\n", " ").replace("\t", " ").strip()
    return text.replace("|", "\\|") if "|" in text else text


def cell_text(raw: str) -> str:
    return raw.replace("\\|", "|") if "|" in raw else raw


def cells(row: str) -> list[tuple[int, int]]:
    """Where the cells of a table row begin and end, without blanks. A pipe after a backslash is text."""
    bounds = [at for at, sign in enumerate(row) if sign == "|" and row[at - 1 : at] != "\\"]
    if not bounds or row[: bounds[0]].strip():
        bounds.insert(0, -1)
    if row[bounds[-1] + 1 :].strip():
        bounds.append(len(row))
    found = []
    for before, after in pairwise(bounds):
        inner = row[before + 1 : after]
        left = before + 1 + len(inner) - len(inner.lstrip())
        found.append((left, max(left, before + 1 + len(inner.rstrip()))))
    return found


def is_rule_row(row: str) -> bool:
    """`|---|---|`, the line below the header of a table."""
    return bool(_RULE_ROW.fullmatch(row.rstrip()))
