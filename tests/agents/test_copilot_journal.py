"""Model calls from Copilot's own journal: each counted once, whatever else lies in its place."""

from __future__ import annotations

import json
import os
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortie.agents.copilot.copilot_journal import Journal, ModelCall, copilot_home
from sortie.core.model import Usage

from .playing import recorded

SESSION = "b123acd4-6b40-482e-a327-62e9a532ce25"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "session-state" / SESSION / "events.jsonl"
    path.parent.mkdir(parents=True)
    return path


def append(file, *lines):
    with file.open("ab") as journal:
        journal.write(b"".join(line + b"\n" for line in lines))


def record(count, **fields):
    usage = {"inputTokens": count, "outputTokens": 1, "cacheReadTokens": 0, "finishReason": "stop"}
    return json.dumps({"type": "session.usage_record", "data": {"usage": usage}, **fields}).encode()


def inputs(journal):
    return [call.usage.input for call in journal.fresh_calls()]


def test_the_calls_of_a_recorded_session(tmp_path, file):
    journal = Journal(tmp_path, SESSION)
    append(file, *recorded("journal-copilot-ok"))
    assert journal.fresh_calls() == [
        ModelCall(Usage(1000, 50, 400), "tool_calls"),
        ModelCall(Usage(1100, 50, 400), "tool_calls"),
        ModelCall(Usage(1200, 50, 400), "stop"),
    ]
    assert journal.fresh_calls() == []


def test_text_that_is_none_costs_no_call(tmp_path, file):
    journal = Journal(tmp_path, SESSION)
    append(file, record(7, note="@").replace(b"@", b"\xff"), record(8, note="\ud800"))
    assert inputs(journal) == [7, 8]


def test_a_resumed_session_counts_what_is_new(tmp_path, file):
    before = recorded("journal-copilot-ok")
    whole = recorded("journal-copilot-resume")
    append(file, *before)
    journal = Journal(tmp_path, SESSION)
    append(file, *whole[len(before) :])
    assert inputs(journal) == [1000, 1100]


def test_calls_of_subagents_are_told_apart(tmp_path, file):
    journal = Journal(tmp_path, SESSION)
    append(file, *recorded("journal-copilot-subagent"))
    assert [call.by_subagent for call in journal.fresh_calls()] == [False, True, False]


@pytest.mark.parametrize(("name", "finish"), [("refused", "content_filter"), ("cut-off", "length")])
def test_how_an_answer_ended(tmp_path, file, name, finish):
    journal = Journal(tmp_path, SESSION)
    append(file, *recorded(f"journal-copilot-{name}"))
    assert journal.fresh_calls()[-1].finish == finish


@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.integers(0, 400), max_size=6))
def test_written_in_pieces_each_call_is_counted_once(tmp_path_factory, cuts):
    home = tmp_path_factory.mktemp("home")
    (home / "session-state" / SESSION).mkdir(parents=True)
    path = home / "session-state" / SESSION / "events.jsonl"
    journal = Journal(home, SESSION)
    stream = b"".join(record(count) + b"\n" for count in (1, 2, 3))
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    found = []
    for start, end in pairwise(edges):
        with path.open("ab") as file:
            file.write(stream[start:end])
        found += inputs(journal)
    assert found == [1, 2, 3]


def test_what_is_no_record_is_passed_over(tmp_path, file):
    journal = Journal(tmp_path, SESSION)
    quoted = json.dumps({"type": "user.message", "data": {"content": record(9).decode()}}).encode()
    wrong = record(8).replace(b'"inputTokens": 8', b'"inputTokens": "8"')
    negative = record(-8)
    other = record(7, note="session.usage_record").replace(b'{"type": "session.usage_record"', b'{"type": "other"')
    append(file, b"session.usage_record", quoted, wrong, other, negative, b'{"a":' * 5000, record(1), b"")
    assert inputs(journal) == [0, 1]


def test_a_line_of_many_megabytes_hides_no_call_after_it(tmp_path, file):
    journal = Journal(tmp_path, SESSION)
    append(file, record(1), b"x" * 9_000_000, record(2))
    assert inputs(journal) == [1, 2]


def test_without_a_journal_there_are_no_calls(tmp_path):
    assert Journal(tmp_path, SESSION).fresh_calls() == []
    assert Journal(tmp_path / "missing", SESSION).fresh_calls() == []


def test_a_link_or_a_pipe_in_its_place_is_not_read(tmp_path, file):
    journal = Journal(tmp_path, SESSION)
    elsewhere = tmp_path / "elsewhere"
    append(elsewhere, record(5))
    file.symlink_to(elsewhere)
    assert journal.fresh_calls() == []
    file.unlink()
    os.mkfifo(file)
    assert journal.fresh_calls() == []


def test_the_directory_of_another_session_behind_a_link_is_not_read(tmp_path, file):
    append(file, record(5))
    (file.parents[1] / "linked").symlink_to(file.parent)
    journal = Journal(tmp_path, "linked")
    append(file, record(6))
    assert journal.fresh_calls() == []


def test_a_sparse_file_of_a_terabyte_is_read_in_bounds(tmp_path, file):
    journal = Journal(tmp_path, SESSION)
    file.touch()
    os.truncate(file, 2**40)
    assert journal.fresh_calls() == []


def test_where_copilot_keeps_its_things(tmp_path):
    assert copilot_home({"HOME": "/home/a"}).as_posix() == "/home/a/.copilot"
    assert copilot_home({"HOME": "/home/a", "COPILOT_HOME": "/srv/c"}).as_posix() == "/srv/c"
    (tmp_path / "link").symlink_to(tmp_path)
    folder = tmp_path / "session-state" / SESSION
    folder.mkdir(parents=True)
    journal = Journal(tmp_path / "link", SESSION)
    append(folder / "events.jsonl", record(3))
    assert inputs(journal) == [3]
