"""From events to tables: each event is written to the log and changes its rows, nothing else changes them."""

from __future__ import annotations

from sqlite3 import Connection
from typing import assert_never

import msgspec

from ..core import events as ev
from ..core.model import Usage


def record(db: Connection, event: ev.AnyEvent) -> None:
    """Write one event and bring the tables up to it, inside the caller's transaction."""
    data = ev.encode(event).decode()
    db.execute(
        "INSERT INTO events (at, kind, issue_id, run_id, data) VALUES (?, ?, ?, ?, ?)",
        (event.at, ev.kind_of(event), event.issue_id or None, event.run_id or None, data),
    )
    _project(db, event)


def _project(db: Connection, event: ev.AnyEvent) -> None:
    match event:
        case ev.IssueSeen():
            _issue_seen(db, event)
        case ev.IssueLeft():
            db.execute("DELETE FROM issues WHERE issue_id = ?", (event.issue_id,))
        case ev.Skipped():
            _set_skip(db, event.issue_id, event.rule, event.detail)
        case ev.Claimed():
            _claimed(db, event)
        case ev.WorkspaceMade():
            _workspace_made(db, event)
        case ev.WorkspaceGone():
            db.execute("DELETE FROM workspaces WHERE key = ?", (event.key,))
        case ev.ProcessStarted():
            db.execute(
                "UPDATE claims SET pid = ?, start_ticks = ?, boot_id = ? WHERE run_id = ?",
                (event.pid, event.start_ticks, event.boot_id, event.run_id),
            )
        case ev.SessionStarted():
            db.execute("UPDATE claims SET session_id = ? WHERE run_id = ?", (event.session_id, event.run_id))
        case ev.TurnStarted():
            db.execute("UPDATE claims SET turn = ?, turn_done = 0 WHERE run_id = ?", (event.turn, event.run_id))
            _charge(db, event.issue_id, event.day, turns=1)
        case ev.TurnEnded():
            db.execute("UPDATE claims SET turn_done = 1 WHERE run_id = ? AND turn = ?", (event.run_id, event.turn))
        case ev.Charged():
            _charge(db, event.issue_id, event.day, usage=event.usage)
        case ev.Stopping():
            db.execute(
                "UPDATE claims SET stop_cause = ?, stop_detail = ? WHERE run_id = ?",
                (event.cause, event.detail, event.run_id),
            )
        case ev.EffectPlanned():
            _effect_planned(db, event)
        case ev.EffectDone():
            db.execute("DELETE FROM effects WHERE effect_id = ?", (event.effect_id,))
        case ev.RunEnded():
            _run_ended(db, event)
        case ev.Settled():
            _settled(db, event)
        case ev.RetryDropped():
            _forget_retry(db, event.issue_id)
        case ev.RetryDue():
            db.execute("UPDATE retries SET due_at = ? WHERE issue_id = ?", (event.due_at, event.issue_id))
        case ev.Parked():
            _park(db, event, event.park)
        case ev.Unparked():
            _unparked(db, event)
        case ev.ProviderPaused():
            db.execute(
                """INSERT OR REPLACE INTO pauses (provider, until, detail, error_kind, tries, issue_id)
                   VALUES (?, ?, ?, ?, ?, ?)""",
                (event.provider, event.until, event.detail, event.error_kind, event.tries, event.issue_id),
            )
        case ev.ProviderResumed():
            db.execute("DELETE FROM pauses WHERE provider = ?", (event.provider,))
        case ev.ToolCalled():
            db.execute(
                """INSERT INTO tool_calls (tool, result, calls) VALUES (?, ?, 1)
                   ON CONFLICT (tool, result) DO UPDATE SET calls = calls + 1""",
                (event.tool, event.result),
            )
        case ev.Commanded():
            db.execute(
                "UPDATE commands SET done_at = ?, outcome = ?, ok = ? WHERE id = ?",
                (event.at, event.outcome, event.ok, event.command_id),
            )
        case ev.Opened() | ev.PolicySet() | ev.Ticked() | ev.ActedOn() | ev.Noted():
            pass  # history only
        case _:
            assert_never(event)


