"""How OpenCode is called: options, session, tools, permissions; and how its process is taken care of."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys

import pytest

from sortie.agents.agent import AgentSettings, ErrorReported, TurnFinished
from sortie.agents.opencode.opencode import OpenCode
from sortie.agents.per_turn import Turn
from sortie.errors import AgentError

from .playing import TRANSCRIPTS

RESUMED = "ses_e204d5989ffe0tev0BBKbtBVKr"


def agent(command="", **options):
    return OpenCode.from_settings(AgentSettings(kind="opencode", command=command, options=options))


def invoked(order, session_id="", prompt="Go.", **options):
    return agent(**options).invocation(Turn(order=order, prompt=prompt, session_id=session_id))


def permissions(order, **options):
    return json.loads(invoked(order, **options).environment["OPENCODE_PERMISSION"])


@pytest.fixture
def offered(make_order, workspace):
    """An order with these servers offered."""

    def offered(**servers):
        path = workspace / ".sortie" / "mcp.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"mcpServers": servers}))
        return make_order(mcp_config=path)

    return offered


OURS = {"type": "stdio", "command": "/bin/python", "args": ["-m", "sortie"], "env": {"SORTIE_TOKEN": "t"}}


def test_a_fresh_session_has_the_title_of_its_issue_and_a_known_one_is_resumed(make_order):
    """Without a title OpenCode asks a model for one, and does not tell those tokens."""
    fresh = invoked(make_order()).arguments
    assert fresh[:5] == ["run", "--format=json", "--print-logs", "--log-level=WARN", "--title=DEMO-1"]
    resumed = invoked(make_order(), session_id="ses_1").arguments
    assert "--session=ses_1" in resumed
    assert not any(argument.startswith("--title") for argument in resumed)


def test_the_prompt_goes_by_standard_input(make_order):
    invocation = invoked(make_order(), prompt="Secret ünïcode")
    assert invocation.stdin == "Secret ünïcode"
    assert "Secret" not in " ".join(invocation.arguments)


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, ["--auto"]),
        ({"dangerously_skip_permissions": False}, []),
        ({"model": "anthropic/claude-sonnet-4-5"}, ["--model=anthropic/claude-sonnet-4-5", "--auto"]),
        ({"agent": "plan"}, ["--agent=plan", "--auto"]),
        ({"variant": "high"}, ["--variant=high", "--auto"]),
        ({"thinking": True}, ["--auto", "--thinking"]),
        ({"pure": True}, ["--auto", "--pure"]),
    ],
)
def test_each_option_on_the_command_line(make_order, options, flags):
    assert invoked(make_order(), **options).arguments[5:] == flags


def test_compaction_can_be_turned_off(make_order):
    assert "OPENCODE_DISABLE_AUTOCOMPACT" not in agent().environment(make_order())
    assert agent(disable_autocompact=True).environment(make_order())["OPENCODE_DISABLE_AUTOCOMPACT"] == "1"


def test_without_lists_of_tools_the_permissions_are_the_users_own(make_order):
    assert invoked(make_order()).environment == {}


def test_a_deny_list_denies_and_an_allow_list_denies_the_rest_but_our_tools(make_order):
    assert permissions(make_order(), denied_tools=["webfetch", "jira_*"]) == {"webfetch": "deny", "jira_*": "deny"}
    rules = permissions(make_order(), allowed_tools=["bash", "jira_*"], denied_tools=["jira_delete"])
    assert next(iter(rules)) == "*"
    allowed = {tool for tool, action in rules.items() if action == "allow"}
    assert allowed == {"bash", "jira_*", "sortie-tools_*"}
    assert (rules["*"], rules["edit"], rules["jira_delete"]) == ("deny", "deny", "deny")
    config = json.loads(invoked(make_order(), allowed_tools=["bash"]).environment["OPENCODE_CONFIG_CONTENT"])
    assert config["tools"] == {"*": False}


def test_our_tools_and_the_operators_servers_reach_it_in_its_own_format(offered):
    remote = {"type": "http", "url": "https://example.test/mcp", "headers": {"Authorization": "Bearer x"}}
    order = offered(**{"sortie-tools": OURS, "docs": remote})
    config = json.loads(invoked(order).environment["OPENCODE_CONFIG_CONTENT"])
    assert config["mcp"] == {
        "sortie-tools": {
            "type": "local",
            "command": ["/bin/python", "-m", "sortie"],
            "environment": {"SORTIE_TOKEN": "t"},
            "enabled": True,
        },
        "docs": {
            "type": "remote",
            "url": "https://example.test/mcp",
            "headers": {"Authorization": "Bearer x"},
            "enabled": True,
        },
    }


def test_opencode_puts_nothing_into_values_that_look_like_its_placeholders(offered):
    order = offered(tools={**OURS, "env": {"A": "{env:HOME}", "B": "{file:/etc/passwd}"}})
    content = invoked(order).environment["OPENCODE_CONFIG_CONTENT"]
    assert "{env:" not in content
    assert "{file:" not in content
    assert json.loads(content)["mcp"]["tools"]["environment"] == {"A": "{env:HOME}", "B": "{file:/etc/passwd}"}


def test_what_is_too_long_for_a_variable_goes_by_a_file_of_the_session(offered, workspace):
    order = offered(tools={**OURS, "env": {"LONG": "x" * 200_000}})
    path = workspace / ".sortie" / "opencode.json"
    path.symlink_to(workspace / "outside")
    assert invoked(order).environment == {"OPENCODE_CONFIG": str(path)}
    assert json.loads(path.read_text())["mcp"]["tools"]["environment"] == {"LONG": "x" * 200_000}
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert not (workspace / "outside").exists()
    assert os.listdir(workspace) == [".sortie"]


@pytest.mark.parametrize("damage", ["gone", "fifo", "link", "text"])
def test_a_list_of_servers_that_the_agent_spoiled_is_a_failure_and_no_trap(offered, damage):
    order = offered()
    order.mcp_config.unlink()
    if damage == "fifo":
        os.mkfifo(order.mcp_config)
    elif damage == "link":
        order.mcp_config.symlink_to("/etc/passwd")
    elif damage == "text":
        order.mcp_config.write_text('{"mcpServers": []}')
    with pytest.raises(AgentError) as caught:
        invoked(order)
    assert caught.value.kind == AgentError.TOOLS


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"model": "sonnet"}, "opencode.model"),
        ({"model": "anthropic/"}, "opencode.model"),
        ({"model": ""}, "opencode.model"),
        ({"agent": 3}, "opencode.agent"),
        ({"variant": ""}, "opencode.variant"),
        ({"thinking": "yes"}, "opencode.thinking"),
        ({"pure": 1}, "opencode.pure"),
        ({"disable_autocompact": "no"}, "opencode.disable_autocompact"),
        ({"dangerously_skip_permissions": None}, "opencode.dangerously_skip_permissions"),
        ({"allowed_tools": "bash"}, "opencode.allowed_tools"),
        ({"allowed_tools": ["Bash"]}, "opencode.allowed_tools"),
        ({"denied_tools": ["bsh"]}, "opencode.denied_tools"),
        ({"allowed_tools": ["bash"], "denied_tools": ["bash"]}, "opencode.denied_tools"),
        ({"modell": "a/b"}, "opencode.modell"),
    ],
)
def test_wrong_options_are_named(options, key):
    ((found, sentence),) = OpenCode.check(AgentSettings(kind="opencode", options=options))
    assert found == key
    assert sentence.endswith((".", "?"))


def test_right_options_are_accepted():
    options = {"model": "openrouter/meta/llama", "allowed_tools": ["bash", "jira_*"], "denied_tools": ["jira_drop"]}
    assert OpenCode.check(AgentSettings(kind="opencode", options=options)) == []


def test_keys_are_passed_on_and_the_rest_of_the_environment_is_not(make_order):
    assert "ANTHROPIC_API_KEY" in OpenCode.variables
    assert set(agent().environment(make_order())) == {*make_order().environment, *OpenCode.fixed_environment}


def test_a_key_or_a_login_is_looked_for_and_not_insisted_on(tmp_path):
    assert agent().login({"OPENAI_API_KEY": "k"}).verdict == "PASS"
    missing = agent().login({"HOME": str(tmp_path)})
    assert (missing.verdict, missing.fix) == ("WARN", OpenCode.login_fix)
    login = tmp_path / ".local" / "share" / "opencode" / "auth.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    assert agent().login({"HOME": str(tmp_path)}).verdict == "PASS"


# -- its process, played by stand-ins that print recordings ------------------------------------------------------


@pytest.fixture
def stand_in(tmp_path):
    """A program that answers `session list` with `listed`, and plays its part where it is run."""

    def stand_in(program: str, listed=()) -> str:
        path = tmp_path / "stand_in.py"
        path.write_text(
            f"import os, signal, sys, time\nT = {str(TRANSCRIPTS)!r}\n"
            f"if sys.argv[1] == 'session': print({json.dumps(listed)!r}); sys.exit()\n"
            f"def play(name): print(open(f'{{T}}/opencode-{{name}}.jsonl').read(), flush=True)\n{program}"
        )
        return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"

    return stand_in


async def run(command, order, recorder, number=1, kind=OpenCode):
    session = await kind.from_settings(AgentSettings(kind="opencode", command=command)).open(order, recorder)
    try:
        await session.turn("Go.", number)
    finally:
        await session.close()


async def failure(command, order, recorder, number=1):
    with pytest.raises(AgentError) as caught:
        await run(command, order, recorder, number)
    assert recorder.events[-1] == TurnFinished(caught.value.kind)
    return caught.value


async def test_a_turn_from_process_to_events(stand_in, make_order, recorder):
    await run(stand_in("assert sys.stdin.read() == 'Go.'\nplay('ok')"), make_order(), recorder)
    assert recorder.sessions == [RESUMED]
    assert recorder.events[-1] == TurnFinished("completed")
    assert len(recorder.identities) == 1


RESUMES = "play('resume' if any(word.startswith('--session=') for word in sys.argv) else 'cached')"


async def test_a_conversation_of_this_workspace_is_resumed(stand_in, make_order, workspace, recorder):
    listed = [
        {"id": "ses_other", "directory": "/elsewhere"},
        {"id": RESUMED, "directory": os.path.realpath(workspace)},
    ]
    await run(stand_in(RESUMES, listed), make_order(resume=RESUMED), recorder)
    assert recorder.sessions == [RESUMED]


@pytest.mark.parametrize("listed", [[], [{"id": RESUMED, "directory": "/elsewhere"}], ["odd"], {"id": RESUMED}])
async def test_a_conversation_of_another_place_is_never_spoken_in(stand_in, make_order, recorder, listed):
    """Resumed from here, OpenCode would work in that other place."""
    await run(stand_in(RESUMES, listed), make_order(resume=RESUMED), recorder)
    assert recorder.sessions != [RESUMED]
    assert isinstance(recorder.events[0], ErrorReported)
    assert recorder.events[-1] == TurnFinished("completed")


async def test_a_resume_that_is_refused_begins_a_fresh_conversation(stand_in, make_order, workspace, recorder):
    program = (
        "if '--session=ses_gone' in sys.argv: print('Error: Session not found', file=sys.stderr); sys.exit(1)\n"
        "play('ok')"
    )
    command = stand_in(program, [{"id": "ses_gone", "directory": os.path.realpath(workspace)}])
    await run(command, make_order(resume="ses_gone"), recorder)
    assert recorder.sessions[-1] == RESUMED
    assert len(recorder.identities) == 2


async def test_a_session_lost_between_turns_is_no_reason_to_forget_the_task(
    stand_in, make_order, workspace, recorder
):
    program = "print('Error: Session not found', file=sys.stderr); sys.exit(1)"
    command = stand_in(program, [{"id": "ses_gone", "directory": os.path.realpath(workspace)}])
    error = await failure(command, make_order(resume="ses_gone"), recorder, number=2)
    assert (error.kind, error.retry) == (AgentError.SESSION, True)


async def test_a_killed_agent_is_a_failure_that_is_tried_again(stand_in, make_order, recorder):
    error = await failure(stand_in("os.kill(os.getpid(), signal.SIGKILL)"), make_order(), recorder)
    assert (error.kind, error.retry) == (AgentError.UNFINISHED, True)


async def test_a_server_of_ours_that_did_not_start_fails_the_turn(stand_in, make_order, recorder):
    said = 'level=WARN message="server unavailable" key=sortie-tools type=local status=failed'
    error = await failure(stand_in(f"print({said!r}, file=sys.stderr)\nplay('ok')"), make_order(), recorder)
    assert error.kind == AgentError.TOOLS


class Impatient(OpenCode):
    exit_grace = 0.2
    exit_grace_after_failure = 0.2


async def test_the_last_word_stands_although_the_process_stays(stand_in, make_order, recorder):
    await run(stand_in("play('ok')\ntime.sleep(600)"), make_order(), recorder, kind=Impatient)
    assert recorder.events[-1] == TurnFinished("completed")
    assert not os.path.exists(f"/proc/{recorder.identities[0].pid}")


async def test_a_failure_is_not_waited_out(stand_in, make_order, recorder):
    with pytest.raises(AgentError) as caught:
        await run(stand_in("play('401')\ntime.sleep(600)"), make_order(), recorder, kind=Impatient)
    assert caught.value.kind == AgentError.AUTH


async def test_its_program_is_examined(stand_in, make_order):
    command = stand_in("print('1.18.33')")
    findings = await agent(command).examine({**make_order().environment, "OPENAI_API_KEY": "k"})
    assert [finding.verdict for finding in findings] == ["PASS", "PASS", "PASS"]
