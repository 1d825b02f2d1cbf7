"""One run from its specification to its end, with real processes: the steps in their order, and how it ends."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import anyio
import pytest

from sortie.agents.mock import MockAgent, MockOptions
from sortie.core.model import TokenRates, Usage
from sortie.errors import AgentError
from sortie.hosts.local_host import LocalHost
from sortie.runs import messages as say
from sortie.runs.channel import Channel
from sortie.runs.executor import Executor, RunPaths
from sortie.runs.spec import (
    AgentSpec,
    Conversation,
    HooksSpec,
    KnownWorkspace,
    PromptSpec,
    RunLimits,
    ToolsSpec,
    WorkspaceSpec,
)
from sortie.testing.run_driver import end_of, follow, of_kind, spec_for, until


@pytest.fixture
async def host(tmp_path):
    host = LocalHost(tmp_path / "store.db")
    yield host
    await host.aclose()


async def run(host, spec, answers=None):
    await host.start(spec.run_id, "fence", spec)
    with anyio.fail_after(30):
        return await follow(host, spec.run_id, answers=answers)


def tools_in(directory, **changes):
    return ToolsSpec(workflow=str(directory / "WORKFLOW.md"), database=str(directory / "store.db"), **changes)


def left_by(heard):
    """The workspace of an earlier run, as a store knows it."""
    (place,) = of_kind(heard, say.WorkspaceReady)
    used = bool(of_kind(heard, say.TurnAsked))
    known = KnownWorkspace(issue_id="T-1", path=place.path, inode=place.inode, used=used)
    return WorkspaceSpec(root=str(Path(place.path).parent), key=place.key, known=known)


def mock(*turns):
    return AgentSpec(kind="mock", options={"turns": list(turns)})


async def test_hooks_and_turns_come_in_their_order(host, tmp_path):
    hooks = HooksSpec(
        after_create=f"echo after_create | tee -a {tmp_path}/log",
        before_run=f"echo before_run | tee -a {tmp_path}/log",
        after_run=f"echo after_run | tee -a {tmp_path}/log",
    )
    heard = await run(host, spec_for(tmp_path, f"echo turn | tee -a {tmp_path}/log", hooks=hooks))
    assert (tmp_path / "log").read_text().split() == ["after_create", "before_run", "turn", "after_run"]
    sources = [line.source for line in of_kind(heard, say.Line)]
    assert sources == ["after_create", "before_run", "agent", "turn", "after_run"]


async def test_a_workspace_whose_creation_failed_is_made_anew(host, tmp_path):
    broken = HooksSpec(after_create="touch half; exit 1")
    heard = await run(host, spec_for(tmp_path, "true", hooks=broken))
    outcome = end_of(heard).outcome
    assert (outcome.status, outcome.error_kind, outcome.retryable) == ("failed", "run_failed", True)
    assert of_kind(heard, say.TurnAsked) == []
    again = await run(
        host, spec_for(tmp_path, "ls", workspace=left_by(heard), hooks=HooksSpec(after_create="true"))
    )
    assert end_of(again).outcome.status == "succeeded"
    assert [line.text for line in of_kind(again, say.Line) if line.source == "agent"] == []


async def test_a_failed_after_run_is_a_remark(host, tmp_path):
    heard = await run(host, spec_for(tmp_path, "true", hooks=HooksSpec(after_run="exit 1")))
    assert end_of(heard).outcome.status == "succeeded"
    assert [remark.message for remark in of_kind(heard, say.Remark)] == ["after_run failed"]


@pytest.mark.parametrize("text", ["{{ nothing }}", "{% if %}", "{{ 1 / 0 }}"])
async def test_a_prompt_that_cannot_be_made_is_not_tried_again(host, tmp_path, text):
    prompt = PromptSpec(text=text, file="WORKFLOW.md", line=9)
    heard = await run(host, spec_for(tmp_path, "true", prompt=prompt))
    outcome = end_of(heard).outcome
    assert (outcome.status, outcome.error_kind, outcome.retryable) == ("failed", "prompt_error", False)
    assert outcome.error.startswith("WORKFLOW.md:9: ")
    assert of_kind(heard, say.TurnAsked) == []


async def test_a_prompt_that_is_no_template_is_given_as_it_is(host, tmp_path):
    prompt = PromptSpec(text="{{ this is }} no template", is_template=False)
    await run(host, spec_for(tmp_path, f"cat > {tmp_path}/prompt", prompt=prompt))
    assert (tmp_path / "prompt").read_text().startswith("{{ this is }} no template\n")


async def test_the_first_prompt_tells_of_tools_and_the_status_file_and_no_other_does(host, tmp_path):
    script = f'cat > {tmp_path}/prompt-"$SORTIE_TURN"'
    spec = spec_for(tmp_path, script, tools=tools_in(tmp_path, project="P"), limits=RunLimits(max_turns=2))
    await run(host, spec)
    first, second = ((tmp_path / f"prompt-{turn}").read_text() for turn in (1, 2))
    assert "Tracker project: `P`" in first
    assert ".sortie/status" in first
    assert second == "Work on The title, turn 2"


async def test_usage_is_told_before_anybody_decides_by_it(host, tmp_path):
    agent = mock({"input_tokens": 1_000_000, "output_tokens": 100_000})
    rates = TokenRates(input_per_mtok=1.0, output_per_mtok=10.0)
    heard = await run(host, spec_for(tmp_path, "", agent=agent, rates=rates, limits=RunLimits(max_turns=2)))
    told = [one.message for one in heard if isinstance(one.message, say.UsageTotal | say.TurnCompleted)]
    totals = [message.total if isinstance(message, say.UsageTotal) else message.turn for message in told]
    assert totals == [Usage(1_000_000, 100_000, 0, 2.0), 1, Usage(2_000_000, 200_000, 0, 4.0), 2]
    assert end_of(heard).usage == Usage(2_000_000, 200_000, 0, 4.0)
    assert len(of_kind(heard, say.AtWork)) == 1


async def test_the_state_of_the_session_is_complete_when_it_ends(host, tmp_path):
    agent = mock({"input_tokens": 100, "output_tokens": 50})
    heard = await run(
        host, spec_for(tmp_path, "", agent=agent, tools=tools_in(tmp_path), limits=RunLimits(max_turns=2))
    )
    (place,) = of_kind(heard, say.WorkspaceReady)
    state = json.loads((tmp_path / "workspaces" / place.key / ".sortie" / "state.json").read_bytes())
    assert (state["turn_number"], state["max_turns"], state["total_tokens"]) == (2, 2, 300)


async def test_an_agent_that_signalled_is_believed_though_it_is_stopped_before_it_is_answered(host, tmp_path):
    spec = spec_for(tmp_path, "mkdir -p .sortie; echo blocked > .sortie/status; echo because")
    await host.start(spec.run_id, "fence", spec)
    asked = await until(host, spec.run_id, say.TurnCompleted)
    await host.cancel(spec.run_id)
    outcome = end_of(await follow(host, spec.run_id, after=asked.number)).outcome
    assert (outcome.status, outcome.soft_stop, outcome.reason) == ("succeeded", "blocked", "because")


async def test_a_workspace_taken_from_its_place_has_no_signal(host, tmp_path):
    script = 'mkdir .sortie; echo blocked > .sortie/status; mv "$PWD" "$PWD-moved"'
    heard = await run(host, spec_for(tmp_path, script))
    assert [message.signal for message in of_kind(heard, say.TurnCompleted)] == [""]
    assert any("could not be read" in remark.message for remark in of_kind(heard, say.Remark))


async def test_a_conversation_is_resumed_where_its_files_are(host, tmp_path):
    script = f'echo "$SORTIE_SESSION_ID" >> {tmp_path}/sessions'
    first = spec_for(tmp_path, script, resume=Conversation(session_id="talk"))
    heard = await run(host, first)
    assert end_of(heard).outcome.session_id == first.run_id
    again = spec_for(tmp_path, script, workspace=left_by(heard), resume=Conversation(session_id="talk"))
    assert end_of(await run(host, again)).outcome.session_id == "talk"
    assert (tmp_path / "sessions").read_text().split() == [first.run_id, "talk"]


CALL = """
import json, os, sys
from sortie.tools import broker_client as broker
from sortie.tools.calls import Cancellation
entry = json.load(open(os.environ["SORTIE_MCP_CONFIG"]))["mcpServers"]["sortie-tools"]["env"]
assert "SECRET" not in entry
arguments = {"operation": "search_issues"}
print(broker.call(entry["SORTIE_BROKER"], entry["SORTIE_BROKER_TOKEN"], "tracker_api", arguments, Cancellation()))
"""


async def test_tools_without_credentials_ask_the_engine(host, tmp_path):
    tools = tools_in(tmp_path, credentials="broker", environment={"SECRET": "x"})
    (tmp_path / "call.py").write_text(CALL)
    script = f"PYTHONPATH={':'.join(sys.path)} {sys.executable} {tmp_path}/call.py"
    answered = {say.ToolAsked: lambda _: say.ToolAnswered(answer={"success": True, "data": "from afar"})}
    heard = await run(host, spec_for(tmp_path, script, tools=tools), answered)
    assert of_kind(heard, say.ToolAsked) == [
        say.ToolAsked(tool="tracker_api", arguments={"operation": "search_issues"})
    ]
    assert any("from afar" in line.text for line in of_kind(heard, say.Line))
    assert not (tmp_path / "store.sockets" / heard[0].message.key).exists()


RECORD = """
import json, os
entry = json.load(open(os.environ["SORTIE_MCP_CONFIG"]))["mcpServers"]["sortie-tools"]["env"]
with open(entry["SORTIE_TOOL_LOG"], "a") as log:
    print("no record", file=log)
    print(json.dumps({"tool": "sortie_status", "result": "success", "ms": 1.0}), file=log)
