"""What the Copilot CLI's stream means, from real recordings and from forgeries of them."""

from __future__ import annotations

import json
import time

import pytest

from sortie.agents.agent import ErrorReported, LimitReported, StderrLine, Used
from sortie.agents.copilot.copilot_journal import ModelCall
from sortie.agents.copilot.copilot_stream import CopilotReader
from sortie.agents.turn_reader import TurnExit
from sortie.core.model import Usage
from sortie.errors import AgentError

from .playing import WELL, Played, recorded

SESSION = "b123acd4-6b40-482e-a327-62e9a532ce25"


class Calls:
    """Model calls as the journal tells them: all that are there at the first look, and never again."""

    def __init__(self, *calls):
        self.calls = list(calls)

    def __call__(self):
        fresh, self.calls = self.calls, []
        return fresh


def play(name, *calls, ending=WELL):
    return Played(CopilotReader("", Calls(*calls)), recorded(name), ending)


def event(kind, *, agent=None, at=None, **data):
    whole = {
        "type": kind,
        "data": data,
        **({"agentId": agent} if agent else {}),
        **({"timestamp": at} if at else {}),
    }
    return json.dumps(whole).encode()


def result(**fields):
    return json.dumps({"type": "result", "sessionId": SESSION, "exitCode": 0, **fields}).encode()


ANSWER = event("assistant.message", content="Done.")


def verdict(*lines, calls=(), ending=WELL):
    return Played(CopilotReader("", Calls(*calls)), list(lines), ending)


def test_a_completed_turn_with_its_tools_tokens_and_session():
    calls = [ModelCall(Usage(1000, 50, 400), "tool_calls"), ModelCall(Usage(1200, 50, 400), "stop")]
    played = play("copilot-ok", *calls)
    assert played.outcome == "completed"
    assert played.reader.session_id == SESSION
    assert played.usage == Usage(2200, 100, 800)
    assert played.tools == ["bash", "sortie-tools-probe_echo"]
    assert played.failed_tools == []
    assert played.said == ["All done."]


def test_a_resumed_turn_keeps_its_session():
    played = play("copilot-resume", ModelCall(Usage(1000, 50), "stop"))
    assert (played.outcome, played.reader.session_id) == ("completed", SESSION)
    assert played.said == ["Second done."]


@pytest.mark.parametrize(
    ("name", "code", "kind"),
    [
        ("copilot-401", 1, AgentError.AUTH),
        ("copilot-429", 1, AgentError.RATE_LIMITED),
        ("copilot-500", 1, AgentError.PROVIDER),
        ("copilot-dropped", 1, AgentError.PROVIDER),
        ("copilot-unreachable", 1, AgentError.PROVIDER),
        ("copilot-unknown-model", 1, AgentError.CONFIG),
        ("copilot-no-answer", 1, AgentError.TURN_FAILED),
        ("copilot-no-tools", 0, AgentError.TOOLS),
        ("copilot-denied", 0, AgentError.PERMISSION),
        ("copilot-not-allowed", 0, AgentError.PERMISSION),
        ("copilot-interrupted", 0, AgentError.CANCELLED),
    ],
)
def test_recorded_failures(name, code, kind):
    """The last four end with a `result` of exit code 0, the last one although it was interrupted."""
    played = play(name, ending=TurnExit(code=code))
    assert played.outcome == kind
    assert [said for said in played.events if isinstance(said, ErrorReported)]


def test_a_limit_that_the_agent_sat_out_is_no_failure():
    played = play("copilot-429-recovered")
    assert played.outcome == "completed"
    assert [type(said) for said in played.events if isinstance(said, LimitReported)] == [LimitReported]


def test_the_cap_of_autopilot_ends_a_turn_well():
    assert play("copilot-autopilot-cap").outcome == "completed"


def test_the_reset_of_a_limit_comes_from_what_the_provider_said():
    played = play("copilot-429", ending=TurnExit(code=1))
    assert played.error.until - time.time() == pytest.approx(90, abs=5)


