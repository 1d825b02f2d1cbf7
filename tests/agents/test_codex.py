"""How Codex is called: options, login, and the tools that it is given."""

from __future__ import annotations

import json

import pytest

from sortie.agents.agent import AgentSettings, ErrorReported
from sortie.agents.codex.codex import Codex
from sortie.errors import AgentError

from .codex_lab import THREAD, TOOLS, Lab, agent


@pytest.fixture
def lab(tmp_path, make_order, recorder):
    return Lab(tmp_path, make_order, recorder)


@pytest.fixture
def mcp_config(workspace):
    path = workspace / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"sortie-tools": TOOLS}}))
    return path


# -- options --------------------------------------------------------------------------------------------------


async def test_without_options_everything_is_allowed_and_nothing_is_asked(lab, workspace):
    await lab.run("codex-ok", ["One", "Two"])
    [thread] = lab.asked("thread/start")
    assert thread == {"cwd": str(workspace), "approvalPolicy": "never", "sandbox": "danger-full-access"}
    first, second = lab.asked("turn/start")
    assert first == {"threadId": THREAD, "input": [{"type": "text", "text": "One"}]}
    assert second["input"] == [{"type": "text", "text": "Two"}]
    assert lab.started["arguments"] == ["app-server", "-c", "features.plugins=false"]


async def test_each_option_where_codex_takes_it(lab, workspace):
    await lab.run(
        "codex-ok",
        model="m",
        effort="high",
        approval_policy="on-request",
        thread_sandbox="workspace-write",
        turn_sandbox_policy={"type": "workspaceWrite", "writableRoots": [".git", "/var/x"], "networkAccess": True},
        personality="pragmatic",
    )
    [thread] = lab.asked("thread/start")
    assert thread == {
        "cwd": str(workspace),
        "approvalPolicy": "on-request",
        "sandbox": "workspace-write",
        "model": "m",
        "personality": "pragmatic",
    }
    [turn] = lab.asked("turn/start")
    assert turn["effort"] == "high"
    assert turn["sandboxPolicy"] == {
        "type": "workspaceWrite",
        "writableRoots": [f"{workspace}/.git", "/var/x"],
        "networkAccess": True,
    }


def test_configuration_goes_by_the_command_line_key_by_key(make_order):
    overrides = agent(
        config={
            "openai_base_url": "http://localhost/v1",
            "model_providers": {"mine": {"name": 'a "b" ü', "request_max_retries": 2}},
            "features.plugins": True,
            "tools": {"names": ["a", "b"]},
        }
    ).arguments(make_order())
    assert overrides == [
        "app-server",
        *("-c", "features.plugins=false"),
        *("-c", 'openai_base_url="http://localhost/v1"'),
        *("-c", 'model_providers.mine.name="a \\"b\\" ü"'),
        *("-c", "model_providers.mine.request_max_retries=2"),
        *("-c", "features.plugins=true"),
        *("-c", 'tools.names=["a","b"]'),
    ]


def test_a_command_may_name_the_server_itself(make_order):
    assert agent("codex app-server").arguments(make_order())[0] == "-c"
    assert agent("codex").arguments(make_order())[0] == "app-server"


@pytest.mark.parametrize(
    ("options", "key", "says"),
    [
        ({"model": ""}, "codex.model", "length >= 1"),
        ({"effort": 3}, "codex.effort", "got `int`"),
        ({"approval_policy": "always"}, "codex.approval_policy", "always"),
        ({"thread_sandbox": "none"}, "codex.thread_sandbox", "none"),
        ({"turn_sandbox_policy": "readOnly"}, "codex.turn_sandbox_policy", "got `str`"),
        ({"turn_sandbox_policy": {}}, "codex.turn_sandbox_policy", "missing required field `type`"),
        ({"turn_sandbox_policy": {"type": "x"}}, "codex.turn_sandbox_policy", "Invalid enum value 'x'"),
        (
            {"turn_sandbox_policy": {"type": "readOnly", "writable": 1}},
            "codex.turn_sandbox_policy",
            "unknown field `writable`",
        ),
        ({"personality": "rude"}, "codex.personality", "rude"),
        ({"config": ["a=b"]}, "codex.config", "got `array`"),
        ({"config": {"a": {"b": None}}}, "codex.config.a.b", "must be a text"),
        ({"config": {"a": [{"b": 1}]}}, "codex.config.a", "must be a text"),
        ({"modell": "m"}, "codex.modell", 'did you mean "model"?'),
    ],
)
def test_wrong_options_are_named(options, key, says):
    [(named, sentence)] = Codex.check(AgentSettings(kind="codex", options=options))
    assert named == key
    assert says in sentence


# -- login ----------------------------------------------------------------------------------------------------


async def test_a_key_is_handed_over_and_never_written_down(lab, tmp_path):
    environment = {"HOME": str(tmp_path), "CODEX_API_KEY": "secret"}
    await lab.run("codex-login", environment=environment)
    assert lab.asked("account/login/start") == [{"type": "apiKey", "apiKey": "secret"}]
    arguments = lab.started["arguments"]
    assert 'cli_auth_credentials_store="ephemeral"' in arguments
    assert "secret" not in " ".join(arguments)


