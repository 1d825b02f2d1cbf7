"""The record of tool calls, read while it grows and whatever an agent put there."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.runs import tool_log as toollog
from sortie.runs.tool_log import BYTES_AT_ONCE, LONGEST_NAME, ToolCall, ToolLog
from sortie.tools.record import LONGEST_WORD, CallRecord, particulars

GOOD = {"at": 1.0, "run_id": "r1", "tool": "tracker_api", "result": "success", "ms": 12.5}
CALL = ToolCall("tracker_api", "success", 12.5)


def line(**changes) -> bytes:
    return json.dumps({**GOOD, **changes}).encode() + b"\n"


@pytest.fixture
def log(tmp_path):
    return ToolLog(tmp_path / "r1.tools")


def calls(log: ToolLog) -> list[ToolCall]:
    """Those recorded since the last time."""
    return [call for line in log.lines() if (call := ToolCall.recorded(line))]


def append(log: ToolLog, data: bytes) -> None:
    with log.path.open("ab") as file:
        file.write(data)


def test_what_the_server_records_is_what_is_counted(log):
    """EXT-14: both ends of the file, one after the other."""
    record = CallRecord(str(log.path), "r1")
    record.add("sortie_status", ok=True, started=0.0)
    record.add("tracker_api", ok=False, started=0.0)
    found = calls(log)
    assert [(call.tool, call.result) for call in found] == [("sortie_status", "success"), ("tracker_api", "error")]
    assert all(call.ms >= 0 for call in found)


def test_what_a_call_acted_on_is_read_back_whatever_the_agent_asked(log):
    """EXT-14: also names that are too long or not printable, which the server cuts and spells."""
    record = CallRecord(str(log.path), "r1")
    asked = {"operation": "transition_issue", "issue_id": "2\n" * LONGEST_WORD, "target_state": "\ud800"}
    failed = {"success": False, "error": {"kind": "tracker_not_found", "message": "m"}}
    record.add("tracker_api", ok=False, started=0.0, about=particulars("tracker_api", asked, failed))
    (call,) = calls(log)
    assert (call.operation, call.state, call.error) == ("transition_issue", "?", "tracker_not_found")
    assert call.target == "2?" * (LONGEST_WORD // 2)


def test_an_operation_that_there_is_not_is_told_by_its_name(log):
    """EXT-14: cut and spelled like every other word of an agent."""
    record = CallRecord(str(log.path), "r1")
    for operation in ("drop_database", "a\n" * LONGEST_WORD):
        about = particulars("tracker_api", {"operation": operation}, {"error": {"kind": "unsupported_operation"}})
        record.add("tracker_api", ok=False, started=0.0, about=about)
    first, second = calls(log)
    assert (first.operation, first.error) == ("drop_database", "unsupported_operation")
    assert second.operation == "a?" * (LONGEST_WORD // 2)


def test_of_a_brokered_run_the_calls_that_we_made_are_not_told_once_more(log):
    """EXT-14: the orchestrator makes those of tracker and messages itself, and knows."""
    append(log, line() + line(tool="sortie_status") + line(tool="message_send") + line(tool="message_list"))
    believed = [ToolCall.recorded(told, brokered=True) for told in log.lines()]
    assert [call.tool for call in believed if call] == ["sortie_status"]


def test_nothing_is_counted_twice_and_nothing_is_missed(log):
    """EXT-14: each look tells what is new since the last."""
    assert calls(log) == []
    append(log, line() + line())
    assert calls(log) == [CALL, CALL]
    assert calls(log) == []
    append(log, line(result="error"))
    assert calls(log) == [ToolCall("tracker_api", "error", 12.5)]


@pytest.mark.parametrize("before", [b"", line()])
@pytest.mark.parametrize("cut", [1, 30, len(line()) - 1])
def test_a_line_that_is_half_written_is_read_when_it_is_whole(log, before, cut):
    append(log, before + line()[:cut])
    assert len(calls(log)) == bool(before)
    append(log, line()[cut:])
    assert calls(log) == [CALL]


@given(pieces=st.lists(st.one_of(st.binary(max_size=40), st.just(line()), st.just(b"\n")), max_size=20))
def test_any_bytes_in_any_portions_are_harmless_and_whole_lines_count(tmp_path_factory, pieces):
    """EXT-14: what stands on a line of its own as a record is counted, once, and nothing else is."""
    log = ToolLog(tmp_path_factory.mktemp("log") / "r1.tools")
    found = []
    for piece in pieces:
        append(log, piece)
        found += calls(log)
    whole = b"".join(pieces).rpartition(b"\n")[0]
    # Blanks around a record are no part of it.
    assert len(found) == [each.strip(b" \t") for each in whole.splitlines()].count(line().strip())
    assert set(found) <= {CALL}


@pytest.mark.parametrize(
    "changes",
    [
        {"tool": ""},
        {"tool": "x" * (LONGEST_NAME + 1)},
        {"tool": "a\nb"},
        {"tool": "\x1b[31m"},
        {"tool": 7},
        {"result": "fine"},
        {"result": None},
        {"ms": -1},
        {"ms": 1e12},
        {"ms": "soon"},
        {"operation": "a\nb"},
        {"operation": "x" * (LONGEST_WORD + 1)},
        {"operation": 7},
        {"target": "x" * (LONGEST_WORD + 1)},
        {"target": "a\nb"},
        {"target": ["1"]},
        {"state": "\x1b[31m"},
        {"error": "x" * (LONGEST_WORD + 1)},
        {"tool": "sortie_status", "operation": "transition_issue"},
        {"tool": "made_up", "target": "2"},
        {"tool": "sortie_status", "state": "Done"},
        {"tool": "workspace_history", "error": "tracker_not_found"},
    ],
)
def test_a_record_that_makes_no_sense_is_passed_over(log, changes):
    append(log, line(**changes) + line())
    assert calls(log) == [CALL]


@pytest.mark.parametrize(
    "nonsense",
    [
        b'{"x":' + b"[" * 100_000 + b"\n",
        b"\xff\xfe\x00\n",
        b'{"tool":"\\ud800","result":"success","ms":1}\n',
        b"[]\n",
        b"x" * BYTES_AT_ONCE + b"\n",
    ],
)
def test_hostile_lines_stop_nothing(log, nonsense):
    append(log, nonsense + line())
    assert [*calls(log), *calls(log)] == [CALL]


def test_a_line_that_never_ends_is_given_up_in_portions(log):
    """Its memory is bounded, and what follows it counts again."""
    append(log, b"x" * (3 * BYTES_AT_ONCE))
    assert [calls(log) for _ in range(3)] == [[]] * 3
    append(log, b"\n" + line())
    assert calls(log) == [CALL]


def test_one_look_reads_all_that_is_new(log):
    """EXT-14: the last look is at the end of the run, and nothing may be left for another."""
    number = 3 * BYTES_AT_ONCE // len(line())
    append(log, line() * number)
    assert len(calls(log)) == number
    assert calls(log) == []


def test_what_is_read_of_one_run_is_bounded(log):
    append(log, b"x\n")
    os.truncate(log.path, toollog.BYTES_OF_ONE_RUN + BYTES_AT_ONCE)
    append(log, b"\n" + line())
    assert [*calls(log), *calls(log)] == []


def test_the_calls_of_one_run_are_bounded(log):
    """EXT-14: an agent cannot fill the store by writing records."""
    wanted = toollog.CALLS_OF_ONE_RUN + 1000
    append(log, line() * wanted)
    found = 0
    while news := calls(log):
        found += len(news)
    assert found == toollog.CALLS_OF_ONE_RUN


def test_a_file_of_any_size_is_read_in_portions(log):
    append(log, line())
    os.truncate(log.path, 10 * 1024**3)
    assert calls(log) == [CALL]
    assert calls(log) == []


def test_a_file_that_shrinks_is_no_error(log):
    append(log, line() * 3)
    assert len(calls(log)) == 3
    os.truncate(log.path, 0)
    assert calls(log) == []


def test_what_is_no_plain_file_counts_nothing_and_is_no_error(tmp_path):
    (tmp_path / "real").write_bytes(line())
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in ("link", "fifo", "folder", "missing"):
        log = ToolLog(tmp_path / name)
        assert calls(log) == [], name
        log.remove()
    assert (tmp_path / "real").read_bytes() == line()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "real"]


def test_the_folder_is_made_for_the_owner_only(tmp_path):
    log = ToolLog(tmp_path / "logs" / "r1.tools")
    log.prepare()
    log.prepare()
    assert oct(log.path.parent.stat().st_mode & 0o777) == "0o700"


def test_a_folder_that_cannot_be_made_costs_the_count_only(tmp_path):
    (tmp_path / "logs").touch()
    log = ToolLog(tmp_path / "logs" / "r1.tools")
    log.prepare()
    assert calls(log) == []
    log.remove()
