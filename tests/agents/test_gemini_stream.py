"""What Gemini CLI's stream means, from real recordings and from forgeries of them."""

from __future__ import annotations

import json
import time

import pytest

from sortie.agents.agent import ErrorReported, Heartbeat, LimitReported, Said
from sortie.agents.gemini.gemini_stream import GeminiReader
from sortie.agents.turn_reader import TurnExit
from sortie.core.model import Usage
from sortie.errors import AgentError

from .playing import WELL, Played, recorded

INIT = b'{"type":"init","session_id":"s","model":"m"}'


def play(name, code=0, stderr="", resuming=""):
    return Played(GeminiReader(resuming), recorded(name), TurnExit(code=code, stderr=stderr))


def event(kind, **fields):
    return json.dumps({"type": kind, **fields}).encode()


def said(text):
    return event("message", role="assistant", content=text, delta=True)


def success(**stats):
    return event("result", status="success", stats={"total_tokens": 1, **stats})


def failed(message):
    return event("result", status="error", error={"type": "unknown", "message": message}, stats={})


def verdict(*lines, ending=WELL, resuming=""):
    return Played(GeminiReader(resuming), list(lines), ending)


def test_a_completed_turn_with_its_tools_tokens_and_session():
    played = play("gemini-ok")
    assert played.outcome == "completed"
    assert played.reader.session_id == "84232b46-52ee-45bc-85ca-7e957473d931"
    assert played.usage == Usage(3300, 150)
    assert played.tools == ["run_shell_command", "mcp_probe_probe_echo"]
    assert played.failed_tools == []
    assert played.said == ["All done."]


def test_each_process_counts_its_own_tokens_also_where_it_resumed_a_session():
    lines = recorded("gemini-two-turns")
    second = [number for number, line in enumerate(lines) if b'"init"' in line][1]
    one, two = (Played(GeminiReader(), part) for part in (lines[:second], lines[second:]))
    assert (one.outcome, two.outcome) == ("completed", "completed")
    assert (one.usage, two.usage) == (Usage(3300, 150), Usage(2100, 100))
    assert one.reader.session_id == two.reader.session_id


def test_thoughts_are_output_and_cached_tokens_are_input():
    assert play("gemini-thoughts").usage == Usage(1000, 80, 400)


@pytest.mark.parametrize(
    ("name", "code", "kind"),
    [
        ("gemini-401", 145, AgentError.AUTH),
        ("gemini-403", 147, AgentError.AUTH),
        ("gemini-bad-key", 144, AgentError.AUTH),
        ("gemini-404", 1, AgentError.CONFIG),
        ("gemini-400", 144, AgentError.TURN_FAILED),
        ("gemini-429", 173, AgentError.RATE_LIMITED),
        ("gemini-429-delay", 173, AgentError.RATE_LIMITED),
        ("gemini-daily-quota", 173, AgentError.RATE_LIMITED),
        ("gemini-500", 244, AgentError.PROVIDER),
        ("gemini-503", 247, AgentError.PROVIDER),
        ("gemini-max-turns", 53, AgentError.TURN_FAILED),
        ("gemini-safety", 0, AgentError.REFUSED),
        ("gemini-drop", 0, AgentError.PROVIDER),
        ("gemini-malformed", 0, AgentError.TURN_FAILED),
        ("gemini-max-tokens", 0, AgentError.TURN_FAILED),
        ("gemini-loop", 0, AgentError.TURN_FAILED),
        ("gemini-denied", 0, AgentError.PERMISSION),
        ("gemini-no-shell", 0, AgentError.PERMISSION),
        ("gemini-unasked", 0, AgentError.PERMISSION),
        ("gemini-too-long", 0, AgentError.TURN_FAILED),
    ],
)
def test_recorded_failures(name, code, kind):
    """With the exit codes that came with them: 0 says nothing, and the last five are even called a success."""
    played = play(name, code)
    assert played.outcome == kind
    assert any(isinstance(event, ErrorReported) for event in played.events)


def test_tokens_of_a_failed_turn_are_counted():
    assert play("gemini-safety").usage == Usage(3000, 150)


def test_a_limit_carries_the_delay_that_the_provider_asked_for():
    assert play("gemini-429-delay", 173).error.until - time.time() == pytest.approx(1200, abs=5)
    assert play("gemini-daily-quota", 173).error.until is None
    told = verdict(failed("[API Error: Your quota will reset after 13h19m32s.]"), ending=TurnExit(code=173))
    assert (told.outcome, round(told.error.until - time.time(), -1)) == (AgentError.RATE_LIMITED, 47970)


