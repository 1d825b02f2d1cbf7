"""Settings, permissions, interruptions and failures in a session of the Agent Client Protocol."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from msgspec import Raw

from sortie.agents.acp.acp import AcpAgent
from sortie.agents.acp.acp_agents import KNOWN
from sortie.agents.acp.acp_session import AcpSession
from sortie.agents.agent import AgentSettings, TurnFinished
from sortie.agents.jsonrpc import Message, ResponseError
from sortie.errors import AgentError
from sortie.process.child import start

from .acp_lab import Lab, agent


@pytest.fixture
def lab(tmp_path, make_order, recorder):
    return Lab(tmp_path, make_order, recorder)


@pytest.mark.parametrize(
    ("recording", "options", "method", "params"),
    [
        ("claude-two-prompts", {"mode": "plan"}, "session/set_mode", {"modeId": "plan"}),
        ("codex-two-prompts", {}, "session/set_mode", {"modeId": "agent-full-access"}),
        ("gemini-two-prompts", {}, "session/set_mode", {"modeId": "yolo"}),
        (
            "opencode-two-prompts",
            {"mode": "plan"},
            "session/set_config_option",
            {"configId": "mode", "value": "plan"},
        ),
        (
            "copilot-two-prompts",
            {"mode": "autopilot"},
            "session/set_mode",
            {"modeId": "https://agentclientprotocol.com/protocol/session-modes#autopilot"},
        ),
        (
            "claude-two-prompts",
            {"model": "opus", "mode": "plan"},
            "session/set_config_option",
            {"configId": "model", "value": "opus"},
        ),
        ("gemini-two-prompts", {"model": "gemini-x"}, "session/set_model", {"modelId": "gemini-x"}),
        (
            "claude-two-prompts",
            {"config": {"effort": "high"}},
            "session/set_config_option",
            {"configId": "effort", "value": "high"},
        ),
        (
            "claude-two-prompts",
            {"config": {"fast": True}},
            "session/set_config_option",
            {"configId": "fast", "value": True, "type": "boolean"},
        ),
    ],
)
async def test_each_setting_is_asked_for_in_the_way_that_the_agent_offers(lab, recording, options, method, params):
    session = await lab.open(
        recording, "session/set_mode={}", "session/set_config_option={}", "session/set_model={}", **options
    )
    await session.close()
    sent = [given for name, given in lab.requests if name == method]
    assert {**params, "sessionId": lab.recorder.sessions[0]} in sent


async def test_no_mode_is_chosen_for_an_agent_that_is_to_be_denied(lab):
    session = await lab.open("claude-two-prompts", permissions="deny")
    await session.close()
    assert [method for method, _ in lab.requests] == ["initialize", "session/new"]


@pytest.mark.parametrize(
    ("options", "key", "offer"),
    [
        ({"mode": "yolo"}, "acp.mode", "bypassPermissions"),
        ({"model": "nonsense"}, "acp.model", "opus"),
        ({"config": {"nonsense": "x"}}, "acp.config", "effort"),
    ],
)
async def test_a_setting_that_is_refused_names_what_there_is(lab, options, key, offer):
    deeds = ["session/set_config_option=refuse"] if "mode" not in options else ["session/set_mode=refuse"]
    error = await lab.fail("claude-two-prompts", *deeds, **options)
    assert error.kind == AgentError.CONFIG
    assert key in str(error) and offer in str(error)


async def test_a_login_is_asked_for_only_where_it_is_wanted(lab):
    error = await lab.fail("codex-two-prompts", "authenticate=refuse", auth_method="nonsense")
    assert lab.asked("authenticate") == {"methodId": "nonsense"}
    assert error.kind == AgentError.AUTH
    assert "not I" in str(error) and "It offers api-key, chat-gpt." in str(error)


async def test_what_the_agent_asks_is_allowed_this_once(lab):
    await lab.run("claude-asked", mode="default")
    (given,) = [one["result"] for one in lab.told if "result" in one]
    assert given == {"outcome": {"outcome": "selected", "optionId": "allow-once"}}
    assert lab.events(TurnFinished) == [TurnFinished("completed")]


@pytest.mark.parametrize("name", ["claude", "gemini"])
async def test_what_is_denied_ends_the_turn_as_a_denial(lab, name):
    error = await lab.fail(f"{name}-denied", permissions="deny")
    (given,) = [one["result"]["outcome"] for one in lab.told if "result" in one]
    assert given["optionId"] in ("reject", "cancel")
    assert error.kind == AgentError.PERMISSION
    assert not error.retry


def session(make_order, recorder, **options):
    no_process: Any = None
    return AcpSession(agent("agent", 5.0, **options), make_order(), no_process, recorder.report)


@pytest.mark.parametrize(
    ("permissions", "kinds", "outcome"),
    [
        ("allow", ["allow_always", "allow_once", "reject_once"], {"outcome": "selected", "optionId": "1"}),
        ("allow", ["allow_always"], {"outcome": "cancelled"}),
        ("deny", ["allow_once", "reject_always", "reject_once"], {"outcome": "selected", "optionId": "2"}),
        ("deny", ["allow_once"], {"outcome": "cancelled"}),
        ("allow", [], {"outcome": "cancelled"}),
    ],
)
def test_nothing_is_ever_allowed_for_good(make_order, recorder, permissions, kinds, outcome):
    options = [{"optionId": str(number), "kind": kind, "name": kind} for number, kind in enumerate(kinds)]
    params = json.dumps({"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": options}).encode()
    asked = Message(id=7, method="session/request_permission", params=Raw(params))
    assert session(make_order, recorder, permissions=permissions).on_request(asked) == {"outcome": outcome}


@pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/create", "elicitation/create", "_vendor/x"])
def test_what_we_did_not_offer_is_refused(make_order, recorder, method):
    with pytest.raises(ResponseError) as caught:
        session(make_order, recorder).on_request(Message(id=1, method=method))
    assert caught.value.code == -32601


def test_a_question_that_is_not_understood_is_refused(make_order, recorder):
    with pytest.raises(ResponseError) as caught:
        session(make_order, recorder).on_request(
            Message(id=1, method="session/request_permission", params=Raw(b'{"options":5}'))
        )
    assert caught.value.code == -32602


async def test_an_interrupted_turn_waits_until_the_agent_says_that_it_has_stopped(lab):
    """With all the time in the world: only the agent's word ends the wait."""
    chosen = agent(lab.command("claude-two-prompts", "session/prompt=hold"), read_timeout=3600.0)
    order = lab.make_order()
    child = await start(
        ["sh", "-c", chosen.command],
        cwd_fd=order.workspace_fd,
        env=chosen.environment(order),
        run_id=order.run_id,
        workspace=order.workspace,
        separate_stderr=True,
    )
    session = AcpSession(chosen, order, child, lab.recorder.report)
    try:
        with anyio.fail_after(30):
            await session.introduce()
            await session.start_conversation()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.run_turn, "Go.")
                while not any(method == "session/prompt" for method, _ in lab.requests):
                    await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()
            await session.cancel()
    finally:
        await session.close()
    assert lab.told[-1]["method"] == "session/cancel"