def _issue_seen(db: Connection, event: ev.IssueSeen) -> None:
    db.execute(
        """INSERT INTO issues (issue_id, identifier, data) VALUES (?, ?, ?)
           ON CONFLICT (issue_id) DO UPDATE SET identifier = excluded.identifier, data = excluded.data""",
        (event.issue_id, event.view.identifier, msgspec.json.encode(event.view).decode()),
    )


def _set_skip(db: Connection, issue_id: str, rule: str, detail: str) -> None:
    db.execute(
        "UPDATE issues SET skip_rule = ?, skip_detail = ? WHERE issue_id = ?",
        (rule, detail, issue_id),
    )


def _claimed(db: Connection, event: ev.Claimed) -> None:
    # A plain insert on purpose: a second run of a claimed issue must fail here, whatever the caller believes.
    db.execute(
        """INSERT INTO claims
           (issue_id, run_id, identifier, attempt, failures, cause, agent, session_id, claimed_at)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            event.issue_id,
            event.run_id,
            event.identifier,
            event.attempt,
            event.failures,
            event.cause,
            event.agent,
            event.session_id,
            event.at,
        ),
    )
    _forget_retry(db, event.issue_id)
    db.execute("DELETE FROM parked WHERE issue_id = ?", (event.issue_id,))
    _set_skip(db, event.issue_id, "", "")
    _charge(db, event.issue_id, event.day, sessions=1)


def _workspace_made(db: Connection, event: ev.WorkspaceMade) -> None:
    db.execute(
        """INSERT INTO workspaces (key, issue_id, identifier, path, created_at) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT (key) DO UPDATE
           SET issue_id = excluded.issue_id, identifier = excluded.identifier, path = excluded.path""",
        (event.key, event.issue_id, event.identifier, event.path, event.at),
    )
    db.execute("UPDATE claims SET workspace = ? WHERE run_id = ?", (event.path, event.run_id))


def _effect_planned(db: Connection, event: ev.EffectPlanned) -> None:
    db.execute(
        """INSERT INTO effects (effect_id, issue_id, run_id, verb, argument, planned_at) VALUES (?, ?, ?, ?, ?, ?)
           ON CONFLICT (effect_id) DO NOTHING""",
        (event.effect_id, event.issue_id, event.run_id, event.verb, event.argument, event.at),
    )


def _run_ended(db: Connection, event: ev.RunEnded) -> None:
    """The first verdict stands, in the history and in the claim; a repeated one changes neither."""
    usage = event.usage
    entered = db.execute(
        """INSERT INTO run_history (
               run_id, issue_id, identifier, attempt, agent_adapter, workspace, started_at, completed_at,
               status, error, turns, soft_stop, reason, session_id,
               input_tokens, output_tokens, cache_read_tokens, total_tokens, cost_usd)
           SELECT run_id, issue_id, identifier, attempt, agent, workspace,
               strftime('%Y-%m-%dT%H:%M:%SZ', claimed_at, 'unixepoch'),
               strftime('%Y-%m-%dT%H:%M:%SZ', ?, 'unixepoch'),
               ?, ?, ?, ?, ?, coalesce(?, session_id), ?, ?, ?, ?, ?
           FROM claims WHERE run_id = ?
           ON CONFLICT (run_id) DO NOTHING""",
        (
            event.at,
            event.status,
            event.error or None,
            event.turns,
            event.soft_stop,
            event.reason,
            event.session_id or None,
            usage.input,
            usage.output,
            usage.cache_read,
            usage.total,
            usage.cost_usd,
            event.run_id,
        ),
    )
    if entered.rowcount:
        _add_to_totals(db, event.run_id)
    db.execute(
        "UPDATE claims SET ending = coalesce(ending, ?) WHERE run_id = ?",
        (ev.encode(event).decode(), event.run_id),
    )


def _add_to_totals(db: Connection, run_id: str) -> None:
    db.execute(
        """INSERT INTO run_totals
           SELECT status, 1, turns, (julianday(completed_at) - julianday(started_at)) * 86400.0,
               input_tokens, output_tokens, cache_read_tokens, total_tokens, cost_usd
           FROM run_history WHERE run_id = ?
           ON CONFLICT (status) DO UPDATE SET
               runs = runs + 1, turns = turns + excluded.turns, seconds = seconds + excluded.seconds,
               input_tokens = input_tokens + excluded.input_tokens,
               output_tokens = output_tokens + excluded.output_tokens,
               cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
               total_tokens = total_tokens + excluded.total_tokens, cost_usd = cost_usd + excluded.cost_usd""",
        (run_id,),
    )


def _settled(db: Connection, event: ev.Settled) -> None:
    db.execute("DELETE FROM claims WHERE issue_id = ?", (event.issue_id,))
    if event.refund:
        _refund(db, event.issue_id, event.refund, event.refund_turns)
    if event.retry:
        _retry(db, event, event.retry)
    if event.park:
        _park(db, event, event.park)


def _retry(db: Connection, event: ev.Settled | ev.Unparked, retry: ev.Retry) -> None:
    db.execute(
        """INSERT OR REPLACE INTO retries
           (issue_id, identifier, kind, attempt, failures, due_at, error, session_id)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            event.issue_id,
            event.identifier,
            retry.kind,
            retry.attempt,
            retry.failures,
            retry.due_at,
            retry.error,
            retry.session_id,
        ),
    )


