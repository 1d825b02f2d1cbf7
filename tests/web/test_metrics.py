"""`/metrics`: names, types, labels and buckets as boards know them, figures of the store."""

from __future__ import annotations

import re
import time
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from sortie.core import events as ev
from sortie.store.connect import connect_existing
from sortie.web.site import Live
from sortie.web.tokens import new_token

from .api_scene import Telling, busy_server, busy_store
from .live_server import append, new_store, served

# Name without prefix: type, labels.
KNOWN: dict[str, tuple[str, set[str]]] = {
    **dict.fromkeys(
        ("sessions_running", "sessions_retrying", "slots_available", "active_sessions_elapsed_seconds"),
        ("gauge", set[str]()),
    ),
    "ssh_host_usage": ("gauge", {"host"}),
    "budget_exhausted_issues": ("gauge", {"reason"}),
    "build_info": ("gauge", {"version"}),
    "poll_duration_seconds": ("histogram", set()),
    "worker_duration_seconds": ("histogram", {"exit_type"}),
    "self_review_verification_duration_seconds": ("histogram", {"command"}),
    "tokens": ("counter", {"type"}),
    "agent_runtime_seconds": ("counter", set()),
    "dispatches": ("counter", {"outcome"}),
    "worker_exits": ("counter", {"exit_type"}),
    "retries": ("counter", {"trigger"}),
    "reconciliation_actions": ("counter", {"action"}),
    "poll_cycles": ("counter", {"result"}),
    "tracker_requests": ("counter", {"operation", "result"}),
    "handoff_transitions": ("counter", {"result"}),
    "issue_parks": ("counter", {"reason"}),
    "budget_exhaustions": ("counter", {"reason"}),
    "runs_stopped_by_budget": ("counter", {"reason"}),
    "dispatch_transitions": ("counter", {"result"}),
    "tracker_comments": ("counter", {"lifecycle", "result"}),
    "tool_calls": ("counter", {"tool", "result"}),
    "ci_status_checks": ("counter", {"result"}),
    "ci_escalations": ("counter", {"action"}),
    "review_checks": ("counter", {"result"}),
    "review_escalations": ("counter", {"action"}),
    "candidate_holds": ("counter", {"reason"}),
    "self_review_iterations": ("counter", {"verdict"}),
    "self_review_sessions": ("counter", {"final_verdict"}),
    "self_review_cap_reached": ("counter", set()),
    # Ours.
    "cost_usd": ("counter", set()),
    "time_to_start_seconds": ("histogram", set()),
    "oldest_waiting_for_person_seconds": ("gauge", set()),
    "waiting_for_person": ("gauge", {"kind"}),
    "event_loop_lag_seconds": ("gauge", set()),
    "tracker_calls_remaining": ("gauge", set()),
    "service_up": ("gauge", set()),
    "day_spent": ("gauge", {"unit"}),
    "day_limit": ("gauge", {"unit"}),
    "last_poll_timestamp_seconds": ("gauge", set()),
}


def families(text: str) -> dict[str, Any]:
    return {family.name.removeprefix("sortie_"): family for family in text_string_to_metric_families(text)}


def values(text: str) -> dict[tuple[str, str], float]:
    """Every sample by its name and its labels as they are written."""
    found = re.findall(r"^(\w+)(\{[^}]*\})? (\S+)$", text, re.MULTILINE)
    return {(name, labels): float(value) for name, labels, value in found}


def test_every_metric_has_the_type_and_the_labels_that_boards_know(server):
    found = families(server.get("/metrics").text)
    told = {
        name: (family.type, {label for sample in family.samples for label in sample.labels} - {"le"})
        for name, family in found.items()
    }
    assert told.keys() == KNOWN.keys()
    assert told == KNOWN


def test_what_happened_is_counted_from_the_store(server):
    found = values(server.get("/metrics").text)
    assert found["sortie_worker_exits_total", '{exit_type="soft_stop"}'] == 2
    assert found["sortie_worker_exits_total", '{exit_type="error"}'] == 2
    assert found["sortie_tokens_total", '{type="input"}'] == 400
    assert found["sortie_cost_usd_total", ""] == 1.0
    assert found["sortie_budget_exhaustions_total", '{reason="token_budget"}'] == 1
    assert found["sortie_candidate_holds_total", '{reason="blocked_by"}'] == 1
    assert found["sortie_sessions_running", ""] == 1
    assert found["sortie_sessions_retrying", ""] == 1
    assert found["sortie_slots_available", ""] == 3
    assert found["sortie_ssh_host_usage", '{host="box"}'] == 1
    assert found["sortie_budget_exhausted_issues", '{reason="token_budget"}'] == 1
    assert found["sortie_waiting_for_person", '{kind="signal"}'] == 1
    assert found["sortie_waiting_for_person", '{kind="review"}'] == 1
    assert 3000 < found["sortie_oldest_waiting_for_person_seconds", ""] < 4000
    assert found["sortie_day_limit", '{unit="usd"}'] == 10
    assert found["sortie_event_loop_lag_seconds", ""] == 0.003
    assert found["sortie_tracker_calls_remaining", ""] == 4321
    assert found["sortie_service_up", ""] == 1