async def test_an_interrupted_session_closes(lab):
    session = await lab.open("claude-two-prompts", "session/prompt=hold")
    with anyio.move_on_after(0.1):
        await session.turn("Go.", 1)
    await session.interrupt()
    await session.interrupt()
    await session.close()
    await session.close()
    assert lab.events(TurnFinished) == []


@pytest.mark.parametrize(
    ("deed", "kind"),
    [
        ("session/prompt=kill", AgentError.UNFINISHED),
        ("session/prompt=exit", AgentError.UNFINISHED),
        ("initialize=kill", AgentError.UNFINISHED),
        ("session/new=refuse", AgentError.TURN_FAILED),
        ("session/new={}", AgentError.TURN_FAILED),
        ('session/new={"sessionId": 5}', AgentError.TURN_FAILED),
        ('initialize={"protocolVersion": 2}', AgentError.CONFIG),
        ('initialize={"protocolVersion": "x"}', AgentError.TURN_FAILED),
        ("session/prompt={}", AgentError.TURN_FAILED),
        ("session/prompt=refuse", AgentError.TURN_FAILED),
    ],
)
async def test_every_way_to_fail_has_a_kind(lab, deed, kind):
    error = await lab.fail("claude-two-prompts", deed)
    assert error.kind == kind
    assert str(error)


