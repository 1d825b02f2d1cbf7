import os
import signal

import anyio
import pytest

from sortie.agents.agent import AgentSettings
from sortie.agents.command import CommandAgent
from sortie.agents.command_line import locate
from sortie.errors import AgentError
from sortie.process.process_table import look_up
from sortie.testing.fakes import Recorder


@pytest.fixture
async def open_session(tmp_path, make_order, recorder):
    """`await open_session(COMMAND)`; every session is closed after the test."""
    sessions = []

    async def open_session(command, **changes):
        agent = CommandAgent.from_settings(AgentSettings(kind="command", command=command, base=tmp_path))
        session = await agent.open(make_order(**changes), recorder)
        sessions.append(session)
        return session

    yield open_session
    for session in sessions:
        await session.close()


def alive(pid: int) -> bool:
    process = look_up(pid)
    return process is not None and not process.ended


async def test_the_prompt_comes_on_standard_input_and_every_line_is_reported(open_session, recorder):
    """COM-03: a shell script is a full agent. Standard output is what it says, standard error is for the log."""
    session = await open_session("cat; echo done >&2")
    await session.turn("first line\nsecond: ü $HOME `x`\n", 1)
    assert recorder.said == ["first line", "second: ü $HOME `x`"]
    assert recorder.stderr_lines == ["done"]


async def test_each_turn_is_a_process_that_is_on_record(open_session, recorder):
    session = await open_session("echo $$")
    await session.turn("", 1)
    await session.turn("", 2)
    assert [str(identity.pid) for identity in recorder.identities] == recorder.said
    assert len(set(recorder.said)) == 2


async def test_the_process_gets_nothing_before_it_is_on_record(tmp_path, make_order, workspace):
    class Refusing(Recorder):
        async def process_started(self, identity):
            await super().process_started(identity)
            raise OSError("disk full")

    reporter = Refusing()
    agent = CommandAgent("cat > got; exec sleep 600", tmp_path)
    session = await agent.open(make_order(), reporter)
    with pytest.raises(OSError, match="disk full"):
        await session.turn("secret", 1)
    await session.close()
    assert not alive(reporter.identities[0].pid)
    assert not (workspace / "got").exists() or (workspace / "got").read_text() == ""
    assert reporter.said == []


async def test_the_environment_tells_the_agent_where_it_stands(open_session, recorder, tmp_path, workspace):
    session = await open_session("env; pwd", resume="session-0")
    await session.turn("", 3)
    assert {
        "SORTIE_ISSUE_ID=1",
        "SORTIE_ISSUE_IDENTIFIER=DEMO-1",
        f"SORTIE_WORKSPACE={workspace}",
        f"SORTIE_WORKFLOW_DIR={tmp_path}",
        "SORTIE_ATTEMPT=2",
        "SORTIE_TURN=3",
        "SORTIE_SESSION_ID=session-0",
        "SORTIE_RUN_ID=run-1",
        f"PWD={workspace}",
        str(workspace),
    } <= set(recorder.said)
    assert not [line for line in recorder.said if line.startswith("HOME=")]


@pytest.mark.parametrize(("resume", "session_id"), [("", "run-1"), ("session-0", "session-0")])
async def test_the_session_is_named_once(open_session, recorder, resume, session_id):
    session = await open_session("true", resume=resume)
    await session.turn("", 1)
    await session.turn("", 2)
    assert recorder.sessions == [session_id]


async def test_bytes_that_are_no_text_are_replaced_and_text_that_is_no_utf8_is_sent(open_session, recorder):
    session = await open_session(r"cat; printf '\377\n'")
    await session.turn("\ud800\n", 1)
    assert recorder.said == ["?", "\N{REPLACEMENT CHARACTER}"]


async def test_an_agent_that_exits_at_once_completes_though_it_read_no_prompt(open_session):
    session = await open_session("exit 0")
    await session.turn("x" * 1_000_000, 1)


