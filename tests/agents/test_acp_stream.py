"""What is read in a session of the Agent Client Protocol: real frames of five agents, and the ways they mislead."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from sortie.agents.acp.acp_agents import KNOWN, UNKNOWN, classify_response, classify_text
from sortie.agents.acp.acp_messages import AcpTokens
from sortie.agents.acp.acp_stream import RunningTotals
from sortie.agents.agent import ErrorReported, Heartbeat, LimitReported, Said, ToolFinished, ToolStarted, Used
from sortie.agents.jsonrpc import ResponseError
from sortie.agents.reset_times import reset_time
from sortie.agents.turn_reader import TurnExit
from sortie.core.model import Usage
from sortie.errors import AgentError

from .acp_player import AcpPlayer
from .playing import Played, recorded

CODEX = KNOWN["@agentclientprotocol/codex-acp"]
COPILOT = KNOWN["Copilot"]
GEMINI = KNOWN["gemini-cli"]


def line(**message):
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def update(what, /, **fields):
    params = {"sessionId": "s", "update": {"sessionUpdate": what, **fields}}
    return line(method="session/update", params=params)


def text(words, **fields):
    return update("agent_message_chunk", content={"type": "text", "text": words}, **fields)


def tool(status, **fields):
    return update("tool_call_update", toolCallId="t", status=status, **fields)


def answer(stop_reason="end_turn", **fields):
    return line(id=4, result={"stopReason": stop_reason, **fields})


def turns(name):
    """The lines of a recording, apart for each prompt that was answered."""
    parts: list[list[bytes]] = [[]]
    for one in recorded(name):
        parts[-1].append(one)
        if "stopReason" in json.loads(one).get("result", {}):
            parts.append([])
    return parts


COMPLETED = [
    ("acp-claude-two-prompts", Usage(3700, 150, 300, 0.02186)),
    ("acp-codex-two-prompts", Usage(3200, 150, 300)),
    ("acp-copilot-two-prompts", Usage(3200, 150, 300)),
    ("acp-gemini-two-prompts", Usage(3200, 150)),
    ("acp-opencode-two-prompts", Usage(1200, 50, 0, 0.01095)),
]


@pytest.mark.parametrize(("name", "usage"), COMPLETED)
def test_a_real_turn_with_our_tool_and_a_command_completes_and_counts(name, usage):
    played = Played(AcpPlayer(), turns(name)[0])
    assert played.outcome == "completed"
    assert played.usage.cost_usd == pytest.approx(usage.cost_usd)
    assert (played.usage.input, played.usage.output) == (usage.input, usage.output)
    assert played.usage.cache_read == usage.cache_read
    assert played.said[-2:] == ["one", "two"]
    assert len(played.tools) == 2 and "probe_echo" in played.tools[0]
    assert played.reader.session_id


@pytest.mark.parametrize(("name", "usage"), COMPLETED)
def test_the_second_turn_counts_itself_alone(name, usage):
    """Totals of the session, of its cost or of its tokens, are told as what this turn added."""
    first, second, *_ = turns(name)
    before = Played(AcpPlayer(), first).reader
    assert isinstance(before, AcpPlayer)
    agent = KNOWN[json.loads(first[0])["result"]["agentInfo"]["name"]]
    after = Played(AcpPlayer(agent, before.session_id, before.running), second)
    assert after.outcome == "completed" and after.said[-1] == "again"
    assert (after.usage.input, after.usage.output) == (1000, 50)
    assert after.usage.cost_usd <= 0.0101


def test_what_a_resumed_conversation_cost_before_is_not_counted_again():
    """Claude and OpenCode go on counting from it, in a new process too."""
    for name in ("acp-claude-resume", "acp-opencode-resume"):
        whole = Played(AcpPlayer(), turns(name)[0])
        assert isinstance(whole.reader, AcpPlayer)
        told = whole.reader.running.cost
        played = Played(AcpPlayer(running=RunningTotals(cost=told - 0.005)), turns(name)[0])
        assert (played.usage.input, played.usage.output) == (1000, 50)
        assert played.usage.cost_usd == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("acp-claude-401", AgentError.AUTH),
        ("acp-claude-429", AgentError.RATE_LIMITED),
        ("acp-claude-limit", AgentError.RATE_LIMITED),
        ("acp-claude-500-after-tool", AgentError.PROVIDER),
        ("acp-claude-refusal", AgentError.REFUSED),
        ("acp-claude-broken-tools", AgentError.TOOLS),
        ("acp-codex-401", AgentError.AUTH),
        ("acp-codex-403", AgentError.AUTH),
        ("acp-codex-429", AgentError.RATE_LIMITED),
        ("acp-codex-500-after-tool", AgentError.PROVIDER),
        ("acp-codex-cut", AgentError.PROVIDER),
        ("acp-codex-broken-tools", AgentError.TOOLS),
        ("acp-codex-no-key", AgentError.AUTH),
        ("acp-copilot-401", AgentError.AUTH),
        ("acp-copilot-401-after-tool", AgentError.AUTH),
        ("acp-copilot-402", AgentError.AUTH),
        ("acp-copilot-429", AgentError.RATE_LIMITED),
        ("acp-copilot-cut", AgentError.PROVIDER),
        ("acp-gemini-401", AgentError.AUTH),
        ("acp-gemini-drop", AgentError.PROVIDER),
        ("acp-opencode-401", AgentError.AUTH),
        ("acp-opencode-401-after-tool", AgentError.AUTH),
    ],
)
def test_each_recorded_failure_is_one(name, kind):
    """Many of them were answered with `end_turn`, the error being text of the agent and nothing else."""
    played = Played(AcpPlayer(), recorded(name))
    assert played.outcome == kind


def test_the_end_of_a_limit_is_told_where_the_agent_tells_it():
    """At any time of the day: within the hour after it, that is now."""
    error = Played(AcpPlayer(), recorded("acp-claude-limit")).error
    told = reset_time("resets 3:33am (UTC)")
    assert error is not None and error.until is not None and told is not None
    assert 0 <= told - error.until < 60


@pytest.mark.parametrize(
    ("agent", "words", "kind"),
    [
        (CODEX, "unexpected status 529 <unknown status code>: x, url: http://h/v1\n\n", AgentError.PROVIDER),
        (CODEX, "stream disconnected before completion: idle timeout waiting for SSE\n\n", AgentError.PROVIDER),
        (CODEX, "exceeded retry limit, last status: 429 Too Many Requests\n\n", AgentError.RATE_LIMITED),
        (
            CODEX,
            "We\u2019re currently experiencing high demand, which may cause temporary errors.",
            AgentError.PROVIDER,
        ),
        (CODEX, "Something new went wrong.", AgentError.TURN_FAILED),
        (COPILOT, "Error: 402 You are out of credit", AgentError.AUTH),
        (
            COPILOT,
            "Error: Failed to get response from the AI model; retried 5 times (total retry wait time: 5 s) "
            "Last error: Failed to finalize chat-completions stream: missing finish_reason for choice 0",
            AgentError.PROVIDER,
        ),
    ],
)
def test_an_error_that_is_only_text_fails_the_turn(agent, words, kind):
    for before in ([], [tool("completed", title="x")]):
        played = Played(AcpPlayer(agent), [*before, text(words), answer()])
        assert played.outcome == kind


@pytest.mark.parametrize(
    ("agent", "lines"),
    [
        (CODEX, [text("unexpected status 403 Forbidden: x", messageId="m")]),
        (CODEX, [text("stream disconnected\n\n"), text("Never mind, done.", messageId="m")]),
        (CODEX, [text("stream disconnected\n\n"), tool("completed", title="x")]),
        (CODEX, [text("Warning: Model metadata not found.\n\n")]),
        (CODEX, [text("Config warning: no bubblewrap\n\n"), text("Done.", messageId="m")]),
        (COPILOT, [text("Error: 402 is what the server says;"), text(" I have mended that.")]),
        (COPILOT, [text("Info: Request failed due to a transient API error. Retrying..."), text("Done.")]),
        (COPILOT, [text("Error: the test fails, as the issue says. It needs another approach.")]),
        (COPILOT, [text("The log says: Error: Failed to get response from the AI model; retried 5 times")]),
        (COPILOT, [text("Error: 402 Payment Required"), tool("completed", title="x"), text("Done.")]),
        (COPILOT, [text("It now shows\n"), text("Error: 402 Payment Required\nwhere it showed nothing.")]),
        (UNKNOWN, [text("Error: Failed to get response from the AI model; retried 5 times")]),
    ],
)
def test_what_the_model_says_about_errors_is_no_error(agent, lines):
    assert Played(AcpPlayer(agent), [*lines, answer()]).outcome == "completed"


@pytest.mark.parametrize(
    ("stop_reason", "outcome"),
    [
        ("end_turn", "completed"),
        ("max_tokens", AgentError.TURN_FAILED),
        ("max_turn_requests", AgentError.TURN_FAILED),
        ("refusal", AgentError.REFUSED),
        ("cancelled", AgentError.CANCELLED),
        ("something_new", AgentError.TURN_FAILED),
    ],
)
def test_every_reason_to_stop(stop_reason, outcome):
    assert Played(AcpPlayer(), [text("x"), answer(stop_reason)]).outcome == outcome


@pytest.mark.parametrize("result", [b"{}", b"null", b'{"stopReason":5}', b'"end_turn"', b"[]"])
def test_an_answer_without_a_reason_is_no_success(result):
    reader = AcpPlayer()
    reader.answered(Raw(result))
    assert reader.finished
    assert reader.failure is not None and reader.failure.kind == AgentError.TURN_FAILED


def test_nothing_is_finished_without_the_answer_to_the_prompt():
    lines = recorded("acp-claude-two-prompts")
    last = next(number for number, one in enumerate(lines) if b"stopReason" in one)
    reader = AcpPlayer()
    for one in lines[:last]:
        reader.read(one)
    assert not reader.decided
    verdict = reader.verdict(TurnExit())
    assert verdict is not None and verdict.kind == AgentError.UNFINISHED


def test_gemini_must_have_had_an_answer():
    """Its stream that ends early is answered like a good one; only the missing text or tokens give it away."""
    counted = {"_meta": {"quota": {"token_count": {"input_tokens": 10, "output_tokens": 1}}}}
    nothing = {"_meta": {"quota": {"token_count": {"input_tokens": 0, "output_tokens": 0}}}}
    assert Played(AcpPlayer(GEMINI), [text("x"), answer(**counted)]).outcome == "completed"
    assert Played(AcpPlayer(GEMINI), [text("x"), answer(**nothing)]).outcome == AgentError.PROVIDER
    after_a_tool = [text("x"), tool("completed", title="x"), answer(**counted)]
    assert Played(AcpPlayer(GEMINI), after_a_tool).outcome == AgentError.PROVIDER
    assert Played(AcpPlayer(), [text("x"), answer(**nothing)]).outcome == "completed"


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        # claude-agent-acp: apart from the input
        ((4120, 3000, 120, 700, 300, None), Usage(4000, 120, 700)),
        # codex-acp: cached apart from the input, thoughts within the output
        ((3120, 2300, 120, 700, 0, 30), Usage(3000, 120, 700)),
        # OpenCode: both apart
        ((2070, 1600, 50, 400, None, 20), Usage(2000, 70, 400)),
        # Copilot: both within
        ((3120, 3000, 120, 700, 0, 30), Usage(3000, 120, 700)),
        ((0, 10, 5, None, None, None), Usage(10, 5)),
    ],
)
def test_the_total_tells_what_the_counts_hold(counts, usage):
    names = ("total_tokens", "input_tokens", "output_tokens")
    more = ("cached_read_tokens", "cached_write_tokens", "thought_tokens")
    assert AcpTokens(**dict(zip((*names, *more), counts, strict=True))).as_usage() == usage


def test_counts_that_make_no_sense_spoil_no_answer():
    senseless: list[object] = [{"inputTokens": -5}, {"inputTokens": "many"}, 5, []]
    for usage in senseless:
        played = Played(AcpPlayer(), [text("x"), answer(usage=usage)])
        assert (played.outcome, played.usage) == ("completed", Usage())


def test_a_total_that_is_missing_once_is_not_counted_twice_later():
    reader = AcpPlayer(COPILOT, running=RunningTotals(Usage(3000, 100)))
    Played(reader, [answer()])
    later = AcpPlayer(COPILOT, running=reader.running)
    counted = {"inputTokens": 3500, "outputTokens": 150, "totalTokens": 3650}
    assert Played(later, [text("x"), answer(usage=counted)]).usage == Usage(500, 50)


def test_a_cost_in_another_currency_is_not_dollars():
    costs = [
        update("usage_update", used=1, size=2, cost={"amount": 1.5, "currency": unit}) for unit in ("EUR", "USD")
    ]
    assert Played(AcpPlayer(), costs[:1]).usage == Usage()
    assert Played(AcpPlayer(), costs).usage == Usage(cost_usd=1.5)


def test_pieces_of_text_become_lines():
    pieces = ["Two", " li", "nes\nof", " text", "\n", "and more"]
    lines = [*(text(piece, messageId="a") for piece in pieces), text("Next.", messageId="b"), answer()]
    assert Played(AcpPlayer(), lines).said == ["Two lines", "of text", "and more", "Next."]


def test_a_line_without_end_is_told_in_parts():
    played = Played(AcpPlayer(), [text("x" * 1000) for _ in range(10)])
    assert played.said == ["x" * 4000, "x" * 4000]


def test_tools_are_told_once_with_their_arguments():
    call = update(
        "tool_call", toolCallId="t", title="Terminal", name="Bash", kind="execute", status="pending", rawInput={}
    )
    known = update("tool_call_update", toolCallId="t", rawInput={"command": "ls"}, title="ls")
    done = tool("failed", rawOutput="Exit code 3")
    events = Played(AcpPlayer(), [call, known, known, done, done]).events
    told = [event for event in events if not isinstance(event, Heartbeat)]
    assert told[:2] == [ToolStarted("Bash", '{"command":"ls"}'), ToolFinished("Bash", True, "Exit code 3")]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ({"name": "Bash", "title": "ls -l", "kind": "execute"}, "Bash"),
        ({"title": "echo one > f1", "kind": "execute"}, "execute"),
        ({"title": "bash", "kind": "execute"}, "bash"),
        (
            {"title": "probe_echo (sortie-tools MCP Server)", "kind": "other"},
            "probe_echo (sortie-tools MCP Server)",
        ),
        ({}, "tool"),
    ],
)
def test_a_tool_has_a_name_of_some_kind(call, name):
    assert Played(AcpPlayer(), [update("tool_call", toolCallId="t", status="completed", **call)]).tools == [name]


def test_retries_and_limits_are_told():
    assert any(isinstance(event, ErrorReported) for event in Played(AcpPlayer(), recorded("acp-codex-403")).events)
    assert any(isinstance(event, LimitReported) for event in Played(AcpPlayer(), recorded("acp-codex-429")).events)
    info = {"status": "rejected", "resetsAt": 1794799999, "rateLimitType": "five_hour"}
    limited = update("usage_update", used=1, size=2, _meta={"_claude/rateLimit": info})
    refused = line(id=4, error={"code": -32603, "message": "Internal error", "data": {"errorKind": "rate_limit"}})
    played = Played(AcpPlayer(), [limited, refused])
    assert played.error is not None
    assert (played.outcome, played.error.until) == (AgentError.RATE_LIMITED, 1794799999.0)
    assert LimitReported("five_hour limit: rejected", 1794799999.0) in played.events


def test_another_server_that_does_not_start_is_only_trouble():
    meta = {"claudeCode": {"kind": "mcpServerStatus", "server": "other", "status": "failed"}}
    played = Played(AcpPlayer(), [text("**It failed**", _meta=meta), text("x"), answer()])
    assert played.outcome == "completed"
    assert any(isinstance(event, ErrorReported) for event in played.events)


def test_what_another_session_does_is_only_a_sign_of_life():
    reader = AcpPlayer(session_id="mine")
    assert reader.read(text("from a helper\n")) == [Heartbeat()]


def test_nothing_counts_after_the_last_word():
    usage: dict[str, object] = {"usage": {"inputTokens": 5, "outputTokens": 5, "totalTokens": 10}}
    lines = [text("x"), answer(), text("late"), answer("refusal", **usage)]
    played = Played(AcpPlayer(), lines)
    assert (played.outcome, played.said, played.usage) == ("completed", ["x"], Usage())


def test_a_message_with_wrong_types_is_a_sign_of_life():
    for odd in (
        update("agent_message_chunk", content=5),
        update("tool_call", toolCallId=[]),
        update("usage_update", cost={"amount": "much"}),
        line(method="session/update", params=[]),
        line(method="session/update", params={"update": 7}),
        line(id=1, result="no"),
    ):
        played = Played(AcpPlayer(), [odd])
        assert played.error is not None
        assert not any(isinstance(event, ToolStarted | Used) for event in played.events)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ResponseError(-32000, "Authentication required"), AgentError.AUTH),
        (ResponseError(401, "{}"), AgentError.AUTH),
        (ResponseError(429, "Rate limit exceeded. Try again later."), AgentError.RATE_LIMITED),
        (ResponseError(500, "x"), AgentError.PROVIDER),
        (ResponseError(-32603, "Internal error", {"errorKind": "overloaded"}), AgentError.PROVIDER),
        (ResponseError(-32603, "Internal error", {"errorKind": "billing_error"}), AgentError.AUTH),
        (ResponseError(-32603, "Internal error", {"errorKind": "model_not_found"}), AgentError.CONFIG),
        (ResponseError(-32603, "Internal error: API Error: 402 x", {"errorKind": "unknown"}), AgentError.AUTH),
        (ResponseError(-32603, "Internal error: x", {"errorName": "ProviderAuthError"}), AgentError.AUTH),
        (
            ResponseError(-32603, "Internal error", {"message": "hit it", "codexErrorInfo": "usageLimitExceeded"}),
            AgentError.RATE_LIMITED,
        ),
        (ResponseError(-32603, "Internal error", {"details": "connection refused"}), AgentError.PROVIDER),
        (ResponseError(0, "what", {"errorKind": []}), AgentError.TURN_FAILED),
        (ResponseError(0, "what", "data"), AgentError.TURN_FAILED),
    ],
)
def test_error_answers(error, kind):
    assert classify_response(error).kind == kind


def test_the_detail_of_an_error_is_in_its_sentence():
    error = ResponseError(-32603, "Internal error", {"details": "no rollout found"})
    assert "no rollout found" in str(classify_response(error))
    assert str(classify_text(UNKNOWN, " oops \n")) == "oops"


def test_speech_that_was_open_is_told_before_the_error():
    refused = line(id=4, error={"code": -32603, "message": "Internal error: 500"})
    assert Played(AcpPlayer(), [text("half a sen"), refused]).events[-2] == Said("half a sen")
