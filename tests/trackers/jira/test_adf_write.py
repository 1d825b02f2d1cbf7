"""Our text as a document: always one that Atlassian's schema allows, and the text comes back."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.core.observe import mark, mark_of
from sortie.trackers.jira.adf_text import text_of
from sortie.trackers.jira.adf_write import CUT, LONGEST_COMMENT, comment_document
from tests import npm
from tests.servers.jira_schema import document_problems, document_validator

pytestmark = npm.TIME_TO_INSTALL

SAME = [
    "One line.",
    "Two\nlines, and\n\na paragraph: ü € 🙂",
    "# Result\n\nAll is well.\n\n### Details",
    "- a\n- b\n  - b1\n    - b11\n  - b2\n- c",
    "1. first\n2. second\n   - inside\n3. third",
    "7. seventh\n8. eighth",
    "- text\n\n  ```sh\n  make test\n  ```\n- more",
    "```python\ndef f():\n\n    return '*'\n```",
    "````\n```\n````",
    "> said\n>\n> - by\n> - many",
    "a\n\n---\n\nb",
    "**strong** and *em* and ~~gone~~ and `code * here`",
    "**both *at* once**",
    "See [the docs](https://example.org/a_(b)?c=d) or https://example.org/x.",
    "[a **strong** link](https://example.org)",
    "*https://example.org/a*",
    "`` a `tick` ``",
    # Everything else is what it is.
    "2 * 3 * 4 = 24, a*b*c, snake_case_name, __init__",
    "| a | b |\n| - | - |\n| 1 | 2 |",
    "<b>no html</b> &amp; \\*no escapes\\*",
    "*not closed, **neither, `nor this",
    "#no heading, #123",
    "    indented",
    "[x](javascript:alert(1)) and [y](file)",
    "- [ ] a box\n- [x] another",
    "in the year\n2024. That was it.",
    "> # no heading in here\n> > nor a quote",
    "- # nor here",
]


@pytest.fixture(autouse=True)
def _schema() -> None:
    """Without Atlassian's schema nothing is shown here."""
    try:
        document_validator()
    except npm.NotInstalled as problem:
        npm.not_tested(problem)


@pytest.mark.parametrize("text", SAME)
def test_what_we_write_is_read_as_the_same(text: str) -> None:
    document = comment_document(text)
    assert document_problems(document) == []
    assert text_of(document) == text


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("# a", ["heading"]),
        ("a\n- b\n- c\nd", ["paragraph", "bulletList", "paragraph"]),
        ("1. a\n1. b", ["orderedList", "orderedList"]),
        ("- a\n+ b", ["bulletList", "bulletList"]),
        ("```\nnever closed", ["codeBlock"]),
        ("> a\nb", ["blockquote", "paragraph"]),
        ("***", ["rule"]),
        ("- - a", ["bulletList"]),
        ("", []),
        ("\n \n", []),
    ],
)
def test_structure_is_seen(text: str, kinds: list[str]) -> None:
    document = comment_document(text)
    assert [node["type"] for node in document["content"]] == kinds
    assert document_problems(document) == []


def test_a_comment_of_ours_ends_in_a_word_and_is_known_by_it_again() -> None:
    for body in ("Done.", "```\nnever closed", "- a\n- b", "", "> quote\n\n`x`"):
        document = comment_document(mark(body, "run-1.comment"))
        last = {"type": "text", "text": "sortie:run-1.comment", "marks": [{"type": "code"}]}
        assert document["content"][-1] == {"type": "paragraph", "content": [last]}
        assert mark_of(text_of(document)) == "run-1.comment"
        assert "<!--" not in json.dumps(document)


@pytest.mark.parametrize("piece", ["word ", "- item\n", "**x** *y* `z`\n", "é🙂", "\n\n> a\n", "```\n", "1. x\n"])
def test_a_long_comment_is_cut_and_keeps_its_mark(piece: str) -> None:
    document = comment_document(mark(piece * 40_000, "run-1.comment"))
    assert len(json.dumps(document, ensure_ascii=False, separators=(",", ":"))) <= LONGEST_COMMENT
    found = text_of(document)
    assert CUT in found
    assert mark_of(found) == "run-1.comment"
    assert len(found) > LONGEST_COMMENT / 30
    assert document_problems(document) == []


