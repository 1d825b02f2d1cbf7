"""What the schedule holds of each issue and beside it: one frozen struct for each row of a table."""

from __future__ import annotations

from msgspec import Struct

from . import events as ev


class Claim(Struct, frozen=True, kw_only=True):
    """One issue with an open run. `ending` is its verdict, once that is in and only our own writes remain.

    `turn_done` says whether turn number `turn` completed; `seen` is the last message of the run that is on record.
    """

    issue_id: str
    run_id: str
    identifier: str
    attempt: int
    failures: int = 0
    cause: str = "new"
    agent: str = ""
    session_id: str = ""
    workspace: str = ""
    claimed_at: float
    pid: int | None = None
    start_ticks: int | None = None
    boot_id: str | None = None
    turn: int = 0
    turn_done: bool = False
    stop: str = ""
    stop_detail: str = ""
    host: str = ""
    provider: str = ""
    inode: int = 0
    seen: int = 0
    asked_in: str = ""
    signal: str = ".sortie/status"
    ending: ev.RunEnded | None = None

    @property
    def ended(self) -> bool:
        return self.ending is not None

    @property
    def paid_by(self) -> str:
        """Who limits the agent of this run."""
        return self.provider or self.agent

    @property
    def by_hand(self) -> bool:
        """A person started it, so what the source shows of the issue does not end it."""
        return bool(self.asked_in)


class Waiting(Struct, frozen=True, kw_only=True):
    """An issue whose next run has a time."""

    issue_id: str
    identifier: str
    retry: ev.Retry


class ParkedIssue(Struct, frozen=True, kw_only=True):
    issue_id: str
    identifier: str
    park: ev.Park
    since: float


class Answer(Struct, frozen=True, kw_only=True):
    """What a person said to an agent that has not completed a turn with it. `run_id` and `turn` are where it was
    told last, `number` puts all of them in order."""

    answer_id: str
    issue_id: str
    text: str
    at: float
    number: int
    run_id: str = ""
    turn: int = 0


class Pause(Struct, frozen=True, kw_only=True):
    """Why no run of an agent starts; `issue_id` is the issue whose run met the fault last, if one did. `since` is
    when a fault began, 0 where that is not on record."""

    until: float
    error_kind: str
    detail: str
    tries: int = 0
    issue_id: str = ""
    since: float = 0.0

    @property
    def is_fault(self) -> bool:
        """Whether the agent itself is at fault; a limit of its provider ends with time."""
        return self.error_kind != "rate_limited"


class WorkspaceRecord(Struct, frozen=True, kw_only=True):
    """A workspace that was made and not removed; `used` says that an agent had a turn in it."""

    key: str
    issue_id: str
    identifier: str
    path: str
    created_at: float
    host: str = ""
    inode: int = 0
    used: bool = False
