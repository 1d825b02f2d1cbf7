"""What an agent did with its tools: told once in its own log, once in that of the issue it moved, within bounds."""

from __future__ import annotations

import json

import pytest

from sortie.core import events as ev
from sortie.core.model import IssueRef
from sortie.core.policy import Policy
from sortie.core.redact import Redactor
from sortie.core.schedule import Schedule
from sortie.engine import tool_calls
from sortie.engine.tool_calls import ToolCalls
from sortie.runs.tool_log import CALLS_OF_ONE_RUN, ToolCall
from sortie.trackers.file import FileTracker

SECRET = "s3cret-s3cret"


class Counting:
    """What a run asks of a source; counts how often it is asked."""

    def __init__(self, tracker):
        self._tracker = tracker
        self.asked = 0

    async def fetch(self, issue_id):
        self.asked += 1
        return await self._tracker.fetch_issue(issue_id)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "issues.json"
    path.write_text(
        json.dumps([{"id": str(n), "identifier": f"T-{n}", "title": "t", "state": "To Do"} for n in (1, 2, 3)])
    )
    return Counting(FileTracker(path, ["To Do"], ["Done"]))


@pytest.fixture
def calls(source):
    return calls_of_a_run(source)


@pytest.fixture
def brokered(source):
    return calls_of_a_run(source, brokered=True)


def calls_of_a_run(source, **options):
    schedule = Schedule(policy=Policy(active_states=("To Do",)))
    view = ev.View(id="2", identifier="T-2", title="t", state="To Do")
    schedule.apply(ev.IssueSeen(at=0.0, issue_id="2", view=view))
    return ToolCalls(IssueRef("1", "T-1"), "r1", schedule, source, Redactor([SECRET]), **options)


def move(target: str, **changes) -> ToolCall:
    facts = {
        "tool": "tracker_api",
        "result": "success",
        "ms": 1.0,
        "operation": "transition_issue",
        "state": "Done",
    }
    return ToolCall(**{**facts, "target": target, **changes})


@pytest.mark.parametrize(("name", "issue"), [("2", "2"), ("T-2", "2"), ("3", "3")])
async def test_a_move_is_in_the_log_of_both_issues_by_whatever_name_it_was_made(calls, name, issue):
    """EXT-14: from what scheduling knows, from the tracker where it knows nothing."""
    called, acted = await calls.events(move(name), 5.0)
    assert (called.issue_id, called.run_id, called.target, called.state) == ("1", "r1", f"T-{issue}", "Done")
    assert (acted.issue_id, acted.identifier, acted.by, acted.by_run) == (issue, f"T-{issue}", "T-1", "r1")
    assert acted.run_id == "", "it is no event of a run of its own"


@pytest.mark.parametrize("name", ["1", "T-1"])
async def test_a_move_of_its_own_issue_is_told_once(calls, name):
    (called,) = await calls.events(move(name), 5.0)
    assert called.target == "T-1"


async def test_reading_and_what_was_refused_is_no_act_on_the_other_issue(calls, source):
    assert len(await calls.events(move("3", operation="fetch_issue", state=""), 5.0)) == 1
    assert len(await calls.events(move("3", result="error", error="project_scope_violation"), 5.0)) == 1
    assert len(await calls.events(ToolCall("sortie_status", "success", 1.0), 5.0)) == 1
    assert source.asked == 0


async def test_what_may_have_happened_is_told_as_such(calls):
    _, acted = await calls.events(move("2", result="error", error="tracker_transport_error"), 5.0)
    assert acted.error == "tracker_transport_error"


async def test_an_issue_that_nobody_knows_keeps_the_name_it_was_given(calls):
    _, acted = await calls.events(move("nowhere"), 5.0)
    assert (acted.issue_id, acted.identifier) == ("nowhere", "")


async def test_in_haste_nobody_is_asked(calls, source):
    _, acted = await calls.events(move("3"), 5.0, in_haste=True)
    assert (acted.issue_id, source.asked) == ("3", 0)


async def test_no_secret_is_told(calls):
    called, acted = await calls.events(move("2", state=SECRET), 5.0)
    assert called.state == acted.state == "[redacted]"


async def test_an_agent_cannot_fill_other_logs_or_wear_out_the_tracker(calls, source):
    """EXT-14: acts, questions and calls of one run are bounded."""
    found = [event for n in range(300) for event in await calls.events(move(f"x{n}"), 5.0)]
    acts = [event for event in found if isinstance(event, ev.ActedOn)]
    assert (len(found) - len(acts), len(acts)) == (300, tool_calls.ISSUES_OF_ONE_RUN)
    assert source.asked == 1, "names that nobody knows are asked for once"
    call = ToolCall("sortie_status", "success", 1.0)
    more = [event for _ in range(CALLS_OF_ONE_RUN) for event in await calls.events(call, 5.0)]
    assert len(more) == CALLS_OF_ONE_RUN - 300


async def test_acts_on_one_issue_leave_room_for_those_on_another(calls):
    """EXT-14: the first act on an issue is told, however often another was moved before."""
    for _ in range(tool_calls.ACTS_ON_ONE_ISSUE):
        assert len(await calls.events(move("3"), 5.0)) == 2
    assert len(await calls.events(move("3"), 5.0)) == 1
    assert len(await calls.events(move("2"), 5.0)) == 2


async def test_of_a_brokered_run_only_what_was_witnessed_is_an_act(brokered):
    """EXT-14: whatever the record of calls says."""
    assert len(await brokered.events(move("2"), 5.0)) == 1
    assert len(await brokered.events(move("2"), 5.0, witnessed=True)) == 2


async def test_no_tool_but_that_of_the_tracker_acts_on_an_issue(calls):
    (called,) = await calls.events(move("2", tool="sortie_status"), 5.0)
    assert called.tool == "sortie_status"


def ordered(target: str) -> dict[str, str]:
    return {"operation": "transition_issue", "issue_id": target, "target_state": "Done"}


async def test_a_brokered_call_too_many_is_refused_and_none_before_it_goes_untold(brokered):
    """EXT-14: the bound is one of what is done, whatever else was written into the record of calls."""
    for _ in range(CALLS_OF_ONE_RUN):
        assert brokered.refusal({"operation": "search_issues"}) is None
        await brokered.events(ToolCall("sortie_status", "success", 1.0), 5.0)
    assert len(await brokered.events(move("2"), 5.0, witnessed=True)) == 2
    refused = brokered.refusal({"operation": "search_issues"})
    assert refused["error"]["kind"] == "tracker_api_error"


def test_a_brokered_run_moves_so_many_issues_and_its_own_always(brokered):
    """EXT-14"""
    for number in range(tool_calls.ISSUES_OF_ONE_RUN):
        assert brokered.refusal(ordered(f"x{number}")) is None
    assert brokered.refusal(ordered("2"))["error"]["kind"] == "tracker_api_error"
    assert brokered.refusal(ordered("x0")) is None
    assert [brokered.refusal(ordered(name)) for name in ("1", "T-1")] == [None, None]
    odd: list[object] = [None, [], {"operation": "transition_issue", "issue_id": 7}]
    assert [brokered.refusal(each) for each in odd] == [None] * 3


async def test_no_secret_is_told_as_an_operation(calls):
    (called,) = await calls.events(ToolCall("tracker_api", "error", 1.0, operation=SECRET), 5.0)
    assert called.operation == "[redacted]"
