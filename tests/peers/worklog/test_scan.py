"""Fences and comments in bytes: the quick way over a fence and the careful one agree, and both keep the bounds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sortie.peers.worklog.body import closes
from sortie.peers.worklog.scan import MARK, opens_fence, past_comment, past_fence

STRICT = b"### 2026-11-18T02:00:00Z \xe2\x80\x94 A: x"
LINES = (
    b"```", b"```text", b"````", b"```` x", b"   ```", b"    ```", b"``` ", b"```\t\r", b"~~~", b"~~~~", b"~~~ `x`",
    b"```a`b", b"text", b"", b"\r", b"### B: y", b"## x", STRICT, b"<!--", b"-->", b"<!-- x --> y", b"#",
    b"Next owner: x",
)  # fmt: skip
documents = st.lists(st.sampled_from(LINES), max_size=12).map(b"\n".join)


@settings(max_examples=500)
@given(documents)
def test_a_plain_fence_ends_where_the_careful_look_says(data):
    data = b"\n" + data
    for found in MARK.finditer(data):
        if found.lastindex is None:
            assert past_fence(data, found.start() + 1) == (found.end(), True)


@settings(max_examples=500)
@given(documents)
def test_a_fence_ends_as_its_lines_say(data):
    """Line by line, as writing does it: what is closed for one is closed for the other."""
    lines = data.split(b"\n")
    if not opens_fence(lines[0]):
        return
    mark = lines[0][: len(lines[0]) - len(lines[0].lstrip(lines[0][:1]))].decode()
    end, is_closed = past_fence(data, 0)
    number = data[:end].count(b"\n")
    for n, line in enumerate(lines[1:], 1):
        if line == STRICT:
            assert (number, is_closed) == (n - 1, False)
            return
        if closes(line.decode().rstrip("\r"), mark):
            assert (number, is_closed) == (n, True)
            return
    assert (end, is_closed) == (len(data), False)


@given(documents)
def test_a_comment_ends_with_its_line_or_before_a_strict_heading(data):
    data = b"<!-- " + data
    end, is_closed = past_comment(data, 0)
    inside = data[:end]
    assert is_closed == (b"-->" in inside)
    assert b"\n" + STRICT not in inside
    assert data[end : end + 1] in (b"\n", b"")


def test_a_fence_of_many_lines_is_passed_over():
    data = b"\n```\n" + b"x\n" * 100_000 + b"```\n" + STRICT
    assert past_fence(data, 1)[1]
    assert [found.lastindex for found in MARK.finditer(data)] == [2, 2, 1]