@pytest.mark.parametrize(
    ("finish", "kind"), [("content_filter", AgentError.REFUSED), ("length", AgentError.TURN_FAILED)]
)
def test_an_answer_that_was_cut_off_is_no_success(finish, kind):
    """Recorded: the stream of both ends with exit code 0 and says nothing of it; only the journal does."""
    name = {"content_filter": "copilot-refused", "length": "copilot-cut-off"}[finish]
    assert play(name, ModelCall(Usage(1000, 50), finish)).outcome == kind
    assert play(name, ModelCall(Usage(1000, 50), "stop")).outcome == "completed"


def test_how_the_answer_of_a_subagent_ended_is_the_business_of_its_parent():
    calls = [ModelCall(Usage(10, 1), "stop"), ModelCall(Usage(20, 2), "length", by_subagent=True)]
    played = play("copilot-subagent", *calls)
    assert (played.outcome, played.usage) == ("completed", Usage(30, 3))
    assert played.said == ["sub done", "main done"]


def test_a_turn_without_counts_says_so():
    assert "tells no tokens" in str(play("copilot-ok").events[-1])
    assert "tells no tokens" not in str(play("copilot-ok", ModelCall(Usage(1, 1), "stop")).events)


def test_tokens_are_told_while_the_turn_goes_on():
    reader = CopilotReader("", Calls(ModelCall(Usage(7, 2))))
    assert Used(Usage(7, 2)) in reader.read(event("tool.execution_complete", success=True))
    assert not reader.decided


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([result()], AgentError.TURN_FAILED),
        ([ANSWER, result(exitCode=1)], AgentError.TURN_FAILED),
        ([ANSWER, result(exitCode=None)], AgentError.UNFINISHED),
        ([ANSWER, result(exitCode="0")], AgentError.UNFINISHED),
        ([ANSWER, result(sessionId=7)], AgentError.UNFINISHED),
        ([ANSWER, result()[:-1]], AgentError.UNFINISHED),
        ([ANSWER], AgentError.UNFINISHED),
        ([ANSWER, event("session.error", message="x", errorType="query"), result()], AgentError.TURN_FAILED),
        ([ANSWER, event("session.error", message="x", errorType="authorization"), result()], AgentError.AUTH),
        ([ANSWER, event("session.error", message="x", errorType="policy"), result()], AgentError.AUTH),
        ([ANSWER, event("session.error", message="x", errorType="quota"), result()], AgentError.RATE_LIMITED),
        ([ANSWER, event("session.error", message="x", statusCode=502), result()], AgentError.PROVIDER),
        ([ANSWER, event("abort", reason="user_initiated")], AgentError.CANCELLED),
        ([event("assistant.message", agent="sub", content="Hi."), result()], AgentError.TURN_FAILED),
        ([result(exitCode=1), ANSWER, result()], AgentError.TURN_FAILED),
        ([ANSWER, result(), result(exitCode=1)], AgentError.TURN_FAILED),
    ],
)
def test_false_success_is_failure(lines, kind):
    assert verdict(*lines).outcome == kind


def test_an_error_that_the_agent_got_over_is_no_failure():
    assert verdict(event("session.error", message="x"), ANSWER, result()).outcome == "completed"
    assert verdict(ANSWER, event("session.error", agent="sub", message="x"), result()).outcome == "completed"


def test_success_needs_exit_code_zero_unless_we_ended_a_lingering_process():
    assert verdict(ANSWER, result()).outcome == "completed"
    assert verdict(ANSWER, result(), ending=TurnExit(code=1)).outcome == AgentError.TURN_FAILED
    assert verdict(ANSWER, result(), ending=TurnExit(code=None, signal=15)).outcome == AgentError.TURN_FAILED
    assert verdict(ANSWER, result(), ending=TurnExit(code=None, signal=15, by_us=True)).outcome == "completed"


@pytest.mark.parametrize("status", ["failed", "needs-auth", "disabled", "not_configured"])
def test_a_turn_without_our_tools_is_decided_at_once(status):
    played = verdict(event("session.mcp_server_status_changed", serverName="sortie-tools", status=status))
    assert (played.outcome, played.reader.decided) == (AgentError.TOOLS, True)


