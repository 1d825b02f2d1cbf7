"""How a turn ended, in the words that the register, the store and people use for it."""

from __future__ import annotations

from msgspec import Struct

from ..turn_register import INTERRUPTED

SUCCEEDED = "succeeded"
BLOCKED = "blocked"
REVIEW = "needs-human-review"
FAILED = "failed"
OUTCOMES = (SUCCEEDED, BLOCKED, REVIEW, FAILED, INTERRUPTED)

# Only of these is it certain that the agent read what it was told.
HEARD = (SUCCEEDED, BLOCKED, REVIEW)


class RunResult(Struct, frozen=True, kw_only=True):
    """What became of the run of a turn. `reason` is the agent's own, or why it failed. `started` says whether its
    agent ever had a turn: otherwise nothing was done, and nothing is to be told."""

    outcome: str
    reason: str = ""
    error_kind: str = ""
    started: bool = True
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0
