"""The present state for `/api/v1`, from one snapshot of the store and the service's last report.

The attempt of a retry counts retries there: the first one is 1.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from sqlite3 import Connection
from typing import Any

from msgspec import UNSET

from ..core.events import kind_of
from ..core.model import Usage
from ..core.narrate import narrate
from ..core.policy import budget_reason
from ..core.records import Claim, ParkedIssue, Waiting
from ..core.schedule import Schedule
from ..engine.report import LiveReport, RunReport
from ..reports.usage import spent_on_issue, usage_of_issue
from ..reports.words import stamp, web_link
from ..store.load import look
from ..store.queries import events, last_policy, totals
from .api_v1_answers import (
    V1Attempts,
    V1Blocked,
    V1BudgetExhausted,
    V1Counts,
    V1Event,
    V1Issue,
    V1Retrying,
    V1Running,
    V1State,
    V1Tokens,
    V1Totals,
    V1Workspace,
)
from .site import Site

RECENT_EVENTS = 20
BUDGET_REASONS = {
    "sessions": "session_budget",
    "turns": "turn_budget",
    "tokens": "token_budget",
    "usd": "cost_budget",
}

# When the agents that we know tell what they used; one that is not named here has not said.
USAGE_ARRIVAL = {
    **dict.fromkeys(("claude-code", "codex", "opencode"), "incremental"),
    **dict.fromkeys(("copilot-cli", "gemini", "acp", "mock"), "turn_end"),
    "command": "none",
}


class Present:
    """One look at the store, with what the service told last, if it speaks to us."""

    def __init__(self, site: Site, db: Connection, live: LiveReport | None, issue_id: str | None = None) -> None:
        self.db = db
        self.hide = site.hide
        self.now = time.time()
        self.schedule: Schedule = look(db, issue_id=issue_id).schedule
        self.schedule.policy = last_policy(db) or site.config.policy()
        self.told: dict[str, RunReport] = {run.run_id: run for run in live.running} if live else {}

    def state(self) -> V1State:
        claims = list(self.schedule.running.values())
        running = [self.running(claim) for claim in claims]
        retrying = [self.retrying(waiting) for waiting in self.schedule.waiting.values()]
        used_up = [item for item in self.schedule.parked.values() if item.park.kind == "budget"]
        blocked = [self._blocked(item) for item in self.schedule.parked.values() if item.park.kind != "budget"]
        told = [self.told[claim.run_id] for claim in claims if claim.run_id in self.told]
        costs = [run.usage.cost_usd for run in told if run.usage.cost_usd > 0]
        return V1State(
            generated_at=stamp(self.now),
            counts=V1Counts(len(running), len(retrying), len(used_up), len(blocked)),
            running=running,
            retrying=retrying,
            budget_exhausted=list(self._budget_exhausted(used_up)),
            blocked=blocked,
            agent_totals=self._totals(claims, running),
            rate_limits=self._rate_limits(),
            cost_unpriced_running=len(claims) - len(costs),
            active_estimated_cost_usd=sum(costs) if costs else UNSET,
        )

    def running(self, claim: Claim) -> V1Running:
        told, view = self.told.get(claim.run_id), self.schedule.issues.get(claim.issue_id)
        logged = events(self.db, run_id=claim.run_id, limit=1, last=True)
        last_at = logged[-1].event.at if logged else claim.claimed_at
        arrival = USAGE_ARRIVAL.get(claim.agent, "")
        measured = told is not None and told.usage != Usage()
        return V1Running(
            issue_id=claim.issue_id,
            issue_identifier=claim.identifier,
            issue_url=self._url(claim.issue_id),
            state=view.state if view else "",
            session_id=claim.session_id,
            turn_count=claim.turn,
            last_event=kind_of(logged[-1].event) if logged else "",
            last_message=self.hide(told.last_line) if told else "",
            started_at=stamp(claim.claimed_at),
            last_event_at=stamp(max(last_at, self.now - told.quiet_seconds) if told else last_at),
            workspace_path=claim.workspace,
            tokens=_tokens(told.usage if told and measured else None),
            tokens_measured=measured,
            tokens_pending=measured and arrival == "turn_end" and not claim.turn_done,
            usage_arrival=arrival,
            usage_attribution=_attribution(arrival, told),
            model_name=told.model if told and told.model else UNSET,
        )

    def retrying(self, waiting: Waiting) -> V1Retrying:
        return V1Retrying(
            issue_id=waiting.issue_id,
            issue_identifier=waiting.identifier,
            issue_url=self._url(waiting.issue_id),
            attempt=max(waiting.retry.attempt - 1, 0),
            due_at=stamp(waiting.retry.due_at),
            error=self.hide(waiting.retry.error),
        )

    def issue(self) -> V1Issue | None:
        """Of the one issue that was looked up; None where it neither runs nor has a next time."""
        claim = next(iter(self.schedule.running.values()), None)
        waiting = next(iter(self.schedule.waiting.values()), None)
        found = claim or waiting
        if found is None:
            return None
        running = self.running(claim) if claim else None
        retry = self.retrying(waiting) if waiting else None
        place = claim.workspace if claim else ""
        attempt = retry.attempt if retry else 0
        return V1Issue(
            issue_identifier=found.identifier,
            issue_id=found.issue_id,
            status="running" if claim else "retrying",
            workspace=V1Workspace(place) if place else None,
            attempts=V1Attempts(max(attempt - 1, 0), attempt),
            running=running,
            retry=retry,
            recent_events=self._recent(found.issue_id),
            last_error=(retry.error or None) if retry else None,
        )

    def _recent(self, issue_id: str) -> list[V1Event]:
        logged = events(self.db, issue_id=issue_id, limit=RECENT_EVENTS, last=True)
        return [
            V1Event(stamp(one.event.at), kind_of(one.event), self.hide(narrate(one.event).text)) for one in logged
        ]

    def _blocked(self, item: ParkedIssue) -> V1Blocked:
        view = self.schedule.issues.get(item.issue_id)
        return V1Blocked(
            issue_id=item.issue_id,
            issue_identifier=item.identifier,
            issue_url=self._url(item.issue_id),
            state=view.state if view else item.park.state,
            error=self.hide(item.park.reason),
            session_id=item.park.session_id,
            workspace_path=None,
            blocked_at=stamp(item.since),
        )

    def _budget_exhausted(self, used_up: Iterable[ParkedIssue]) -> Iterable[V1BudgetExhausted]:
        for item in used_up:
            view = self.schedule.issues.get(item.issue_id)
            limits, spent = self.schedule.limits_of(view), spent_on_issue(self.db, item.issue_id)
            unmeasured = usage_of_issue(self.db, item.issue_id).unmeasured
            yield V1BudgetExhausted(
                issue_id=item.issue_id,
                issue_identifier=item.identifier,
                issue_url=self._url(item.issue_id),
                reason=BUDGET_REASONS[budget_reason(item.park.reason)],
                used_sessions=spent.sessions,
                budget_sessions=limits.sessions or 0,
                used_tokens=None if unmeasured else spent.tokens,
                budget_tokens=limits.tokens or 0,
                unmeasured_sessions=unmeasured,
                exhausted_at=stamp(item.since),
            )

    def _url(self, issue_id: str) -> str | None:
        view = self.schedule.issues.get(issue_id)
        return (web_link(self.hide(view.url)) or None) if view else None

    def _totals(self, claims: list[Claim], running: list[V1Running]) -> V1Totals:
        ended = totals(self.db)
        (unmeasured,) = self.db.execute("SELECT total(unmeasured) FROM usage").fetchone()
        silent = [run for run in running if run.usage_arrival == "none"]
        unheard = [run for run in running if not run.tokens_measured and run.usage_arrival != "none"]
        return V1Totals(
            input_tokens=ended.tokens.input,
            output_tokens=ended.tokens.output,
            total_tokens=ended.tokens.total,
            cache_read_tokens=ended.tokens.cache_read,
            seconds_running=ended.seconds + sum(max(self.now - claim.claimed_at, 0.0) for claim in claims),
            unmeasured_sessions=int(unmeasured),
            running_unreported=len(unheard),
            running_non_reporting=len(silent),
        )

    def _rate_limits(self) -> dict[str, Any]:
        return {
            provider: {"until": stamp(pause.until), "reason": self.hide(pause.detail)}
            for provider, pause in self.schedule.pauses.items()
            if not pause.is_fault and pause.until > self.now
        }


def find_active(db: Connection, identifier: str) -> str | None:
    """The issue with this identifier among those that run or have a next time."""
    row = db.execute(
        """SELECT issue_id FROM claims WHERE identifier = ?
           UNION ALL SELECT issue_id FROM retries WHERE identifier = ? LIMIT 1""",
        (identifier, identifier),
    ).fetchone()
    return str(row[0]) if row else None


def _tokens(usage: Usage | None) -> V1Tokens:
    if usage is None:
        return V1Tokens(None, None, None, None)
    return V1Tokens(usage.input, usage.output, usage.total, usage.cache_read)


def _attribution(arrival: str, told: RunReport | None) -> str:
    """Whether what was used can be put down to a model."""
    if arrival in ("", "none"):
        return arrival
    return "per_model" if told and told.model else "session_total"
