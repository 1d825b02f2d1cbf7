"""Our text as a document in Atlassian's format (ADF): always a valid one, and nothing of the text is lost.

A part of Markdown becomes structure: headings, lists, quotes, fenced code and rules, and within lines `**strong**`,
`*em*`, `~~strike~~`, code, links and addresses. Everything else stays the text that it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .adf_text import clean

# Jira takes no more; whether it counts the text or the document with all its marks, this is less.
LONGEST_COMMENT = 32_767
CUT = "[The rest is too long for a comment in Jira and left out.]"
MOST_NESTED_LISTS = 6

Node = dict[str, Any]

_MARK_LINE = re.compile(r"<!-- (sortie:[0-9A-Za-z._:-]+) -->")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,}) *([^\s`]{0,40}) *")
_HEADING = re.compile(r"(#{1,6}) +(\S.*)")
_RULE = re.compile(r" {0,3}(-{3,}|\*{3,}|_{3,}) *")
_QUOTE = re.compile(r" {0,3}> ?")
_ITEM = re.compile(r"( {0,3})(?:([-*+])|(\d{1,6})[.)]) +(?=\S)")

_ADDRESS = r"(?:https?://|mailto:)\w[^\s()<>\[\]\"'`*]+"
_INLINE = re.compile(
    r"(?<!`)(?P<ticks>`{1,2})(?!`)(?P<code>[^\n]{1,500}?)(?<!`)(?P=ticks)(?!`)"
    rf"|\[(?P<name>[^\[\]\n]{{1,500}})\]\((?P<href>{_ADDRESS})\)"
    rf"|(?P<bare>{_ADDRESS})"
    r"|\*\*(?=[^\s*])(?P<strong>[^\n]{1,500}?)(?<=[^\s*])\*\*(?!\*)"
    r"|(?<![\w*])\*(?=[^\s*])(?P<em>[^\n*]{1,500}?)(?<=[^\s*])\*(?![\w*])"
    r"|~~(?=[^\s~])(?P<strike>[^\n~]{1,500}?)(?<=[^\s~])~~"
)
_AT_ITS_END = ".,;:!?"


def comment_document(body: str) -> Node:
    """A comment of ours. The line at its end by which we know it again becomes a word in a paragraph of its own."""
    text = clean(body).rstrip()
    head, _, last = text.rpartition("\n")
    mark = _MARK_LINE.fullmatch(last.strip())
    ending = [_paragraph([_text(mark[1], {"code": {}})])] if mark else []
    text = head.rstrip() if mark else text
    room = LONGEST_COMMENT
    document = _document(_cut(text, room), ending)
    while (size := _size(document)) > LONGEST_COMMENT:
        room = max(room * LONGEST_COMMENT // size - 50, 0)
        document = _document(_cut(text, room), ending)
    return document


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[:room].rstrip()}\n\n{CUT}"


def _document(text: str, ending: Sequence[Node]) -> Node:
    return {"version": 1, "type": "doc", "content": [*_blocks(text.split("\n"), "", 0), *ending]}


def _size(document: Node) -> int:
    return len(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def _blocks(lines: Sequence[str], inside: str, depth: int) -> list[Node]:
    """`inside` names what these are the lines of: in quotes and items there are no headings, quotes and rules."""
    found: list[Node] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        for read in _READERS:
            if block := read(lines, at, inside, depth):
                node, at = block
                break
        else:
            end = _end_of_paragraph(lines, at, inside, depth)
            node, at = _paragraph(_broken(lines[at:end])), end
        found.append(node)
    return found


Read = Callable[[Sequence[str], int, str, int], tuple[Node, int] | None]


def _code(lines: Sequence[str], at: int, _inside: str, _depth: int) -> tuple[Node, int] | None:
    fence = _FENCE.fullmatch(lines[at])
    if not fence:
        return None
    sign, language = fence.groups()
    end = at + 1
    while end < len(lines) and not _closes(lines[end], sign):
        end += 1
    code = "\n".join(lines[at + 1 : end])
    node: Node = {"type": "codeBlock", "content": [_text(code)]} if code else {"type": "codeBlock"}
    if language:
        node["attrs"] = {"language": language}
    return node, end + 1


def _closes(line: str, sign: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(sign) and not bare.strip(sign[0])


def _heading(lines: Sequence[str], at: int, inside: str, _depth: int) -> tuple[Node, int] | None:
    found = None if inside else _HEADING.fullmatch(lines[at])
    if not found:
        return None
    return {"type": "heading", "attrs": {"level": len(found[1])}, "content": _inline(found[2].rstrip())}, at + 1


def _rule(lines: Sequence[str], at: int, inside: str, _depth: int) -> tuple[Node, int] | None:
    return None if inside or not _RULE.fullmatch(lines[at]) else ({"type": "rule"}, at + 1)


def _quote(lines: Sequence[str], at: int, inside: str, depth: int) -> tuple[Node, int] | None:
    if inside or not _QUOTE.match(lines[at]):
        return None
    end = at
    while end < len(lines) and _QUOTE.match(lines[end]):
        end += 1
    content = _blocks([_QUOTE.sub("", line, count=1) for line in lines[at:end]], "quote", depth)
    return {"type": "blockquote", "content": content or [_paragraph([])]}, end


def _list(lines: Sequence[str], at: int, _inside: str, depth: int) -> tuple[Node, int] | None:
    first = _ITEM.match(lines[at])
    if not first or depth >= MOST_NESTED_LISTS:
        return None
    items: list[Node] = []
    number = int(first[3]) if first[3] else None
    while at < len(lines) and (sign := _ITEM.match(lines[at])):
        expected = None if number is None else number + len(items)
        if (int(sign[3]) if sign[3] else None) != expected or (sign[2] != first[2]):
            break
        end = _end_of_item(lines, at + 1, sign.end())
        inner = [lines[at][sign.end() :], *(_dedented(line, sign.end()) for line in lines[at + 1 : end])]
        items.append({"type": "listItem", "content": _item_content(inner, depth + 1)})
        at = _next_item(lines, end)
    node: Node = {"type": "bulletList", "content": items}
    if number is not None:
        node = {"type": "orderedList", "attrs": {"order": number}, "content": items}
    return node, at


def _item_content(lines: Sequence[str], depth: int) -> list[Node]:
    """It begins with a paragraph or code, whatever its first line looks like."""
    if not _ITEM.match(lines[0]):
        return _blocks(lines, "item", depth)
    end = _end_of_paragraph(lines, 0, "item", depth)
    return [_paragraph(_broken(lines[:end])), *_blocks(lines[end:], "item", depth)]


def _end_of_item(lines: Sequence[str], at: int, indent: int) -> int:
    """Behind the last line that is indented at least as the text of the item."""
    end = at
    while at < len(lines):
        if lines[at].strip():
            if len(lines[at]) - len(lines[at].lstrip(" ")) < min(indent, 2):
                break
            end = at + 1
        at += 1
    return end


def _next_item(lines: Sequence[str], at: int) -> int:
    """Blank lines between the items of a list do not end it."""
    following = at
    while following < len(lines) and not lines[following].strip():
        following += 1
    return following if following < len(lines) and _ITEM.match(lines[following]) else at


def _dedented(line: str, indent: int) -> str:
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]


def _end_of_paragraph(lines: Sequence[str], at: int, inside: str, depth: int) -> int:
    at += 1
    while at < len(lines) and lines[at].strip():
        item = _ITEM.match(lines[at])
        # A number at the beginning of a line is mostly no list, unless it is a one.
        begins_list = item and (item[2] or item[3] == "1") and depth < MOST_NESTED_LISTS
        if begins_list or any(read(lines, at, inside, depth) for read in (_code, _heading, _rule, _quote)):
            break
        at += 1
    return at


_READERS: tuple[Read, ...] = (_code, _heading, _rule, _quote, _list)


def _broken(lines: Iterable[str]) -> list[Node]:
    """Lines of one paragraph stay lines."""
    found: list[Node] = []
    for line in lines:
        if found:
            found.append({"type": "hardBreak"})
        found += _inline(line.rstrip())
    return found


def _inline(line: str, marks: Node | None = None) -> list[Node]:
    found: list[Node] = []
    at, given = 0, marks or {}
    for match in _INLINE.finditer(line):
        kind = match.lastgroup or ""
        if match.start() < at or (kind in given) or (kind in ("bare", "href") and "link" in given):
            continue
        inner, end = _marked(match, kind, given)
        found += [_text(line[at : match.start()], given)] if match.start() > at else []
        found += inner
        at = end
    return [*found, _text(line[at:], given)] if at < len(line) else found


def _marked(match: re.Match[str], kind: str, given: Node) -> tuple[list[Node], int]:
    """What was found, and where it ends."""
    if kind == "code":
        code = match["code"]
        bare = code[1:-1] if match["ticks"] == "``" and code[:1] == code[-1:] == " " and code.strip() else code
        return [_text(bare, {"code": {}, **{name: given[name] for name in given if name == "link"}})], match.end()
    if kind == "href":
        return _inline(match["name"], {**given, "link": {"href": match["href"]}}), match.end()
    if kind == "bare":
        address = match["bare"].rstrip(_AT_ITS_END)
        return [_text(address, {**given, "link": {"href": address}})], match.start() + len(address)
    return _inline(match[kind], {**given, kind: {}}), match.end()


def _paragraph(content: Sequence[Node]) -> Node:
    return {"type": "paragraph", "content": [*content]}


def _text(text: str, marks: Node | None = None) -> Node:
    node: Node = {"type": "text", "text": text}
    if marks:
        node["marks"] = [{"type": name, "attrs": marks[name]} if marks[name] else {"type": name} for name in marks]
    return node
