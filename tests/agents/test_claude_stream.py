"""What Claude Code's stream means, from real recordings and from forgeries of them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from sortie.agents.agent import ErrorReported, LimitReported
from sortie.agents.claude.claude_stream import ClaudeReader
from sortie.agents.turn_reader import TurnExit
from sortie.core.model import Usage
from sortie.errors import AgentError

from .playing import WELL, Played, recorded


def play(name, ending=WELL):
    return Played(ClaudeReader(), recorded(name), ending)


def result(**fields):
    whole = {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", **fields}
    return json.dumps(whole).encode()


def spent(played):
    return played.usage.input, played.usage.output, round(played.usage.cost_usd, 6)


def verdict(*lines, ending=WELL):
    return Played(ClaudeReader(), list(lines), ending)


def test_a_completed_turn_with_its_tools_tokens_and_session():
    played = play("claude-ok")
    assert played.outcome == "completed"
    assert played.reader.session_id == "9c41a22b-4cf2-488a-86fb-cb76b9572e54"
    assert played.usage == Usage(3300, 150, 0, 0.02025)
    assert played.tools == ["Bash", "mcp__probe__probe_echo"]
    assert played.said == ["All done."]


def test_a_resumed_turn_of_an_older_version_tells_its_own_cost():
    played = play("claude-resume")
    assert played.outcome == "completed"
    assert spent(played) == (2100, 100, 0.013)
    assert played.reader.session_id == "9c41a22b-4cf2-488a-86fb-cb76b9572e54"


def test_a_newer_version_counts_cost_over_the_session_and_each_turn_is_charged_once():
    lines = recorded("claude-two-turns")
    second = [number for number, line in enumerate(lines) if b'"init"' in line][1]
    one, two = (Played(ClaudeReader(), part) for part in (lines[:second], lines[second:]))
    assert (one.outcome, two.outcome) == ("completed", "completed")
    assert (spent(one), spent(two)) == ((3300, 150, 0.0162), (2100, 100, 0.0104))
    assert json.loads(lines[-1])["total_cost_usd"] == pytest.approx(0.0266)
    assert one.reader.session_id == two.reader.session_id


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("claude-401", AgentError.AUTH),
        ("claude-404", AgentError.CONFIG),
        ("claude-no-credit", AgentError.AUTH),
        ("claude-disabled", AgentError.AUTH),
        ("claude-429", AgentError.RATE_LIMITED),
        ("claude-500", AgentError.PROVIDER),
        ("claude-denied", AgentError.PERMISSION),
        ("claude-mcp-failed", AgentError.TOOLS),
        ("claude-interrupted", AgentError.UNFINISHED),
    ],
)
def test_recorded_failures(name, kind):
    """The first six say `subtype: success`; the next two say so without an error flag, with exit code 0."""
    assert play(name).outcome == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("model_not_found", AgentError.CONFIG),
        ("billing_error", AgentError.AUTH),
        ("account_on_hold", AgentError.AUTH),
        ("rate_limit", AgentError.RATE_LIMITED),
        ("unknown", AgentError.TURN_FAILED),
    ],
)
def test_the_name_that_claude_gives_an_error_counts_until_its_model_speaks_again(error, kind):
    """A sub-agent's error that the turn outlived says nothing about how the turn ended."""
    told = {"type": "assistant", "error": error, "message": {"model": "<synthetic>", "content": []}}
    line = json.dumps(told).encode()
    failed = result(is_error=True, result="It did not work out.")
    assert verdict(line, failed).outcome == kind
    assert verdict(line, sentence("I go on."), failed).outcome == AgentError.TURN_FAILED


def test_usage_that_is_spent_comes_back_at_its_reset():
    limited = verdict(result(is_error=True, result="You're out of extra usage · resets 3pm (UTC)"))
    assert limited.outcome == AgentError.RATE_LIMITED
    assert limited.error.until is not None