def _park(db: Connection, event: ev.Settled | ev.Parked, park: ev.Park) -> None:
    _forget_retry(db, event.issue_id)
    db.execute(
        """INSERT OR REPLACE INTO parked
           (issue_id, identifier, kind, reason, fingerprint, attempt, session_id, since)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            event.issue_id,
            event.identifier,
            park.kind,
            park.reason,
            park.fingerprint,
            park.attempt,
            park.session_id,
            event.at,
        ),
    )


def _unparked(db: Connection, event: ev.Unparked) -> None:
    db.execute("DELETE FROM parked WHERE issue_id = ?", (event.issue_id,))
    if event.reset_budget:
        db.execute("DELETE FROM budget WHERE scope = 'issue' AND key = ?", (event.issue_id,))
    if event.retry:
        _retry(db, event, event.retry)


def _forget_retry(db: Connection, issue_id: str) -> None:
    db.execute("DELETE FROM retries WHERE issue_id = ?", (issue_id,))


def _charge(
    db: Connection, issue_id: str, day: str, *, sessions: int = 0, turns: int = 0, usage: Usage | None = None
) -> None:
    tokens, usd = (usage.total, usage.cost_usd) if usage else (0, 0.0)
    for scope, key in (("issue", issue_id), ("day", day)):
        if not key:
            continue
        db.execute(
            """INSERT INTO budget (scope, key, sessions, turns, tokens, usd) VALUES (?, ?, ?, ?, ?, ?)
               ON CONFLICT (scope, key) DO UPDATE SET
                   sessions = sessions + excluded.sessions, turns = turns + excluded.turns,
                   tokens = tokens + excluded.tokens, usd = usd + excluded.usd""",
            (scope, key, sessions, turns, tokens, usd),
        )


def _refund(db: Connection, issue_id: str, day: str, turns: int) -> None:
    for scope, key in (("issue", issue_id), ("day", day)):
        db.execute(
            """UPDATE budget SET sessions = max(sessions - 1, 0), turns = max(turns - ?, 0)
               WHERE scope = ? AND key = ?""",
            (turns, scope, key),
        )