async def test_an_agent_that_does_not_answer_is_given_up(lab):
    error = await lab.fail("claude-two-prompts", "initialize=silence", read_timeout=0.5)
    assert error.kind == AgentError.SILENT


async def test_a_program_that_is_missing(make_order, recorder):
    with pytest.raises(AgentError) as caught:
        await agent("no-such-acp-agent").open(make_order(), recorder)
    assert caught.value.kind == AgentError.NOT_FOUND


async def test_the_process_gets_the_settings_of_a_service_and_the_operators_own(lab):
    environment = {**lab.make_order().environment, "CLAUDE_CODE_MAX_RETRIES": "7"}
    await lab.run("claude-two-prompts", order={"environment": environment})
    given = json.loads(lab.log.read_text().splitlines()[0])["environment"]
    assert given["DISABLE_AUTOUPDATER"] == "1"
    assert given["CLAUDE_CODE_MAX_RETRIES"] == "7"


def test_keys_of_all_vendors_are_passed_on():
    wanted = {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"}
    assert wanted <= set(AcpAgent.variables)


def test_the_command_has_a_default():
    assert agent().command == "claude-agent-acp"


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"permissions": "ask"}, "acp.permissions"),
        ({"mode": ""}, "acp.mode"),
        ({"model": 5}, "acp.model"),
        ({"config": {"effort": 3}}, "acp.config"),
        ({"auth_method": ""}, "acp.auth_method"),
        ({"modes": "x"}, "acp.modes"),
    ],
)
def test_a_wrong_option_is_named(options, key):
    settings = AgentSettings(kind="acp", options=options)
    ((path, sentence),) = AcpAgent.check(settings)
    assert path == key
    assert sentence.endswith((".", "?"))


async def test_examining_lets_the_agent_introduce_itself(lab):
    findings = await agent(lab.command("claude-two-prompts"), base=lab.path).examine(lab.make_order().environment)
    assert [(one.verdict, one.name) for one in findings] == [
        ("PASS", "program"),
        ("PASS", "version"),
        ("PASS", "login"),
    ]
    assert "claude-agent-acp 0.99.1" in findings[0].detail


async def test_examining_tells_what_was_not_tested_and_what_is_missing(lab):
    greeting = json.dumps({"protocolVersion": 1, "agentInfo": {"name": "Copilot", "version": "9.9"}})
    findings = await agent(lab.command("claude-401", f"initialize={greeting}"), base=lab.path).examine(
        lab.make_order().environment
    )
    assert [(one.verdict, one.name) for one in findings][1:3] == [("WARN", "version"), ("WARN", "tools")]
    unknown = json.dumps({"protocolVersion": 1})
    findings = await agent(lab.command("claude-401", f"initialize={unknown}"), base=lab.path).examine(
        lab.make_order().environment
    )
    assert ("WARN", "version") in [(one.verdict, one.name) for one in findings]


@pytest.mark.parametrize("deed", ["initialize=exit", "initialize=refuse", "initialize=silence", "no program"])
async def test_examining_finds_what_does_not_run(lab, deed):
    command = "no-such-acp-agent" if deed == "no program" else lab.command("claude-401", deed)
    (finding,) = await agent(command, read_timeout=0.5 if "silence" in deed else 20.0, base=lab.path).examine(
        lab.make_order().environment
    )
    assert finding.verdict == "FAIL"
    assert finding.fix


def test_every_known_agent_was_tested():
    assert all(known.tested for known in KNOWN.values())
