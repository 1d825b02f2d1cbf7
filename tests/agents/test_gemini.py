"""How Gemini CLI is called: options, session, environment; and how its process is taken care of."""

from __future__ import annotations

import os

import pytest

from sortie.agents.agent import AgentSettings, ErrorReported, TurnFinished
from sortie.agents.gemini.gemini import Gemini
from sortie.agents.per_turn import Turn
from sortie.errors import AgentError


def agent(base, command="", kind=Gemini, **options):
    return kind.from_settings(AgentSettings(kind="gemini", command=command, options=options, base=base))


@pytest.fixture
def invocation(make_order, tmp_path):
    def invocation(session_id="", prompt="Go.", **options):
        turn = Turn(order=make_order(), prompt=prompt, session_id=session_id)
        return agent(tmp_path, **options).invocation(turn)

    return invocation


def test_a_session_is_resumed_by_its_name(invocation):
    assert "--resume" not in invocation().arguments
    assert "--resume abc" in " ".join(invocation("abc").arguments)


def test_the_prompt_goes_by_standard_input(invocation):
    called = invocation(prompt="Secret ünïcode")
    assert called.stdin == "Secret ünïcode"
    assert "Secret" not in " ".join(called.arguments)


def test_a_prompt_is_not_taken_for_a_command_of_gemini(invocation):
    assert invocation(prompt="/init is broken").stdin == " /init is broken"


def test_its_home_is_in_the_workspace(invocation, workspace):
    assert invocation().environment == {"GEMINI_CLI_HOME": str(workspace / ".sortie" / "gemini")}


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, "--approval-mode yolo"),
        ({"approval_mode": "auto_edit"}, "--approval-mode auto_edit"),
        ({"model": "gemini-2.5-pro"}, "--model gemini-2.5-pro"),
        (
            {"allowed_tools": ["run_shell_command(git)", "x"]},
            "--allowed-tools=run_shell_command(git) --allowed-tools=x",
        ),
        ({"extensions": ["none"]}, "--extensions=none"),
        ({"policies": ["/etc/p.toml"]}, "--policy=/etc/p.toml"),
        ({"include_directories": ["/srv/shared"]}, "--include-directories=/srv/shared"),
    ],
)
def test_each_option_on_the_command_line(invocation, options, flags):
    assert flags in " ".join(invocation(**options).arguments)


def test_paths_start_at_the_workflow_file(invocation, tmp_path):
    arguments = invocation(policies=["p.toml"], include_directories=["../shared"]).arguments
    assert f"--policy={tmp_path}/p.toml" in arguments
    assert f"--include-directories={tmp_path}/../shared" in arguments


@pytest.mark.parametrize(
    ("options", "key", "sentence"),
    [
        ({"approval_mode": "bogus"}, "approval_mode", "Invalid enum value 'bogus'."),
        ({"model": ""}, "model", "Expected `str` of length >= 1."),
        ({"max_turns": 0}, "max_turns", "Expected `int` >= 1."),
        ({"max_turns": "3"}, "max_turns", "Expected `int | null`, got `str`."),
        ({"allowed_tools": "x"}, "allowed_tools", "Expected `array`, got `str`."),
        ({"policies": [1]}, "policies", "Expected `str`, got `int` - at `$[0]`."),
        ({"allowed_mcp_server_names": {}}, "allowed_mcp_server_names", "Expected `array`, got `object`."),
        ({"extensions": [""]}, "extensions", "Expected `str` of length >= 1 - at `$[0]`."),
        ({"include_directories": None}, "include_directories", "Expected `array`, got `null`."),
        (
            {"aproval_mode": "yolo"},
            "aproval_mode",
            'The gemini agent has no such option; did you mean "approval_mode"?',
        ),
    ],
)
def test_wrong_options_are_named(options, key, sentence):
    assert Gemini.check(AgentSettings(kind="gemini", options=options)) == [(f"gemini.{key}", sentence)]


def test_keys_are_passed_on_and_the_rest_of_the_environment_is_not(make_order, tmp_path):
    assert {"GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GIT_AUTHOR_NAME"} <= set(Gemini.variables)
    environment = agent(tmp_path).environment(make_order())
    assert environment["GEMINI_CLI_NO_RELAUNCH"] == "true"
    assert set(environment) == {*make_order().environment, *Gemini.fixed_environment}


def test_a_key_or_a_login_is_looked_for_where_gemini_looks(tmp_path):
    gemini = agent(tmp_path)
    assert gemini.login({"GEMINI_API_KEY": "k"}).verdict == "PASS"
    missing = gemini.login({"HOME": str(tmp_path)})
    assert (missing.verdict, missing.fix) == ("FAIL", "Set GEMINI_API_KEY, or run `gemini` once and log in.")
    (tmp_path / "elsewhere" / ".gemini").mkdir(parents=True)
    (tmp_path / "elsewhere" / ".gemini" / "oauth_creds.json").write_text("{}")
    elsewhere = {"HOME": str(tmp_path), "GEMINI_CLI_HOME": str(tmp_path / "elsewhere")}
    assert gemini.login(elsewhere).verdict == "PASS"


