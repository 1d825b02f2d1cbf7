from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from sortie.process.pipes import TRUNCATED, LineSplitter

streams = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"bc", b"defgh", b"\x00\xff", b"x" * 30]), max_size=30
).map(b"".join)


def split(stream: bytes, limit: int, sizes: Sequence[int] = ()) -> list[bytes]:
    splitter = LineSplitter(limit)
    lines: list[bytes] = []
    rest = stream
    for size in sizes:
        lines += splitter.feed(rest[:size])
        rest = rest[size:]
    return lines + splitter.feed(rest) + splitter.finish()


def expected(stream: bytes, limit: int) -> list[bytes]:
    """The same in the plainest words."""
    pieces = stream.split(b"\n")
    if not pieces[-1]:
        pieces.pop()
    lines = [piece.removesuffix(b"\r") for piece in pieces]
    return [line if len(line) <= limit else line[:limit] + TRUNCATED for line in lines]


@given(streams, st.integers(1, 12), st.lists(st.integers(0, 7), max_size=40))
@example(b"abc\r\n", 3, [4])
@example(b"abc\rd\n", 3, [4])
@example(b"abc\r", 3, [])
def test_any_cut_into_chunks_gives_the_same_lines(stream, limit, sizes):
    assert split(stream, limit, sizes) == expected(stream, limit)


@given(streams, st.lists(st.integers(0, 7), max_size=40))
def test_no_more_than_the_limit_is_held(stream, sizes):
    splitter = LineSplitter(5)
    for size in sizes:
        splitter.feed(stream[:size])
        stream = stream[size:]
        assert len(splitter._held) <= 6


def test_a_line_over_the_limit_is_delivered_before_its_end():
    splitter = LineSplitter(4)
    assert splitter.feed(b"abcdefgh") == [b"abcd" + TRUNCATED]
    assert splitter.feed(b"ijkl") == []
    assert splitter.feed(b"\nnext\n") == [b"next"]


def test_only_one_carriage_return_is_taken_away():
    assert split(b"a\r\r\nb\rc\n", 100) == [b"a\r", b"b\rc"]


def test_empty_lines_are_lines():
    assert split(b"\n\r\n\nx", 100) == [b"", b"", b"", b"x"]
