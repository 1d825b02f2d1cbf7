"""Every metric of `/metrics`: its type, its labels with the values known in advance, and its help text.

A counter starts at 0 for each of these values, so that the first event shows as an increase; values that cannot
occur have no series. The metrics of features that Sortie does not have (CI, reviews) stay at 0, so that dashboards
made for them show 0 instead of an error.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Literal, get_args

from msgspec import Struct

from ..reports.needs import NeedKind
from .api_v1_state import BUDGET_REASONS

Kind = Literal["counter", "gauge", "histogram"]

PREFIX = "sortie_"

RESULTS = ("success", "error")
EXITS = ("normal", "error", "cancelled", "soft_stop")
BUDGETS = tuple(BUDGET_REASONS.values())
NEEDS: tuple[str, ...] = get_args(NeedKind)
UNITS = ("sessions", "turns", "tokens", "usd")
ESCALATIONS = ("label", "comment", "error")
OPERATIONS = ("fetch_candidates", "fetch_issue", "fetch_states_by_ids", "transition", "comment")
HOLDS = (
    *("incomplete", "parked", "waiting", "blocked_by", "provider_paused", "agent_held"),
    *("day_budget", "whole_budget", "no_slot", "no_state_slot", "no_host"),
)


class Metric(Struct, frozen=True, kw_only=True):
    """`name` is without prefix and suffix. `known` has the values of each label, in the order of `labels`; if the
    values of some label cannot be listed in advance, no series exists before its first event."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    known: tuple[tuple[str, ...], ...] = ()

    def series(self) -> list[tuple[str, ...]]:
        """The label values of each series known in advance; a metric without labels has one series."""
        return list(product(*self.known)) if len(self.known) == len(self.labels) else []

    @property
    def sample(self) -> str:
        """The name in PromQL."""
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")


def _metric(kind: Kind, name: str, text: str, /, **labels: tuple[str, ...]) -> Metric:
    known = tuple(values for values in labels.values() if values)
    return Metric(name=name, kind=kind, help=text, labels=tuple(labels), known=known)


_counter = partial(_metric, "counter")
_gauge = partial(_metric, "gauge")
_histogram = partial(_metric, "histogram")

COUNTERS = (
    _counter("tokens", "Tokens used; cache_read is part of input.", type=("input", "output", "cache_read")),
    _counter("agent_runtime_seconds", "Total time of finished runs."),
    _counter(
        "dispatches",
        "Runs started; error and cancelled ended before the agent's first turn.",
        outcome=(*RESULTS, "cancelled"),
    ),
    _counter("worker_exits", "Finished runs, by result.", exit_type=EXITS),
    _counter(
        "retries",
        "Retries scheduled, by reason.",
        trigger=("error", "continuation", "stall", "resume", "limit", "held", "operator"),
    ),
    _counter(
        "reconciliation_actions",
        "Runs stopped because of their issue, and workspaces removed.",
        action=("stop", "cleanup", "sweep_cleanup"),
    ),
    _counter("poll_cycles", "Polls of the tracker.", result=RESULTS),
    _counter("tracker_requests", "Calls to the tracker.", operation=OPERATIONS, result=RESULTS),
    _counter("handoff_transitions", "Issues moved to the hand-off state.", result=(*RESULTS, "skipped")),
    _counter("issue_parks", "Issues parked for a person.", reason=("signal", "error", "budget", "operator")),
    _counter("budget_exhaustions", "Issues that used up their budget.", reason=BUDGETS),
    # A session budget ends no run: it keeps new ones from starting.
    _counter(
        "runs_stopped_by_budget",
        "Runs ended by a budget.",
        reason=tuple(one for one in BUDGETS if one != "session_budget"),
    ),
    _counter("dispatch_transitions", "Issues moved when their run started.", result=(*RESULTS, "skipped")),
    _counter(
        "tracker_comments",
        "Comments written to the tracker.",
        lifecycle=("dispatch", "completion", "failure", "answer", "other"),
        result=RESULTS,
    ),
    _counter("tool_calls", "Calls of Sortie's tools by agents.", tool=(), result=RESULTS),
    _counter("ci_status_checks", "CI status checks.", result=("passing", "pending", "failing", "error")),
    _counter("ci_escalations", "CI failures escalated to a person.", action=ESCALATIONS),
    _counter("review_checks", "Checks for reviews.", result=("dispatched", "error")),
    _counter("review_escalations", "Reviews escalated to a person.", action=ESCALATIONS),
    _counter("candidate_holds", "Times a rule started to hold back an issue.", reason=HOLDS),
    _counter("self_review_iterations", "Rounds of self-review.", verdict=("pass", "iterate", "none")),
    _counter("self_review_sessions", "Finished self-reviews.", final_verdict=("pass", "iterate", "none")),
    _counter("self_review_cap_reached", "Self-reviews that ran out of rounds."),
    _counter("cost_usd", "Cost, as reported by agents or computed from token rates."),
)

HISTOGRAMS = (
    _histogram("poll_duration_seconds", "Duration of a poll of the tracker."),
    _histogram("worker_duration_seconds", "Duration of a run.", exit_type=EXITS),
    _histogram("time_to_start_seconds", "Time from when an issue was ready to the start of its first run."),
    _histogram("self_review_verification_duration_seconds", "Duration of a verification command.", command=("",)),
)

GAUGES = (
    _gauge("sessions_running", "Running sessions."),
    _gauge("sessions_retrying", "Issues with a scheduled retry."),
    _gauge("slots_available", "Free slots: how many more runs could start now."),
    _gauge("active_sessions_elapsed_seconds", "Total time so far of all running sessions."),
    _gauge("budget_exhausted_issues", "Issues that wait because their budget is used up.", reason=BUDGETS),
    _gauge("ssh_host_usage", "Running sessions on each host.", host=()),
    _gauge("build_info", "Always 1; the version is a label.", version=()),
    _gauge("waiting_for_person", "Items that wait for a person, by kind.", kind=NEEDS),
    _gauge("oldest_waiting_for_person_seconds", "How long the oldest item that waits for a person has waited."),
    _gauge("day_spent", "How much of today's budget is used.", unit=UNITS),
    _gauge("day_limit", "The limits of the daily budget, for units that have one.", unit=()),
    _gauge("event_loop_lag_seconds", "The last measured delay of the service's event loop."),
    _gauge("last_poll_timestamp_seconds", "Time of the last successful poll of the tracker."),
    _gauge("tracker_calls_remaining", "Calls left in the tracker server's rate limit, if it reports one."),
    _gauge("service_up", "1 while the service reports its state, 0 once it stops."),
)