def test_code_has_no_other_mark_but_a_link() -> None:
    """As Atlassian's schema wants it."""
    document = comment_document("**a `b` c** ~~`d`~~ [`e`](https://example.org)")
    assert document_problems(document) == []
    assert text_of(document) == "**a** `b` **c** `d` [`e`](https://example.org)"


def test_characters_that_jira_refuses_are_left_out() -> None:
    document = comment_document("a\0b\x1b[31mc\ud800d\uffffe\tf\r\ng")
    assert text_of(document) == "ab[31mc?de\tf\ng"


# -- properties ----------------------------------------------------------------------------------------------------

SIGNS = [
    "*",
    "**",
    "~~",
    "`",
    "``",
    "```",
    "\n",
    "\n\n",
    "- ",
    "  - ",
    "1. ",
    "2. ",
    "# ",
    "> ",
    "---",
    "[",
    "](",
    ")",
]
ODD = st.lists(
    st.sampled_from([*SIGNS, "https://e.org/a", "mailto:a@e.org", "a", "b c", " ", "é", "<!-- sortie:x -->"])
    | st.text(max_size=5),
    max_size=40,
).map("".join)


def letters(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum() and letter.isascii())


@given(ODD | st.text(max_size=200))
def test_any_text_becomes_a_valid_document_that_has_all_its_letters(text: str) -> None:
    document = comment_document(text)
    assert document_problems(document) == []
    assert letters(text_of(document)) == letters(text)


@given(st.text(max_size=100), st.from_regex(r"[0-9A-Za-z._:-]{1,40}", fullmatch=True))
def test_any_comment_is_known_by_its_mark(body: str, effect: str) -> None:
    document = comment_document(mark(body, effect))
    assert mark_of(text_of(document)) == effect
    assert document_problems(document) == []


WORD = st.from_regex(r"[A-Za-z0-9.,]{1,8}", fullmatch=True).filter(lambda word: not word.replace(".", "").isdigit())
PLAIN = st.lists(WORD, min_size=1, max_size=5).map(" ".join)
SPAN = st.one_of(
    PLAIN,
    PLAIN.map(lambda text: f"**{text}**"),
    PLAIN.map(lambda text: f"*{text}*"),
    PLAIN.map(lambda text: f"~~{text}~~"),
    PLAIN.map(lambda text: f"`{text}`"),
    WORD.map(lambda text: f"[{text}](https://example.org/{text})"),
)
LINE = st.lists(SPAN, min_size=1, max_size=4).map(" ".join)
PARAGRAPH = st.lists(LINE, min_size=1, max_size=3).map("\n".join)
CODE = st.tuples(st.sampled_from(["", "sh", "python"]), st.lists(PLAIN | st.just(""), min_size=1, max_size=3)).map(
    lambda found: f"```{found[0]}\n" + "\n".join(found[1]) + "\n```"
)


def indented(text: str, indent: str) -> str:
    return text.replace("\n", f"\n{indent}")


LISTS: Any = st.recursive(
    st.lists(LINE, min_size=1, max_size=3),
    lambda inner: st.lists(st.tuples(LINE, inner) | LINE, min_size=1, max_size=3),
    max_leaves=6,
)


def written(items: Any) -> str:
    lines = []
    for each in items:
        line, below = each if isinstance(each, tuple) else (each, None)
        lines.append(f"- {line}" + (f"\n  {indented(written(below), '  ')}" if below else ""))
    return "\n".join(lines)


BLOCK = st.one_of(
    PARAGRAPH,
    LINE.map(lambda text: f"## {text}"),
    CODE,
    LISTS.map(written),
    PARAGRAPH.map(lambda text: "> " + text.replace("\n", "\n> ")),
)


def apart(blocks: list[str]) -> bool:
    """Lists and quotes beside each other are one."""
    kinds = [block[:2] if block[:2] in ("- ", "> ") else "" for block in blocks]
    return all(not one or one != other for one, other in pairwise(kinds))


@given(st.lists(BLOCK, min_size=1, max_size=5).filter(apart).map("\n\n".join))
def test_the_markdown_that_we_know_comes_back_as_it_was(text: str) -> None:
    document = comment_document(text)
    assert text_of(document) == text
    assert document_problems(document) == []