@pytest.mark.parametrize("option", ["policies", "include_directories"])
async def test_a_path_that_is_not_there_is_named_before_anything_runs(make_order, recorder, tmp_path, option):
    """Gemini itself would go on without the policy."""
    with pytest.raises(AgentError, match=f"gemini.{option} names nowhere, which is not there") as caught:
        await agent(tmp_path, **{option: ["nowhere"]}).open(make_order(), recorder)
    assert caught.value.kind == AgentError.CONFIG


# -- its process, with stand-ins that print recordings --------------------------------------------------------


class Impatient(Gemini):
    exit_grace = 0.2
    exit_grace_after_failure = 0.2


async def run(command, order, recorder, base, prompt="Go.", number=1, kind=Gemini):
    session = await agent(base, command, kind).open(order, recorder)
    try:
        await session.turn(prompt, number)
    finally:
        await session.close()


async def test_a_turn_from_process_to_events(stand_in, make_order, recorder, tmp_path):
    command = stand_in(
        "assert sys.stdin.read() == 'Go.'\n"
        "assert os.path.exists(os.environ['GEMINI_CLI_HOME'] + '/.gemini/settings.json')\n"
        "print(open(T + '/gemini-ok.jsonl').read())"
    )
    await run(command, make_order(), recorder, tmp_path)
    assert recorder.sessions == ["84232b46-52ee-45bc-85ca-7e957473d931"]
    assert recorder.events[-1] == TurnFinished("completed")
    assert len(recorder.identities) == 1


async def test_a_refused_resume_begins_a_fresh_conversation(stand_in, make_order, recorder, tmp_path):
    command = stand_in(
        "if '--resume' in sys.argv:\n"
        "    sys.stderr.write('Error resuming session: Invalid session identifier')\n"
        "    sys.exit(42)\n"
        "print(open(T + '/gemini-ok.jsonl').read())"
    )
    await run(command, make_order(resume="gone"), recorder, tmp_path)
    assert recorder.sessions == ["84232b46-52ee-45bc-85ca-7e957473d931"]
    assert len(recorder.identities) == 2
    assert [event for event in recorder.events if isinstance(event, ErrorReported)]


async def test_a_killed_agent_is_a_failure_that_is_tried_again(stand_in, make_order, recorder, tmp_path):
    command = stand_in("os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(AgentError, match="SIGKILL") as caught:
        await run(command, make_order(), recorder, tmp_path)
    assert (caught.value.kind, caught.value.retry) == (AgentError.UNFINISHED, True)
    assert recorder.events[-1] == TurnFinished(AgentError.UNFINISHED)


async def test_exit_code_zero_after_a_signal_is_no_success(stand_in, make_order, recorder, tmp_path):
    """As Gemini itself does: it leaves in peace, without a result."""
    command = stand_in(
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "print(''.join(open(T + '/gemini-ok.jsonl').readlines()[:-1]), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(600)"
    )
    with pytest.raises(AgentError) as caught:
        await run(command, make_order(), recorder, tmp_path)
    assert caught.value.kind == AgentError.UNFINISHED


async def test_the_last_word_stands_although_the_process_stays(stand_in, make_order, recorder, tmp_path):
    command = stand_in("print(open(T + '/gemini-ok.jsonl').read(), flush=True)\ntime.sleep(600)")
    await run(command, make_order(), recorder, tmp_path, kind=Impatient)
    assert recorder.events[-1] == TurnFinished("completed")
    assert not os.path.exists(f"/proc/{recorder.identities[0].pid}")


async def test_the_exit_code_tells_what_the_result_leaves_out(stand_in, make_order, recorder, tmp_path):
    command = stand_in("print(open(T + '/gemini-503.jsonl').read(), flush=True)\nsys.exit(503 % 256)")
    with pytest.raises(AgentError, match="overloaded") as caught:
        await run(command, make_order(), recorder, tmp_path)
    assert caught.value.kind == AgentError.PROVIDER


async def test_a_missing_tool_server_is_heard_on_standard_error(stand_in, make_order, recorder, tmp_path):
    command = stand_in(
        "sys.stderr.write('MCP issues detected. Run /mcp list for status.\\n')\n"
        "print(open(T + '/gemini-ok.jsonl').read())"
    )
    with pytest.raises(AgentError) as caught:
        await run(command, make_order(), recorder, tmp_path)
    assert caught.value.kind == AgentError.TOOLS


async def test_an_agent_that_would_wait_for_hours_is_ended(stand_in, make_order, recorder, tmp_path):
    command = stand_in(
        "print(open(T + '/gemini-ok.jsonl').readline(), flush=True)\n"
        "sys.stderr.write('Attempt 1 failed: Quota. Retrying after 52349851ms...\\n')\n"
        "sys.stderr.flush()\ntime.sleep(600)"
    )
    with pytest.raises(AgentError) as caught:
        await run(command, make_order(), recorder, tmp_path, kind=Impatient)
    assert caught.value.kind == AgentError.RATE_LIMITED
    assert not os.path.exists(f"/proc/{recorder.identities[0].pid}")