def test_an_error_is_told_in_the_words_of_the_provider():
    assert play("gemini-401", 145).error.message == "scripted 401"
    assert play("gemini-daily-quota", 173).error.message == "You have exhausted your daily quota on this model."


def test_an_error_is_known_by_its_words_where_a_lingering_process_left_no_exit_code():
    ending = TurnExit(code=None, signal=15, by_us=True)
    for name, kind in (("gemini-401", AgentError.AUTH), ("gemini-daily-quota", AgentError.RATE_LIMITED)):
        assert Played(GeminiReader(), recorded(name), ending).outcome == kind


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([success()], AgentError.TURN_FAILED),
        ([said("Hm."), event("tool_use", tool_name="x", tool_id="1"), success()], AgentError.TURN_FAILED),
        ([said("Hm."), event("tool_result", tool_id="1", status="success"), success()], AgentError.TURN_FAILED),
        ([said("Hm."), event("error", severity="warning", message="Loop"), success()], AgentError.TURN_FAILED),
        ([said("Hm."), event("result", status="error")], AgentError.TURN_FAILED),
        ([said("Hm."), event("result", status="cancelled")], AgentError.TURN_FAILED),
        ([said("Hm."), event("result", status=None)], AgentError.UNFINISHED),
        ([said("Hm."), event("result", status=True)], AgentError.UNFINISHED),
        ([said("Hm."), event("result")], AgentError.UNFINISHED),
        ([said("Hm."), event("result", status="success", stats={"total_tokens": "1"})], AgentError.UNFINISHED),
        ([said("Hm."), success()[:-1]], AgentError.UNFINISHED),
        ([said("Hm.")], AgentError.UNFINISHED),
        ([], AgentError.UNFINISHED),
    ],
)
def test_false_success_is_failure(lines, kind):
    assert verdict(INIT, *lines).outcome == kind


def test_what_follows_an_error_shows_that_it_was_overcome():
    blocked = event("error", severity="warning", message="Agent execution blocked: not yet")
    assert verdict(INIT, said("a"), blocked, said("b"), success()).outcome == "completed"


def test_the_first_result_is_the_last_word():
    assert verdict(INIT, failed("no"), said("x"), success()).outcome == AgentError.TURN_FAILED
    assert verdict(INIT, said("x"), success(), failed("no"), b"{").outcome == "completed"


def test_success_needs_exit_code_zero_unless_we_ended_a_lingering_process():
    lines = (INIT, said("x"), success())
    assert verdict(*lines, ending=TurnExit(code=1)).outcome == AgentError.TURN_FAILED
    assert verdict(*lines, ending=TurnExit(code=None, signal=15)).outcome == AgentError.TURN_FAILED
    assert verdict(*lines, ending=TurnExit(code=None, signal=15, by_us=True)).outcome == "completed"


def test_a_conversation_that_has_grown_too_long_is_refused_as_one_to_resume():
    assert play("gemini-too-long", resuming="s").outcome == AgentError.SESSION
    assert play("gemini-400", 144, resuming="s").outcome == AgentError.SESSION


def test_a_missing_tool_server_fails_the_turn_that_did_without():
    stderr = "Ripgrep is not available.\nMCP issues detected. Run /mcp list for status."
    played = play("gemini-ok", stderr=stderr)
    assert (played.outcome, played.error.retry) == (AgentError.TOOLS, True)
    assert play("gemini-401", 145, stderr).outcome == AgentError.AUTH, "what cannot be mended comes first"


def test_a_missing_tool_server_ends_the_turn_before_it_costs_anything():
    reader = GeminiReader()
    reader.read_stderr("MCP issues detected. Run /mcp list for status.")
    assert reader.decided
    error = reader.verdict(WELL)
    assert error and error.kind == AgentError.TOOLS


@pytest.mark.parametrize(
    ("line", "seconds", "decided"),
    [
        ("Suggested retry after 3s.. Retrying after 5743ms...", 3, False),
        ("Attempt 1 failed: Quota. Retrying after 59000ms...", 59, False),
        ("Attempt 1 failed: Your quota will reset after 13h19m32s.. Retrying after 52349851ms...", 47972, True),
        ("Attempt 1 failed: Quota. Retrying after 99000ms...", 99, True),
    ],
)
def test_a_long_wait_for_a_limit_is_left_to_us(line, seconds, decided):
    reader = GeminiReader()
    (limited,) = reader.read_stderr(line)
    assert isinstance(limited, LimitReported) and limited.until
    assert limited.until - time.time() == pytest.approx(seconds, abs=5)
    assert reader.decided is decided
    if decided:
        error = reader.verdict(WELL)
        assert error
        assert (error.kind, error.until) == (AgentError.RATE_LIMITED, limited.until)


