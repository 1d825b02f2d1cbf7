"""Usage by the day that it is charged to, agent, model and issue: written with the events that report it."""

from __future__ import annotations

from sqlite3 import Connection

from ..core import events as ev
from ..core.conclude import AGENT_FAULTS
from ..core.model import Usage
from ..core.policy import day_of
from ..core.records import Claim

_SUMS = ("runs", "unmeasured", "input_tokens", "output_tokens", "cache_read_tokens", "cost_usd")
_ADDED_UP = ", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS)
_ADD = f"""INSERT INTO usage (day, agent, model, issue_id, identifier, {", ".join(_SUMS)})
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (day, agent, model, issue_id) DO UPDATE SET identifier = excluded.identifier, {_ADDED_UP}"""


def add_charge(db: Connection, event: ev.Charged, run: Claim | None) -> None:
    """`run` is the one that pays, where there is one."""
    used = (event.usage.input, event.usage.output, event.usage.cache_read, event.usage.cost_usd)
    agent, identifier = (run.agent, run.identifier) if run else ("", "")
    day = event.day or day_of(event.at)
    db.execute(_ADD, (day, agent, event.model, event.issue_id, identifier, 0, 0, *used))


def add_run(db: Connection, event: ev.RunEnded, run: Claim) -> None:
    """What it used was charged on its way."""
    unmeasured = not is_measured(event, run)
    whose = (day_of(event.at), run.agent, event.model, run.issue_id, run.identifier)
    db.execute(_ADD, (*whose, 1, unmeasured, 0, 0, 0, 0.0))


def is_measured(event: ev.RunEnded, run: Claim) -> bool:
    """False for one that told nothing of what it used, though its agent was at work; a turn that was cut short is
    work too, unless the agent could not run at all."""
    could_not_run = event.status == "failed" and event.error_kind in AGENT_FAULTS and not event.turns
    return event.usage != Usage() or not run.turn or could_not_run
