"""What a run and the engine say to each other: all of it serialisable, because a run may be far away.

A run speaks in messages, which its host numbers from 1 without a gap. The engine answers those that are questions
(`QUESTIONS`); the run waits for the answer before it goes on. The last message is `Ended`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ..core.conclude import Outcome
from ..core.events import Level, without_surrogates
from ..core.model import Issue, Usage


class RunMessage(Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """Something that a run tells."""


class WorkspaceReady(RunMessage, frozen=True, kw_only=True, tag="workspace"):
    """The run works in this directory; `inode` tells it from another one at the same path. `signal` is where its
    agent leaves its word."""

    key: str
    path: str
    inode: int = 0
    signal: str = ".sortie/status"


class ProcessSpawned(RunMessage, frozen=True, kw_only=True, tag="process"):
    """A question: the process gets its first byte after the answer `Recorded`."""

    pid: int
    start_ticks: int
    boot_id: str


class ConversationNamed(RunMessage, frozen=True, kw_only=True, tag="conversation"):
    """The agent's own name for the conversation; empty where it will not go on with it."""

    session_id: str


class TurnAsked(RunMessage, frozen=True, kw_only=True, tag="turn"):
    """A question: may this turn begin? The answer is `Proceed`, or `Stop` where the budget is used up."""

    turn: int


class Prompted(RunMessage, frozen=True, kw_only=True, tag="prompt"):
    """What the agent is about to be told with this turn."""

    turn: int
    text: str


class TurnCompleted(RunMessage, frozen=True, kw_only=True, tag="turn_end"):
    """A question: what now? With a `signal` it is answered `Stop`; else with `Proceed` and the issue as it is now,
    or with `Stop` where the issue is gone or not active any more."""

    turn: int
    signal: str = ""


class Line(RunMessage, frozen=True, kw_only=True, tag="line"):
    """A line of the agent or a hook, for the log of the run; `source` is `agent`, `stderr`, the name of a hook …"""

    source: str
    text: str


class Heard(RunMessage, frozen=True, kw_only=True, tag="heard"):
    """A sign of life without words."""


class AtWork(RunMessage, frozen=True, kw_only=True, tag="at_work"):
    """The agent does something that it could not do without its program and its login. Said once in a run."""


class UsageTotal(RunMessage, frozen=True, kw_only=True, tag="usage"):
    """Everything that the run has used so far, priced as far as prices are known. `model` is the one at work."""

    total: Usage
    model: str = ""


class Remark(RunMessage, frozen=True, kw_only=True, tag="remark"):
    """Something a person will want to read in the log of the issue."""

    level: Level
    message: str
    detail: str = ""


class ToolUsed(RunMessage, frozen=True, kw_only=True, tag="tool"):
    """What a tool server wrote about a call, told from within the agent's reach: not to be believed blindly.

    `line` is what it wrote, as it is.
    """

    line: bytes


class ToolAsked(RunMessage, frozen=True, kw_only=True, tag="tool_call"):
    """A question of a tool server that holds no credentials; the answer is `ToolAnswered`."""

    tool: str
    arguments: Any = None


class Ended(RunMessage, frozen=True, kw_only=True, tag="end"):
    """How the run ended, as far as its host can tell; nothing follows."""

    outcome: Outcome
    usage: Usage = Usage()
    model: str = ""


AnyMessage = (
    WorkspaceReady
    | ProcessSpawned
    | ConversationNamed
    | TurnAsked
    | Prompted
    | TurnCompleted
    | Line
    | Heard
    | AtWork
    | UsageTotal
    | Remark
    | ToolUsed
    | ToolAsked
    | Ended
)
QUESTIONS = (ProcessSpawned, TurnAsked, TurnCompleted, ToolAsked)


class Answer(Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """What the engine says to a question."""


class Recorded(Answer, frozen=True, kw_only=True, tag="recorded"):
    """It is on disk."""


class Proceed(Answer, frozen=True, kw_only=True, tag="proceed"):
    """Go on; `issue` is how the source shows it now, where it was asked. `news` is what the agent is to be told
    with its next prompt."""

    issue: Issue | None = None
    news: str = ""


class Stop(Answer, frozen=True, kw_only=True, tag="stop"):
    """End the run here. `cause` and `detail` are why, where it is not simply done."""

    cause: str = ""
    detail: str = ""


class ToolAnswered(Answer, frozen=True, kw_only=True, tag="tool_answer"):
    answer: dict[str, Any]


AnyAnswer = Recorded | Proceed | Stop | ToolAnswered


class Numbered(Struct, frozen=True):
    number: int
    message: AnyMessage


def encode(value: object) -> bytes:
    """JSON, whatever texts are in it: those of issues and agents may hold half a character."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(without_surrogates(msgspec.to_builtins(value)))


_answers: msgspec.json.Decoder[AnyAnswer] = msgspec.json.Decoder(AnyAnswer)


def encode_message(numbered: Numbered) -> bytes:
    return encode(numbered)


def decode_message(data: bytes) -> Numbered:
    return msgspec.json.decode(data, type=Numbered)


def encode_answer(answer: AnyAnswer) -> bytes:
    return encode(answer)


def decode_answer(data: bytes) -> AnyAnswer:
    return _answers.decode(data)
