"""A log in pages: forwards and backwards every line once, through a rotation, whatever bytes are in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sortie.reports import transcript as module
from sortie.reports.transcript import Line, Transcript, folded, transcript
from sortie.runs.run_log import SIZE_LIMIT, RunLog

from .scene import NOW, SECRET, hidden


def write(path: Path, *texts: str, source: str = "agent") -> None:
    log = RunLog(path)
    for text in texts:
        log.write(NOW, source, text)
    log.close()


def said_in(path: Path, **asked: Any) -> Transcript:
    return transcript(path, hide=hidden, **asked)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r1.log"


@pytest.fixture
def rotated(path):
    """Two files with 14 lines in all."""
    write(path, *(f"old {n} " + "x" * (SIZE_LIMIT // 8) for n in range(7)))
    write(path, *(f"new {n} " + "y" * (SIZE_LIMIT // 8) for n in range(7)))
    assert path.with_suffix(".log.1").exists()
    return path


def names(lines: list[Line]) -> list[str]:
    return [" ".join(line.text.split()[:2]) for line in lines]


ALL = [f"{age} {n}" for age in ("old", "new") for n in range(7)]


def test_forwards_every_line_comes_once(rotated):
    told, after, pages = list[str](), "0.0", 0
    while pages < 40:
        page = said_in(rotated, after=after, limit=3)
        told, after, pages = told + names(page.lines), page.next, pages + 1
        if not page.has_later:
            break
    assert told == ALL
    assert said_in(rotated, after=after).lines == []


@pytest.mark.parametrize("byte", [10_000, 10**50])
def test_behind_the_end_is_what_is_said_next(path, byte):
    """A place comes out of an address, where anybody may have written it."""
    write(path, "first")
    beyond = said_in(path, after=f"{path.stat().st_ino}.{byte}")
    assert (beyond.lines, beyond.has_later) == ([], False)
    write(path, "second")
    assert [line.text for line in said_in(path, after=beyond.next).lines] == ["second"]


def test_backwards_every_line_comes_once(rotated):
    page, pages = said_in(rotated, limit=3), 0
    assert names(page.lines) == ALL[-3:]
    told = names(page.lines)
    while page.has_earlier and pages < 40:
        page, pages = said_in(rotated, before=page.first, limit=3), pages + 1
        told = names(page.lines) + told
    assert told == ALL


def test_pages_that_are_bounded_in_characters_leave_out_no_line_either_way(rotated):
    size = SIZE_LIMIT // 8 + 20
    most = 2 * min(size, module.LONGEST_LINE) + 100
    told, after, more = list[str](), "0.0", True
    while more:
        page = said_in(rotated, after=after, most=most)
        assert 0 < len(page.lines) <= 2
        told, after, more = told + names(page.lines), page.next, page.has_later
    assert told == ALL
    page = said_in(rotated, most=most)
    told = names(page.lines)
    while page.has_earlier:
        page = said_in(rotated, before=page.first, most=most)
        assert 0 < len(page.lines) <= 2
        told = names(page.lines) + told
    assert told == ALL


def test_a_line_that_is_longer_than_a_page_is_a_page(path):
    write(path, "first", "x" * 1000, "last")
    assert names(said_in(path, most=10).lines) == ["last"]
    page = said_in(path, before=said_in(path, most=10).first, most=10)
    assert ([len(line.text) for line in page.lines], page.has_earlier) == ([1000], True)
    page = said_in(path, after=page.first, most=10)
    assert ([len(line.text) for line in page.lines], page.has_later) == ([1000], True)


@pytest.mark.parametrize("limit", range(1, 9))
def test_a_page_that_ends_where_a_file_begins_hides_nothing_before_it(path, limit):
    write(path.with_suffix(".log.1"), *(f"old {n}" for n in range(4)))
    write(path, *(f"new {n}" for n in range(4)))
    page = said_in(path, limit=limit)
    told = names(page.lines)
    while page.has_earlier:
        page = said_in(path, before=page.first, limit=limit)
        told = names(page.lines) + told
    assert told == [f"{age} {n}" for age in ("old", "new") for n in range(4)]


def test_a_place_stays_true_when_the_log_is_rotated(path):
    write(path, "first")
    place = said_in(path).next
    write(path, "second", *("z" * (SIZE_LIMIT // 4) for _ in range(4)), "last")
    assert path.with_suffix(".log.1").exists()
    told, more = list[Line](), True
    while more:
        page = said_in(path, after=place)
        told, place, more = told + page.lines, page.next, page.has_later
    assert [line.text[:6] for line in told] == ["second", *["zzzzzz"] * 4, "last"]


def test_a_line_without_an_end_is_still_being_written(path):
    write(path, "whole")
    with path.open("ab") as file:
        file.write(b"2026-01-01T00:00:00Z agent: ha")
    page = said_in(path)
    assert [line.text for line in page.lines] == ["whole"]
    with path.open("ab") as file:
        file.write(b"lf\n")
    assert [line.text for line in said_in(path, after=page.next).lines] == ["half"]


def test_any_bytes_are_text(path):
    path.write_bytes(b"\xff\xfe\x00\n2026-01-01T00:00:00Z agent: \x1b[31mred\x1b]0;t\x07 \xe2\x80\xaegnp\n\n:\n")
    lines = said_in(path).lines
    assert len(lines) == 4
    assert all(line.text.isprintable() for line in lines)
    assert (lines[1].time, lines[1].source) == ("2026-01-01T00:00:00Z", "agent")
    assert "\\u202e" in lines[1].text


def test_a_line_longer_than_anybody_reads_is_cut_and_one_longer_than_a_page_passed(path):
    path.write_bytes(b"2026-01-01T00:00:00Z agent: " + b"a" * (module.MOST_BYTES + 99) + b"\nshort\n")
    page = said_in(path, after="0.0", limit=1)
    assert page.lines[0].is_cut
    assert len(page.lines[0].text) <= module.LONGEST_LINE
    assert said_in(path).lines[-1].text == "short"
    assert said_in(path, after=page.next).lines[-1].text == "short"


@pytest.mark.parametrize("before", ["", "é" * (module.LONGEST_LINE - 5), "x" * (module.LONGEST_LINE - 5)])
def test_a_secret_is_hidden_wherever_it_stands_in_a_line(path, before):
    write(path, f"{before}{SECRET} and more")
    with path.open("a") as file:
        file.write(f"{before}{SECRET}\n")
    for page in (said_in(path), said_in(path, after="0.0")):
        assert len(page.lines) == 2
        for line in page.lines:
            assert "hunt" not in line.text
            assert line.is_cut == bool(before)


def test_a_line_that_is_shown_as_a_whole_is_not_cut(path):
    write(path, "é" * module.LONGEST_LINE, "é" * (module.LONGEST_LINE + 1))
    assert [line.is_cut for line in said_in(path).lines] == [False, True]


@pytest.mark.parametrize("place", ["x", "1", "9.9", "-1.5", "0.99999999999999999999", "1" * 99, "é.é", "0.0"])
def test_a_place_that_is_none_is_the_beginning(path, place):
    write(path, "one", "two")
    assert [line.text for line in said_in(path, after=place).lines] == ["one", "two"]
    assert said_in(path, before=place).lines == []


def test_a_run_without_a_log_and_what_is_no_file_have_no_lines(tmp_path):
    assert not said_in(tmp_path / "none.log").exists
    (tmp_path / "d.log").mkdir()
    (tmp_path / "l.log").symlink_to("/etc/passwd")
    assert not said_in(tmp_path / "d.log").exists
    assert not said_in(tmp_path / "l.log").exists


def test_tool_calls_that_follow_each_other_fold_under_their_names(path):
    write(path, "I look around")
    write(path, "Bash ls -la", "Bash done: 3 files", "Read a.py", "Read failed: no", source="uses")
    write(path, "tracker_api: success after 5 ms", source="tool")
    write(path, "That is all", "Really")
    folds = folded(said_in(path).lines)
    assert [(fold.tool, len(fold.lines), fold.title) for fold in folds] == [
        (False, 1, ""),
        (True, 5, "3 tool calls: Bash, Read, tracker_api"),
        (False, 2, ""),
    ]