def test_what_tools_print_is_not_the_word_of_gemini():
    reader = GeminiReader()
    reader.read_stderr("Error executing tool x: MCP issues detected")
    reader.read_stderr("Error executing tool x: Attempt 1 failed. Retrying after 99000ms...")
    assert not reader.decided
    assert play("gemini-ok", stderr="Error executing tool x: MCP issues detected").outcome == "completed"
    assert play("gemini-ok", stderr="a\n[INFO] MCP issues detected.").outcome == AgentError.TOOLS


def test_standard_error_after_the_last_word_changes_nothing():
    reader = GeminiReader()
    for line in (INIT, said("x"), success()):
        reader.read(line)
    assert reader.read_stderr("Attempt 1 failed: Quota. Retrying after 99000ms...") == []
    assert reader.read_stderr("anything") == []
    assert reader.verdict(WELL) is None


@pytest.mark.parametrize(
    ("code", "stderr", "kind"),
    [
        (42, 'Error resuming session: Invalid session identifier "x".', AgentError.SESSION),
        (42, "Error resuming session: No previous sessions found for this project.", AgentError.SESSION),
        (42, "No input provided via stdin.", AgentError.UNFINISHED),
        (41, "Please set an Auth method in your settings.json", AgentError.AUTH),
        (41, "", AgentError.AUTH),
        (44, "FatalSandboxError", AgentError.CONFIG),
        (52, "YOLO mode is disabled by your administrator.", AgentError.CONFIG),
        (1, "  -h, --help                      Show help  [boolean]", AgentError.CONFIG),
        (1, "FatalSandboxError: Sandbox image 'x' is missing\n    at y", AgentError.CONFIG),
        (130, "Operation cancelled.", AgentError.CANCELLED),
        (145, "_ApiError", AgentError.AUTH),
        (173, "Suggested retry after 3s.", AgentError.RATE_LIMITED),
        (247, "overloaded", AgentError.PROVIDER),
        (0, "", AgentError.UNFINISHED),
        (1, "TypeError: x is not a function", AgentError.UNFINISHED),
    ],
)
def test_an_exit_without_a_result(code, stderr, kind):
    assert verdict(INIT, ending=TurnExit(code=code, stderr=stderr)).outcome == kind


def test_a_missing_login_is_told_without_the_noise_around_it():
    stderr = "YOLO mode is enabled. All tool calls will be automatically approved.\nPlease set an Auth method."
    error = verdict(ending=TurnExit(code=41, stderr=stderr)).error
    assert str(error) == "Please set an Auth method. Set GEMINI_API_KEY, or run `gemini` once and log in."


def test_pieces_of_a_message_become_whole_lines():
    played = verdict(INIT, said("One "), said("line\nand"), said(" another"), success())
    assert played.said == ["One line", "and another"]
    assert played.events[1] == Heartbeat()
    endless = verdict(*[said("x" * 1000)] * 9)
    assert [event for event in endless.events if isinstance(event, Said)]


def test_the_echo_of_the_prompt_is_not_the_agents_word():
    assert verdict(INIT, event("message", role="user", content="Go."), success()).said == []


def test_unknown_events_and_text_between_them_change_nothing():
    lines = recorded("gemini-ok")
    mixed = [part for line in lines for part in (b'{"type":"novelty","x":[1]}', b"a warning", line)]
    assert Played(GeminiReader(), mixed).outcome == "completed"


def test_a_denied_tool_is_one_that_exists_or_that_a_policy_names():
    def refused(name, kind, message="no"):
        error = {"type": kind, "message": message}
        use = event("tool_use", tool_name=name, tool_id="1")
        return verdict(
            use, event("tool_result", tool_id="1", status="error", error=error), said("x"), success()
        ).outcome

    assert refused("invented_by_the_model", "tool_not_registered") == "completed"
    assert refused("read_file", "invalid_tool_params") == "completed"
    assert refused("write_file", "tool_not_registered") == AgentError.PERMISSION
    assert refused("anything", "policy_violation") == AgentError.PERMISSION
