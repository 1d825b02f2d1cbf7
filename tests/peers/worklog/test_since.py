"""What happened since a cursor: each entry once, by reading the tail; and what is said where that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sortie.errors import SortieError
from sortie.peers.author import Author
from sortie.peers.worklog.compose import Claim, Decision, Handoff, Note, Proposal
from sortie.peers.worklog.event import entry_id_of
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.worklog_file import Cursor, WorklogFile

from .logs import AT, HEAD, PIECES, big_log, recordables

ALICE = Author(name="Alice", role="agent")
MAINTAINER = Author(name="Maintainer", role="maintainer")
ROW = "| {} | Maintainer | 2026-01-01 | MSG-20260101-001 |\n"
RULE = "|---|---|---|---|\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "WORKLOG.md"
    path.write_text(HEAD)
    return path


@pytest.fixture
def log(path: Path) -> WorklogFile:
    return WorklogFile(path)


def ids(log: WorklogFile) -> list[str]:
    return [event.event_id for event in events_of(log.read())]


def new(log: WorklogFile, cursor: Cursor | None) -> tuple[list[str], Cursor]:
    """The ids, asked for twice, and the next cursor as somebody who kept it would have it."""
    events, following = log.since(cursor)
    again, same = log.since(cursor)
    assert ([event.envelope() for event in again], same) == ([event.envelope() for event in events], following)
    kept = Cursor.decode(following.encode())
    assert kept.encode() == following.encode()
    return [event.event_id for event in events], following


def change(path: Path, edit: Callable[[str], str]) -> None:
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    path.write_bytes(edit(text).encode("utf-8", "surrogateescape"))


def test_each_step_tells_what_is_new_and_asking_again_tells_the_same(log):
    """LOG-07"""
    assert new(log, None)[0] == []
    cursor = new(log, None)[1]
    first = log.record(Claim(task="T-1"), ALICE, at=AT).event_ids
    told, cursor = new(log, cursor)
    assert told == [*first]
    assert new(log, cursor)[0] == []
    second = log.record(Handoff(task="T-1", next_owner="Bob"), ALICE, at=AT + 1).event_ids
    third = log.record(Decision(title="x", decision="y", mode="consensus"), ALICE, at=AT + 2).event_ids
    told, cursor = new(log, cursor)
    assert told == [*second, *third]
    assert cursor.moved == ""
    assert new(log, cursor)[0] == []


def with_row(row: str, order: str, text: str) -> str:
    if order == "top":
        return text.replace(RULE, RULE + row, 1)
    head, session, body = text.partition("\n## Session 1")
    return head + row + session + body


steps = st.lists(
    st.one_of(
        st.tuples(st.just("record"), recordables, st.integers(0, 2)),
        st.tuples(st.just("write"), st.sampled_from(PIECES), st.just(0)),
        st.tuples(st.just("row"), st.sampled_from(["top", "end"]), st.just(0)),
        st.tuples(st.just("status"), st.text(max_size=20), st.just(0)),
        st.tuples(st.just("read"), st.none(), st.just(0)),
    ),
    min_size=2,
    max_size=10,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_readers_see_every_event_exactly_once(tmp_path_factory, steps):
    """LOG-07, LOG-03: whatever is appended, by us or by others, in any order with reading."""
    path = tmp_path_factory.mktemp("log") / "WORKLOG.md"
    path.write_text(HEAD)
    log = WorklogFile(path)
    told: list[str] = []
    cursor: Cursor | None = None
    rows = 0
    order = ""
    for what, thing, seconds in [*steps, ("read", None, 0)]:
        if what == "record":
            log.record(thing, MAINTAINER, at=AT + seconds, actor="Alice")
        elif what == "write":
            path.write_bytes(path.read_bytes() + b"\n\n" + thing + b"\n")
        elif what == "row" and (not order or thing == order):
            rows, order = rows + 1, thing
            change(path, partial(with_row, ROW.format(rows), order))
        elif what == "status":
            log.set_status("Alice", thing, ALICE, AT)
        elif what == "read":
            some, cursor = new(log, cursor)
            told += some
    # Text that others write right behind an entry may belong to it, and make of it what it was not before.
    assert {entry_id_of(one) for one in told} == {entry_id_of(one) for one in ids(log)}
    assert len(set(told)) == len(told)


def test_an_entry_with_the_same_first_line_as_an_earlier_one_has_its_own_id(log):
    """LOG-07, LOG-03: the tail alone does not show how many there were before."""
    log.record(Note(title="same"), ALICE, at=AT)
    log.record(Note(title="other"), ALICE, at=AT)
    cursor = log.since(None)[1]
    second = log.record(Note(title="same"), ALICE, at=AT).event_ids
    assert new(log, cursor)[0] == [*second]


def test_rows_that_are_added_on_top_are_told_once(log, path):
    """LOG-07: some logs have the newest decision first."""
    change(path, partial(with_row, ROW.format(1), "top"))
    cursor = log.since(None)[1]
    change(path, partial(with_row, ROW.format(2), "top"))
    change(path, partial(with_row, ROW.format(3), "end"))
    events, after = log.since(cursor)
    assert [event.subject for event in events] == ["2", "3"]
    assert after.moved == ""


def test_a_large_log_is_not_read_again(path):
    """LOG-07: the head and the tail are, whatever is between them."""
    path.write_bytes(big_log(20_000))
    log = WorklogFile(path)
    _, cursor = log.since(None)
    for n in range(10):
        log.record(Note(title=f"new {n}"), ALICE, at=AT + n + 1)
    log.record(Proposal(id="PROP-001", title="p", proposal="x"), ALICE, at=AT + 20)
    log.record(Decision(title="d", decision="x", mode="consensus"), ALICE, at=AT + 21)
    before = bytes_read_by_us()
    events, following = log.since(cursor)
    assert bytes_read_by_us() - before < 300_000 < path.stat().st_size
    assert [event.subject for event in events] == [*(f"new {n}" for n in range(10)), "p", "d"]
    assert [event.event_id for event in events] == ids(log)[-12:]
    assert following == log.since(None)[1]


def bytes_read_by_us() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def three(log: WorklogFile) -> Cursor:
    for n in range(3):
        log.record(Note(title=f"entry {n}", text=f"text {n}"), ALICE, at=AT + n)
    return log.since(None)[1]


def test_an_edit_of_the_last_entry_is_said_and_nothing_is_told_twice(log, path):
    """LOG-07"""
    cursor = three(log)
    change(path, lambda text: text.replace("text 2", "changed"))
    following = log.record(Note(title="next"), ALICE, at=AT + 9).event_ids
    told, after = new(log, cursor)
    assert told == [*following]
    assert "changed" in after.moved


def test_compaction_loses_and_repeats_nothing(log, path):
    """LOG-07: earlier entries go to an archive; what is new is found by ids."""
    cursor = three(log)
    following = log.record(Note(title="next"), ALICE, at=AT + 9).event_ids
    change(path, lambda text: text[: text.index("### ")] + text[text.index("### 2027-01-15T08:00:02Z") :])
    told, after = new(log, cursor)
    assert told == [*following]
    assert "removed" in after.moved
    assert new(log, after)[0] == []
    assert new(log, after)[1].moved == ""


def test_after_compaction_of_everything_that_was_seen_time_decides(log, path):
    """LOG-07"""
    cursor = three(log)
    following = log.record(Note(title="next"), ALICE, at=AT + 9).event_ids
    change(path, lambda text: text[: text.index("### ")] + text[text.index("### 2027-01-15T08:00:09Z") :])
    told, after = new(log, cursor)
    assert told == [*following]
    assert "not in the log any more" in after.moved


def test_an_entry_put_into_the_middle_is_said(log, path):
    cursor = three(log)
    change(
        path, lambda text: text.replace("### 2027-01-15T08:00:01Z", "### Mallory: x\n\n### 2027-01-15T08:00:01Z")
    )
    told, after = new(log, cursor)
    assert told == []
    assert "put into" in after.moved


def test_a_changed_index_is_told_again_and_said(log, path):
    change(path, lambda text: text.replace(RULE, RULE + ROW.format("one") + ROW.format("two")))
    told, cursor = new(log, None)
    assert len(told) == 2
    change(path, lambda text: text.replace("| one |", "| another |"))
    told, after = new(log, cursor)
    assert len(told) == 2
    assert "index was changed" in after.moved


def test_a_proposal_of_a_person_is_an_amendment_where_its_id_was_seen_before(log, path):
    block = "### Alice: p\n\n- ID: PROP-007\n- Scope: x\n- Proposal: y\n"
    change(path, lambda text: f"{text}\n{block}")
    cursor = log.since(None)[1]
    strict = block.replace("### Alice", "### 2028-01-01T00:00:00Z — Alice")
    change(path, lambda text: f"{text}\n{strict}")
    [event] = log.since(cursor)[0]
    assert event.event_type == "proposal.amended"


def test_a_row_for_an_earlier_decision_tells_nothing_new(log, path):
    decision = "### 2027-01-01T00:00:00Z — Alice: Read once\n\n- **Decision:** x\n- **Decision mode:** consensus\n"
    change(path, lambda text: f"{text}\n{decision}")
    cursor = log.since(None)[1]
    change(path, lambda text: text.replace(RULE, f"{RULE}| x | Alice | 2027-01-01 | Read once |\n"))
    assert log.since(cursor)[0] == []


def test_a_file_that_ends_within_a_line_is_read_to_its_end(log, path):
    change(path, lambda text: f"{text}\n### 2027-01-01T00:00:00Z — Alice: no line end")
    told, cursor = new(log, None)
    assert len(told) == 1
    log.record(Note(title="x"), ALICE, at=AT)
    assert len(new(log, cursor)[0]) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"count": "x"}', "\ud800", "[" * 100_000])
def test_what_is_no_cursor_is_refused(text):
    with pytest.raises(SortieError, match="no place in a work log"):
        Cursor.decode(text)


def test_a_cursor_of_another_log_tells_everything_and_says_so(log, path):
    three(log)
    change(path, lambda text: text.replace("### 2027", "### 2026"))
    foreign = Cursor(count=900, start=10**9, digest="x", ids=("wl-0000000000000000",))
    told, after = new(log, foreign)
    assert told == ids(log)
    assert after.moved


@settings(max_examples=60)
@given(
    st.builds(
        Cursor,
        count=st.integers(-2, 5) | st.integers(),
        start=st.integers(-2, 300) | st.integers(),
        digest=st.text(max_size=3),
        ids=st.lists(st.text(max_size=3), max_size=2).map(tuple),
        latest=st.text(max_size=3),
        rows=st.integers(-2, 3),
        row_ids=st.text(max_size=3),
    )
)
def test_no_cursor_that_somebody_made_up_breaks_anything(tmp_path_factory, cursor):
    """LOG-07: agents hand cursors back to us."""
    path = tmp_path_factory.mktemp("log") / "WORKLOG.md"
    path.write_text(HEAD + "### Alice: x\n\n### Bob: y\n")
    log = WorklogFile(path)
    events, following = log.since(cursor)
    assert {event.event_id for event in events} <= {*ids(log)}
    assert log.since(following)[0] == []
