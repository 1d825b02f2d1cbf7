"""How the Copilot CLI is called: options, session, tools, login; and its processes with stand-ins."""

from __future__ import annotations

import os

import pytest

from sortie.agents.agent import AgentSettings, ErrorReported, TurnFinished
from sortie.agents.copilot.copilot_cli import CopilotCli
from sortie.agents.per_turn import Turn
from sortie.core.model import Usage
from sortie.errors import AgentError

SESSION = "b123acd4-6b40-482e-a327-62e9a532ce25"


def agent(**options):
    return CopilotCli.from_settings(AgentSettings(kind="copilot-cli", options=options))


def arguments(make_order, session_id="", mcp_config=None, **options):
    turn = Turn(order=make_order(mcp_config=mcp_config), prompt="Go.", session_id=session_id)
    return agent(**options).invocation(turn).arguments


def test_a_fresh_session_gets_a_name_and_a_known_one_is_resumed(make_order):
    fresh = agent().invocation(Turn(order=make_order(), prompt="Go."))
    assert f"--session-id={fresh.session_id}" in fresh.arguments
    resumed = arguments(make_order, session_id=SESSION)
    assert f"--resume={SESSION}" in resumed
    assert not any("--session-id" in argument for argument in resumed)


def test_a_resumed_session_stays_in_the_workspace(make_order):
    """Without `-C` it goes back to the directory that it was begun in."""
    assert arguments(make_order, session_id=SESSION)[:2] == ["-C", "."]


def test_what_could_name_a_session_of_somebody_else_is_refused(make_order):
    for name in ("b123acd", "my feature", "../../x", f"{SESSION}/.."):
        with pytest.raises(AgentError) as caught:
            arguments(make_order, session_id=name)
        assert caught.value.kind == AgentError.SESSION


def test_the_prompt_goes_by_standard_input(make_order):
    prompt = "--help Secret ünïcode" + "x" * 200_000
    invocation = agent().invocation(Turn(order=make_order(), prompt=prompt))
    assert invocation.stdin == prompt
    assert "Secret" not in " ".join(invocation.arguments)


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, "--allow-all"),
        ({"model": "gpt-5.4"}, "--model=gpt-5.4"),
        ({"agent": "reviewer"}, "--agent=reviewer"),
        ({"reasoning_effort": "xhigh"}, "--reasoning-effort=xhigh"),
        ({"max_autopilot_continues": 3}, "--autopilot --max-autopilot-continues=3"),
        ({"allow_tools": ["shell(git:*)", "write"]}, "--allow-tool=shell(git:*) --allow-tool=write"),
        ({"deny_tools": ["shell(git push)"]}, "--allow-all --deny-tool=shell(git push)"),
        ({"available_tools": ["bash", "view"]}, "--allow-all --available-tools=bash --available-tools=view"),
        ({"excluded_tools": ["web_fetch"]}, "--allow-all --excluded-tools=web_fetch"),
        ({"disable_builtin_mcps": True}, "--disable-builtin-mcps"),
        ({"no_custom_instructions": True}, "--no-custom-instructions"),
        ({"experimental": True}, "--experimental"),
    ],
)
def test_each_option_on_the_command_line(make_order, options, flags):
    assert flags in " ".join(arguments(make_order, **options))


def test_options_that_are_not_set_leave_no_trace(make_order):
    set_by_us = {"-C", ".", "--output-format", "json", "--no-ask-user", "--disable-client-telemetry", "--allow-all"}
    assert set(arguments(make_order, session_id=SESSION)) == {*set_by_us, f"--resume={SESSION}"}


def test_a_list_of_allowed_tools_allows_no_others(make_order):
    assert "--allow-all" not in arguments(make_order, allow_tools=["write"])


def test_our_tools_are_offered_allowed_and_visible(make_order, tmp_path):
    config = tmp_path / "mcp.json"
    offered = arguments(make_order, mcp_config=config, allow_tools=["write"], available_tools=["view"])
    assert f"--additional-mcp-config @{config}" in " ".join(offered)
    assert {"--allow-tool=sortie-tools", "--available-tools=sortie-tools"} <= set(offered)
    assert not any("sortie-tools" in argument for argument in arguments(make_order, mcp_config=config))
    without = arguments(make_order, allow_tools=["write"], available_tools=["view"])
    assert not any("sortie-tools" in argument or "mcp" in argument for argument in without)


