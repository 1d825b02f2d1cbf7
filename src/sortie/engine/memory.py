"""The schedule as the store remembers it: rows into scheduling state."""

from __future__ import annotations

from ..core import events as ev
from ..core.policy import Policy
from ..core.schedule import ParkedIssue, Pause, Running, Schedule, Waiting
from ..store.load import ClaimRow, Loaded


def world_of(loaded: Loaded, policy: Policy) -> Schedule:
    return Schedule(
        policy=policy,
        issues=dict(loaded.issues),
        skips=dict(loaded.skips),
        running={row.issue_id: _running(row) for row in loaded.claims},
        waiting={
            row.issue_id: Waiting(
                issue_id=row.issue_id,
                identifier=row.identifier,
                retry=ev.Retry(
                    kind=row.kind,
                    attempt=row.attempt,
                    due_at=row.due_at,
                    failures=row.failures,
                    error=row.error,
                    session_id=row.session_id,
                ),
            )
            for row in loaded.retries
        },
        parked={
            row.issue_id: ParkedIssue(
                issue_id=row.issue_id,
                identifier=row.identifier,
                park=ev.Park(
                    kind=row.kind,
                    reason=row.reason,
                    fingerprint=row.fingerprint,
                    attempt=row.attempt,
                    session_id=row.session_id,
                ),
                since=row.since,
            )
            for row in loaded.parked
        },
        pauses={
            row.provider: Pause(
                until=row.until,
                error_kind=row.error_kind,
                detail=row.detail,
                tries=row.tries,
                issue_id=row.issue_id,
            )
            for row in loaded.pauses
        },
        spent=dict(loaded.spent),
        days=dict(loaded.days),
    )


def _running(row: ClaimRow) -> Running:
    return Running(
        issue_id=row.issue_id,
        identifier=row.identifier,
        run_id=row.run_id,
        attempt=row.attempt,
        failures=row.failures,
        claimed_at=row.claimed_at,
        agent=row.agent,
        turn=row.turn,
        stop=row.stop_cause,
        stop_detail=row.stop_detail,
        ended=row.ending is not None,
    )
