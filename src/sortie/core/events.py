"""The append-only log: everything that happened, in the order in which it was committed.

The store turns each event into table rows in the same transaction, `schedule.apply` folds them into the
scheduling state, `sortie why` reads them back. An event says what is already true; nothing here is a wish.
"""

from __future__ import annotations

from typing import Any, Literal, Union

import msgspec
from msgspec import Struct

from .model import Overdue as Overdue
from .model import Park as Park
from .model import Place as Place
from .model import Retry as Retry
from .model import RunStatus as RunStatus
from .model import Usage
from .model import View as View
from .policy import Policy

# What is done to the source; a `record` goes to the work log that people and agents share, and nobody waits for it.
EffectVerb = Literal["transition", "comment", "record"]
Level = Literal["debug", "info", "warning", "error"]


class AnyEvent(Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """What all events have. `number`, where one has it, is that of the message in which its run told it."""

    at: float
    issue_id: str = ""
    run_id: str = ""


class Opened(AnyEvent, frozen=True, kw_only=True, tag="opened"):
    """An orchestrator took the store."""

    pid: int
    version: str
    workflow: str


class PolicySet(AnyEvent, frozen=True, kw_only=True, tag="policy"):
    policy: Policy


class IssueSeen(AnyEvent, frozen=True, kw_only=True, tag="seen"):
    """The tracker shows this issue, new or changed."""

    view: View


class IssueLeft(AnyEvent, frozen=True, kw_only=True, tag="left"):
    """The tracker shows this issue no longer among the active ones."""

    identifier: str


class Ticked(AnyEvent, frozen=True, kw_only=True, tag="tick"):
    """What `decide` was given beyond the schedule. Its answer are the events that follow, as many as `decided`.

    `now` is the time it was given; `at`, here as everywhere, is what the calendar said. A tick without an answer is
    not kept. `actions` is the answer in logs of earlier versions: as many as the events that follow there.
    """

    candidates_known: bool
    now: float | None = None
    overdue: tuple[Overdue, ...] = ()
    unsure: tuple[str, ...] = ()
    places: tuple[Place, ...] | None = None
    decided: int = 0
    actions: tuple[dict[str, Any], ...] = ()

    @property
    def answers(self) -> int:
        return self.decided or len(self.actions)


class Skipped(AnyEvent, frozen=True, kw_only=True, tag="skip"):
    """Why this issue did not start; recorded when the rule changes, not on every tick."""

    identifier: str
    rule: str
    detail: str = ""


class Claimed(AnyEvent, frozen=True, kw_only=True, tag="claim"):
    """A run owns the issue from here to its `Settled`. One session is charged.

    `provider` is who limits the agent, where that is not its kind alone; `host` is where the run executes.
    `asked_in` is the state of an issue that a person asked to start, empty where nobody did.
    """

    identifier: str
    attempt: int
    failures: int = 0
    cause: str = "new"
    agent: str = ""
    session_id: str = ""
    day: str = ""
    provider: str = ""
    host: str = ""
    asked_in: str = ""


class WorkspaceMade(AnyEvent, frozen=True, kw_only=True, tag="workspace"):
    """The run works in this directory; `inode` tells it from another one at the same path (0: not recorded).
    `signal` is where its agent leaves its word."""

    identifier: str
    key: str
    path: str
    inode: int = 0
    signal: str = ".sortie/status"
    number: int = 0


class WorkspaceGone(AnyEvent, frozen=True, kw_only=True, tag="workspace_gone"):
    key: str
    archive: str = ""


class ProcessStarted(AnyEvent, frozen=True, kw_only=True, tag="process"):
    """Committed before the first byte goes to or comes from the process."""

    pid: int
    start_ticks: int
    boot_id: str
    number: int = 0


class SessionStarted(AnyEvent, frozen=True, kw_only=True, tag="session"):
    session_id: str
    number: int = 0


class TurnStarted(AnyEvent, frozen=True, kw_only=True, tag="turn"):
    """One turn is charged."""

    turn: int
    day: str
    number: int = 0


class TurnEnded(AnyEvent, frozen=True, kw_only=True, tag="turn_end"):
    """The turn completed; from here on the status file speaks for the agent, also after a crash."""

    turn: int
    number: int = 0


class Charged(AnyEvent, frozen=True, kw_only=True, tag="charge"):
    """`model` is the one that was used, as far as anybody knows."""

    usage: Usage
    day: str
    model: str = ""


class Stopping(AnyEvent, frozen=True, kw_only=True, tag="stop"):
    """We decided to end this run; our own signal is the truth about how it ends."""

    cause: str
    detail: str = ""


class EffectPlanned(AnyEvent, frozen=True, kw_only=True, tag="effect"):
    """A change to the tracker, or an entry of the work log, that must happen once."""

    effect_id: str
    verb: EffectVerb
    argument: str


class EffectDone(AnyEvent, frozen=True, kw_only=True, tag="effect_done"):
    effect_id: str
    verb: EffectVerb
    ok: bool
    detail: str = ""


class RunEnded(AnyEvent, frozen=True, kw_only=True, tag="end"):
    """The verdict on a run. The claim stays until `Settled`.

    `fingerprint` is that of the issue as last seen before the verdict, so that what people change after it is not
    overlooked where a crash delays the settlement; empty where it is not known. `model` is the last one that the
    agent used, as far as anybody knows.
    """

    status: RunStatus
    turns: int
    soft_stop: str = ""
    reason: str = ""
    error: str = ""
    error_kind: str = ""
    retryable: bool = True
    limited_until: float | None = None
    stop: str = ""
    session_id: str = ""
    product: str = ""
    usage: Usage = Usage()
    handoff_planned: bool = False
    fingerprint: str = ""
    model: str = ""


class Settled(AnyEvent, frozen=True, kw_only=True, tag="settle"):
    """The claim is given up; at most one of `retry` and `park` says what follows.

    `refund` returns the session to the day it was charged to, and `refund_turns` of its turns.
    """

    identifier: str
    why: str
    retry: Retry | None = None
    park: Park | None = None
    refund: str = ""
    refund_turns: int = 0


class RetryDropped(AnyEvent, frozen=True, kw_only=True, tag="drop"):
    identifier: str
    why: str


class RetryDue(AnyEvent, frozen=True, kw_only=True, tag="due"):
    """A person, or a clock that was set back, moved the time of a retry."""

    due_at: float
    why: str


class Parked(AnyEvent, frozen=True, kw_only=True, tag="park"):
    """An issue that was not running is parked (the budget ran out before a start)."""

    identifier: str
    park: Park


class Unparked(AnyEvent, frozen=True, kw_only=True, tag="unpark"):
    """No longer put aside. By hand, `retry` says how it goes on: with its next attempt, in its session."""

    identifier: str
    why: str
    reset_budget: bool = False
    retry: Retry | None = None


class Requested(AnyEvent, frozen=True, kw_only=True, tag="request"):
    """A person wants a run of this issue, whatever the source shows of it."""

    identifier: str
    retry: Retry


class Answered(AnyEvent, frozen=True, kw_only=True, tag="answer"):
    """A person answered what the agent of this issue asked; it is told with every turn until one completes."""

    answer_id: str
    text: str


class ProviderPaused(AnyEvent, frozen=True, kw_only=True, tag="pause"):
    """No run of this agent starts before `until`.

    `error_kind` is `rate_limited` for a limit of the provider, which time alone ends. Any other kind is a fault of
    the agent itself, which nobody ends but a run that works: after `until` one run at a time may try. `tries` is
    how many runs have met the fault, `issue_id` the issue of the last of them.
    """

    provider: str
    until: float
    detail: str = ""
    error_kind: str = "rate_limited"
    tries: int = 0


class ProviderResumed(AnyEvent, frozen=True, kw_only=True, tag="unpause"):
    """The fault of this agent is gone."""

    provider: str
    why: str


class ToolCalled(AnyEvent, frozen=True, kw_only=True, tag="tool"):
    """The agent called a tool. Of what it asked, only what it acted on: `operation`, `target` and `state`.

    `error` is the kind of a failure that has one. `witnessed` calls were carried out by the orchestrator itself; of
    all others a process within the agent's reach has told.
    """

    tool: str
    result: Literal["success", "error"]
    ms: float
    operation: str = ""
    target: str = ""
    state: str = ""
    error: str = ""
    witnessed: bool = False


class ActedOn(AnyEvent, frozen=True, kw_only=True, tag="acted"):
    """The agent of another issue moved this one; with an `error` it tried to, and nobody knows whether it did."""

    identifier: str
    by: str
    by_run: str
    tool: str
    state: str
    error: str = ""


class Commanded(AnyEvent, frozen=True, kw_only=True, tag="command"):
    """A person's command was carried out, or refused."""

    command_id: int
    verb: str
    outcome: str
    ok: bool


class Noted(AnyEvent, frozen=True, kw_only=True, tag="note"):
    """Something a person will want to know later; changes nothing."""

    level: Level
    message: str
    detail: str = ""


_encoder = msgspec.json.Encoder()
_every_kind: Any = Union[tuple(AnyEvent.__subclasses__())]  # noqa: UP007 - made while the program runs
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(_every_kind)


def encodable(event: AnyEvent) -> tuple[AnyEvent, str]:
    """The event without lone surrogates, which neither JSON nor SQLite can hold, and its text; nearly always the
    event itself."""
    try:
        return event, _encoder.encode(event).decode()
    except UnicodeEncodeError:
        event = msgspec.convert(without_surrogates(msgspec.to_builtins(event)), type=type(event))
        return event, _encoder.encode(event).decode()


def without_surrogates(value: Any) -> Any:
    """Any value that JSON can hold, with a question mark for each half of a character in its texts."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case dict():
            return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
        case list() | tuple():
            return [without_surrogates(item) for item in value]
        case _:
            return value


def encode(event: AnyEvent) -> bytes:
    return _encoder.encode(event)


def decode(raw: bytes | str) -> AnyEvent:
    return _decoder.decode(raw)


def kind_of(event: AnyEvent) -> str:
    return str(event.__struct_config__.tag)
