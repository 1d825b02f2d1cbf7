"""What one `sortie run` did, issue by issue: a listener that counts, and the table at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from ..core import events as ev
from ..core.narrate import RULES
from ..store.load import Loaded
from .format import amount, duration
from .printing import Columns, print_table

COLUMNS = ("issue", "outcome", "attempts", "turns", "tokens", "time", "reason")


@dataclass
class IssueTally:
    """One issue. `attempts` are those of this run of the service, `seconds` the time its agents had.

    `target` is the state to which a hand-off is to move it, `handed_off` whether that came about.
    """

    identifier: str
    title: str = ""
    outcome: str = "not started"
    reason: str = ""
    attempts: int = 0
    turns: int = 0
    tokens: int = 0
    seconds: float = 0.0
    started: float = 0.0
    ended: ev.RunEnded | None = None
    target: str = ""
    handed_off: bool = False


class Tally:
    """Takes every event; keeps one line for each issue that something happened to."""

    def __init__(self) -> None:
        self.lines: dict[str, IssueTally] = {}

    def remember(self, loaded: Loaded) -> None:
        """What an earlier run left: it is not told again, but belongs into the table."""
        schedule = loaded.schedule
        for view in schedule.issues.values():
            self.lines[view.id] = IssueTally(view.identifier, view.title)
        for issue_id, (rule, detail) in schedule.skips.items():
            self._held_back(self._line(issue_id, issue_id), rule, detail)
        for parked in schedule.parked.values():
            line = self._line(parked.issue_id, parked.identifier)
            line.outcome, line.reason = "parked", parked.park.reason
        for waiting in schedule.waiting.values():
            line = self._line(waiting.issue_id, waiting.identifier)
            line.outcome, line.reason = "waiting", waiting.retry.error

    def on_event(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.IssueSeen(view=view):
                self._line(event.issue_id, view.identifier).title = view.title
            case ev.RetryDropped() | ev.Unparked():
                line = self._line(event.issue_id, event.identifier)
                line.outcome, line.reason = "released" if line.attempts else "not started", event.why
            case ev.IssueLeft():
                if event.issue_id in self.lines and not self.lines[event.issue_id].attempts:
                    del self.lines[event.issue_id]
            case ev.Skipped():
                self._held_back(self._line(event.issue_id, event.identifier), event.rule, event.detail)
            case ev.Claimed():
                self._claimed(self._line(event.issue_id, event.identifier), event)
            case ev.EffectPlanned(verb="transition"):
                self._line(event.issue_id, event.issue_id).target = event.argument
            case ev.EffectDone(verb="transition"):
                line = self._line(event.issue_id, event.issue_id)
                line.handed_off = event.ok and event.detail == line.target
            case ev.RunEnded():
                self._ended(self._line(event.issue_id, event.issue_id), event)
            case ev.Settled():
                self._settled(self._line(event.issue_id, event.identifier), event)
            case ev.Parked():
                line = self._line(event.issue_id, event.identifier)
                line.outcome, line.reason = "parked", event.park.reason
            case _:
                pass

    def interrupted(self) -> list[str]:
        """The issues whose agents were ended because the service was."""
        return [line.identifier for line in self.lines.values() if line.outcome in ("interrupted", "running")]

    def _line(self, issue_id: str, identifier: str) -> IssueTally:
        return self.lines.setdefault(issue_id, IssueTally(identifier))

    def _held_back(self, line: IssueTally, rule: str, detail: str) -> None:
        """Only where no run of it says more."""
        if not line.attempts and rule not in ("parked", "waiting"):
            words = RULES.get(rule, rule)
            line.outcome, line.reason = "not started", f"{words}: {detail}" if detail else words

    def _claimed(self, line: IssueTally, event: ev.Claimed) -> None:
        line.identifier, line.outcome, line.reason = event.identifier, "running", ""
        line.attempts += 1
        line.started = event.at
        line.handed_off = False

    def _ended(self, line: IssueTally, event: ev.RunEnded) -> None:
        line.ended = event
        line.turns += event.turns
        line.tokens += event.usage.total
        line.seconds += event.at - line.started if line.started else 0.0

    def _settled(self, line: IssueTally, event: ev.Settled) -> None:
        line.identifier = event.identifier
        ended = line.ended
        line.reason = (ended and (ended.error or ended.reason)) or event.why
        if event.park:
            line.outcome, line.reason = "parked", event.park.reason
        elif event.retry:
            line.outcome = "interrupted" if event.retry.kind == "resume" else "waiting"
        elif ended and ended.status == "succeeded":
            line.outcome = "handed off" if line.handed_off else "done"
        else:
            line.outcome = ended.status if ended else "done"


def print_tally(tally: Tally) -> None:
    """The closing table: what came of each issue that was looked at."""
    if not tally.lines:
        click.echo("There was nothing to do.")
        return
    rows = [
        (
            line.identifier,
            line.outcome,
            str(line.attempts),
            str(line.turns),
            amount(line.tokens),
            duration(line.seconds),
            line.reason,
        )
        for line in sorted(tally.lines.values(), key=lambda line: line.identifier)
    ]
    spare = ("tokens", "attempts", "turns", "time")
    print_table(Columns(COLUMNS, rows, right=COLUMNS[2:6], cut=("reason",), spare=spare))


def plain(line: IssueTally) -> dict[str, Any]:
    """One line for programs."""
    return {
        "issue": line.identifier,
        "title": line.title,
        "outcome": line.outcome,
        "attempts": line.attempts,
        "turns": line.turns,
        "tokens": line.tokens,
        "seconds": round(line.seconds, 3),
        "reason": line.reason,
    }
