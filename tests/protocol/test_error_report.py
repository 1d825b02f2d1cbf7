"""The error report that we write for an agent: the sections of the document, whatever is in the texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.protocol.error_report import SECTION_LIMIT, error_report

HEADINGS = [
    "# Error Report",
    "## Error Type",
    "## Description",
    "## Attempted Recovery",
    "## Suggested Resolution",
    "## Partial Work",
]


def headings(report: str) -> list[str]:
    """Every line that begins with #, also in a list or a quotation."""
    return [line for line in report.split("\n") if line.lstrip(" >*+-0123456789.)").startswith("#")]


def test_the_report_is_that_of_the_document():
    """BOX-06"""
    assert error_report(
        "ValidationError",
        "Input file format was invalid. Expected CSV format but received JSON.",
        "Tried to convert JSON to CSV but data structure incompatible.",
        "Provide input as CSV with columns: id, name, value",
        "Any completed work before failure is in outbox/partial/",
    ) == (
        "# Error Report\n"
        "\n"
        "## Error Type\n"
        "ValidationError\n"
        "\n"
        "## Description\n"
        "Input file format was invalid. Expected CSV format but received JSON.\n"
        "\n"
        "## Attempted Recovery\n"
        "Tried to convert JSON to CSV but data structure incompatible.\n"
        "\n"
        "## Suggested Resolution\n"
        "Provide input as CSV with columns: id, name, value\n"
        "\n"
        "## Partial Work\n"
        "Any completed work before failure is in outbox/partial/\n"
    )


def test_a_section_without_text_says_so():
    """BOX-06"""
    report = error_report("", "", " \n ", "", "")
    assert headings(report) == HEADINGS
    assert report.count("\nNone.\n") == 5


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("# Heading", "\\# Heading"),
        ("   ## Heading", "\\## Heading"),
        ("\t# Heading", "\\# Heading"),
        ("> ## Heading", "> \\## Heading"),
        ("- # Heading", "- \\# Heading"),
        ("1. # Heading", "1. \\# Heading"),
        ("Heading\n===", "Heading\n\\==="),
        ("Heading\n---", "Heading\n\\---"),
        ("> Heading\n> ---", "> Heading\n> \\---"),
        ("Heading\n-", "Heading\n\\-"),
        ("```\nendless", "\\```\nendless"),
        ("~~~\nendless", "\\~~~\nendless"),
        ("a \\<h2>b</h2> <!--", "a \\&lt;h2>b&lt;/h2> &lt;!--"),
        ("a\r# b", "a\n\\# b"),
        ("a\u2028# b\x0b# c\x85# d", "a\n\\# b\n\\# c\n\\# d"),
        ("\x1b[2Jred\x00", "\\x1b[2Jred\\x00"),
        ("- a list\n- goes on, #1", "- a list\n- goes on, #1"),
        ("größer: 5 - 3 = 2", "größer: 5 - 3 = 2"),
    ],
)
def test_a_text_adds_no_heading(text, written):
    """BOX-06"""
    report = error_report("E", text, "", "", "")
    assert report.split("## Description\n")[1].split("\n\n## Attempted")[0] == written


texts = st.text(alphabet="#-=`~<> \t\n\r\x0b\x85\u2028a1.*+)\\", max_size=30) | st.text()


@given(texts, texts, texts, texts, texts)
def test_the_headings_are_those_of_the_document_whatever_is_said(kind, description, attempted, suggestion, partial):
    """BOX-06"""
    report = error_report(kind, description, attempted, suggestion, partial)
    lines = report.split("\n")
    assert headings(report) == HEADINGS
    assert all(line.isprintable() for line in lines)
    assert not any(set(line.lstrip(" >")) in ({"="}, {"-"}) for line in lines)
    assert not any(line.lstrip(" >*+-0123456789.)").startswith(("```", "~~~")) for line in lines)
    assert "<" not in report
    report.encode()


def test_a_section_has_a_bound():
    assert len(error_report("E", "x" * 10**6, "", "", "")) < SECTION_LIMIT + 500