async def test_a_login_of_its_own_is_left_alone(lab, tmp_path):
    (tmp_path / "auth.json").write_text("{}")
    await lab.run("codex-ok", environment={"CODEX_HOME": str(tmp_path), "OPENAI_API_KEY": "for others"})
    assert lab.asked("account/login/start") == []
    assert "cli_auth_credentials_store" not in " ".join(lab.started["arguments"])


async def test_without_login_and_key_nothing_begins(lab, tmp_path):
    with pytest.raises(AgentError, match="codex login") as caught:
        await lab.run("codex-login", environment={"HOME": str(tmp_path)})
    assert caught.value.kind == AgentError.AUTH
    assert lab.asked("thread/start") == []


async def test_a_key_that_codex_does_not_take(lab, tmp_path):
    with pytest.raises(AgentError, match="not for me") as caught:
        await lab.run(
            "codex-login",
            twist="account/login/start=refuse",
            environment={"HOME": str(tmp_path), "OPENAI_API_KEY": "k"},
        )
    assert caught.value.kind == AgentError.AUTH


def test_what_counts_as_a_login(tmp_path):
    codex, home = tmp_path / ".codex", {"HOME": str(tmp_path)}
    codex.mkdir()
    assert agent().login(home).verdict == "FAIL"
    assert agent().login({**home, "CODEX_API_KEY": "k"}).detail == "CODEX_API_KEY is set"
    assert agent().login({**home, "OPENAI_API_KEY": "k"}).detail == "OPENAI_API_KEY is set"
    (codex / "auth.json").write_text("{}")
    assert agent().login({**home, "OPENAI_API_KEY": "k"}).detail == f"{codex}/auth.json is there"
    assert agent().login({"CODEX_HOME": str(codex)}).verdict == "PASS"


def test_a_provider_of_ones_own_needs_its_own_key(tmp_path):
    home = {"CODEX_HOME": str(tmp_path)}
    (tmp_path / "config.toml").write_text('model_provider = "mine"\n[model_providers.mine]\nenv_key = "MY_KEY"\n')
    missing = agent().login({**home, "CODEX_API_KEY": "k"})
    assert (missing.verdict, "MY_KEY" in missing.detail, "agent.env" in missing.fix) == ("FAIL", True, True)
    assert agent().login({**home, "MY_KEY": "k"}).verdict == "PASS"
    assert agent(config={"model_provider": "openai"}).login(home).verdict == "FAIL"
    assert agent(config={"model_providers": {"mine": {"requires_openai_auth": True}}}).login(home).verdict == "FAIL"
    (tmp_path / "config.toml").write_text("not toml at all [")
    assert agent().login(home).verdict == "FAIL"


# -- tools ----------------------------------------------------------------------------------------------------


async def test_our_tools_reach_the_thread_and_need_no_approval(lab, mcp_config):
    await lab.run("codex-ok", order={"mcp_config": mcp_config})
    [thread] = lab.asked("thread/start")
    ours = {"command": "/bin/tools", "args": ["mcp-server"], "env": {"A": "1"}}
    common = {"startup_timeout_sec": 20.0, "default_tools_approval_mode": "approve"}
    assert thread["config"] == {"mcp_servers": {"sortie-tools": {**ours, **common}}}


async def test_other_servers_may_be_late_and_ours_may_not(lab, mcp_config):
    """Of two servers the recording knows only ours."""
    other = {"type": "http", "url": "https://mcp.example.com", "headers": {"X-Key": "k"}}
    mcp_config.write_text(json.dumps({"mcpServers": {"sortie-tools": TOOLS, "far.away": other}}))
    await lab.run("codex-ok", order={"mcp_config": mcp_config}, read_timeout=2.0)
    [thread] = lab.asked("thread/start")
    far = thread["config"]["mcp_servers"]["far.away"]
    assert (far["url"], far["http_headers"]) == ("https://mcp.example.com", {"X-Key": "k"})
    assert any(isinstance(event, ErrorReported) and "MCP servers" in event.detail for event in lab.recorder.events)


@pytest.mark.parametrize("resume", ["", "01a1e229-f818-7583-976a-9aed58c2df94"])
async def test_a_server_that_does_not_start_ends_the_run(lab, mcp_config, resume):
    with pytest.raises(AgentError, match="No such file") as caught:
        await lab.run("codex-mcp-broken", order={"mcp_config": mcp_config, "resume": resume})
    assert caught.value.kind == AgentError.TOOLS
    assert lab.asked("turn/start") == []


async def test_a_server_that_never_says_a_word_ends_the_run(lab, mcp_config):
    with pytest.raises(AgentError) as caught:
        await lab.run("codex-ok", order={"mcp_config": mcp_config}, twist="thread/start=mute", read_timeout=2.0)
    assert caught.value.kind == AgentError.TOOLS


@pytest.mark.parametrize("content", ["not json", '{"mcpServers": 5}'])
async def test_a_broken_list_of_tools_ends_the_run(lab, workspace, content):
    (workspace / "mcp.json").write_text(content)
    with pytest.raises(AgentError, match=r"mcp\.json") as caught:
        await lab.run("codex-ok", order={"mcp_config": workspace / "mcp.json"})
    assert caught.value.kind == AgentError.TOOLS
