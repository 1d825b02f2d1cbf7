"""How Claude Code is called: options, session, tools, environment; and how its process is taken care of."""

from __future__ import annotations

import os

import anyio
import pytest

from sortie.agents.agent import AgentSettings, TurnFinished
from sortie.agents.claude.claude_code import ClaudeCode
from sortie.agents.per_turn import Turn
from sortie.errors import AgentError


def agent(command="", base=None, **options):
    return ClaudeCode.from_settings(AgentSettings(kind="claude-code", command=command, options=options))


def arguments(make_order, session_id="", mcp_config=None, **options):
    turn = Turn(order=make_order(mcp_config=mcp_config), prompt="Go.", session_id=session_id)
    return agent(**options).invocation(turn).arguments


def test_a_fresh_session_gets_a_name_and_a_known_one_is_resumed(make_order):
    turn = Turn(order=make_order(), prompt="Go.")
    fresh = agent().invocation(turn)
    assert ["--session-id", fresh.session_id] == fresh.arguments[4:6]
    assert "--resume abc" in " ".join(arguments(make_order, session_id="abc"))


def test_the_prompt_goes_by_standard_input(make_order):
    invocation = agent().invocation(Turn(order=make_order(), prompt="Secret ünïcode"))
    assert invocation.stdin == "Secret ünïcode"
    assert "Secret" not in " ".join(invocation.arguments)


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, "--dangerously-skip-permissions"),
        ({"permission_mode": "acceptEdits"}, "--permission-mode acceptEdits"),
        ({"model": "opus"}, "--model opus"),
        ({"fallback_model": "haiku"}, "--fallback-model haiku"),
        ({"max_turns": 3}, "--max-turns 3"),
        ({"max_budget_usd": 1.5}, "--max-budget-usd 1.5"),
        ({"effort": "high"}, "--effort high"),
        ({"allowed_tools": ["Bash(git *)", "Edit"]}, "--allowedTools Bash(git *),Edit"),
        ({"disallowed_tools": ["WebFetch"]}, "--disallowedTools WebFetch"),
        ({"system_prompt": "Be brief."}, "--append-system-prompt Be brief."),
        ({"session_persistence": False}, "--no-session-persistence"),
    ],
)
def test_each_option_on_the_command_line(make_order, options, flags):
    assert flags in " ".join(arguments(make_order, **options))


def test_our_tools_and_no_others_unless_asked_for(make_order, tmp_path):
    config = tmp_path / "mcp.json"
    strict = arguments(make_order, mcp_config=config)
    assert ["--mcp-config", str(config)] == strict[strict.index("--mcp-config") :][:2]
    assert "--strict-mcp-config" in strict
    assert "--strict-mcp-config" not in arguments(make_order, mcp_config=config, other_mcp_servers=True)
    assert "--mcp-config" not in arguments(make_order)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"permission_mode": "yolo"}, "claude-code.permission_mode"),
        ({"max_turns": 0}, "claude-code.max_turns"),
        ({"max_turns": "3"}, "claude-code.max_turns"),
        ({"max_budget_usd": -1}, "claude-code.max_budget_usd"),
        ({"model": ""}, "claude-code.model"),
        ({"allowed_tools": "Bash"}, "claude-code.allowed_tools"),
        ({"modell": "opus"}, "claude-code.modell"),
    ],
)
def test_wrong_options_are_named(options, key):
    ((found, sentence),) = ClaudeCode.check(AgentSettings(kind="claude-code", options=options))
    assert found == key
    assert sentence.endswith((".", "?"))


def test_keys_are_passed_on_and_the_rest_of_the_environment_is_not(make_order):
    assert "ANTHROPIC_API_KEY" in ClaudeCode.variables
    environment = agent().environment(make_order())
    assert environment["ENABLE_TOOL_SEARCH"] == "false"
    assert set(environment) == {*make_order().environment, *ClaudeCode.fixed_environment}


def test_a_key_or_a_login_is_looked_for(tmp_path):
    assert agent().login({"ANTHROPIC_API_KEY": "k"}).verdict == "PASS"
    missing = agent().login({"HOME": str(tmp_path)})
    assert (missing.verdict, missing.fix) == ("FAIL", "Set ANTHROPIC_API_KEY, or run `claude` once and log in.")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    assert agent().login({"HOME": str(tmp_path)}).verdict == "PASS"


# -- the engine for processes that live for a turn, with stand-ins that print recordings ----------------------


async def run(command, order, recorder, prompt="Go.", number=1, kind=ClaudeCode):
    agent = kind.from_settings(AgentSettings(kind="claude-code", command=command))
    session = await agent.open(order, recorder)
    try:
        await session.turn(prompt, number)
    finally:
        await session.close()


async def test_a_turn_from_process_to_events(stand_in, make_order, recorder):
    command = stand_in("assert sys.stdin.read() == 'Go.'\nprint(open(T + '/claude-ok.jsonl').read())")
    await run(command, make_order(), recorder)
    assert recorder.sessions == ["9c41a22b-4cf2-488a-86fb-cb76b9572e54"]
    assert recorder.events[-1] == TurnFinished("completed")
    assert len(recorder.identities) == 1


