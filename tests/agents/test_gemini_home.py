"""The home that Gemini CLI gets: the user's settings and our tools; no link is followed, nothing theirs changed."""

from __future__ import annotations

import json
import os
import stat

import pytest

from sortie.agents.gemini import gemini_home
from sortie.errors import AgentError

OURS = {"type": "stdio", "command": "/usr/bin/sortie", "args": ["mcp-server"], "env": {"SORTIE_RUN_ID": "r"}}


@pytest.fixture
def home(tmp_path):
    (tmp_path / "user" / ".gemini").mkdir(parents=True)
    return tmp_path / "user"


@pytest.fixture
def settle(make_order, home, workspace, tmp_path):
    """Lay out the home, and what its settings then say."""

    def settle(forced=None, servers=(), offered=None, environment=None):
        config = None
        if offered is not None:
            config = tmp_path / "mcp.json"
            config.write_text(json.dumps({"mcpServers": offered}))
        order = make_order(mcp_config=config)
        whole = {
            **order.environment,
            "HOME": str(home),
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(tmp_path / "system"),
        }
        order = make_order(mcp_config=config, environment={**whole, **(environment or {})})
        gemini_home.write_home(order, forced or {}, servers)
        return json.loads((gemini_home.path_of(order) / ".gemini" / "settings.json").read_text())

    return settle


def write(home, text):
    (home / ".gemini" / "settings.json").write_text(text)


def test_our_server_is_trusted_and_the_only_one_beside_those_of_the_workflow(settle, home):
    write(
        home, '{"mcpServers": {"theirs": {"command": "x"}}, "mcp": {"allowed": ["theirs"], "serverCommand": "y"}}'
    )
    settings = settle(offered={"sortie-tools": OURS, "workflows": {"command": "z"}})
    assert settings["mcpServers"] == {
        "theirs": {"command": "x"},
        "workflows": {"command": "z"},
        "sortie-tools": {**OURS, "trust": True},
    }
    assert settings["mcp"] == {"allowed": ["sortie-tools", "workflows"], "serverCommand": "y"}


def test_other_servers_by_name_and_none_without_one(settle):
    assert settle()["mcp"]["allowed"] == ["sortie-tools"]
    assert settle(servers=("theirs",))["mcp"]["allowed"] == ["sortie-tools", "theirs"]


def test_the_users_settings_come_before_our_defaults_and_the_forced_ones_before_them(settle, home):
    write(home, '{"general": {"maxAttempts": 7, "vimMode": true}, "model": {"name": "m", "maxSessionTurns": 1}}')
    settings = settle(forced={"model": {"maxSessionTurns": 9}})
    assert settings["general"] == {"maxAttempts": 7, "vimMode": True}
    assert settings["model"] == {"name": "m", "maxSessionTurns": 9}
    assert settings["privacy"] == {"usageStatisticsEnabled": False}


def test_retries_are_bounded_where_the_user_has_no_bound(settle):
    assert settle()["general"] == {"maxAttempts": 3}


@pytest.mark.parametrize(
    ("environment", "theirs", "selected"),
    [
        ({"GEMINI_API_KEY": "k"}, None, "gemini-api-key"),
        ({"GEMINI_API_KEY": "k"}, "oauth-personal", "oauth-personal"),
        ({"GEMINI_API_KEY": "k", "GOOGLE_GENAI_USE_VERTEXAI": "true"}, None, None),
        ({"GEMINI_API_KEY": "k", "GOOGLE_GENAI_USE_GCA": "true"}, None, None),
        ({}, "oauth-personal", "oauth-personal"),
        ({}, None, None),
    ],
)
def test_a_key_is_used_where_nothing_else_was_chosen(settle, home, environment, theirs, selected):
    if theirs:
        write(home, json.dumps({"security": {"auth": {"selectedType": theirs}}}))
    settings = settle(environment=environment)
    assert settings.get("security", {}).get("auth", {}).get("selectedType") == selected


def test_settings_may_hold_comments(settle, home):
    write(home, '{ // one "quoted"\n "a": "http://x/*no*/", /* two\n lines */ "b": "\\"//"}')
    settings = settle()
    assert (settings["a"], settings["b"]) == ("http://x/*no*/", '"//')


