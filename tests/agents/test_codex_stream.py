"""What the output of `codex app-server` is taken to mean."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from sortie.agents.agent import ErrorReported, LimitReported, StderrLine, Used
from sortie.agents.codex.codex_stream import CodexReader, classify_codex_error
from sortie.agents.reset_times import reset_time
from sortie.core.model import Usage
from sortie.errors import AgentError

from .playing import Played, recorded

THREAD, TURN = "thread-1", "turn-1"


@pytest.mark.parametrize(
    ("name", "outcome", "usage"),
    [
        ("codex-ok", "completed", Usage(3300, 120, 1300)),
        ("codex-appserver-two-turns", "completed", Usage(3300, 150)),
        ("codex-resume", "completed", Usage(2100, 100)),
        ("codex-bad-resume", "completed", Usage(1000, 50)),
        ("codex-login", "completed", Usage(1000, 50)),
        ("codex-subagent", "completed", Usage(4300, 200)),
        ("codex-401", AgentError.AUTH, Usage()),
        ("codex-403", AgentError.AUTH, Usage()),
        ("codex-404", AgentError.CONFIG, Usage()),
        ("codex-429", AgentError.RATE_LIMITED, Usage()),
        ("codex-500", AgentError.PROVIDER, Usage()),
        ("codex-drop", AgentError.PROVIDER, Usage()),
        ("codex-quota", AgentError.AUTH, Usage()),
        ("codex-usage-limit", AgentError.RATE_LIMITED, Usage()),
        ("codex-no-model", AgentError.CONFIG, Usage()),
        ("codex-refusal", AgentError.REFUSED, Usage()),
        ("codex-declined", AgentError.PERMISSION, Usage(2100, 100)),
        ("codex-mcp-denied", AgentError.PERMISSION, Usage(3300, 150)),
        ("codex-interrupted", AgentError.CANCELLED, Usage(1000, 50)),
        ("codex-mcp-broken", AgentError.UNFINISHED, Usage()),
    ],
)
def test_the_outcome_and_the_tokens_of_recorded_turns(name, outcome, usage):
    lines = first_turn(recorded(name))
    played = Played(CodexReader(), lines)
    assert (played.outcome, played.usage) == (outcome, usage)


def test_the_first_thread_that_begins_a_turn_is_the_one():
    played = Played(CodexReader(), recorded("codex-ok"))
    assert played.reader.session_id == "01a1e228-2f54-7131-9768-52592eb511e5"
    assert played.said == ["done one", "done two"]
    assert played.tools == ["commandExecution", "mcp__sortie-tools__probe_echo", "commandExecution"]
    assert played.failed_tools == ["commandExecution"]


def test_the_next_turn_counts_only_what_it_adds():
    lines = recorded("codex-ok")
    first = first_turn(lines)
    reader = CodexReader()
    Played(reader, first)
    second = Played(reader.following(), lines[len(first) :])
    assert (second.outcome, second.usage) == ("completed", Usage(2100, 100))


def test_a_total_that_is_repeated_in_the_next_turn_adds_nothing():
    reader = begun()
    assert amounts(reader, tokens(total=(1000, 50, 0), last=(1000, 50, 0))) == [Usage(1000, 50)]
    following = reader.following()
    following.turn_id = "turn-2"
    assert amounts(following, tokens(total=(1000, 50, 0), last=(1000, 50, 0), turn="turn-2")) == []


def test_a_resumed_thread_does_not_count_again_what_it_used_before():
    """It repeats its total before the turn, and that may come before or after the answer to our request."""
    played = CodexReader(THREAD)
    assert amounts(played, tokens(total=(2100, 60, 1300), last=(1100, 10, 900), turn="an earlier one")) == []
    played.turn_id = TURN
    assert amounts(played, tokens(total=(3100, 110, 1300), last=(1000, 50, 0))) == [Usage(1000, 50, 0)]


def test_a_resumed_thread_that_does_not_repeat_its_total():
    reader = begun()
    assert amounts(reader, tokens(total=(3100, 110, 1300), last=(1000, 50, 200))) == [Usage(1000, 50, 200)]
    assert amounts(reader, tokens(total=(3100, 110, 1300), last=(1000, 50, 200))) == []
    assert amounts(reader, tokens(total=(1, 1, 1), last=(9, 9, 9))) == []


def test_a_sub_agent_counts_and_does_not_end_the_turn():
    reader = begun()
    assert amounts(reader, tokens(total=(10, 5, 0), last=(10, 5, 0), thread="sub", turn="sub-turn")) == [
        Usage(10, 5)
    ]
    for line in (
        note("turn/started", threadId="sub", turn={"id": "sub-turn"}),
        note("item/completed", threadId="sub", item={"type": "commandExecution", "status": "declined"}),
        note("turn/completed", threadId="sub", turn={"id": "sub-turn", "status": "completed"}),
        note("error", threadId="sub", willRetry=True, error=problem("x", http(401))),
    ):
        reader.read(line)
    assert not reader.decided
    assert Played(reader, [completed()]).outcome == "completed"


def test_the_end_of_another_turn_is_not_the_end_of_this_one():
    reader = begun()
    reader.read(note("turn/completed", threadId=THREAD, turn={"id": "turn-0", "status": "completed"}))
    assert not reader.decided


def test_a_turn_that_nobody_began_is_not_completed():
    assert Played(CodexReader(THREAD), [completed(turn="")]).outcome == AgentError.UNFINISHED


@pytest.mark.parametrize("status", ["inProgress", "", "done", "failed"])
def test_only_the_word_completed_is_a_success(status):
    assert Played(begun(), [completed(status=status)]).outcome == AgentError.TURN_FAILED


def test_a_completed_turn_with_an_error_is_a_failure():
    line = note(
        "turn/completed",
        threadId=THREAD,
        turn={"id": TURN, "status": "completed", "error": problem("Oh.", "other")},
    )
    assert Played(begun(), [line]).outcome == AgentError.TURN_FAILED


def test_the_first_last_word_counts():
    assert Played(begun(), [completed(status="failed"), completed()]).outcome == AgentError.TURN_FAILED
    assert Played(begun(), [completed(), completed(status="failed")]).outcome == "completed"


def test_a_wrong_key_is_not_tried_five_times():
    played = Played(begun(), [note("error", threadId=THREAD, willRetry=True, error=problem("no", http(401)))])
    assert (played.outcome, played.reader.decided) == (AgentError.AUTH, True)


def test_waiting_for_a_limit_begins_with_a_notice_and_ends_with_work():
    reader = begun()
    reader.read(note("error", threadId=THREAD, willRetry=True, error=problem("1/5", http(429))))
    assert reader.limited
    reader.read(note("error", threadId=THREAD, willRetry=True, error=problem("2/5", http(500))))
    assert not reader.limited
    reader.read(note("error", threadId=THREAD, willRetry=True, error=problem("3/5", "rateLimitExceeded")))
    assert reader.limited
    reader.read(note("item/started", threadId=THREAD, item={"type": "reasoning"}))
    assert not reader.limited
    assert not reader.decided


def test_retries_are_told_and_warnings_are_muttered():
    reader = begun()
    retried = problem("Reconnecting... 1/5", http(500), details="high demand")
    assert reader.read(note("error", threadId=THREAD, willRetry=True, error=retried)) == [
        ErrorReported("high demand")
    ]
    assert reader.read(note("warning", message="no metadata")) == [StderrLine("no metadata")]
    assert reader.read(note("configWarning", summary="no bubblewrap", details=None)) == [
        StderrLine("no bubblewrap")
    ]


def test_a_used_up_window_tells_when_it_ends():
    reader = begun()
    windows = {"primary": window(100, 5000), "secondary": window(40, 90000)}
    assert [LimitReported("The usage limit of the account is reached.", 5000.0)] == reader.read(
        note("account/rateLimits/updated", rateLimits=windows)
    )
    failed = note(
        "turn/completed",
        threadId=THREAD,
        turn={"id": TURN, "status": "failed", "error": problem("You have hit your limit.", "usageLimitExceeded")},
    )
    played = Played(reader.following(), [note("turn/started", threadId=THREAD, turn={"id": TURN}), failed])
    assert (played.error.kind, played.error.until) == (AgentError.RATE_LIMITED, 5000.0)


def test_windows_with_room_are_not_worth_a_word():
    reader = begun()
    reader.read(note("account/rateLimits/updated", rateLimits={"primary": window(100, 5000)}))
    assert not [
        event
        for event in reader.read(note("account/rateLimits/updated", rateLimits={"primary": window(99, 5000)}))
        if isinstance(event, LimitReported)
    ]
    assert reader.limit_until is None


def test_the_status_of_a_server_is_kept_for_its_thread():
    reader = CodexReader()
    reader.read(note("mcpServer/startupStatus/updated", threadId="t", name="a", status="ready"))
    told = reader.read(note("mcpServer/startupStatus/updated", threadId="t", name="b", status="failed", error="no"))
    assert reader.servers == {("t", "a"): ("ready", ""), ("t", "b"): ("failed", "no")}
    assert told == [ErrorReported("The MCP server b did not start: no")]


@pytest.mark.parametrize(
    ("item", "detail"),
    [
        ({"type": "commandExecution", "command": "make  test"}, "make test"),
        ({"type": "fileChange", "changes": [{"path": "a.py", "diff": "…"}, {"path": "b.py"}, 7]}, "a.py, b.py"),
        ({"type": "fileChange", "changes": {"a": 1}}, '{"a":1}'),
        ({"type": "webSearch", "query": "how to"}, "how to"),
        ({"type": "mcpToolCall", "server": "s", "tool": "t", "arguments": {"a": 1}}, '{"a":1}'),
        ({"type": "collabAgentToolCall", "tool": "spawnAgent", "prompt": None}, ""),
    ],
)
def test_what_a_tool_was_asked_to_do(item, detail):
    assert begun().read(note("item/started", threadId=THREAD, item=item))[0].detail == detail


@pytest.mark.parametrize(
    ("info", "message", "kind"),
    [
        ("usageLimitExceeded", "You have hit your usage limit.", AgentError.RATE_LIMITED),
        ("rateLimitExceeded", "Slow down.", AgentError.RATE_LIMITED),
        ("serverOverloaded", "Later.", AgentError.PROVIDER),
        ("unauthorized", "No.", AgentError.AUTH),
        ("modelNotFound", "No such model.", AgentError.CONFIG),
        ("sandboxError", "No namespaces.", AgentError.CONFIG),
        ("cyberPolicy", "Not that.", AgentError.REFUSED),
        ("tooManyDenials", "Denied.", AgentError.PERMISSION),
        ("contextWindowExceeded", "Full.", AgentError.SESSION),
        ("other", "The 'x' model is not supported with this account.", AgentError.CONFIG),
        ("something new", "Who knows.", AgentError.TURN_FAILED),
        (None, "", AgentError.TURN_FAILED),
        ({"httpConnectionFailed": {"httpStatusCode": 503}}, "Later.", AgentError.PROVIDER),
        (
            {"httpConnectionFailed": {"httpStatusCode": None}},
            "request timed out",
            AgentError.PROVIDER,
        ),
        ({"httpConnectionFailed": 7}, "Oh.", AgentError.TURN_FAILED),
        (["list"], "Oh.", AgentError.TURN_FAILED),
    ],
)
def test_what_an_error_means(info, message, kind):
    assert classify_codex_error(message, info).kind == kind


def test_the_time_in_words_is_that_of_this_machine():
    now = datetime(2026, 11, 16, 2, 10).timestamp()
    assert reset_time("try again at 3:33 AM.", now) == datetime(2026, 11, 16, 3, 33).timestamp()
    assert reset_time("try again at 12:05 AM.", now) == datetime(2026, 11, 17, 0, 5).timestamp()
    later = reset_time("or try again at Nov 30th, 2026 12:53 AM.", now)
    assert later == datetime(2026, 11, 30, 0, 53).timestamp()
    assert reset_time("try again at 13:33 AM.", now) is None
    assert reset_time("try again at Foo 1st, 2026 1:00 PM.", now) is None
    assert reset_time("try again later", now) is None
    assert classify_codex_error("try again at Nov 30th, 2099 12:53 AM.", "usageLimitExceeded").until is not None


def first_turn(lines):
    reader = CodexReader()
    for number, line in enumerate(lines, 1):
        reader.read(line)
        if reader.finished:
            return lines[:number]
    return lines


def begun():
    reader = CodexReader(THREAD)
    reader.turn_id = TURN
    return reader


def note(method, **params):
    return json.dumps({"method": method, "params": params}).encode()


def completed(turn=TURN, status="completed"):
    return note("turn/completed", threadId=THREAD, turn={"id": turn, "status": status, "error": None})


def problem(message, info, details=None):
    return {"message": message, "codexErrorInfo": info, "additionalDetails": details}


def http(status):
    return {"responseStreamDisconnected": {"httpStatusCode": status}}


def window(percent, resets_at):
    return {"usedPercent": percent, "resetsAt": resets_at, "windowDurationMins": 300}


def tokens(total, last, thread=THREAD, turn=TURN):
    told = {"total": counts(*total), "last": counts(*last), "modelContextWindow": 1}
    return note("thread/tokenUsage/updated", threadId=thread, turnId=turn, tokenUsage=told)


def counts(sent, written, cached):
    return {"inputTokens": sent, "outputTokens": written, "cachedInputTokens": cached, "reasoningOutputTokens": 0}


def amounts(reader, line):
    return [event.usage for event in reader.read(line) if isinstance(event, Used)]
