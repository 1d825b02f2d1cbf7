"""What `/api/v1`, `/livez` and `/readyz` say, and what they answer where something is wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sortie.core import events as ev
from sortie.store.connect import connect_existing, connect_readonly
from sortie.store.lock import held, lock_path
from sortie.web.site import Live

from .api_scene import HOSTILE, RUNNING_RUN, Telling, busy_server, busy_store
from .live_server import append, served
from .test_v1_fields import REFRESH, differences


def test_the_state_tells_what_runs_waits_and_needs_a_person(server):
    state = server.get("/api/v1/state").json
    assert state["counts"] == {"running": 1, "retrying": 1, "budget_exhausted": 1, "blocked": 1}
    (running,), (retrying,), (used_up,), (blocked,) = (
        state[part] for part in ("running", "retrying", "budget_exhausted", "blocked")
    )
    assert running["issue_identifier"] == "D-1"
    told = {one["issue_identifier"]: one["issue_url"] for one in (running, retrying, used_up, blocked)}
    assert told == {name: f"https://tracker.example/{name}" for name in ("D-1", "D-2", "D-3", "D-4")}
    assert running["session_id"] == "s-1"
    assert running["turn_count"] == 1
    assert running["last_event"] == "note"
    assert running["last_message"] == "reading the code"
    assert running["workspace_path"] == "/nowhere/D-1"
    assert running["tokens"] == {
        "input_tokens": 1000,
        "output_tokens": 200,
        "total_tokens": 1200,
        "cache_read_tokens": 400,
    }
    assert (running["tokens_measured"], running["model_name"]) == (True, "opus")
    assert (running["usage_arrival"], running["usage_attribution"]) == ("incremental", "per_model")
    # The first retry has the number 1 there, and is the second attempt here.
    assert (retrying["attempt"], retrying["error"]) == (1, "it broke")
    assert used_up["reason"] == "token_budget"
    assert (used_up["used_sessions"], used_up["budget_sessions"]) == (1, 3)
    assert (used_up["used_tokens"], used_up["budget_tokens"]) == (150, 1000)
    assert blocked["error"] == HOSTILE.replace("\ud800", "?")
    assert state["rate_limits"]["codex"]["reason"] == "limit reached"
    assert state["active_estimated_cost_usd"] == 0.5
    totals = state["agent_totals"]
    assert (totals["input_tokens"], totals["output_tokens"], totals["cache_read_tokens"]) == (400, 200, 80)
    assert totals["unmeasured_sessions"] == 1
    assert totals["seconds_running"] > 5 * 31 + 59


def test_a_run_that_ended_since_its_service_told_of_it_costs_nothing_any_more(tmp_path):
    """What is told is up to a second old, and the store says that nothing runs."""
    with served(busy_store(tmp_path), live=Telling()) as server:
        over = ev.Settled(at=time.time(), issue_id="1", run_id=RUNNING_RUN, identifier="D-1", why="it ended")
        append(server.site.database, over)
        state = server.get("/api/v1/state").json
    assert (state["counts"]["running"], state["running"]) == (0, [])
    assert state["cost_unpriced_running"] == 0
    assert "active_estimated_cost_usd" not in state


def test_an_issue_that_runs_or_waits_is_found_by_its_identifier(server):
    running, waiting = server.get("/api/v1/D-1").json, server.get("/api/v1/D-2").json
    assert (running["status"], running["retry"], running["last_error"]) == ("running", None, None)
    assert running["workspace"] == {"path": "/nowhere/D-1"}
    assert running["attempts"] == {"restart_count": 0, "current_retry_attempt": 0}
    assert running["recent_events"][-1]["message"] == "something odd"
    assert (waiting["status"], waiting["running"], waiting["workspace"]) == ("retrying", None, None)
    assert waiting["attempts"] == {"restart_count": 0, "current_retry_attempt": 1}
    assert waiting["last_error"] == "it broke"


@pytest.mark.parametrize("name", ["D-4", "2", "nobody", "a/b", "%00", "%ff", "..%2f..%2fetc", "x" * 5000])
def test_whatever_neither_runs_nor_waits_is_not_found(server, name):
    answer = server.get(f"/api/v1/{name}")
    assert answer.status == 404
    assert answer.json["error"]["code"] == "issue_not_found"


def test_an_identifier_with_a_slash_is_found(tmp_path):
    view = ev.View(id="77", identifier="team/repo#7", title="t", state="To Do")
    retry = ev.Retry(kind="error", attempt=3, due_at=1.0)
    more = [
        ev.IssueSeen(at=1.0, issue_id="77", view=view),
        ev.Requested(at=1.0, issue_id="77", identifier="team/repo#7", retry=retry),
    ]
    with served(busy_store(tmp_path, *more), live=Telling()) as server:
        assert server.get("/api/v1/team/repo%237").json["retry"]["attempt"] == 2


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "BREW"])
@pytest.mark.parametrize(
    ("address", "allowed"), [("/api/v1/state", "GET"), ("/api/v1/D-1", "GET"), ("/api/v1/refresh", "POST")]
)
def test_another_method_is_refused_by_name(server, method, address, allowed):
    if method == allowed:
        return
    answer = server.request(method, address)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert answer.json == {
        "error": {"code": "method_not_allowed", "message": f"method {method} is not allowed on this endpoint"}
    }


def test_a_refresh_is_not_read(server):
    answer = server.get("/api/v1/refresh")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("address", ["/", "/livez", "/readyz"])
def test_addresses_for_people_and_probes_refuse_a_method_in_plain_text(server, address):
    """Who is no page needs no token to be told so."""
    for shown in ({"Authorization": server.bearer()}, *([] if address == "/" else [{}])):
        answer = server.request("PUT", address, shown)
        assert answer.status == 405
        assert answer.headers["content-type"].startswith("text/plain")
        assert "GET" in answer.headers["allow"]


def test_head_is_a_get_without_its_body(server):
    answer = server.request("HEAD", "/api/v1/state")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 100


def commands_of(database: Path) -> list[tuple[int, str, str]]:
    with closing(connect_readonly(database)) as db:
        return db.execute("SELECT id, verb, issue FROM commands").fetchall()


def test_a_second_refresh_is_coalesced_with_the_one_that_waits(tmp_path):
    with busy_server(tmp_path) as server:
        first, second = (server.request("POST", "/api/v1/refresh").json for _ in range(2))
        assert (first["coalesced"], second["coalesced"]) == (False, True)
        assert commands_of(server.site.database) == [(1, "refresh", "")]
        done = ev.Commanded(at=1.0, command_id=1, verb="refresh", outcome="looked", ok=True)
        append(server.site.database, done)
        assert server.request("POST", "/api/v1/refresh").json["coalesced"] is False
        # Webhooks ask so for ever: what was done is not kept.
        assert commands_of(server.site.database) == [(2, "refresh", "")]


def test_while_the_service_drains_probes_fail_and_nothing_is_queued(tmp_path):
    with busy_server(tmp_path, Telling(draining=True)) as server:
        live, ready = server.get("/livez"), server.get("/readyz")
        refused = server.request("POST", "/api/v1/refresh")
        assert (live.status, live.json) == (503, {"status": "fail"})
        assert (ready.status, ready.json["status"]) == (503, "fail")
        assert ready.json["checks"] == {"database": "fail", "preflight": "fail", "workflow": "fail"}
        assert (refused.status, [*differences(REFRESH, refused.json)]) == (409, [])
        assert (refused.json["queued"], refused.json["operations"]) == (False, [])
        assert server.get("/api/v1/state").status == 200


def test_readiness_names_what_is_wrong(tmp_path):
    fault = ev.ProviderPaused(at=1.0, provider="command", until=2.0, detail="no program", error_kind="not_found")
    database = busy_store(tmp_path, fault)
    (tmp_path / "WORKFLOW.md").write_text("---\ntracker: [\n---\n")
    with served(database, live=Telling()) as server:
        ready = server.get("/readyz")
    assert ready.status == 503
    assert ready.json["checks"] == {"database": "pass", "preflight": "fail", "workflow": "fail"}


def test_a_service_that_cannot_write_its_store_is_not_ready(tmp_path):
    with busy_server(tmp_path, Telling(store_trouble="The disk is full.")) as server:
        ready = server.get("/readyz")
    assert (ready.status, ready.json["checks"]) == (
        503,
        {"database": "fail", "preflight": "pass", "workflow": "pass"},
    )


class _Silent(Live):
    """Told something once, and nothing since."""

    def __init__(self) -> None:
        super().__init__()
        self.report = Telling().report


@pytest.mark.parametrize("address", ["/api/v1/state", "/api/v1/D-1"])
def test_a_silent_service_has_no_snapshot(tmp_path, address):
    with busy_server(tmp_path, _Silent()) as server:
        answer = server.get(address)
        assert (answer.status, answer.json["error"]["code"]) == (503, "snapshot_unavailable")
        assert server.request("POST", "/api/v1/refresh").status == 503
        assert server.get("/livez").json == {"status": "pass"}  # it has as long for its first word
        server.site.young_until = 0.0
        assert server.get("/livez").json == {"status": "fail"}
        assert server.get("/readyz").json["checks"]["preflight"] == "fail"


@contextmanager
def _owned(database: Path) -> Iterator[None]:
    with held(database, {"pid": os.getpid(), "since": "2026-01-01T00:00:00Z"}):
        yield


def test_a_site_that_only_looks_tells_of_the_service_of_another(tmp_path):
    database = busy_store(tmp_path)
    with served(database, read_only=True) as server:
        assert server.get("/api/v1/state").status == 503
        with _owned(database):
            state = server.get("/api/v1/state")
            assert state.status == 200
            assert state.json["running"][0]["last_message"] == ""
            assert server.get("/readyz").json["uptime_seconds"] > 3600
        assert server.get("/livez").status == 200


@pytest.mark.parametrize(
    "said",
    [
        '{"pid": 1}',
        '{"since": "\\ud800"}',
        '{"since": {"a": [1]}}',
        '{"pid": "<b>", "since": NaN}',
        "[1]",
        "{",
        "\xff",
    ],
)
def test_whatever_stands_in_the_lock_file_everything_is_answered(tmp_path, said):
    """It lies beside the store, where agents can write too."""
    with busy_server(tmp_path) as server, _owned(server.site.database):
        lock_path(server.site.database).write_text(said, "latin-1")
        pages = ("/", "/health", "/readyz", "/api/v1/state", "/api/v2/status", "/api/v2/health", "/metrics")
        assert {path: server.get(path).status for path in pages} == dict.fromkeys(pages, 200)


def test_a_store_that_cannot_be_read_has_no_snapshot(tmp_path):
    with busy_server(tmp_path) as server:
        with closing(connect_existing(server.site.database)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        server.site.database.write_bytes(b"no database at all" * 100)
        for address in ("/api/v1/state", "/api/v1/D-1"):
            answer = server.get(address)
            assert (answer.status, answer.json["error"]["code"]) == (503, "snapshot_unavailable")
        ready = server.get("/readyz")
        assert (ready.status, ready.json["checks"]["database"]) == (503, "fail")


def test_secrets_of_the_workflow_are_in_no_answer(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKER_KEY", "hunter2-hunter2")
    database = busy_store(tmp_path)
    append(database, ev.Noted(at=1.0, issue_id="1", level="warning", message="key is hunter2-hunter2"))
    secret = "---\ntracker: {kind: file, api_key: $TRACKER_KEY}\nagent: {kind: command}\n---\nDo it\n"
    (tmp_path / "WORKFLOW.md").write_text(secret)
    with served(database, live=Telling()) as server:
        answers = [
            server.get(address)
            for address in ("/api/v1/D-1", "/api/v2/issues/D-1/why", "/api/v2/events?limit=1000")
        ]
    assert all(answer.status == 200 for answer in answers)
    assert not any(b"hunter2" in answer.body for answer in answers)
