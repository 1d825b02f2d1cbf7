"""The response types of `/api/v1`, as existing dashboards and probes expect them. Unmeasured values are `null`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

Verdict = Literal["pass", "fail"]


class V1Tokens(Struct, frozen=True):
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cache_read_tokens: int | None


class V1Running(Struct, frozen=True, kw_only=True):
    """Nobody counts requests to the model, nor the time they take: those fields say so."""

    issue_id: str
    issue_identifier: str
    issue_url: str | None
    state: str
    session_id: str
    turn_count: int
    last_event: str
    last_message: str
    started_at: str
    last_event_at: str
    workspace_path: str
    tokens: V1Tokens
    tokens_measured: bool
    tokens_pending: bool
    usage_arrival: str
    usage_attribution: str
    model_name: str | UnsetType = UNSET
    api_request_count: int | None = None
    api_requests_measured: bool = False
    tool_time_percent: float | None = None
    api_time_percent: float | None = None


class V1Retrying(Struct, frozen=True, kw_only=True):
    issue_id: str
    issue_identifier: str
    issue_url: str | None
    attempt: int
    due_at: str
    error: str


class V1BudgetExhausted(Struct, frozen=True, kw_only=True):
    """`budget_*` is 0 where there is no such bound; `used_tokens` is null where some session was not measured."""

    issue_id: str
    issue_identifier: str
    issue_url: str | None
    reason: str
    used_sessions: int
    budget_sessions: int
    used_tokens: int | None
    budget_tokens: int
    unmeasured_sessions: int | None
    exhausted_at: str


class V1Blocked(Struct, frozen=True, kw_only=True):
    """Waits for a person: its agent asked, it failed for good, or somebody stopped it."""

    issue_id: str
    issue_identifier: str
    issue_url: str | None
    state: str
    error: str
    session_id: str
    workspace_path: str | None
    blocked_at: str


class V1Counts(Struct, frozen=True):
    running: int
    retrying: int
    budget_exhausted: int
    blocked: int


class V1Totals(Struct, frozen=True, kw_only=True):
    """Tokens are those of ended sessions that were measured; `seconds_running` includes the running ones."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cache_read_tokens: int
    seconds_running: float
    unmeasured_sessions: int
    running_unreported: int
    running_non_reporting: int


class V1State(Struct, frozen=True, kw_only=True):
    generated_at: str
    counts: V1Counts
    running: list[V1Running]
    retrying: list[V1Retrying]
    budget_exhausted: list[V1BudgetExhausted]
    blocked: list[V1Blocked]
    agent_totals: V1Totals
    rate_limits: dict[str, Any]
    cost_unpriced_running: int
    active_estimated_cost_usd: float | UnsetType = UNSET


class V1Event(Struct, frozen=True):
    at: str
    event: str
    message: str


class V1Workspace(Struct, frozen=True):
    path: str


class V1Attempts(Struct, frozen=True):
    restart_count: int
    current_retry_attempt: int


class V1Issue(Struct, frozen=True, kw_only=True):
    issue_identifier: str
    issue_id: str
    status: Literal["running", "retrying"]
    workspace: V1Workspace | None
    attempts: V1Attempts
    running: V1Running | None
    retry: V1Retrying | None
    recent_events: list[V1Event]
    last_error: str | None
    tracked: dict[str, Any] = {}


class V1Health(Struct, frozen=True):
    status: Verdict


class V1Ready(Struct, frozen=True):
    status: Verdict
    version: str
    uptime_seconds: float
    checks: dict[str, Verdict]


class V1Refresh(Struct, frozen=True):
    queued: bool
    coalesced: bool
    requested_at: str
    operations: list[str]
