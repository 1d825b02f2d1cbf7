"""Views, runs and schedules with everything filled in, for tests that care about one field."""

from __future__ import annotations

from typing import Any

from sortie.core import events as ev
from sortie.core.policy import Policy
from sortie.core.records import Claim, ParkedIssue, Waiting
from sortie.core.schedule import Schedule

NOW = 1774914000.0  # 2026-03-30T23:40:00Z
DAY = "2026-03-30"
POLICY = Policy(active_states=("Todo", "In Progress"), terminal_states=("Done",), handoff_state="Review")


def policy(**more: Any) -> Policy:
    return Policy(**{"active_states": POLICY.active_states, "terminal_states": ("Done",), **more})


def view(issue_id: str = "1", **more: Any) -> ev.View:
    fields: dict[str, Any] = {"identifier": f"D-{issue_id}", "title": "Mend it", "state": "Todo", **more}
    return ev.View(id=issue_id, **fields)


def running(issue_id: str = "1", **more: Any) -> Claim:
    fields: dict[str, Any] = {"run_id": f"r{issue_id}", "attempt": 1, "failures": 0, "claimed_at": NOW - 60, **more}
    return Claim(issue_id=issue_id, identifier=f"D-{issue_id}", **fields)


def verdict(issue_id: str = "1", **more: Any) -> ev.RunEnded:
    fields: dict[str, Any] = {"at": NOW, "run_id": f"r{issue_id}", "status": "succeeded", "turns": 1, **more}
    return ev.RunEnded(issue_id=issue_id, **fields)


def waiting(issue_id: str = "1", **more: Any) -> Waiting:
    fields: dict[str, Any] = {"kind": "error", "attempt": 2, "due_at": NOW, **more}
    return Waiting(issue_id=issue_id, identifier=f"D-{issue_id}", retry=ev.Retry(**fields))


def parked(issue_id: str = "1", **more: Any) -> ParkedIssue:
    fields: dict[str, Any] = {"kind": "signal", "reason": "a key is missing", "fingerprint": "before", **more}
    return ParkedIssue(issue_id=issue_id, identifier=f"D-{issue_id}", park=ev.Park(**fields), since=NOW - 60)


def schedule(*held: ev.View | Claim | Waiting | ParkedIssue, rules: Policy = POLICY) -> Schedule:
    """A schedule with these in it; the issue of a run, a retry or a parking is there as an active one."""
    made = Schedule(rules)
    for item in held:
        if isinstance(item, ev.View):
            made.issues[item.id] = item
            continue
        made.issues.setdefault(item.issue_id, view(item.issue_id))
        match item:
            case Claim():
                made.running[item.issue_id] = item
            case Waiting():
                made.waiting[item.issue_id] = item
            case ParkedIssue():
                made.parked[item.issue_id] = item
    made.inactive = {key: None for key, known in made.issues.items() if not rules.is_active(known.state)}
    return made
