"""Documents in Atlassian's format (ADF) as text that people and agents read, much like Markdown.

Any JSON value has a text, of bounded size and in bounded time: what is not known gives the text inside it, what is
nested too deep gives its words only, and where a document is too long it is said that the rest is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Any

from .adf_nodes import INLINE, attributes, children, leaf, mark_in, marked, marks, one_line, type_of, whole, words

LONGEST_TEXT = 200_000
MOST_NODES = 20_000
MOST_NESTED = 24
LEFT_OUT = "[The rest is too long and left out.]"

_UNWANTED = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What a cell of a table has that stays the same in one line; all else that is no inline node does not.
_FLAT = frozenset({"paragraph", "mediaSingle", "mediaGroup", "blockCard", "embedCard", "extension"})
_PANELS = {"info": "Info", "tip": "Tip", "warning": "Warning", "error": "Error", "success": "Success"}


def clean(text: str) -> str:
    """Without the characters that XML, and so Jira, does not take; half of a character becomes a question mark."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNWANTED.sub("", lines.encode("utf-8", "replace").decode("utf-8"))


def text_of(document: Any) -> str:
    """A description or a comment as text. The last paragraph of a comment of ours becomes its mark line again."""
    if isinstance(document, str):
        return _bounded(clean(document[: LONGEST_TEXT + 1]))
    nodes = document if isinstance(document, list) else children(document)
    mark = mark_in(nodes[-1]) if nodes else ""
    reader = _Reader()
    text = "\n\n".join(reader.blocks(nodes[:-1] if mark else nodes, 0))
    text = _bounded(clean(text).strip("\n"), is_cut=reader.is_spent)
    return f"{text}\n\n<!-- {mark} -->".lstrip("\n") if mark else text


def _bounded(text: str, *, is_cut: bool = False) -> str:
    if len(text) <= LONGEST_TEXT and not is_cut:
        return text
    return f"{text[:LONGEST_TEXT].rstrip()}\n\n{LEFT_OUT}"