def test_a_package_without_its_program_is_a_program_that_is_not_there():
    """What npm's `claude` prints where its scripts were not run; a second try would change nothing."""
    stderr = (
        "Error: claude native binary not installed.\n\n"
        "Either postinstall did not run (--ignore-scripts, some pnpm configs)\n"
        "or the platform-native optional dependency was not downloaded\n(--omit=optional)."
    )
    error = verdict(ending=TurnExit(code=1, stderr=stderr)).error
    assert (error.kind, error.retry, bool(error.fix)) == (AgentError.NOT_FOUND, False, True)


def retry(**fields):
    return json.dumps({"type": "system", "subtype": "api_retry", "attempt": 1, **fields}).encode()


def sentence(text, **fields):
    message = {"id": "m1", "content": [{"type": "text", "text": text}], **fields}
    return json.dumps({"type": "assistant", "message": message}).encode()


def test_when_claude_tries_again_is_not_when_a_limit_ends():
    played = play("claude-429")
    assert (played.outcome, played.error.until) == (AgentError.RATE_LIMITED, None)
    assert [event.until for event in played.events if isinstance(event, LimitReported)] == [None]
    long = verdict(retry(error_status=429, retry_delay_ms=61_000))
    assert (long.outcome, long.error.until) == (AgentError.RATE_LIMITED, None)


@pytest.mark.parametrize(
    ("words", "zone", "ahead"),
    [
        ("You've hit your session limit · resets {0:%I%p} (America/Bogota)", "America/Bogota", timedelta(hours=3)),
        ("You've hit your weekly limit · resets {0:%b} {0.day} at {0:%I%p}", None, timedelta(days=5)),
    ],
)
def test_a_limit_of_the_plan_ends_when_claude_says(words, zone, ahead):
    """Whatever the time of the day, and that of the year: the limit is said of a time that is still to come."""
    told = (datetime.now(ZoneInfo(zone) if zone else None) + ahead).replace(minute=0, second=0, microsecond=0)
    limited = verdict(result(is_error=True, result=words.format(told)))
    assert limited.outcome == AgentError.RATE_LIMITED
    assert limited.error.until == told.timestamp()


def test_a_number_in_the_sentence_of_the_model_is_no_http_status():
    for words in (
        "I fixed_environment 404 tests; 403 files and 500 lines are left.",
        "The server answers HTTP 429 as it should.",
    ):
        for ending in ({"is_error": True}, {"subtype": "error_max_turns"}):
            assert verdict(sentence(words), result(result=words, **ending)).outcome == AgentError.TURN_FAILED
    told = "API Error: 401 no such key"
    own = verdict(sentence(told, model="<synthetic>"), result(result=told, is_error=True))
    assert own.outcome == AgentError.AUTH


@pytest.mark.parametrize("reason", ["aborted_tools", "aborted_streaming"])
def test_an_aborted_turn_is_cancelled_whatever_it_calls_itself(reason):
    errors = ["[ede_diagnostic] result_type=user stop_reason=tool_use, 429 of 500"]
    failed = result(subtype="error_during_execution", is_error=True, errors=errors, terminal_reason=reason)
    assert verdict(failed).outcome == AgentError.CANCELLED
    assert verdict(result(result="", terminal_reason=reason)).outcome == AgentError.CANCELLED
    assert verdict(result(terminal_reason="completed")).outcome == "completed"


def test_a_dropped_stream_that_the_agent_recovered_from_is_a_success_with_its_tokens():
    played = play("claude-drop")
    assert played.outcome == "completed"
    assert played.usage.input >= 1000


def test_an_unknown_session_is_a_refused_resume():
    assert (
        Played(ClaudeReader("x"), recorded("claude-bad-resume")[:1], TurnExit(code=1)).outcome == AgentError.SESSION
    )


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"is_error": True}, AgentError.TURN_FAILED),
        ({"is_error": True, "api_error_status": 403}, AgentError.AUTH),
        ({"is_error": True, "api_error_status": 529}, AgentError.PROVIDER),
        ({"subtype": "error_max_turns"}, AgentError.TURN_FAILED),
        ({"subtype": "error_max_budget_usd", "is_error": True}, AgentError.TURN_FAILED),
        ({"stop_reason": "refusal"}, AgentError.REFUSED),
        ({"permission_denials": [{"tool_name": "Bash"}]}, AgentError.PERMISSION),
        ({"is_error": None}, AgentError.UNFINISHED),
        ({"is_error": "false"}, AgentError.UNFINISHED),
        ({"subtype": 1}, AgentError.UNFINISHED),
    ],
)
def test_false_success_is_failure(fields, kind):
    assert verdict(result(**fields)).outcome == kind


