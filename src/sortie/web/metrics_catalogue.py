"""Every metric that `/metrics` has: its kind, its labels with the values known beforehand, and what it says.

A counter of something that never happened is 0 for these values, so that a first time shows as a rise; what cannot
happen has no value there. The names without a feature of ours behind them (CI, reviews) stay at 0, because it never
happened; boards that were made for them show that instead of an error.
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
    """`name` is without prefix and suffix. `known` has the values of each label, in their order; where some label
    has values that nobody can list, there is no series beforehand."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    known: tuple[tuple[str, ...], ...] = ()

    def series(self) -> list[tuple[str, ...]]:
        """The values of all labels, for each series that is known beforehand; one without values without labels."""
        return list(product(*self.known)) if len(self.known) == len(self.labels) else []

    @property
    def sample(self) -> str:
        """As people write it in an expression."""
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")


def _metric(kind: Kind, name: str, said: str, /, **labels: tuple[str, ...]) -> Metric:
    known = tuple(values for values in labels.values() if values)
    return Metric(name=name, kind=kind, help=said, labels=tuple(labels), known=known)


_counter = partial(_metric, "counter")
_gauge = partial(_metric, "gauge")
_histogram = partial(_metric, "histogram")

COUNTERS = (
    _counter("tokens", "Tokens used; cache_read is a part of input.", type=("input", "output", "cache_read")),
    _counter("agent_runtime_seconds", "Time that ended runs took."),
    _counter(
        "dispatches",
        "Runs that were begun; error and cancelled: before the agent had a turn.",
        outcome=(*RESULTS, "cancelled"),
    ),
    _counter("worker_exits", "Runs that ended, by how.", exit_type=EXITS),
    _counter(
        "retries",
        "Next tries that were planned, by why.",
        trigger=("error", "continuation", "stall", "resume", "limit", "held", "operator"),
    ),
    _counter(
        "reconciliation_actions",
        "Runs stopped because of their issue, and workspaces removed.",
        action=("stop", "cleanup", "sweep_cleanup"),
    ),
    _counter("poll_cycles", "Looks at the tracker.", result=RESULTS),
    _counter("tracker_requests", "What the tracker was asked.", operation=OPERATIONS, result=RESULTS),
    _counter("handoff_transitions", "Issues moved to the hand-off state.", result=(*RESULTS, "skipped")),
    _counter("issue_parks", "Issues put aside for a person.", reason=("signal", "error", "budget", "operator")),
    _counter("budget_exhaustions", "Issues that used up their budget.", reason=BUDGETS),
    # One of sessions lets none begin.
    _counter(
        "runs_stopped_by_budget",
        "Runs that a budget ended.",
        reason=tuple(one for one in BUDGETS if one != "session_budget"),
    ),
    _counter("dispatch_transitions", "Issues moved when their run began.", result=(*RESULTS, "skipped")),
    _counter(
        "tracker_comments",
        "Comments written to the tracker.",
        lifecycle=("dispatch", "completion", "failure", "answer", "other"),
        result=RESULTS,
    ),
    _counter("tool_calls", "Calls of our tools by agents.", tool=(), result=RESULTS),
    _counter("ci_status_checks", "Looks at checks of CI.", result=("passing", "pending", "failing", "error")),
    _counter("ci_escalations", "Failures of CI that went to a person.", action=ESCALATIONS),
    _counter("review_checks", "Looks at reviews.", result=("dispatched", "error")),
    _counter("review_escalations", "Reviews that went to a person.", action=ESCALATIONS),
    _counter("candidate_holds", "Times that a rule began to hold back an issue.", reason=HOLDS),
    _counter("self_review_iterations", "Rounds of self-review.", verdict=("pass", "iterate", "none")),
    _counter("self_review_sessions", "Self-reviews that ended.", final_verdict=("pass", "iterate", "none")),
    _counter("self_review_cap_reached", "Self-reviews that ran out of rounds."),
    _counter("cost_usd", "Money spent, as far as agents tell or token rates say."),
)

HISTOGRAMS = (
    _histogram("poll_duration_seconds", "Time of a look at the tracker."),
    _histogram("worker_duration_seconds", "Time of a run.", exit_type=EXITS),
    _histogram("time_to_start_seconds", "Time from when an issue was ready to the start of its first run."),
    _histogram("self_review_verification_duration_seconds", "Time of a verification command.", command=("",)),
)

GAUGES = (
    _gauge("sessions_running", "Runs that go on."),
    _gauge("sessions_retrying", "Issues whose next try has a time."),
    _gauge("slots_available", "How many more runs could go on at once."),
    _gauge("active_sessions_elapsed_seconds", "How long all runs that go on have taken together."),
    _gauge("budget_exhausted_issues", "Issues that have used up their budget and wait.", reason=BUDGETS),
    _gauge("ssh_host_usage", "Runs on each host.", host=()),
    _gauge("build_info", "1, with the version as a label.", version=()),
    _gauge("waiting_for_person", "What waits for a person, by kind.", kind=NEEDS),
    _gauge("oldest_waiting_for_person_seconds", "How long the oldest of what waits for a person has waited."),
    _gauge("day_spent", "What the budget of this day has been charged.", unit=UNITS),
    _gauge("day_limit", "What the budget of a day allows, where it has a limit.", unit=()),
    _gauge("event_loop_lag_seconds", "By how much the event loop of the service was late at last."),
    _gauge("last_poll_timestamp_seconds", "When the tracker last answered a look."),
    _gauge("tracker_calls_remaining", "How many calls the server of the tracker still allows, where it says."),
    _gauge("service_up", "1 while the service is heard, 0 once it is silent."),
)