"""


async def test_calls_of_tools_are_told_with_their_turn_and_their_record_goes_with_the_run(host, tmp_path):
    (tmp_path / "record.py").write_text(RECORD)
    spec = spec_for(
        tmp_path,
        f"{sys.executable} {tmp_path}/record.py",
        tools=tools_in(tmp_path),
        limits=RunLimits(max_turns=2),
    )
    heard = await run(host, spec)
    kinds = [type(one.message) for one in heard if isinstance(one.message, say.ToolUsed | say.TurnCompleted)]
    assert kinds == [say.ToolUsed, say.TurnCompleted] * 2
    assert list((tmp_path / "store.logs").iterdir()) == []


class BrokenAgent(MockAgent):
    def __init__(self, error):
        super().__init__(MockOptions())
        self.error = error

    async def open(self, order, reporter):
        raise self.error


@asynccontextmanager
async def busy():
    raise OSError(13, "No way in")
    yield


def executor(directory, channel, error, alone=None):
    paths = RunPaths(directory / "store.db", "r")
    return Executor(
        spec_for(directory, "", resume=Conversation(session_id="talk")),
        BrokenAgent(error),
        channel,
        environ={},
        paths=paths,
        alone=alone or nullcontext(),
    )


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (AgentError(AgentError.AUTH, "no login"), "agent_auth", False),
        (AgentError(AgentError.RATE_LIMITED, "later", until=5.0), "rate_limited", True),
        (OSError(28, "No space left"), "run_failed", True),
        (ZeroDivisionError("a defect"), "internal", True),
    ],
)
async def test_what_becomes_of_an_error(tmp_path, error, kind, retryable):
    channel = Channel()
    await executor(tmp_path, channel, error).execute()
    outcome = end_of([one async for one in channel.messages()]).outcome
    assert (outcome.status, outcome.error_kind, outcome.retryable) == ("failed", kind, retryable)
    assert outcome.limited_until == getattr(error, "until", None)
    assert outcome.session_id == "talk"


async def test_a_conversation_that_the_agent_refuses_is_forgotten(tmp_path):
    channel = Channel()
    await executor(tmp_path, channel, AgentError(AgentError.SESSION, "who?")).execute()
    heard = [one async for one in channel.messages()]
    assert of_kind(heard, say.ConversationNamed) == [say.ConversationNamed(session_id="")]
    assert end_of(heard).outcome.session_id == ""


async def test_a_run_that_finds_no_way_in_fails_like_any_other(tmp_path):
    channel = Channel()
    await executor(tmp_path, channel, RuntimeError(), alone=busy()).execute()
    assert end_of([one async for one in channel.messages()]).outcome.error_kind == "run_failed"


async def test_a_run_that_was_stopped_before_it_began_does_nothing(tmp_path):
    channel = Channel()
    stopped = executor(tmp_path, channel, RuntimeError())
    stopped.stop()
    await stopped.execute()
    heard = [one async for one in channel.messages()]
    assert [type(one.message) for one in heard] == [say.Ended]
    assert end_of(heard).outcome.status == "cancelled"