@pytest.mark.parametrize(
    ("command", "kind", "says"),
    [
        ("echo tried; echo gave up; exit 3", AgentError.TURN_FAILED, "exit code 3: tried\ngave up"),
        ("echo tried; echo gave up >&2; exit 3", AgentError.TURN_FAILED, "exit code 3: tried\ngave up"),
        ("sh -c 'kill -KILL $$'; exit $?", AgentError.TURN_FAILED, "SIGKILL"),
        ("exit 1", AgentError.TURN_FAILED, "exit code 1: it printed nothing"),
        ("kill -KILL $$", AgentError.TURN_FAILED, "SIGKILL"),
        ("no-such-program --flag", AgentError.NOT_FOUND, "no-such-program"),
        ("./nothing-here.sh", AgentError.NOT_FOUND, "nothing-here.sh"),
        (". /dev/null; exec /dev/null", AgentError.NOT_EXECUTABLE, "chmod"),
    ],
)
async def test_every_other_exit_fails_the_turn_and_says_why(open_session, command, kind, says):
    session = await open_session(command)
    with pytest.raises(AgentError) as caught:
        await session.turn("", 1)
    assert caught.value.kind == kind
    assert says in str(caught.value)


async def test_the_reason_of_a_failure_is_bounded(open_session):
    session = await open_session("head -c 100000 /dev/zero | tr '\\0' x; exit 1")
    with pytest.raises(AgentError) as caught:
        await session.turn("", 1)
    assert len(str(caught.value)) < 600


async def test_daemons_are_gone_after_the_turn_that_left_them(open_session, recorder):
    session = await open_session("setsid sleep 600 & echo $!")
    with anyio.fail_after(30):
        await session.turn("", 1)
    assert not alive(int(recorder.said[0]))


async def test_close_ends_a_turn_that_was_cancelled(open_session, recorder):
    session = await open_session("trap '' TERM; setsid sleep 600 & echo $!; wait; sleep 600")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.turn, "", 1)
        with anyio.fail_after(30):
            while not recorder.said:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    main = recorder.identities[0].pid
    assert alive(main)
    os.kill(main, signal.SIGKILL)
    await session.close()
    await session.close()
    assert not alive(main)
    assert not alive(int(recorder.said[0]))


async def test_a_script_beside_the_workflow_is_found(open_session, recorder, tmp_path):
    script = tmp_path / "it's mine.sh"
    script.write_text('#!/bin/sh\necho "$1 from $PWD"\n')
    script.chmod(0o755)
    (tmp_path / "agent.sh").symlink_to(script)
    session = await open_session("./agent.sh 'hello there' | cat")
    await session.turn("", 1)
    assert recorder.said == [f"hello there from {tmp_path / 'workspaces' / 'DEMO-1'}"]


def test_a_script_in_the_workspace_comes_first(tmp_path, workspace):
    (tmp_path / "agent.sh").touch()
    assert locate("./agent.sh -x", tmp_path, workspace) == f"{tmp_path}/agent.sh -x"
    assert locate("  ./agent.sh;true", tmp_path, workspace) == f"{tmp_path}/agent.sh;true"
    (workspace / "agent.sh").touch()
    assert locate("./agent.sh -x", tmp_path, workspace) == "./agent.sh -x"


@pytest.mark.parametrize(
    "command", ["agent.sh", "python ./agent.sh", "./agent.sh$X", "./agent.s?", './"agent.sh"', "X=1 ./agent.sh", ""]
)
def test_other_commands_are_left_as_they_are(tmp_path, workspace, command):
    (tmp_path / "agent.sh").touch()
    assert locate(command, tmp_path, workspace) == command


def test_the_path_of_a_found_script_is_quoted(tmp_path):
    base = tmp_path / "a b"
    base.mkdir()
    (base / "agent.sh").touch()
    assert locate("./agent.sh", base, tmp_path) == f"'{base}/agent.sh'"


def test_the_default_command_is_a_script_beside_the_workflow():
    assert CommandAgent.check(AgentSettings(kind="command")) == []


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        (AgentSettings(kind="command", command="   "), "agent.command"),
        (AgentSettings(kind="command", command="a\0b"), "agent.command"),
        (AgentSettings(kind="command", options={"shell": "bash"}), "command.shell"),
    ],
)
def test_wrong_settings_are_named_by_their_key(settings, path):
    assert [key for key, _ in CommandAgent.check(settings)] == [path]
