"""What each action becomes in the log, as engine/tick.py writes it."""

from __future__ import annotations

from sortie.core import actions as act
from sortie.core import events as ev
from sortie.core.budget import day_of


def event_of(action: act.Action, now: float, run_id: str) -> ev.AnyEvent:
    issue_id = action.issue_id
    match action:
        case act.Start():
            return ev.Claimed(
                at=now,
                issue_id=issue_id,
                run_id=run_id,
                identifier=action.identifier,
                attempt=action.attempt,
                failures=action.failures,
                cause=action.cause,
                agent="command",
                session_id=action.session_id,
                day=day_of(now),
            )
        case act.Stop():
            return ev.Stopping(
                at=now, issue_id=issue_id, run_id=action.run_id, cause=action.cause, detail=action.detail
            )
        case act.Skip():
            name, rule, detail = action.identifier, action.rule, action.detail
            return ev.Skipped(at=now, issue_id=issue_id, identifier=name, rule=rule, detail=detail)
        case act.DropRetry():
            return ev.RetryDropped(at=now, issue_id=issue_id, identifier=action.identifier, why=action.why)
        case act.Unpark():
            return ev.Unparked(at=now, issue_id=issue_id, identifier=action.identifier, why=action.why)
        case act.ParkIssue():
            park = ev.Park(
                kind="budget",
                reason=action.reason,
                fingerprint="",
                attempt=action.attempt,
                session_id=action.session_id,
            )
            return ev.Parked(at=now, issue_id=issue_id, identifier=action.identifier, park=park)