@pytest.mark.parametrize(
    ("options", "key", "sentence"),
    [
        ({"model": ""}, "model", "Expected `str` of length >= 1."),
        ({"reasoning_effort": "huge"}, "reasoning_effort", "Invalid enum value 'huge'."),
        ({"max_autopilot_continues": 0}, "max_autopilot_continues", "Expected `int` >= 1."),
        ({"allow_tools": "shell"}, "allow_tools", "Expected `array`, got `str`."),
        ({"deny_tools": [1]}, "deny_tools", "Expected `str`, got `int` - at `$[0]`."),
        ({"available_tools": [""]}, "available_tools", "Expected `str` of length >= 1 - at `$[0]`."),
        ({"excluded_tools": {}}, "excluded_tools", "Expected `array`, got `object`."),
        ({"disable_builtin_mcps": "yes"}, "disable_builtin_mcps", "Expected `bool`, got `str`."),
        ({"no_custom_instructions": 1}, "no_custom_instructions", "Expected `bool`, got `int`."),
        ({"experimental": None}, "experimental", "Expected `bool`, got `null`."),
        ({"modell": "x"}, "modell", 'The copilot-cli agent has no such option; did you mean "model"?'),
    ],
)
def test_wrong_options_are_named(options, key, sentence):
    assert CopilotCli.check(AgentSettings(kind="copilot-cli", options=options)) == [
        (f"copilot-cli.{key}", sentence)
    ]


def test_keys_are_passed_on_and_the_rest_of_the_environment_is_not(make_order):
    assert {"COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY", "COPILOT_HOME"} <= set(CopilotCli.variables)
    environment = agent().environment(make_order())
    assert environment["COPILOT_AUTO_UPDATE"] == "false"
    assert set(environment) == {*make_order().environment, *CopilotCli.fixed_environment}


@pytest.mark.parametrize(
    ("environment", "verdict", "detail"),
    [
        ({"COPILOT_GITHUB_TOKEN": "github_pat_x"}, "PASS", "COPILOT_GITHUB_TOKEN is set"),
        ({"GH_TOKEN": "gho_x"}, "PASS", "GH_TOKEN is set"),
        ({"GITHUB_TOKEN": "ghp_x"}, "FAIL", "GITHUB_TOKEN is a classic token, which Copilot does not accept."),
        ({"COPILOT_PROVIDER_API_KEY": "k"}, "FAIL", "there is neither a token nor a login."),
        ({"COPILOT_PROVIDER_BASE_URL": "u", "COPILOT_MODEL": "m"}, "PASS", "COPILOT_PROVIDER_BASE_URL is set"),
        ({"COPILOT_PROVIDER_BASE_URL": "u"}, "FAIL", "COPILOT_PROVIDER_BASE_URL is set without a model."),
        ({}, "FAIL", "there is neither a token nor a login."),
    ],
)
def test_a_login_by_variables(tmp_path, environment, verdict, detail):
    finding = agent().login({"HOME": str(tmp_path), **environment})
    assert (finding.verdict, finding.detail[: len(detail)]) == (verdict, detail)
    assert bool(finding.fix) == (verdict == "FAIL")


def test_the_model_of_an_own_provider_may_be_an_option():
    assert agent(model="m").login({"COPILOT_PROVIDER_BASE_URL": "u"}).verdict == "PASS"


@pytest.mark.parametrize(
    ("file", "content", "verdict"),
    [
        (".copilot/config.json", '// ours\n{"loggedInUsers": [{"host": "x"}]}', "PASS"),
        (".copilot/config.json", '{"copilot_tokens": {"https://github.com:me": "gho_x"}}', "PASS"),
        (".copilot/config.json", '{"firstLaunchAt": "2026-11-16", "loggedInUsers": []}', "FAIL"),
        (".config/gh/hosts.yml", "github.com:\n    oauth_token: gho_x\n", "PASS"),
        (".config/gh/hosts.yml", "github.com:\n    user: me\n", "WARN"),
        (".config/gh/hosts.yml", "{}\n", "FAIL"),
    ],
)
def test_a_login_by_files(tmp_path, file, content, verdict):
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(content)
    assert agent().login({"HOME": str(tmp_path)}).verdict == verdict


