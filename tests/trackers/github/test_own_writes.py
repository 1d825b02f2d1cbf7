"""Whether a record of GitHub is from before or after what we wrote, by times that have whole seconds."""

from __future__ import annotations

import pytest

from sortie.trackers.github.own_writes import OwnWrites, seconds
from sortie.trackers.github.records import Record
from sortie.trackers.github.states import Standing

DATE = "Wed, 18 Nov 2026 05:35:05 GMT"
OURS, THEIRS = Standing(False, "", ("doing",)), Standing(False, "", ("todo",))


def record(second: int, standing: Standing = THEIRS) -> Record:
    stamp = f"2026-11-18T05:35:{second:02}Z"
    return Record(number=7, repository="o/r", title="t", standing=standing, updated_at=stamp)


def written(remembered: float = 60.0) -> OwnWrites:
    writes = OwnWrites(remembered)
    writes.moved(7, OURS, seconds(DATE) - 2, seconds(DATE))
    return writes


@pytest.mark.parametrize(
    ("second", "listed", "itself"),
    [(0, OURS, OURS), (2, OURS, OURS), (3, None, THEIRS), (5, None, THEIRS), (6, THEIRS, THEIRS)],
)
def test_what_is_older_counts_as_ours_and_what_may_be_either_has_to_be_asked_for(
    second: int, listed: Standing | None, itself: Standing
) -> None:
    shown = written().listed(record(second))
    assert (shown.standing if shown else None) == listed
    assert written().seen(record(second)).standing == itself


def test_a_list_that_shows_what_we_wrote_needs_no_further_question() -> None:
    same = Standing(False, "", ("Doing",))
    assert written().listed(record(5, same)) == record(5, same)


def test_once_a_list_was_newer_ours_is_forgotten() -> None:
    writes = written()
    writes.listed(record(6))
    assert writes.recent == {}
    assert writes.listed(record(0)) == record(0)


def test_nothing_is_remembered_for_long() -> None:
    assert written(0.0).listed(record(0)) == record(0)
    assert written(0.0).seen(record(0)) == record(0)


def test_other_issues_are_left_alone() -> None:
    writes = OwnWrites()
    writes.moved(8, OURS, seconds(DATE), seconds(DATE))
    assert writes.listed(record(0)) == record(0)


@pytest.mark.parametrize("date", ["", "yesterday", "Wed, 99 Nov 2026 05:35:05 GMT"])
def test_a_date_that_is_none_counts_as_long_ago(date: str) -> None:
    assert seconds(date) == 0.0