@pytest.mark.parametrize("text", ["{bad", "[]", '"text"', "\xff"])
def test_settings_that_are_none_are_an_error_with_their_place(settle, home, text):
    (home / ".gemini" / "settings.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(AgentError, match=r"user/\.gemini/settings\.json cannot be used") as caught:
        settle()
    assert caught.value.kind == AgentError.CONFIG


def test_dollars_of_our_server_survive_the_expansion(settle):
    server = {**OURS, "args": ["--workflow", "/a/$HOME/w"], "env": {"TOKEN": "a$b${C}"}}
    ours = settle(offered={"sortie-tools": server})["mcpServers"]["sortie-tools"]
    dollar = "${SORTIE_NO_SUCH_VARIABLE:-$}"
    assert ours["args"] == ["--workflow", f"/a/{dollar}HOME/w"]
    assert ours["env"] == {"TOKEN": f"a\\{dollar}b\\{dollar}{{C}}"}


def test_login_and_memory_are_linked_and_conversations_are_not(settle, home, workspace):
    for name in ("oauth_creds.json", "GEMINI.md", "projects.json", "projects.json.1.tmp"):
        (home / ".gemini" / name).write_text("theirs")
    (home / ".gemini" / "tmp").mkdir()
    (home / ".agents").mkdir()
    before = sorted(path.name for path in (home / ".gemini").iterdir())
    settle()
    settle()
    ours = workspace / ".sortie" / "gemini"
    assert sorted(path.name for path in (ours / ".gemini").iterdir()) == [
        "GEMINI.md",
        "oauth_creds.json",
        "settings.json",
    ]
    assert (ours / ".gemini" / "GEMINI.md").readlink() == home / ".gemini" / "GEMINI.md"
    assert (ours / ".agents").readlink() == home / ".agents"
    assert sorted(path.name for path in (home / ".gemini").iterdir()) == before


def test_a_home_that_the_operator_chose_is_the_users(settle, home, tmp_path):
    (tmp_path / "chosen" / ".gemini").mkdir(parents=True)
    (tmp_path / "chosen" / ".gemini" / "settings.json").write_text('{"ui": {"theme": "x"}}')
    assert settle(environment={"GEMINI_CLI_HOME": str(tmp_path / "chosen")})["ui"] == {"theme": "x"}


def test_everything_is_for_the_owner_alone_and_never_committed(settle, workspace):
    settle(offered={"sortie-tools": OURS})
    ours = workspace / ".sortie" / "gemini"
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (ours, ours / ".gemini")}
    assert modes == {0o700}
    assert stat.S_IMODE((ours / ".gemini" / "settings.json").stat().st_mode) == 0o600
    assert (workspace / ".sortie" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("place", [".sortie", ".sortie/gemini", ".sortie/gemini/.gemini"])
def test_a_link_in_the_way_is_not_followed(settle, workspace, tmp_path, place):
    target = tmp_path / "target"
    target.mkdir()
    (workspace / place).parent.mkdir(parents=True, exist_ok=True)
    (workspace / place).symlink_to(target)
    with pytest.raises(AgentError, match="cannot be written") as caught:
        settle(offered={"sortie-tools": OURS})
    assert caught.value.kind == AgentError.TOOLS
    assert list(target.iterdir()) == []


def test_a_link_instead_of_the_settings_is_replaced(settle, workspace, tmp_path):
    (workspace / ".sortie" / "gemini" / ".gemini").mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (workspace / ".sortie" / "gemini" / ".gemini" / "settings.json").symlink_to(victim)
    settle()
    assert victim.read_text() == "untouched"


@pytest.mark.parametrize("place", ["system", "workspaces/DEMO-1/.gemini/settings.json"])
def test_a_list_of_allowed_servers_without_ours_is_told_as_gemini_would_not(settle, tmp_path, place):
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text('{"mcp": {"allowed": ["sortie-tools"]}}')
    settle(offered={"sortie-tools": OURS})
    (tmp_path / place).write_text('{"mcp": {"allowed": ["github"]}}')
    with pytest.raises(AgentError, match="does not allow the MCP server sortie-tools") as caught:
        settle(offered={"sortie-tools": OURS})
    assert caught.value.kind == AgentError.TOOLS
    settle()


def test_a_pipe_that_an_agent_left_as_the_repositorys_settings_stops_nothing(settle, workspace):
    (workspace / ".gemini").mkdir()
    os.mkfifo(workspace / ".gemini" / "settings.json")
    settle(offered={"sortie-tools": OURS})


@pytest.mark.parametrize("content", ["[" * 200_000, "\x00\xff", '{"mcp": []}', ""])
def test_whatever_the_repositorys_settings_hold_stops_nothing(settle, workspace, content):
    (workspace / ".gemini").mkdir()
    (workspace / ".gemini" / "settings.json").write_text(content)
    settle(offered={"sortie-tools": OURS})