# -- processes, with stand-ins that print recordings -----------------------------------------------------------


class Impatient(CopilotCli):
    exit_grace = 0.2


async def run(command, order, recorder, number=1):
    session = await Impatient.from_settings(AgentSettings(kind="copilot-cli", command=command)).open(
        order, recorder
    )
    try:
        await session.turn("Go.", number)
    finally:
        await session.close()


def with_home(order, tmp_path):
    return {**order.environment, "HOME": str(tmp_path)}


JOURNAL = f"""
folder = pathlib.Path(os.environ['HOME'], '.copilot', 'session-state', '{SESSION}')
folder.mkdir(parents=True, exist_ok=True)
recorded = pathlib.Path(T, 'journal-copilot-ok.jsonl').read_bytes()
with (folder / 'events.jsonl').open('ab') as journal: journal.write(recorded)
"""


async def test_a_turn_from_process_to_events_with_tokens_of_its_own(stand_in, make_order, recorder, tmp_path):
    command = stand_in(f"assert sys.stdin.read() == 'Go.'\n{JOURNAL}\nprint(open(T + '/copilot-ok.jsonl').read())")
    order = make_order(resume=SESSION, environment=with_home(make_order(), tmp_path))
    for _ in range(2):
        await run(command, order, recorder)
    assert set(recorder.sessions) == {SESSION}
    assert recorder.used == [Usage(1000, 50, 400), Usage(1100, 50, 400), Usage(1200, 50, 400)] * 2
    assert recorder.events[-1] == TurnFinished("completed")


async def test_a_refused_resume_begins_a_fresh_conversation(stand_in, make_order, recorder):
    command = stand_in(
        "if any('--resume' in a for a in sys.argv): sys.exit(\"Error: No session, task, or name matched 'x'.\")\n"
        "print(open(T + '/copilot-ok.jsonl').read())"
    )
    await run(command, make_order(resume="11111111-2222-3333-4444-555555555555"), recorder)
    assert recorder.sessions[-1] == SESSION
    assert len(recorder.identities) == 2


async def test_an_id_that_is_none_begins_a_fresh_conversation(stand_in, make_order, recorder):
    await run(stand_in("print(open(T + '/copilot-ok.jsonl').read())"), make_order(resume="ses_1"), recorder)
    assert recorder.events[0] == ErrorReported(
        "'ses_1' is not the id of a Copilot session. A fresh conversation begins."
    )
    assert len(recorder.identities) == 1


async def test_a_killed_agent_is_a_failure_that_is_tried_again(stand_in, make_order, recorder):
    program = "print(open(T + '/copilot-ok.jsonl').read()[:3000], flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(AgentError) as caught:
        await run(stand_in(program), make_order(), recorder)
    assert (caught.value.kind, caught.value.retry) == (AgentError.UNFINISHED, True)


async def test_the_last_word_stands_although_the_process_stays(stand_in, make_order, recorder):
    command = stand_in("print(open(T + '/copilot-ok.jsonl').read(), flush=True)\ntime.sleep(600)")
    await run(command, make_order(), recorder)
    assert recorder.events[-1] == TurnFinished("completed")
    assert not os.path.exists(f"/proc/{recorder.identities[0].pid}")


async def test_a_wrapper_that_dies_leaves_nothing_of_the_program_behind_it(
    stand_in, make_order, recorder, tmp_path
):
    """npm's `copilot` starts the program and waits; killed, it leaves the program running without it."""
    program = (
        "if os.fork() == 0:\n"
        f"    pathlib.Path({str(tmp_path)!r}, 'native').write_text(str(os.getpid()))\n"
        "    time.sleep(600)\n"
        f"while not pathlib.Path({str(tmp_path)!r}, 'native').exists(): time.sleep(0.01)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    with pytest.raises(AgentError):
        await run(stand_in(program), make_order(), recorder)
    assert not os.path.exists(f"/proc/{(tmp_path / 'native').read_text()}")