def test_another_server_of_the_operator_that_fails_is_only_told_and_only_once():
    change = event("session.mcp_server_status_changed", serverName="x", status="failed", error="no")
    loaded = event("session.mcp_servers_loaded", servers=[{"name": "x", "status": "failed", "error": "no"}])
    played = verdict(change, loaded, ANSWER, result())
    assert played.outcome == "completed"
    assert played.events.count(ErrorReported("The MCP server x is failed: no")) == 1


def test_servers_on_their_way_are_no_trouble():
    change = event("session.mcp_server_status_changed", serverName="sortie-tools", status="pending")
    assert verdict(change, ANSWER, result()).outcome == "completed"


def test_a_limit_that_lasts_ends_the_waiting():
    """Copilot would wait five times as long as the provider asks, without a word."""

    def limited(second):
        return event(
            "model.call_failure", at=f"2026-11-16T02:00:{second:02}.000Z", statusCode=429, errorMessage="slow"
        )

    assert not verdict(limited(0), limited(30)).reader.decided
    played = verdict(limited(0), limited(31))
    assert (played.outcome, played.reader.decided) == (AgentError.RATE_LIMITED, True)
    assert not verdict(limited(0), ANSWER, limited(31)).reader.decided


def test_a_quota_names_its_reset():
    quotas = {
        "premium": {"hasQuota": False, "resetDate": "2030-01-01T00:00:00Z"},
        "chat": {"hasQuota": True, "remainingPercentage": 55.0, "resetDate": "2031-01-01"},
        "odd": {"remainingPercentage": 0, "resetDate": "soon"},
    }
    failure = event("model.call_failure", statusCode=402, errorMessage="quota", quotaSnapshots=quotas)
    error = event("session.error", errorType="quota", message="You have no quota left.", statusCode=402)
    played = verdict(failure, error, result(exitCode=1))
    assert (played.outcome, played.error.until) == (AgentError.RATE_LIMITED, 1_893_456_000)


def test_a_model_that_is_limited_tells_when_it_is_back():
    switch = event("auto_mode_switch.requested", retryAfterSeconds=600)
    error = event("session.error", errorType="rate_limit", message="Slow down.")
    played = verdict(switch, error, result(exitCode=1))
    assert played.error.until - time.time() == pytest.approx(600, abs=5)


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("Error: No session, task, or name matched '1111'.", AgentError.SESSION),
        ("Error: No authentication information found.", AgentError.AUTH),
        ("Error: Classic Personal Access Tokens (ghp_) are not supported by Copilot.", AgentError.AUTH),
        ("Error: Authentication token found but could not be validated. network fetch failed", AgentError.PROVIDER),
        ("error: unexpected argument '--nonsense' found", AgentError.CONFIG),
        ('Error: Model "x" from --model flag is not available.', AgentError.CONFIG),
        ("BYOK providers require an explicit model.", AgentError.CONFIG),
        ("Offline mode requires a local model provider.", AgentError.CONFIG),
        ("No such agent: nobody, available:", AgentError.CONFIG),
        ("Segmentation fault", AgentError.UNFINISHED),
    ],
)
def test_what_it_says_when_it_does_not_even_begin(stderr, kind):
    assert verdict(ending=TurnExit(code=1, stderr=stderr)).outcome == kind


def test_the_result_of_a_tool_that_an_earlier_process_began_is_read():
    end = event("tool.execution_complete", toolCallId="old", success=False, error={"message": "gone"})
    assert verdict(end, ANSWER, result()).failed_tools == ["tool"]


def test_lines_that_are_no_events_are_for_the_log_and_not_the_agents_word():
    played = verdict(b"warning: something", b'{"type": 7}', b'"x"', ANSWER, result())
    assert played.outcome == "completed"
    assert played.events[0] == StderrLine("warning: something")
    assert played.said == ["Done."]
