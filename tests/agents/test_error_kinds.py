"""What an error means: the kind that says whether to try again, and the time at which a limit ends."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.agents.error_kinds import classify_error, classify_exit
from sortie.agents.reset_times import reset_time
from sortie.errors import AgentError

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("message", "status", "kind"),
    [
        ("Invalid API key", 401, AgentError.AUTH),
        ("no access to this model", 403, AgentError.AUTH),
        ("out of credit", 402, AgentError.AUTH),
        ("unexpected status 401 Unauthorized: bad key, url: http://127.0.0.1:8787/v1", None, AgentError.AUTH),
        ("Please run /login", None, AgentError.AUTH),
        ("Incorrect API key provided: sk-x", None, AgentError.AUTH),
        ("slow down", 429, AgentError.RATE_LIMITED),
        ("exceeded retry limit, last status: 429 Too Many Requests", None, AgentError.RATE_LIMITED),
        ("You've hit your usage limit. Try again in 5 days", None, AgentError.RATE_LIMITED),
        ("RESOURCE_EXHAUSTED", None, AgentError.RATE_LIMITED),
        ("boom", 500, AgentError.PROVIDER),
        ("Overloaded", 529, AgentError.PROVIDER),
        ("stream disconnected before completion", None, AgentError.PROVIDER),
        ("Request timed out", None, AgentError.PROVIDER),
        ("prompt is too long", 400, AgentError.TURN_FAILED),
        ("something else", None, AgentError.TURN_FAILED),
        ("You've hit your session limit · resets 3pm (America/Bogota)", None, AgentError.RATE_LIMITED),
        ("You've hit your weekly limit · resets Sep 15 at 7pm", None, AgentError.RATE_LIMITED),
        ("API Error: Request rejected (429) · slow down", None, AgentError.RATE_LIMITED),
        ("Request failed with status code 403", None, AgentError.AUTH),
        ("I fixed_environment 404 tests and 403 files, and left 429 lines alone", None, AgentError.TURN_FAILED),
        ("Error: 403 files could not be indexed", None, AgentError.TURN_FAILED),
        ("500 lines were too many", None, AgentError.TURN_FAILED),
        ("The rate limiter of the service is tested now", None, AgentError.TURN_FAILED),
        ("", None, AgentError.TURN_FAILED),
        ("model: no-such-model", 404, AgentError.CONFIG),
        ("The model `gpt-x` does not exist or you do not have access to it.", None, AgentError.CONFIG),
        ("The 'gpt-x' model is not supported when using Codex with a ChatGPT account.", 400, AgentError.CONFIG),
        ("models/x is not found for API version v1beta", None, AgentError.CONFIG),
        ("Model not found: fake/x", None, AgentError.CONFIG),
        ("The model x does not exist", 500, AgentError.CONFIG),
        ("API Error: 404 Not Found", None, AgentError.CONFIG),
        ("The Model Context Protocol server was not found", None, AgentError.TURN_FAILED),
        ("The model was told that the file does not exist", None, AgentError.TURN_FAILED),
        ("Your credit balance is too low to access the API.", 400, AgentError.AUTH),
        ("Credit balance is too low", None, AgentError.AUTH),
        ("You exceeded your current quota (insufficient_quota)", 429, AgentError.AUTH),
        ("This organization has been disabled.", 400, AgentError.AUTH),
        ("This organization has been disabled", None, AgentError.AUTH),
        ("Your account is on hold and can't use Claude Code.", None, AgentError.AUTH),
        ("You're out of extra usage · resets 3pm (UTC)", None, AgentError.RATE_LIMITED),
        ("You've reached your weekly limit", None, AgentError.RATE_LIMITED),
    ],
)
def test_the_kind_of_an_error(message, status, kind):
    error = classify_error(message, status=status)
    assert error.kind == kind
    assert error.message


def test_only_what_a_second_try_cannot_mend_is_never_tried_again():
    kinds = {value for name, value in vars(AgentError).items() if name.isupper() and isinstance(value, str)}
    assert {kind for kind in kinds if not AgentError(kind, "x").retry} == {
        "agent_not_found",
        "agent_not_executable",
        "agent_auth",
        "agent_config",
        "permission_denied",
        "model_refused",
    }


def test_every_kind_is_in_the_documented_table():
    from sortie.agents import error_kinds as faults

    kinds = {value for name, value in vars(AgentError).items() if name.isupper() and isinstance(value, str)}
    table = {line.split("|")[1].strip() for line in faults.__doc__.splitlines() if line.startswith("| ")}
    assert table - {"kind"} == kinds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Claude AI usage limit reached|1800000600", 600),
        ("usage limit reached|1800000600000", 600),
        ("Please try again in 20s.", 20),
        ("Please try again in 6m0s.", 360),
        ("try again in 1h 2m 3s", 3723),
        ("retry after 2 hours", 7200),
        ("Retry-After: 7", 7),
        ("try again in 250ms", 0.25),
        ("resets in 3 days and 4 hours", 3 * 86400 + 4 * 3600),
        ("reset after 13h19m32s", 47972),
        ("try again in 20 seconds. There are 3 others.", 20),
        ("Your limit resets at 2027-01-15T08:10:00Z.", 600),
        ("resets at 2027-01-15 08:10", 600),
    ],
)
def test_the_reset_of_a_limit(text, seconds):
    assert reset_time(text, NOW) == pytest.approx(NOW + seconds)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("resets 3:33am (UTC)", "2026-11-16T03:33:00+00:00"),
        ("resets 1am (UTC)", "2026-11-17T01:00:00+00:00"),
        ("resets 12pm (UTC)", "2026-11-16T12:00:00+00:00"),
        ("resets 5:30pm (America/New_York)", "2026-11-16T22:30:00+00:00"),
        ("resets 9:01pm (America/Bogota)", "2026-11-16T02:01:00+00:00"),
        ("resets 7:59pm (America/Bogota)", "2026-11-17T00:59:00+00:00"),
        ("resets 15:00 (UTC)", "2026-11-16T15:00:00+00:00"),
        ("resets Nov 20 at 15:30 (UTC)", "2026-11-20T15:30:00+00:00"),
        ("try again at Nov 30th, 2026 12:53 AM (UTC)", "2026-11-30T00:53:00+00:00"),
        ("resets 99pm (UTC)", None),
        ("resets 13am (UTC)", None),
        ("resets 25:00 (UTC)", None),
        ("resets 15 (UTC)", None),
        ("resets Nov 20 at 7pm (America/Bogota)", "2026-11-21T00:00:00+00:00"),
        ("resets Nov 20, 7:30pm (UTC)", "2026-11-20T19:30:00+00:00"),
        ("resets Jan 2 at 7am (UTC)", "2027-01-02T07:00:00+00:00"),
        ("resets Jan 2, 2028 at 7am (GMT)", "2028-01-02T07:00:00+00:00"),
        ("resets Feb 30 at 7am (UTC)", None),
        ("resets 3am (Nowhere/AtAll)", None),
        ("resets 3am (../../etc/passwd)", None),
        ("resets 13:99am (UTC)", None),
        ("try again in 60s", "2026-11-16T02:01:00+00:00"),
        ("no word of it", None),
    ],
)
def test_a_time_of_day_is_the_next_one(words, expected):
    now = datetime(2026, 11, 16, 2, 0, tzinfo=UTC)
    end = reset_time(words, now.timestamp())
    assert (datetime.fromtimestamp(end, UTC).isoformat() if end else None) == expected


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (datetime(2026, 11, 16, 17, 0, 30, tzinfo=UTC), "resets 5pm (UTC)"),
        (datetime(2026, 11, 16, 17, 59, 59, tzinfo=UTC), "resets 17:00 (UTC)"),
        (datetime(2026, 11, 16, 0, 10, 0, tzinfo=UTC), "resets 11:50pm (UTC)"),
        (datetime(2026, 11, 16, 17, 0, 30, tzinfo=UTC), "resets Nov 16 at 5pm (UTC)"),
        (datetime(2027, 1, 1, 0, 10, 0, tzinfo=UTC), "resets Dec 31 at 11:50pm (UTC)"),
        (datetime(2026, 11, 16, 17, 0, 30, tzinfo=UTC), "try again at Nov 16th, 2026 5:00 PM (UTC)"),
    ],
)
def test_a_reset_that_has_just_passed_is_now_and_not_a_day_or_a_year_away(now, words):
    assert reset_time(words, now.timestamp()) == now.timestamp()


def test_without_a_zone_it_is_the_time_of_this_machine():
    now = datetime(2026, 9, 14, 12, 0).astimezone()
    for words, expected in (
        ("resets Sep 15 at 7pm", (15, 19)),
        ("resets 11am", (15, 11)),
        ("resets 3pm", (14, 15)),
    ):
        end = reset_time(f"You've hit your limit · {words}", now.timestamp())
        assert end
        moment = datetime.fromtimestamp(end)
        assert (moment.month, moment.day, moment.hour, moment.minute) == (9, *expected, 0)


def test_a_machine_without_a_list_of_time_zones_knows_utc_and_no_other():
    """The limit stands, only its end is not known."""
    program = (
        "from sortie.agents.reset_times import reset_time\n"
        "print(reset_time('resets 3pm (America/Bogota)', 0.0), reset_time('resets 3pm (UTC)', 0.0))"
    )
    nothing = {**os.environ, "PYTHONTZPATH": ""}
    hidden = f"import sys; sys.modules['tzdata'] = None\n{program}"
    done = subprocess.run([sys.executable, "-c", hidden], env=nothing, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "54000.0"]


@pytest.mark.parametrize("text", ["", "rate limited", "resets at 2027-99-99T99:99:99Z", "wait a while"])
def test_no_reset_where_none_is_told(text):
    assert reset_time(text, NOW) is None


@pytest.mark.parametrize(
    ("code", "signal", "stderr", "kind"),
    [
        (127, None, "sh: claude: not found", AgentError.NOT_FOUND),
        (126, None, "sh: ./x: Permission denied", AgentError.NOT_EXECUTABLE),
        (0, None, "", AgentError.UNFINISHED),
        (1, None, "Error: not logged in", AgentError.AUTH),
        (1, None, "HTTP 429 too many requests", AgentError.RATE_LIMITED),
        (1, None, "boom", AgentError.UNFINISHED),
        (None, 9, "", AgentError.UNFINISHED),
        (1, None, "Error: 401 unauthorized", AgentError.AUTH),
        (1, None, "2026-11-16T02:00:00Z ERROR api: 429 Too Many Requests", AgentError.RATE_LIMITED),
        (1, None, "Error: the request failed\n    cause: invalid api key\nbye", AgentError.AUTH),
        (1, None, "Rate limiter initialised\nindexed 403 files", AgentError.UNFINISHED),
        (1, None, "Rate limiter initialised\nError: no such file", AgentError.UNFINISHED),
        (1, None, "rate limit: 60 requests a minute\nError: no such file", AgentError.UNFINISHED),
        (1, None, "[INFO] no error so far, rate limit not reached\nboom", AgentError.UNFINISHED),
        (1, None, "WARN 429 Too Many Requests, trying again\nboom", AgentError.UNFINISHED),
        (1, None, "Error: The model `x` does not exist", AgentError.CONFIG),
        (1, None, "Error: 404 Not Found", AgentError.UNFINISHED),
        (1, None, "Error: Missing optional dependency @openai/codex-linux-x64.", AgentError.NOT_FOUND),
        (1, None, "Error: opencode-ai's postinstall script was not run.", AgentError.NOT_FOUND),
        (1, None, "GitHub Copilot CLI: no platform package found.", AgentError.NOT_FOUND),
        (137, None, "Error: Missing optional dependency @openai/codex-linux-x64.", AgentError.UNFINISHED),
    ],
)
def test_an_exit_without_a_last_word(code, signal, stderr, kind):
    assert classify_exit(code, signal, stderr).kind == kind


@pytest.mark.parametrize(
    "stderr",
    ["Rate limiter initialised", "indexed 403 files", "Error: 401 Unauthorized", "HTTP 429 too many requests"],
)
@pytest.mark.parametrize(
    ("code", "signal", "by_us"),
    [
        (137, None, False),
        (143, None, False),
        (129, None, False),
        (152, None, False),
        (None, 9, False),
        (1, None, True),
    ],
)
def test_a_killed_agent_is_judged_by_the_signal_and_never_by_its_words(code, signal, by_us, stderr):
    """The shell around it tells a signal as 128 and its number."""
    error = classify_exit(code, signal, stderr, by_us=by_us)
    assert (error.kind, error.retry) == (AgentError.UNFINISHED, True)


ENDING_NOBODY = (16, 17, 18, 19, 20, 21, 22, 23, 28)


@pytest.mark.parametrize("number", [number for number in range(1, 32) if number not in ENDING_NOBODY])
def test_a_shell_tells_every_signal_that_ends_a_program_as_128_and_its_number(number):
    error = classify_exit(128 + number, None, "Error: 401 Unauthorized")
    assert (error.kind, "was ended by " in error.message) == (AgentError.UNFINISHED, True)


@pytest.mark.parametrize("number", ENDING_NOBODY)
def test_a_code_that_only_a_harmless_signal_would_give_is_an_exit_code(number):
    """Gemini CLI ends with 145 for HTTP 401, which is 128 and the number of SIGCHLD."""
    assert classify_exit(128 + number, None, "Error: 401 Unauthorized").kind == AgentError.AUTH


def test_a_signal_is_named_whether_the_shell_or_the_kernel_tells_it():
    assert "SIGKILL" in str(classify_exit(137, None, "Killed"))
    assert "SIGTERM" in str(classify_exit(None, 15, ""))


@given(st.text(max_size=2000), st.none() | st.integers(0, 999), st.integers(-1, 300) | st.none(), st.text())
def test_any_message_has_a_kind(message, status, code, stderr):
    assert classify_error(message, status=status).kind
    assert classify_exit(code, None, stderr).kind