class _Reader:
    """Counts what it reads: a document may be as large as its author likes."""

    def __init__(self) -> None:
        self._nodes = 0
        self._size = 0
        self._known: dict[str, Callable[[Any, int], str]] = {
            "paragraph": lambda node, depth: self._inline(children(node), depth),
            "heading": self._heading,
            "rule": lambda _node, _depth: "---",
            "codeBlock": self._code_block,
            "blockquote": lambda node, depth: _prefixed(self._inside(node, depth), "> ", "> "),
            "panel": self._panel,
            "expand": self._expand,
            "nestedExpand": self._expand,
            "bulletList": lambda node, depth: self._list(node, depth, lambda _place, _item: "- "),
            "orderedList": self._ordered_list,
            "taskList": lambda node, depth: self._list(node, depth, _box),
            "decisionList": lambda node, depth: self._list(node, depth, lambda _place, _item: "- Decision: "),
            "table": self._table,
        }

    @property
    def is_spent(self) -> bool:
        return self._nodes > MOST_NODES or self._size > LONGEST_TEXT

    def blocks(self, nodes: Sequence[Any], depth: int) -> list[str]:
        """The text of each block that has one; inline nodes beside each other are one block."""
        found: list[str] = []
        for is_inline, run in groupby(nodes, lambda node: type_of(node) in INLINE):
            if is_inline:
                found.append(self._inline([*run], depth))
            else:
                found += [self._block(node, depth) for node in self._taken([*run])]
        return [text for text in found if text.strip()]

    def _block(self, node: Any, depth: int) -> str:
        if depth > MOST_NESTED:
            return self._words_below(node)
        known = self._known.get(type_of(node))
        if known:
            return known(node, depth)
        content = children(node)
        if any(type_of(each) in INLINE for each in content):
            return self._inline(content, depth)
        return self._inside(node, depth) if content else self._counted(leaf(node))

    def _inside(self, node: Any, depth: int) -> str:
        return "\n\n".join(self.blocks(children(node), depth + 1))

    def _heading(self, node: Any, depth: int) -> str:
        level = min(max(whole(node, "level", 1), 1), 6)
        return f"{'#' * level} {one_line(self._inline(children(node), depth))}"

    def _code_block(self, node: Any, _depth: int) -> str:
        code = "".join(self._counted(words(each)) for each in self._taken(children(node)))
        longest = max((len(run) for run in re.findall("`+", code)), default=0)
        fence = "`" * max(3, longest + 1)
        language = attributes(node).get("language")
        return f"{fence}{one_line(language) if isinstance(language, str) else ''}\n{code}\n{fence}"

    def _panel(self, node: Any, depth: int) -> str:
        name = _PANELS.get(str(attributes(node).get("panelType")), "Note")
        return _prefixed(f"**{name}:**\n{self._inside(node, depth)}", "> ", "> ")

    def _expand(self, node: Any, depth: int) -> str:
        title, inner = leaf({"attrs": {"title": attributes(node).get("title")}}), self._inside(node, depth)
        return f"**{title}**\n\n{inner}" if title else inner

    def _ordered_list(self, node: Any, depth: int) -> str:
        first = whole(node, "order", 1)
        return self._list(node, depth, lambda place, _item: f"{first + place}. ")

    def _list(self, node: Any, depth: int, sign: Callable[[int, Any], str]) -> str:
        found: list[str] = []
        place = 0
        for item in self._taken(children(node)):
            if type_of(item).endswith("List"):  # a list of tasks has those below a task beside it
                found.append(_prefixed(self._block(item, depth + 1), "  ", "  "))
                continue
            first, place = sign(place, item), place + 1
            parts = self.blocks(children(item), depth + 1) if depth < MOST_NESTED else [self._words_below(item)]
            outer = [each for each in children(item) if type_of(each) not in INLINE]
            is_tight = all(type_of(each).endswith("List") for each in outer[1:])
            indent = " " * (len(first) if first[0].isdigit() else 2)
            found.append(_prefixed(("\n" if is_tight else "\n\n").join(parts), first, indent))
        return "\n".join(found)

    def _table(self, node: Any, depth: int) -> str:
        """As rows of one line each, unless a cell has what means something by its lines: code, lists, quotes."""
        rows = [[*self._taken(children(row))] for row in self._taken(children(node))]
        texts = [[self.blocks(children(cell), depth + 1) for cell in row] for row in rows]
        has_names = bool(rows and rows[0]) and all(type_of(cell) == "tableHeader" for cell in rows[0])
        if all(_is_flat(cell) for row in rows for cell in row):
            return _in_lines(texts, has_names=has_names)
        has_names = has_names and len(rows) > 1 and all(map(_is_flat, rows[0]))
        names = [one_line(" ".join(parts)) for parts in texts[0]] if has_names else []
        found = [_row(parts, names) for parts in texts[has_names:]]
        return "\n".join(_prefixed(row, "- ", "  ") for row in found if row)

    def _inline(self, nodes: Sequence[Any], depth: int) -> str:
        found: list[str] = []
        for is_text, run in groupby(self._taken(nodes), lambda node: type_of(node) == "text"):
            if is_text:
                found.append(marked([(self._counted(words(each)), marks(each)) for each in run]))
            else:
                found += [self._inline_node(each, depth) for each in run]
        return "".join(found)

    def _inline_node(self, node: Any, depth: int) -> str:
        if type_of(node) == "hardBreak":
            return "\n"
        if type_of(node) in INLINE or not children(node):
            return self._counted(leaf(node))
        return self._words_below(node) if depth > MOST_NESTED else self._inline(children(node), depth + 1)

    def _words_below(self, node: Any) -> str:
        """All words in it, in order, however deep: no structure is shown."""
        found: list[str] = []
        waiting = [node]
        while waiting and not self.is_spent:
            self._nodes += 1
            one = waiting.pop()
            found.append(self._counted(words(one) or leaf(one)))
            waiting += reversed(children(one))
        return " ".join(filter(None, found))

    def _taken(self, nodes: Sequence[Any]) -> Iterator[Any]:
        for node in nodes:
            if self.is_spent:
                return
            self._nodes += 1
            yield node

    def _counted(self, text: str) -> str:
        self._size += len(text)
        return text[: LONGEST_TEXT + 1]


def _is_flat(cell: Any) -> bool:
    return all(type_of(each) in INLINE | _FLAT for each in children(cell))


def _in_lines(rows: Sequence[Sequence[Sequence[str]]], *, has_names: bool) -> str:
    """A table as Markdown has it; of each cell there are its blocks."""
    texts = [[one_line(" ".join(parts)).replace("|", r"\|") for parts in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in texts]
    if has_names:
        lines.insert(1, f"|{' --- |' * len(rows[0])}")
    return "\n".join(lines)


def _row(cells: Sequence[Sequence[str]], names: Sequence[str]) -> str:
    """Block below block, behind the name of its column where that has one."""
    found: list[str] = []
    for parts, name in zip_longest(cells, names, fillvalue=""):
        sign = f"{name}:" if "*" in name else f"**{name}:**"
        if name and len(parts) == 1 and "\n" not in parts[0]:
            found.append(f"{sign} {parts[0]}")
        else:
            found += [*([sign] if name else []), *parts]
    return "\n\n".join(found)


def _box(_place: int, item: Any) -> str:
    return "- [x] " if attributes(item).get("state") == "DONE" else "- [ ] "


def _prefixed(text: str, first: str, rest: str) -> str:
    lines = text.split("\n")
    return "\n".join([f"{first}{lines[0]}".rstrip(), *(f"{rest}{line}".rstrip() for line in lines[1:])])