def test_success_needs_exit_code_zero_unless_we_ended_a_lingering_process():
    assert verdict(result()).outcome == "completed"
    assert verdict(result(), ending=TurnExit(code=1)).outcome == AgentError.TURN_FAILED
    assert verdict(result(), ending=TurnExit(code=None, signal=15)).outcome == AgentError.TURN_FAILED
    assert verdict(result(), ending=TurnExit(code=None, signal=15, by_us=True)).outcome == "completed"


def test_exit_zero_without_a_result_is_no_success():
    assert verdict().outcome == AgentError.UNFINISHED
    assert verdict(result()[:-1]).outcome == AgentError.UNFINISHED


def test_a_result_with_turns_queued_behind_it_is_not_the_last_word():
    woken = result(queued_turn_count=1, usage={"input_tokens": 10, "output_tokens": 1})
    assert verdict(woken).outcome == AgentError.UNFINISHED
    done = verdict(woken, result(usage={"input_tokens": 5, "output_tokens": 1}))
    assert (done.outcome, done.usage) == ("completed", Usage(15, 2))


def test_tokens_from_the_cache_are_part_of_the_input():
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 200,
        "cache_creation_input_tokens": 30,
        "output_tokens": 5,
    }
    assert verdict(result(usage=usage)).usage == Usage(240, 5, 200)


def test_the_blocks_of_one_message_count_its_tokens_once():
    message = {
        "id": "m1",
        "content": [{"type": "text", "text": "a"}],
        "usage": {"input_tokens": 7, "output_tokens": 2},
    }
    line = json.dumps({"type": "assistant", "message": message}).encode()
    assert verdict(line, line).usage == Usage(7, 2)


def test_a_usage_limit_names_its_reset():
    event = {
        "type": "rate_limit_event",
        "rate_limit_info": {"status": "rejected", "resetsAt": 1_900_000_000, "rateLimitType": "five_hour"},
    }
    limited = verdict(
        json.dumps(event).encode(), result(is_error=True, result="You've hit your limit", api_error_status=429)
    )
    assert (limited.outcome, limited.error.until) == (AgentError.RATE_LIMITED, 1_900_000_000)
    older = verdict(result(is_error=True, result="Claude AI usage limit reached|1900000000"))
    assert (older.outcome, older.error.until) == (AgentError.RATE_LIMITED, 1_900_000_000)


def test_a_refused_key_is_judged_by_the_last_word_alone():
    """Claude may have a fresh one at its next attempt."""
    refused = retry(error_status=401, error="authentication_failed", retry_delay_ms=500)
    played = verdict(refused, sentence("Done."), result())
    assert (played.outcome, isinstance(played.events[0], ErrorReported)) == ("completed", True)
    assert verdict(refused).reader.decided is False
    assert verdict(refused, refused, result(is_error=True, api_error_status=401)).outcome == AgentError.AUTH


def test_another_server_of_the_operator_that_fails_is_only_told():
    init = {
        "type": "system",
        "subtype": "init",
        "session_id": "s",
        "mcp_servers": [{"name": "x", "status": "failed"}],
    }
    played = verdict(json.dumps(init).encode(), result())
    assert played.outcome == "completed"
    assert played.events == [ErrorReported("The MCP server x did not start."), *played.events[1:]]


def test_root_is_told_what_to_do():
    stderr = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"
    error = verdict(ending=TurnExit(code=1, stderr=stderr)).error
    assert error.kind == AgentError.CONFIG
    assert "IS_SANDBOX" in str(error)
