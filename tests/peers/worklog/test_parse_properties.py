"""Whatever the bytes: no error, every byte in one part, names that stay, and nothing that an append changes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sortie.peers.worklog import head_edit
from sortie.peers.worklog.compose import AnyRecordable, compose
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.log import Worklog
from sortie.peers.worklog.parse import parse

from .logs import AT, PIECES, logs, names, recordables


def seen(log: Worklog) -> list[tuple[object, ...]]:
    """Everything that a reader can tell of the entries of a log."""
    return [
        (
            one.start,
            one.entry_id,
            one.digest,
            one.heading,
            one.actor,
            one.timestamp,
            one.text,
            one.session,
            one.form,
        )
        for one in log.entries
    ]


def check(data: bytes) -> Worklog:
    log = parse(data)
    assert b"".join(data[part.start : part.end] for part in log.parts) == data
    assert [part.start for part in log.parts if part.kind == "entry"] == [one.start for one in log.entries]
    ids = [one.entry_id for one in log.entries] + [one.row_id for one in log.index]
    assert len(ids) == len(set(ids))
    events = events_of(log)
    assert {one.entry_id for one in events} >= {one.entry_id for one in log.entries}
    assert [one.envelope() for one in events] == [one.envelope() for one in events_of(parse(data))]
    last = data.count(b"\n") + 1
    assert all(1 <= remark.line <= last for remark in log.remarks)
    return log


@given(st.binary(max_size=400))
def test_any_bytes_are_a_log(data):
    check(data)


@settings(max_examples=300)
@given(logs)
def test_a_log_of_any_pieces_is_covered_by_its_parts(data):
    check(data)


def test_every_piece_twice_in_every_pair_is_a_log():
    for one in PIECES:
        for other in PIECES:
            check(one + other + one)


@settings(max_examples=300)
@given(logs, recordables, names)
def test_an_appended_entry_is_there_and_changes_nothing_before_it(before: bytes, what: AnyRecordable, actor: str):
    """LOG-01, LOG-03: whatever is open at the end of a file, an append is one entry more and changes nothing."""
    old = parse(before)
    after = head_edit.with_entry(before, compose(what, actor=actor, at=AT))
    assert after.startswith(before)
    new = parse(after)
    assert seen(new)[: len(old.entries)] == seen(old)
    assert len(new.entries) == len(old.entries) + 1
    assert new.index == old.index
    assert new.status == old.status
    told = {one.event_id: one for one in events_of(new)}
    for event in events_of(old):
        if event.event_id.startswith("wl-"):
            assert told[event.event_id] == event


@settings(max_examples=200)
@given(logs, logs)
def test_text_of_others_appended_on_new_lines_renames_nothing(before, more):
    """LOG-03: what is read once is read the same for ever, whoever appends."""
    old = parse(before)
    new = parse(before + b"\n\n" + more)
    ids = [one.entry_id for one in new.entries]
    assert ids[: len(old.entries)] == [one.entry_id for one in old.entries]