async def test_a_refused_resume_begins_a_fresh_conversation(stand_in, make_order, recorder):
    command = stand_in(
        "lines = open(T + '/claude-bad-resume.jsonl').read().splitlines()\n"
        "if '--resume' in sys.argv: print(lines[0]); sys.exit(1)\n"
        "print('\\n'.join(lines[1:]))"
    )
    await run(command, make_order(resume="gone"), recorder)
    assert recorder.sessions[-1] == "d64bebe1-6027-431c-9f94-74a1ea8ad0fd"
    assert len(recorder.identities) == 2


async def test_a_session_lost_between_turns_is_no_reason_to_forget_the_task(stand_in, make_order, recorder):
    """A later prompt says too little for a fresh conversation: the run is tried again from its first prompt."""
    command = stand_in("print(open(T + '/claude-bad-resume.jsonl').read().splitlines()[0]); sys.exit(1)")
    with pytest.raises(AgentError) as caught:
        await run(command, make_order(resume="gone"), recorder, number=2)
    assert (caught.value.kind, caught.value.retry) == (AgentError.SESSION, True)
    assert len(recorder.identities) == 1


async def test_a_killed_agent_is_a_failure_that_is_tried_again(stand_in, make_order, recorder):
    command = stand_in("os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(AgentError, match="SIGKILL") as caught:
        await run(command, make_order(), recorder)
    assert (caught.value.kind, caught.value.retry) == (AgentError.UNFINISHED, True)
    assert recorder.events[-1] == TurnFinished(AgentError.UNFINISHED)


class Impatient(ClaudeCode):
    exit_grace = 0.2


async def test_the_last_word_stands_although_the_process_stays(stand_in, make_order, recorder):
    command = stand_in("print(open(T + '/claude-ok.jsonl').read(), flush=True)\ntime.sleep(600)")
    await run(command, make_order(), recorder, kind=Impatient)
    assert recorder.events[-1] == TurnFinished("completed")
    assert not os.path.exists(f"/proc/{recorder.identities[0].pid}")


async def test_a_flood_on_standard_error_does_not_stop_the_turn(stand_in, make_order, recorder):
    command = stand_in(
        "sys.stderr.write('x' * 300 + '\\n')\nfor _ in range(5000): sys.stderr.write('y' * 99 + '\\n')\n"
        "print(open(T + '/claude-ok.jsonl').read())"
    )
    await run(command, make_order(), recorder)
    assert recorder.events[-1] == TurnFinished("completed")


async def test_an_unread_prompt_of_megabytes_does_not_stop_the_turn(stand_in, make_order, recorder):
    command = stand_in("print(open(T + '/claude-ok.jsonl').read())")
    await run(command, make_order(), recorder, prompt="x" * 4_000_000)
    assert recorder.events[-1] == TurnFinished("completed")


async def test_an_interrupted_turn_gets_the_chance_to_put_its_conversation_away(stand_in, make_order, recorder):
    """The signal reaches the agent although a shell stands between it and us."""
    command = stand_in(
        "def away(*_): print(open(T + '/claude-401.jsonl').read()); sys.exit(1)\n"
        "signal.signal(signal.SIGINT, away)\n"
        "print('ready', flush=True)\ntime.sleep(600)"
    )
    session = await agent(command).open(make_order(), recorder)
    with pytest.raises(ExceptionGroup) as caught:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.turn, "Go.", 1)
            with anyio.fail_after(30):
                while recorder.stderr_lines != ["ready"]:
                    await anyio.sleep(0.01)
            await session.interrupt()
    await session.close()
    assert caught.group_contains(AgentError, match="401")
    assert recorder.sessions[-1] == "9c1d4951-62ac-469e-8f97-f80be177b2f1"


@pytest.mark.parametrize("words", ["Rate limiter initialised", "indexed 403 files", "No conversation found"])
async def test_a_killed_program_behind_a_shell_is_judged_by_the_signal(make_order, recorder, words):
    """The shell ends by itself, with 128 and the number of the signal."""
    command = f"sh -c 'echo {words} >&2; kill -KILL $$'; exit $?; :"
    with pytest.raises(AgentError, match="SIGKILL") as caught:
        await run(command, make_order(), recorder)
    assert (caught.value.kind, caught.value.retry) == (AgentError.UNFINISHED, True)
    assert recorder.stderr_lines[0] == words


async def test_an_agent_that_ignores_the_interrupt_is_ended(stand_in, make_order, recorder):
    command = stand_in("signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(600)")
    session = await agent(command).open(make_order(), recorder)
    with anyio.move_on_after(1):
        await session.turn("Go.", 1)
    await session.interrupt()
    await session.close()
    assert not os.path.exists(f"/proc/{recorder.identities[0].pid}")
