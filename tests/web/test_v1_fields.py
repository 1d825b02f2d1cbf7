"""`/api/v1` field by field: names, types and nullability as dashboards and probes of other people expect them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sortie.plugins import AGENTS
from sortie.web.api_v1_state import USAGE_ARRIVAL

from .api_scene import Telling, busy_server

STRING, INTEGER, NUMBER, BOOLEAN, TIME = "string", "integer", "number", "boolean", "time"
NULL = "null"

TOKENS = {
    "input_tokens": {INTEGER, NULL},
    "output_tokens": {INTEGER, NULL},
    "total_tokens": {INTEGER, NULL},
    "cache_read_tokens": {INTEGER, NULL},
}
RUNNING: dict[str, Any] = {
    "issue_id": {STRING},
    "issue_identifier": {STRING},
    "issue_url": {STRING, NULL},
    "state": {STRING},
    "session_id": {STRING},
    "turn_count": {INTEGER},
    "last_event": {STRING},
    "last_message": {STRING},
    "started_at": {TIME},
    "last_event_at": {TIME},
    "workspace_path": {STRING},
    "tokens": TOKENS,
    "model_name?": {STRING},
    "api_request_count": {INTEGER, NULL},
    "requests_by_model?": {},
    "tool_time_percent": {NUMBER, NULL},
    "api_time_percent": {NUMBER, NULL},
    "tokens_measured": {BOOLEAN},
    "usage_arrival": {STRING},
    "usage_attribution": {STRING},
    "tokens_pending": {BOOLEAN},
    "api_requests_measured": {BOOLEAN},
    "display_identifier?": {STRING},
}
RETRYING: dict[str, Any] = {
    "issue_id": {STRING},
    "issue_identifier": {STRING},
    "issue_url": {STRING, NULL},
    "display_identifier?": {STRING},
    "attempt": {INTEGER},
    "due_at": {TIME},
    "error": {STRING},
}
BUDGET_EXHAUSTED: dict[str, Any] = {
    "issue_id": {STRING},
    "issue_identifier": {STRING},
    "issue_url": {STRING, NULL},
    "display_identifier?": {STRING},
    "reason": {STRING},
    "used_sessions": {INTEGER},
    "budget_sessions": {INTEGER},
    "used_tokens": {INTEGER, NULL},
    "budget_tokens": {INTEGER},
    "unmeasured_sessions": {INTEGER, NULL},
    "exhausted_at": {TIME},
}
BLOCKED: dict[str, Any] = {
    "issue_id": {STRING},
    "issue_identifier": {STRING},
    "issue_url": {STRING, NULL},
    "state": {STRING},
    "error": {STRING},
    "session_id": {STRING},
    "workspace_path": {STRING, NULL},
    "blocked_at": {TIME},
}
STATE: dict[str, Any] = {
    "generated_at": {TIME},
    "counts": {
        "running": {INTEGER},
        "retrying": {INTEGER},
        "budget_exhausted": {INTEGER},
        "blocked": {INTEGER},
    },
    "running": [RUNNING],
    "retrying": [RETRYING],
    "budget_exhausted": [BUDGET_EXHAUSTED],
    "blocked": [BLOCKED],
    "agent_totals": {
        "input_tokens": {INTEGER},
        "output_tokens": {INTEGER},
        "total_tokens": {INTEGER},
        "cache_read_tokens": {INTEGER},
        "seconds_running": {NUMBER},
        "unmeasured_sessions": {INTEGER},
        "running_unreported": {INTEGER},
        "running_non_reporting": {INTEGER},
    },
    "rate_limits": {"*": {"until": {TIME}, "reason": {STRING}}},
    "active_estimated_cost_usd?": {NUMBER},
    "cost_unpriced_running": {INTEGER},
}
ISSUE: dict[str, Any] = {
    "issue_identifier": {STRING},
    "issue_id": {STRING},
    "status": {STRING},
    "workspace": ({"path": {STRING}}, NULL),
    "attempts": {"restart_count": {INTEGER}, "current_retry_attempt": {INTEGER}},
    "running": (RUNNING, NULL),
    "retry": (RETRYING, NULL),
    "recent_events": [{"at": {TIME}, "event": {STRING}, "message": {STRING}}],
    "last_error": {STRING, NULL},
    "tracked": {},
}
LIVEZ: dict[str, Any] = {"status": {STRING}}
READYZ: dict[str, Any] = {
    "status": {STRING},
    "version": {STRING},
    "uptime_seconds": {NUMBER},
    "checks": {"database": {STRING}, "preflight": {STRING}, "workflow": {STRING}},
}
REFRESH: dict[str, Any] = {
    "queued": {BOOLEAN},
    "coalesced": {BOOLEAN},
    "requested_at": {TIME},
    "operations": [{STRING}],
}


def kind_of(value: Any) -> set[str]:
    match value:
        case None:
            return {NULL}
        case bool():
            return {BOOLEAN}
        case int():
            return {INTEGER, NUMBER}
        case float():
            return {NUMBER}
        case str():
            is_time = len(value) == 20 and value[4] == "-" and value[10] == "T" and value.endswith("Z")
            return {STRING, TIME} if is_time else {STRING}
        case _:
            return set()


def differences(expected: Any, value: Any, where: str = "") -> Iterator[str]:
    """Every place where the value is not what the table says."""
    match expected:
        case set():
            if not kind_of(value) & expected:
                yield f"{where} is {value!r}, not {' or '.join(sorted(expected))}"
        case (inner, "null"):
            if value is not None:
                yield from differences(inner, value, where)
        case [inner]:
            if not isinstance(value, list):
                yield f"{where} is no list"
                return
            for number, item in enumerate(value):
                yield from differences(inner, item, f"{where}[{number}]")
        case dict():
            if not isinstance(value, dict):
                yield f"{where} is no object"
            elif "*" in expected:
                for name, item in value.items():
                    yield from differences(expected["*"], item, f"{where}.{name}")
            else:
                yield from _fields(expected, value, where)


def _fields(expected: dict[str, Any], value: dict[str, Any], where: str) -> Iterator[str]:
    names = {name.removesuffix("?"): name for name in expected}
    yield from (f"{where}.{name} is in no table" for name in value.keys() - names.keys())
    for name, written in names.items():
        if name in value:
            yield from differences(expected[written], value[name], f"{where}.{name}")
        elif not written.endswith("?"):
            yield f"{where}.{name} is missing"


@pytest.mark.parametrize(
    ("address", "table"),
    [
        ("/api/v1/state", STATE),
        ("/api/v1/D-1", ISSUE),
        ("/api/v1/D-2", ISSUE),
        ("/livez", LIVEZ),
        ("/readyz", READYZ),
    ],
)
def test_every_field_is_the_one_of_the_table(server, address, table):
    answer = server.get(address)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert [*differences(table, answer.json)] == []


def test_a_refresh_has_every_field_of_the_table(server):
    answer = server.request("POST", "/api/v1/refresh")
    assert answer.status == 202
    assert [*differences(REFRESH, answer.json)] == []
    assert answer.json["operations"] == ["poll", "reconcile"]


def test_nothing_measured_gives_null_and_the_same_fields(tmp_path):
    with busy_server(tmp_path, Telling(running=())) as server:
        state = server.get("/api/v1/state").json
    (running,) = state["running"]
    assert [*differences(STATE, state)] == []
    assert running["tokens"] == dict.fromkeys(TOKENS)
    assert (running["tokens_measured"], running["api_requests_measured"]) == (False, False)
    assert running["api_request_count"] is None
    assert "active_estimated_cost_usd" not in state
    assert state["cost_unpriced_running"] == 1
    assert state["agent_totals"]["running_unreported"] == 1


def test_the_comparison_sees_what_is_missing_added_or_of_another_type():
    found = [*differences(LIVEZ, {"state": 1}), *differences(LIVEZ, {"status": 1})]
    assert sorted(found) == [".state is in no table", ".status is 1, not string", ".status is missing"]


def test_of_every_agent_of_ours_it_is_known_when_it_tells_what_it_used():
    assert USAGE_ARRIVAL.keys() == AGENTS.keys()