def test_calls_of_tools_are_counted_by_tool_and_result(server):
    """EXT-14: as `sortie_tool_calls_total`."""
    found = values(server.get("/metrics").text)
    assert found["sortie_tool_calls_total", '{result="success",tool="tracker_api"}'] == 5
    assert found["sortie_tool_calls_total", '{result="error",tool="tracker_api"}'] == 5


def test_what_never_happened_is_zero_where_its_labels_are_known(server):
    found = values(server.get("/metrics").text)
    for name, labels in (
        ("sortie_ci_status_checks_total", '{result="failing"}'),
        ("sortie_review_checks_total", '{result="dispatched"}'),
        ("sortie_self_review_cap_reached_total", ""),
        ("sortie_poll_cycles_total", '{result="error"}'),
        ("sortie_tracker_requests_total", '{operation="transition",result="error"}'),
        ("sortie_waiting_for_person", '{kind="agent"}'),
        ("sortie_dispatches_total", '{outcome="cancelled"}'),
        ("sortie_poll_duration_seconds_count", ""),
        ("sortie_self_review_verification_duration_seconds_count", '{command=""}'),
        ("sortie_worker_duration_seconds_count", '{exit_type="cancelled"}'),
    ):
        assert found[name, labels] == 0


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("poll_duration_seconds", [0.1 * 2**step for step in range(10)]),
        ("worker_duration_seconds", [10 * 2**step for step in range(12)]),
        ("self_review_verification_duration_seconds", [10 * 2**step for step in range(12)]),
    ],
)
def test_histograms_have_the_buckets_that_boards_know(server, name, bounds):
    samples = families(server.get("/metrics").text)[name].samples
    found = dict.fromkeys(sample.labels["le"] for sample in samples if sample.name.endswith("_bucket"))
    assert [float(bound) for bound in found] == [*bounds, float("inf")]


def test_counters_go_on_after_a_restart(tmp_path):
    database = busy_store(tmp_path)
    told = []
    for _ in range(2):
        with served(database, live=Telling()) as server:
            found = values(server.get("/metrics").text)
            told.append({key: value for key, value in found.items() if key[0].endswith(("_total", "_bucket"))})
        append(database, ev.ToolCalled(at=1.0, issue_id="1", tool="tracker_api", result="success", ms=1.0))
    before, after = told
    calls = "sortie_tool_calls_total", '{result="success",tool="tracker_api"}'
    assert after == before | {calls: before[calls] + 1}


def test_a_service_that_is_not_heard_is_down_and_the_rest_is_still_told(tmp_path):
    with busy_server(tmp_path, Live()) as server:
        found = values(server.get("/metrics").text)
    assert found["sortie_service_up", ""] == 0
    assert ("sortie_event_loop_lag_seconds", "") not in found
    assert found["sortie_sessions_running", ""] == 1


def test_looks_that_fail_are_told_however_long_it_is_until_the_next_one(tmp_path):
    """The last one was half an hour ago; an alert watches this."""
    troubled = Telling(last_look_at=time.time() - 1800, last_look_error="no route", looks_failing_for=1800.0)
    for live, waiting in ((Telling(), 0), (troubled, 1)):
        with served(new_store(tmp_path / f"{waiting}.db"), live=live) as server:
            assert values(server.get("/metrics").text)["sortie_waiting_for_person", '{kind="tracker"}'] == waiting


def test_the_limits_of_a_broken_workflow_are_not_made_up(tmp_path):
    database = busy_store(tmp_path)
    (tmp_path / "WORKFLOW.md").write_text("---\nbudget: {per_day: {usd: many}}\n---\n")
    with served(database, live=Telling()) as server:
        found = values(server.get("/metrics").text)
    assert not [name for name, _ in found if name == "sortie_day_limit"]


def test_openmetrics_is_answered_where_it_is_asked_for(server):
    answer = server.get("/metrics", Accept="application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    names = {family.name for family in parse_openmetrics(answer.text)}
    assert {"sortie_tokens", "sortie_service_up"} <= names
    plain = server.get("/metrics", Accept="text/html")
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["application/openmetrics-text", "text/plain", "*/*", ""]),
            st.sampled_from(["version", "escaping", "q", ""]),
            st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters=","), max_size=12),
        ),
        max_size=3,
    )
)
def test_whatever_form_is_asked_for_is_answered(server, wanted):
    accept = ",".join(f"{kind};{name}={value}" for kind, name, value in wanted)
    assert server.get("/metrics", Accept=accept).status == 200


def test_another_method_is_refused_and_an_unreadable_store_is_no_answer(tmp_path):
    with busy_server(tmp_path) as server:
        token = new_token(server.site.database, "operate")
        refused = server.request("DELETE", "/metrics", {"Authorization": f"Bearer {token}"})
        assert (refused.status, refused.headers["allow"]) == (405, "GET")
        with closing(connect_existing(server.site.database)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        server.site.database.write_bytes(b"no database at all" * 100)
        assert server.get("/metrics").status == 503
