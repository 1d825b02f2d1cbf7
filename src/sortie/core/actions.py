"""What `decide` may answer. The shell performs these in order and adds nothing of its own."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

StopCause = Literal["stalled", "timed_out", "terminal", "inactive", "gone"]


class Overdue(Struct, frozen=True, kw_only=True):
    """A run that has been silent, or in one turn, for longer than the policy allows."""

    issue_id: str
    run_id: str
    cause: Literal["stalled", "timed_out"]
    detail: str


class _Action(Struct, frozen=True, kw_only=True, tag_field="do", omit_defaults=True):
    issue_id: str


class Start(_Action, frozen=True, kw_only=True, tag="start"):
    """Claim the issue and run an agent; `cause` is why now: new, changed, budget or the kind of retry."""

    identifier: str
    attempt: int
    failures: int = 0
    cause: str = "new"
    session_id: str = ""


class Stop(_Action, frozen=True, kw_only=True, tag="stop"):
    run_id: str
    cause: StopCause
    detail: str


class DropRetry(_Action, frozen=True, kw_only=True, tag="drop"):
    identifier: str
    why: str


class ParkIssue(_Action, frozen=True, kw_only=True, tag="park"):
    """Put an issue aside that must not start: its budget is spent. The last attempt and its session are kept."""

    identifier: str
    reason: str
    attempt: int = 0
    session_id: str = ""


class Unpark(_Action, frozen=True, kw_only=True, tag="unpark"):
    identifier: str
    why: str


class Skip(_Action, frozen=True, kw_only=True, tag="skip"):
    """The issue does not start now, for a reason other than the one recorded last."""

    identifier: str
    rule: str
    detail: str = ""


Action = Start | Stop | DropRetry | ParkIssue | Unpark | Skip
