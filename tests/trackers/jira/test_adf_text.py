"""Documents as text: structure that matters stays, nothing known or unknown breaks it, and it has an end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.trackers.jira.adf_text import LEFT_OUT, LONGEST_TEXT, text_of
from sortie.trackers.jira.records import flattened

Node = dict[str, Any]


def doc(*content: Any) -> Node:
    return {"version": 1, "type": "doc", "content": [*content]}


def node(kind: str, *content: Any, **attributes: Any) -> Node:
    return {"type": kind, **({"attrs": attributes} if attributes else {}), "content": [*content]}


def text(words: str, *marks: str, href: str = "") -> Node:
    made: Node = {"type": "text", "text": words}
    if marks:
        made["marks"] = [{"type": mark, **({"attrs": {"href": href}} if mark == "link" else {})} for mark in marks]
    return made


def paragraph(*content: Any) -> Node:
    return node("paragraph", *(text(each) if isinstance(each, str) else each for each in content))


def leaf(kind: str, **attributes: Any) -> Node:
    return {"type": kind, "attrs": attributes}


def item(*content: Any) -> Node:
    return node("listItem", *content)


BREAK = {"type": "hardBreak"}
LAST = item(paragraph("z"))

EXAMPLES: dict[str, tuple[Node, str]] = {
    "paragraphs": (
        doc(paragraph("One."), paragraph("Two,", BREAK, "in two lines.")),
        "One.\n\nTwo,\nin two lines.",
    ),
    "headings": (doc(node("heading", text("Why"), level=2), paragraph("So.")), "## Why\n\nSo."),
    "bullets": (
        doc(
            node(
                "bulletList",
                item(paragraph("a"), node("bulletList", item(paragraph("a1")), item(paragraph("a2")))),
                item(paragraph("b"), node("codeBlock", text("x = 1"), language="python")),
            )
        ),
        "- a\n  - a1\n  - a2\n- b\n\n  ```python\n  x = 1\n  ```",
    ),
    "numbers": (
        doc(node("orderedList", item(paragraph("x"), node("bulletList", item(paragraph("y")))), LAST, order=9)),
        "9. x\n   - y\n10. z",
    ),
    "tasks": (
        doc(
            node(
                "taskList",
                node("taskItem", text("do"), state="TODO", localId="1"),
                node("taskList", node("taskItem", text("below"), state="DONE", localId="3"), localId="l"),
                node("taskItem", text("done"), state="DONE", localId="2"),
                localId="l",
            )
        ),
        "- [ ] do\n  - [x] below\n- [x] done",
    ),
    "decisions": (doc(node("decisionList", node("decisionItem", text("go"), state="DECIDED"))), "- Decision: go"),
    "code": (doc(node("codeBlock", text("a\n```\nb"), language="sh")), "````sh\na\n```\nb\n````"),
    "quote": (doc(node("blockquote", paragraph("said"), paragraph("twice"))), "> said\n>\n> twice"),
    "panel": (doc(node("panel", paragraph("Careful"), panelType="warning")), "> **Warning:**\n> Careful"),
    "table": (
        doc(
            node(
                "table",
                node("tableRow", node("tableHeader", paragraph("k")), node("tableHeader", paragraph("v"))),
                node(
                    "tableRow",
                    node("tableCell", paragraph("a|b")),
                    node("tableCell", paragraph("1"), paragraph("2")),
                ),
            )
        ),
        "| k | v |\n| --- | --- |\n| a\\|b | 1 2 |",
    ),
    "code in a table": (
        doc(
            node(
                "table",
                node("tableRow", node("tableHeader", paragraph("when")), node("tableHeader", paragraph("run"))),
                node(
                    "tableRow",
                    node("tableCell", paragraph("always")),
                    node("tableCell", node("codeBlock", text("if x:\n    y()"), language="python")),
                ),
                node("tableRow", node("tableCell", paragraph("never")), node("tableCell", paragraph())),
            )
        ),
        "- **when:** always\n\n  **run:**\n\n  ```python\n  if x:\n      y()\n  ```\n"
        "- **when:** never\n\n  **run:**",
    ),
    "a list in a table without names": (
        doc(
            node(
                "table",
                node(
                    "tableRow",
                    node("tableHeader", paragraph("todo")),
                    node("tableCell", node("bulletList", item(paragraph("x")), item(paragraph("y")))),
                ),
            )
        ),
        "- todo\n\n  - x\n  - y",
    ),
    "names without rows": (
        doc(node("table", node("tableRow", node("tableHeader", node("bulletList", item(paragraph("x"))))))),
        "- - x",
    ),
    "extensions": (
        doc(
            leaf("extension", extensionType="com.atlassian", extensionKey="chart", parameters={"from": "2026"}),
            paragraph("see ", leaf("inlineExtension", extensionType="com.atlassian", extensionKey="vote")),
            node("bodiedExtension", paragraph("inside"), extensionKey="excerpt"),
            leaf("extension", parameters={}),
        ),
        "[extension: chart]\n\nsee [extension: vote]\n\ninside\n\n[extension]",
    ),
    "rule": (doc(paragraph("a"), {"type": "rule"}, paragraph("b")), "a\n\n---\n\nb"),
    "links": (
        doc(
            paragraph(
                text("docs", "link", href="https://e.org/d"),
                " and ",
                text("https://e.org", "link", href="https://e.org"),
            )
        ),
        "[docs](https://e.org/d) and https://e.org",
    ),
    "cards": (
        doc(
            paragraph("see ", leaf("inlineCard", url="https://e.org/1")),
            leaf("blockCard", url="https://e.org/2"),
            leaf("embedCard", url="https://e.org/3", layout="wide"),
            leaf("blockCard", data={"url": "https://e.org/4"}),
        ),
        "see https://e.org/1\n\nhttps://e.org/2\n\nhttps://e.org/3\n\nhttps://e.org/4",
    ),
    "people": (
        doc(paragraph(leaf("mention", id="1", text="@Ann"), " ", leaf("mention", id="557:1", text="Bob"))),
        "@Ann @Bob",
    ),
    "small things": (
        doc(
            paragraph(
                leaf("emoji", shortName=":ok:", text="👌"),
                leaf("emoji", shortName=":party:"),
                " ",
                leaf("date", timestamp="1582152559000"),
                " ",
                leaf("status", text="LATE", color="red"),
            )
        ),
        "👌:party: 2020-02-19 [LATE]",
    ),
    "media": (
        doc(
            node(
                "mediaSingle",
                leaf("media", id="u-1", type="file", collection="", alt="crash.png"),
                node("caption", text("how it looks")),
                layout="center",
            ),
            node("mediaGroup", leaf("media", type="external", url="https://e.org/p.png")),
        ),
        "[attachment: crash.png]\n\nhow it looks\n\nhttps://e.org/p.png",
    ),
    "expand": (doc(node("expand", paragraph("inside"), title="Logs")), "**Logs**\n\ninside"),
    "layout": (
        doc(
            node(
                "layoutSection",
                node("layoutColumn", paragraph("l"), width=50),
                node("layoutColumn", paragraph("r"), width=50),
            )
        ),
        "l\n\nr",
    ),
    "marks": (
        doc(
            paragraph(
                text("very ", "strong"),
                text("important", "strong", "em"),
                " ",
                text("x()", "code"),
                " ",
                text("old", "strike"),
                text("red", "textColor"),
            )
        ),
        "**very *important*** `x()` ~~old~~red",
    ),
    "what nobody knows": (
        doc(
            node("hologram", node("beam", paragraph("light")), text="no"),
            node("gizmo", text("as it is")),
            leaf("extension", extensionKey="toc", text="Contents"),
        ),
        "light\n\nas it is\n\nContents",
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_structure_that_matters_is_in_the_text(name: str) -> None:
    document, expected = EXAMPLES[name]
    assert text_of(document) == expected


def test_the_last_paragraph_of_our_comments_is_their_mark_line() -> None:
    mark = paragraph(text("sortie:run-1.comment", "code"))
    assert text_of(doc(paragraph("Done."), mark)) == "Done.\n\n<!-- sortie:run-1.comment -->"
    assert text_of(doc(mark)) == "<!-- sortie:run-1.comment -->"
    assert text_of(doc(mark, paragraph("I see."))) == "`sortie:run-1.comment`\n\nI see."
    assert text_of(doc(paragraph(text("sortie:run-1.comment")))) == "sortie:run-1.comment"


def test_what_is_no_document_has_a_text_too() -> None:
    nothing: list[Any] = [None, 7, {}, [], [[]], {"content": "x"}]
    assert [text_of(value) for value in nothing] == [""] * len(nothing)
    assert text_of("plain\r\ntext\0") == "plain\ntext"


def test_a_long_document_is_cut_and_says_so() -> None:
    long = doc(node("codeBlock", text("x" * 5_000_000)))
    assert len(text_of(long)) < LONGEST_TEXT + 100
    assert text_of(long).endswith(LEFT_OUT)
    wide = doc(*[paragraph(str(number)) for number in range(100_000)])
    assert text_of(wide).endswith(LEFT_OUT)
    assert text_of("y" * 5_000_000).endswith(LEFT_OUT)


def test_words_are_kept_however_deep_they_are() -> None:
    for kind in ("bulletList", "blockquote", "unknown", "paragraph", "taskList"):
        deep: Any = paragraph("the bottom")
        for _ in range(5_000):
            deep = node(kind, node("listItem", deep))
        assert "the bottom" in text_of(doc(paragraph("top"), deep))


WORDS = st.text("abcdefgh", min_size=3, max_size=6)
CODE = st.lists(st.builds(str.__add__, st.sampled_from(["", "  ", "    "]), WORDS), min_size=1, max_size=3)
CELL_BLOCKS = st.recursive(
    st.builds(paragraph, WORDS) | st.builds(lambda lines: node("codeBlock", text("\n".join(lines))), CODE),
    lambda inner: st.builds(
        lambda kind, content: node(kind, *(item(each) if kind.endswith("List") else each for each in content)),
        st.sampled_from(["bulletList", "orderedList", "blockquote", "panel", "nestedExpand", "gizmo"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)
CELLS = st.builds(
    lambda kind, content: node(kind, *content),
    st.sampled_from(["tableHeader", "tableCell"]),
    st.lists(CELL_BLOCKS, max_size=3),
)
ROWS = st.builds(lambda cells: node("tableRow", *cells), st.lists(CELLS, max_size=3))


def texts_in(value: Any) -> list[list[str]]:
    """The lines of each, in the order of the document."""
    if value["type"] == "text":
        return [value["text"].split("\n")]
    return [lines for each in value["content"] for lines in texts_in(each)]


def stand_in(shown: list[str], lines: list[str]) -> bool:
    """Whether they follow each other there, all behind the same margin."""
    for place in range(len(shown) - len(lines) + 1):
        margins = {
            one.removesuffix(line) if one.endswith(line) else None
            for one, line in zip(shown[place:], lines, strict=False)
        }
        if len(margins) == 1 and None not in margins:
            return True
    return False


@given(st.lists(ROWS, max_size=4))
def test_the_text_of_a_table_survives_with_its_lines_and_their_indentation(rows: list[Any]) -> None:
    table = node("table", *rows)
    shown = text_of(doc(table))
    for lines in texts_in(table):
        if len(lines) == 1:
            assert lines[0].strip() in shown
        else:
            assert stand_in(shown.split("\n"), lines)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
KIND_NAMES = (
    "doc paragraph heading bulletList orderedList listItem taskList taskItem decisionList decisionItem codeBlock "
    "blockquote panel table tableRow tableHeader tableCell rule hardBreak text mention emoji date status media "
    "mediaSingle mediaInline inlineCard blockCard embedCard expand nestedExpand layoutSection layoutColumn "
    "extension bodiedExtension placeholder caption whatever"
)
KINDS = st.sampled_from(KIND_NAMES.split())
ATTRIBUTE_NAMES = "level order text id url timestamp shortName state title language data alt panelType href"
ATTRIBUTES = st.dictionaries(st.sampled_from(ATTRIBUTE_NAMES.split()), JSON, max_size=4)
MARKS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["strong", "em", "code", "strike", "link", "odd"])}, optional={"attrs": ATTRIBUTES}
    )
    | JSON,
    max_size=3,
)
ALMOST_DOCUMENTS = st.recursive(
    JSON
    | st.fixed_dictionaries(
        {"type": KINDS}, optional={"text": JSON, "attrs": ATTRIBUTES | JSON, "marks": MARKS | JSON}
    ),
    lambda inner: st.fixed_dictionaries(
        {"type": KINDS, "content": st.lists(inner, max_size=4) | JSON}, optional={"attrs": ATTRIBUTES, "text": JSON}
    ),
    max_leaves=30,
)


@given(ALMOST_DOCUMENTS)
def test_any_value_has_a_text_without_control_characters(value: Any) -> None:
    found = text_of(value)
    assert all(letter in "\n\t" or ord(letter) >= 32 for letter in found)
    found.encode()


@given(
    st.recursive(
        st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=40
    )
)
def test_json_of_usual_depth_is_read_as_it_is(value: Any) -> None:
    body = json.dumps(value).encode()
    assert flattened(body) == body
