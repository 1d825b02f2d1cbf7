"""What OpenCode's stream and its standard error mean, from real recordings and from forgeries of them."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.agents.agent import ErrorReported, Heartbeat, LimitReported, StderrLine
from sortie.agents.opencode.opencode_stream import OpenCodeReader
from sortie.agents.turn_reader import TurnExit
from sortie.core.model import Usage
from sortie.errors import AgentError

from .playing import WELL, Played, recorded

FAILED = TurnExit(1)
LOG = "timestamp=2026-11-16T02:10:00.000Z level={} run=54671880 "
LOST = LOG.format("WARN") + 'message="server unavailable" key=sortie-tools type=local status=failed'
CLOSED = LOG.format("WARN") + 'message="MCP connection closed" server=sortie-tools'
OTHER_LOST = LOG.format("WARN") + 'message="server unavailable" key=sortie-tools-2 type=local status=failed'
NO_MODEL = (
    LOG.format("ERROR")
    + 'message=failed ref=err_1 error="ProviderModelNotFoundError: Model not found: fake/none." '
    'cause="ProviderModelNotFoundError: Model not found: fake/none.\\n    at <anonymous>"'
)
NO_AGENT = '\x1b[93m\x1b[1m! \x1b[0m agent "nobody" not found. Falling back to default agent'
ATTEMPT = (
    LOG.format("ERROR") + 'message="stream error" providerID=fake modelID=m session.id=ses_1 small={} agent=build '
    'mode=primary error.error="AI_APICallError: {}"'
)


def play(name, ending=WELL):
    return Played(OpenCodeReader(), recorded(f"opencode-{name}"), ending)


def line(type, session="ses_1", **fields):
    return json.dumps({"type": type, "timestamp": 1, "sessionID": session, **fields}).encode()


def step(reason="stop", message="msg_1", **fields):
    return line(
        "step_finish", part={"id": f"prt_{reason}_{message}", "messageID": message, "reason": reason, **fields}
    )


def tool(message="msg_1", **fields):
    return line("tool_use", part={"id": f"tool_{message}", "messageID": message, "tool": "bash", **fields})


def reported(name, **data):
    return line("error", error={"name": name, "data": data})


def verdict(*lines, ending=WELL):
    return Played(OpenCodeReader(), list(lines), ending)


START = line("step_start", part={"id": "prt_0", "messageID": "msg_1"})


def test_a_completed_turn_with_its_tools_tokens_and_session():
    played = play("ok")
    assert played.outcome == "completed"
    assert played.reader.session_id == "ses_e204d5989ffe0tev0BBKbtBVKr"
    assert played.usage == Usage(3300, 150)
    assert played.tools == ["bash", "probe_probe_echo"]
    assert played.said == ["All done."]


def test_a_resumed_turn_counts_its_own_steps_alone():
    played = Played(OpenCodeReader("ses_e204d5989ffe0tev0BBKbtBVKr"), recorded("opencode-resume"))
    assert played.outcome == "completed"
    assert played.usage == Usage(2100, 100)


def test_the_cache_is_part_of_the_input_and_reasoning_of_the_output():
    """Two steps of 1000 and 1100 tokens sent, 400 and 900 of them cached, and 50 answered each."""
    played = play("cached")
    assert (played.usage.input, played.usage.output, played.usage.cache_read) == (2100, 100, 1300)
    assert played.usage.cost_usd == pytest.approx(0.00325)
    assert played.said == ["hmm", "Fine."]


@pytest.mark.parametrize("name", ["dropped", "stop-with-tool", "compacted", "compacted-end"])
def test_what_looks_like_an_end_and_is_none_does_not_end_the_turn(name):
    """A lost stream, a tool called by an answer that says `stop`, a summary of the conversation."""
    lines = recorded(f"opencode-{name}")
    assert Played(OpenCodeReader(), lines).outcome == "completed"
    ends = [number for number, text in enumerate(lines) if b'"step_finish"' in text]
    starts = [number for number, text in enumerate(lines) if b'"step_start"' in text]
    for start in starts[1:]:
        assert Played(OpenCodeReader(), lines[: start + 1]).outcome == AgentError.UNFINISHED
    assert Played(OpenCodeReader(), lines[: ends[-1]]).outcome == AgentError.UNFINISHED


def test_a_summary_is_not_taken_for_the_last_word():
    lines = recorded("opencode-compacted")
    summary = next(number for number, text in enumerate(lines) if b"compaction_continue" in text)
    assert Played(OpenCodeReader(), lines[: summary + 1]).reader.decided is False
    assert not any(text.startswith("Continue if you have") for text in play("compacted").said)


def test_an_overflow_that_it_mends_is_no_failure_whatever_its_exit_code_says():
    played = play("overflow", FAILED)
    assert played.outcome == "completed"
    lines = recorded("opencode-overflow")
    summary = next(number for number, text in enumerate(lines) if b'"step_finish"' in text)
    assert not Played(OpenCodeReader(), lines[: summary + 1]).reader.finished
    assert play("overflow", TurnExit(None, 9)).outcome == AgentError.TURN_FAILED


def test_a_conversation_that_outgrew_the_model_is_begun_anew():
    played = play("outgrown", FAILED)
    assert (played.outcome, played.error.retry) == (AgentError.SESSION, True)
    assert play("outgrown", TurnExit(None, 15)).outcome == AgentError.UNFINISHED
    mended = recorded("opencode-overflow")[:4]
    assert Played(OpenCodeReader(), mended, FAILED).outcome == AgentError.UNFINISHED


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("401", AgentError.AUTH),
        ("404", AgentError.CONFIG),
        ("429", AgentError.RATE_LIMITED),
        ("500", AgentError.PROVIDER),
        ("refused", AgentError.PROVIDER),
        ("filtered", AgentError.REFUSED),
        ("bad-model", AgentError.TURN_FAILED),
    ],
)
def test_what_the_provider_answers_decides_the_kind(name, kind):
    played = play(name, FAILED)
    assert played.outcome == kind
    assert played.reader.decided
    assert play(name).outcome == kind


def test_the_time_of_the_next_try_comes_from_the_providers_answer():
    def until(**headers):
        played = verdict(reported("APIError", message="slow down", statusCode=429, responseHeaders=headers))
        assert [type(event) for event in played.events] == [LimitReported]
        return played.error.until

    assert until(**{"retry-after": "3600"}) == pytest.approx(time.time() + 3600, abs=60)
    assert until(**{"retry-after": "Mon, 16 Nov 2026 02:00:00 GMT"}) == 1794794400
    assert until(**{"retry-after": "soon"}) is None
    assert until(**{"retry-after": "inf"}) is None
    assert until() is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (reported("ProviderAuthError", message="no key"), AgentError.AUTH),
        (reported("MessageAbortedError", message="Aborted"), AgentError.CANCELLED),
        (reported("APIError", message="scripted 403", statusCode=403), AgentError.AUTH),
        (reported("APIError", message="busy", statusCode=529), AgentError.PROVIDER),
        (reported("APIError", message="odd", statusCode=400), AgentError.TURN_FAILED),
        (reported("Odd", message=7), AgentError.TURN_FAILED),
        (line("error", error="plain"), AgentError.TURN_FAILED),
        (line("error", error=None), AgentError.TURN_FAILED),
    ],
)
def test_an_error_is_a_failure_although_the_process_ends_well(error, kind):
    assert verdict(START, step(), error).outcome == kind
    assert verdict(error, START, step()).outcome == kind


def test_an_answer_cut_off_is_no_success():
    played = play("length")
    assert played.outcome == AgentError.TURN_FAILED
    assert "cut off" in str(played.error)


@pytest.mark.parametrize("reason", ["other", "error", "length", "unknown", "tool-calls", "content-filter", ""])
def test_only_the_reason_stop_completes_a_turn(reason):
    assert verdict(START, step(reason)).error is not None


def test_a_provider_that_never_says_why_it_stopped_is_not_asked_for_ever():
    steps = [step("unknown", f"msg_{number}") for number in range(5)]
    assert verdict(*steps[:4], step()).outcome == "completed"
    assert verdict(*steps, step()).outcome == AgentError.PROVIDER
    assert verdict(*steps).reader.decided
    acting = [text for number in range(9) for text in (tool(f"msg_{number}"), step("unknown", f"msg_{number}"))]
    assert verdict(*acting, step(message="msg_9")).outcome == "completed"


@pytest.mark.parametrize(("name", "ending"), [("rejected", WELL), ("denied", WELL)])
def test_a_tool_that_it_was_not_allowed_to_use_fails_the_turn(name, ending):
    played = play(name, ending)
    assert (played.outcome, played.error.retry) == (AgentError.PERMISSION, False)
    assert "bash" in str(played.error)
    assert played.failed_tools == ["bash"]


def test_a_tool_that_the_provider_runs_does_not_keep_the_turn_going():
    assert verdict(tool(metadata={"providerExecuted": True}), step()).outcome == "completed"
    assert verdict(tool(), step()).outcome == AgentError.UNFINISHED


def test_a_tool_that_is_not_there_is_a_failed_tool():
    part = {"tool": "invalid", "state": {"status": "completed", "output": "no such tool"}}
    assert verdict(line("tool_use", part=part)).failed_tools == ["invalid"]


def test_a_part_told_twice_counts_once():
    counted = step(tokens={"input": 10, "output": 1})
    assert verdict(START, counted, counted).usage == Usage(10, 1)
    assert verdict(START, tool(), step(message="msg_2"), tool()).outcome == "completed"


def test_a_change_of_conversation_is_an_error():
    assert verdict(START, line("step_finish", "ses_2", part={"reason": "stop"})).outcome == AgentError.SESSION
    resumed = Played(OpenCodeReader("ses_0"), [START, step()])
    assert (resumed.outcome, resumed.reader.session_id) == (AgentError.SESSION, "ses_0")


@pytest.mark.parametrize(
    "ending", [TurnExit(1), TurnExit(None, 15), TurnExit(130)], ids=["failed", "terminated", "interrupted"]
)
def test_a_success_needs_both_the_last_word_and_a_good_exit(ending):
    assert play("ok", ending).outcome == AgentError.TURN_FAILED
    assert verdict(START, ending=ending).outcome == AgentError.UNFINISHED


def test_one_that_lingers_after_its_last_word_has_completed():
    assert play("ok", TurnExit(None, 15, by_us=True)).outcome == "completed"


# -- standard error --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [LOST, CLOSED])
def test_our_server_that_does_not_run_fails_the_turn_at_once(said):
    reader = OpenCodeReader()
    assert [type(event) for event in reader.read_stderr(said)] == [ErrorReported]
    assert reader.decided
    assert play("ok", TurnExit(stderr=f"noise\n{said}")).outcome == AgentError.TOOLS


def test_other_servers_are_the_users_own_business():
    assert play("ok", TurnExit(stderr=OTHER_LOST)).outcome == "completed"


def test_what_a_provider_says_cannot_pretend_to_be_a_lost_server():
    forged = ATTEMPT.format("false", 'message=\\"server unavailable\\" key=sortie-tools')
    assert play("ok", TurnExit(stderr=forged)).outcome == "completed"


def test_an_agent_that_does_not_exist_is_not_replaced_silently():
    played = play("ok", TurnExit(stderr=NO_AGENT))
    assert (played.outcome, played.error.retry) == (AgentError.CONFIG, False)
    assert 'agent "nobody" not found' in str(played.error)


def test_an_unknown_model_is_told_by_name_although_the_stream_calls_it_unexpected():
    played = play("bad-model", TurnExit(1, stderr=NO_MODEL))
    assert (played.outcome, played.error.message) == (AgentError.CONFIG, "Model not found: fake/none.")
    reader = OpenCodeReader()
    reader.read_stderr(NO_MODEL)
    assert Played(reader, recorded("opencode-bad-model"), FAILED).outcome == AgentError.CONFIG


@pytest.mark.parametrize(
    ("said", "event"),
    [
        ("scripted 500", ErrorReported("scripted 500")),
        ("Rate limit reached", LimitReported("Rate limit reached")),
        ("x" * 3000, ErrorReported("x" * 600)),
    ],
)
def test_attempts_that_are_made_again_are_told_and_decide_nothing(said, event):
    reader = OpenCodeReader()
    assert reader.read_stderr(ATTEMPT.format("false", said)) == [event]
    assert reader.read_stderr(ATTEMPT.format("false", said)[:-1]) == [event]
    assert reader.read_stderr(ATTEMPT.format("true", said)) == []
    assert not reader.decided


def test_a_limit_that_lasts_is_not_waited_out_in_silence():
    reader = OpenCodeReader()
    reader.read_stderr(ATTEMPT.format("false", "Rate limit reached, try again in 20s"))
    assert not reader.decided
    (event,) = reader.read_stderr(ATTEMPT.format("false", "Rate limit reached, try again in 20m"))
    assert isinstance(event, LimitReported) and reader.failure
    assert event.until == pytest.approx(time.time() + 1200, abs=60)
    assert (reader.failure.kind, reader.failure.until) == (AgentError.RATE_LIMITED, event.until)
    mended = play("ok", TurnExit(stderr=ATTEMPT.format("false", "Rate limit reached, try again in 20m")))
    assert mended.outcome == "completed"


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("\x1b[91m\x1b[1mError: \x1b[0mSession not found", AgentError.SESSION),
        ("Error: Configuration is invalid at /ws/opencode.json\n↳ Missing key", AgentError.CONFIG),
        ("      --thinking     show thinking blocks     [boolean]", AgentError.CONFIG),
        ("Error: Unauthorized", AgentError.AUTH),
        ("\x1b[91mSomething\x1b[0m else", AgentError.UNFINISHED),
        ("", AgentError.UNFINISHED),
    ],
)
def test_an_exit_without_a_last_word_is_explained_by_standard_error(stderr, kind):
    played = verdict(ending=TurnExit(1, stderr=stderr))
    assert played.outcome == kind
    assert "\x1b" not in str(played.error)


# -- lines in any state of health ------------------------------------------------------------------------------


def test_every_cut_of_a_recording_is_unfinished_until_the_last_word():
    lines = recorded("opencode-ok")
    for count in range(len(lines)):
        assert Played(OpenCodeReader(), lines[:count]).outcome == AgentError.UNFINISHED
    for end in range(len(lines[-1])):
        assert Played(OpenCodeReader(), [*lines[:-1], lines[-1][:end]]).outcome == AgentError.UNFINISHED


@pytest.mark.parametrize(
    "broken",
    [
        step(tokens="many"),
        step(reason=7),
        line("step_finish"),
        line("step_finish", part=None),
        line("step_finish", part=[]),
        line("step_finish", session=7, part={"reason": "stop"}),
        b'["step_finish"]',
        b"[" * 100_000,
        b"\xff\xfe",
        b"",
    ],
)
def test_a_last_word_with_wrong_types_is_none(broken):
    assert verdict(START, broken).outcome == AgentError.UNFINISHED


def test_unknown_events_are_signs_of_life_and_noise_is_for_the_log():
    reader = OpenCodeReader()
    assert reader.read(line("session.idle", extra={"a": 1})) == [Heartbeat()]
    assert reader.read(b"Performing one time database migration...") == [
        StderrLine("Performing one time database migration...")
    ]
    assert verdict(START, step(), line("later")).outcome == "completed"


def test_counts_are_never_negative():
    odd = step(tokens={"input": -5, "output": -1, "cache": {"read": -3}}, cost=-1.0)
    assert verdict(odd).usage == Usage()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PARTS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("id", "messageID", "text", "tokens", "cost", "tool", "state", "metadata"), JSON),
)
KINDS = st.sampled_from(["step_start", "step_finish", "text", "reasoning", "tool_use", "error", "odd"])


@given(st.lists(st.tuples(KINDS, PARTS | JSON, JSON), max_size=6), st.text(max_size=40))
def test_nothing_raises_and_nothing_but_a_stop_makes_a_success(events, stderr):
    lines = [line(type, part=part, error=error) for type, part, error in events]
    assert verdict(*lines, ending=TurnExit(stderr=stderr)).error is not None
