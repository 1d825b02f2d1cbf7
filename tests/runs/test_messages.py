"""Everything that crosses between engine and run survives the way, whatever texts are in it."""

from __future__ import annotations

import pytest

from sortie.core.conclude import Outcome
from sortie.core.model import Blocker, Comment, Issue, IssueRef, TokenRates, Usage
from sortie.runs import messages as say
from sortie.runs.spec import (
    AgentSpec,
    Conversation,
    HooksSpec,
    KnownWorkspace,
    PromptSpec,
    RunLimits,
    RunSpec,
    ToolsSpec,
    WorkspaceSpec,
    decode_spec,
    encode_spec,
)

ISSUE = Issue(
    id="1",
    identifier="T-1",
    title="Tïtle 🦊",
    state="todo",
    labels=("a", "b"),
    parent=IssueRef("0", "T-0"),
    comments=(Comment("1", "me", "text"),),
    blocked_by=(Blocker("2", "T-2", "done"),),
)

MESSAGES = [
    say.WorkspaceReady(key="T-1", path="/w/T-1", inode=7),
    say.ProcessSpawned(pid=1, start_ticks=2, boot_id="b"),
    say.ConversationNamed(session_id=""),
    say.TurnAsked(turn=1),
    say.Prompted(turn=1, text="do it\n\0"),
    say.TurnCompleted(turn=1, signal="blocked"),
    say.Line(source="agent", text="a\nb\0\x1b"),
    say.Heard(),
    say.AtWork(),
    say.UsageTotal(total=Usage(1, 2, 3, 0.5), model="opus"),
    say.Remark(level="warning", message="m", detail="d"),
    say.ToolUsed(line=b"\xff\x00{}"),
    say.ToolAsked(tool="tracker_api", arguments={"a": [1, None, "x"]}),
    say.Ended(outcome=Outcome(status="failed", turns=2, limited_until=1.5), usage=Usage(1), model="opus"),
]
ANSWERS = [
    say.Recorded(),
    say.Proceed(),
    say.Proceed(issue=ISSUE),
    say.Stop(cause="budget", detail="spent"),
    say.ToolAnswered(answer={"success": True, "data": [1]}),
]


def test_the_list_of_messages_is_complete():
    assert {type(message) for message in MESSAGES} == set(say.AnyMessage.__args__)
    assert {type(answer) for answer in ANSWERS} == set(say.AnyAnswer.__args__)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message):
    numbered = say.Numbered(3, message)
    assert say.decode_message(say.encode_message(numbered)) == numbered


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_an_answer_arrives_as_it_was_sent(answer):
    assert say.decode_answer(say.encode_answer(answer)) == answer


SPEC = RunSpec(
    store_id="s",
    run_id="r",
    attempt=2,
    issue=ISSUE,
    agent=AgentSpec(kind="mock", options={"turns": [{"lines": ["x"]}]}, base="/b"),
    prompt=PromptSpec(text="Do it", line=7),
    workspace=WorkspaceSpec(
        root="/w", key="T-1", known=KnownWorkspace(issue_id="1", path="/w/T-1", inode=7, used=True)
    ),
    limits=RunLimits(max_turns=3),
    hooks=HooksSpec(before_run="true"),
    environment=("A", "B"),
    tools=ToolsSpec(workflow="/WORKFLOW.md", database="/db", environment={"KEY": "secret"}, servers={"x": {}}),
    resume=Conversation(session_id="c", cost_usd=1.5),
    rates=TokenRates(input_per_mtok=1.0),
)


def test_a_specification_arrives_as_it_was_sent():
    assert decode_spec(encode_spec(SPEC)) == SPEC


def test_half_a_character_does_not_stop_anything():
    """Texts of trackers and agents come out of JSON, which can hold what no encoding can."""
    line = say.decode_message(say.encode_message(say.Numbered(1, say.Line(source="agent", text="a\ud800b"))))
    assert line == say.Numbered(1, say.Line(source="agent", text="a?b"))
    called = say.ToolAsked(tool="t", arguments={"\udfff": ["\ud800"], "n": 1})
    assert say.decode_message(say.encode_message(say.Numbered(1, called))).message == say.ToolAsked(
        tool="t", arguments={"?": ["?"], "n": 1}
    )
