"""Every page, on a store with nothing in it and on a busy one, as a browser without scripts shows it."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from msgspec.structs import replace

from sortie.core import events as ev
from sortie.core.model import Limits, Park, Retry, Usage, View
from sortie.core.operator import LONGEST_ANSWER
from sortie.core.policy import Policy, day_of
from sortie.store.lock import held
from sortie.web.tokens import new_token
from sortie.workflow.config import ServerConfig

from .busy_store import QUESTION, Steady, busy_events, busy_store, live_of
from .live_server import WORKFLOW, LiveServer, append, new_store, served
from .page_text import Page

PAGES = ("/", "/runs", "/money", "/health")
HOLDER = {"pid": 4711, "since": "2026-11-18T09:00:00Z"}


def shown(server: LiveServer, path: str, status: int = 200, **headers: str) -> Page:
    answer = server.get(path, accept="text/html", **headers)
    assert answer.status == status, answer.text[:2000]
    page = Page(answer.text)
    assert page.faults == []
    assert [attributes for _, attributes in page.elements if "style" in attributes] == []
    assert all(one.get("src", "").startswith("/static/") for one in page.named("script"))
    return page


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    folder, now = tmp_path_factory.mktemp("busy"), time.time()
    store = busy_store(folder, repository=True)
    with held(store, HOLDER), served(store, live=Steady(live_of(busy_events(now), now).report)) as server:
        yield server


@pytest.fixture
def operator(busy):
    return {"authorization": f"Bearer {new_token(busy.site.database, 'operate')}"}


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    with served(new_store(tmp_path_factory.mktemp("empty") / "sortie.db")) as server:
        yield server


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_an_empty_store_says_so(empty, path):
    page = shown(empty, path)
    assert "not running" in page.text
    assert re.search(r"as of \d\d:\d\d:\d\d, \d+s ago", page.text)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_says_of_when_it_is_and_that_the_service_runs(busy, path):
    page = shown(busy, path)
    assert re.search(r"running as of \d\d:\d\d:\d\d, \d+s ago", page.text)


def test_now_begins_with_what_needs_a_person(busy):
    text = shown(busy, "/").text
    order = ["question SHOP-20", "failed SHOP-21", "out of budget SHOP-22", "ready for review SHOP-12"]
    places = [text.index(one) for one in (*order, "Running 4 of 6", "Waiting 2", "Held back 3", "Ready 8")]
    assert places == sorted(places)
    assert " ".join(QUESTION.split()) in text


def test_what_runs_is_shown_with_turn_last_line_age_and_cost(busy):
    text = shown(busy, "/").text
    assert "Running the tests of the session module" in text
    assert re.search(r"claude-code · claude-opus-5 · attempt 2 .* 3/20 18m\d\ds \d+s \$0\.42", text)


def test_what_waits_is_shown_with_the_rule_that_holds_it(busy):
    text = shown(busy, "/").text
    assert "it waits for others: SHOP-1 is not done" in text
    assert "error: the provider answered 529" in text
    assert "The codex agent is paused for" in text


def test_what_is_due_is_shown_with_what_holds_it(tmp_path):
    now = time.time()
    view = View(id="7", identifier="SHOP-7", title="Mend it", state="To Do")
    retry = Retry(kind="error", attempt=2, due_at=now - 60, error="it broke")
    about: dict[str, Any] = {"issue_id": "7", "run_id": "r", "identifier": "SHOP-7"}
    store = new_store(
        tmp_path / "sortie.db",
        ev.IssueSeen(at=now - 99, issue_id="7", view=view),
        ev.Claimed(at=now - 99, attempt=1, agent="command", **about),
        ev.Settled(at=now - 90, why="", retry=retry, **about),
        ev.Skipped(at=now - 60, issue_id="7", identifier="SHOP-7", rule="no-slot", detail="3 agents run already"),
    )
    with served(store) as server:
        text = shown(server, "/").text
    assert "SHOP-7 Mend it error: it broke all slots are taken: 3 agents run already 2 due" in text


def test_an_issue_has_its_story_what_was_said_and_what_changed(busy):
    page = shown(busy, "/issues/SHOP-1")
    assert re.search(r"It is running since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(", page.text)
    assert "turn 3 started" in page.text
    assert "Two tests fail because the clock of the cookie is in local time." in page.text
    assert "return time.gmtime(time.time() + seconds)" in page.text
    assert "test_cookie.py" in page.text
    folded = [one for one in page.named("details") if one.get("class") == "tools"]
    assert folded and "open" not in folded[0]


def test_a_story_goes_back_page_by_page(busy):
    newest = shown(busy, "/issues/SHOP-20?all=1")
    assert "turn 5 completed" in newest.text
    older = shown(busy, "/issues/SHOP-20?all=1&before=3")
    assert "turn 5 completed" not in older.text


def test_runs_are_chosen_sorted_and_paged_by_their_address(busy):
    failed = shown(busy, "/runs?status=failed")
    assert "11 runs" in failed.text and "succeeded" not in failed.text.split("Filter")[1]
    cheapest = shown(busy, "/runs?sort=cost&order=up")
    assert cheapest.text.index("SHOP-30") < cheapest.text.index("SHOP-225")
    kept = {one["name"]: one["value"] for one in cheapest.named("input") if one.get("type") == "hidden"}
    assert kept == {"sort": "cost", "order": "up"}, "who filters keeps the order"
    assert "No run matches." in shown(busy, "/runs?text=%25").text
    nonsense = "/runs?page=99999999999999999999&sort=;drop&order=x&status=%00&page=-1"
    assert "No run matches." in shown(busy, nonsense).text


def test_the_agents_and_models_that_ran_lately_are_offered_to_choose_from(tmp_path):
    now = time.time()
    charges = [
        ev.Charged(at=at, issue_id=name, run_id=name, usage=Usage(9, 9), day=day_of(at), model=model)
        for name, model, at in (
            ("1", "one-9", now),
            ("2", "two-3", now - 86_400),
            ("3", "old-1", now - 200 * 86_400),
        )
    ]
    claims = [
        ev.Claimed(
            at=now, issue_id=one.issue_id, run_id=one.run_id, identifier="T", attempt=1, agent=f"by-{one.model}"
        )
        for one in charges
    ]
    with served(new_store(tmp_path / "sortie.db", *claims, *charges)) as server:
        page = shown(server, "/runs")
    offered = [one["value"] for one in page.named("option") if one["value"] and "selected" not in one]
    assert [one for one in offered if "-" in one] == ["by-one-9", "by-two-3", "one-9", "two-3"]


def test_a_run_that_told_nothing_of_its_tokens_is_not_measured_rather_than_free(busy):
    assert "not measured" in shown(busy, "/runs?text=SHOP-30").text
    assert "2 runs reported no usage" in shown(busy, "/money").text


def test_a_run_that_asked_is_called_so_on_its_own_page_too(busy):
    """One that succeeded in asking has not done its work."""
    for row in busy.get("/api/v2/runs?size=500").json["rows"]:
        chips = [one["class"] for one in shown(busy, f"/runs/{row['run_id']}").named("span") if "class" in one]
        signals = {"blocked": "c-signal", "needs-human-review": "c-review"}
        expected = signals.get(row["soft_stop"], f"c-{row['status']}")
        assert next(one.split()[1] for one in chips if one.startswith("chip ")) == expected


def test_money_has_the_numbers_of_its_plots_as_a_table(busy):
    page = shown(busy, "/money?days=7")
    plots = [one for one in page.named("div") if "data-plot" in one]
    assert len(plots) == 2
    assert page.text.count(time.strftime("%Y-%m-", time.gmtime())) >= 1
    assert "New tokens" in page.text and "From cache" in page.text
    assert "$13.80 of $60.00" in page.text


def test_each_plot_of_money_has_the_limit_of_the_day_and_says_what_it_counts(busy):
    drawn = [one for one in shown(busy, "/money").named("div") if "data-plot" in one]
    plots = [json.loads(one["data-plot"]) for one in drawn]
    assert [plot["limit"] for plot in plots] == [60, 40_000_000]
    labels = [[series["label"] for series in plot["series"]] for plot in plots]
    assert labels == [["cost"], ["new tokens", "cached tokens"]]
    limits = ["the limit is $60.00", "the limit is 40.0M"]
    assert [limit in one["aria-label"] for limit, one in zip(limits, drawn, strict=True)] == [True, True]


def test_health_shows_looks_store_disks_and_settings(busy):
    text = shown(busy, "/health").text
    for words in ("took 0.31 s", "4 ms", "runs, pid 4711", "per_issue.turns 60", "workspaces", "Loop lag"):
        assert words in text, words


def test_trouble_leads_to_the_issue_that_has_it(tmp_path):
    view = View(id="7", identifier="SHOP-7", title="", state="To Do")
    note = ev.Noted(at=2.0, issue_id="7", level="warning", message="the log of this run is incomplete")
    store = new_store(tmp_path / "sortie.db", ev.IssueSeen(at=1.0, issue_id="7", view=view), note)
    with served(store) as server:
        page = shown(server, "/health")
    assert "SHOP-7 the log of this run is incomplete" in page.text
    assert "/issues/SHOP-7" in page.links


def test_health_shows_where_we_listen_and_not_where_the_next_service_will(tmp_path):
    """These settings are read when a service starts."""
    started_with = ServerConfig(port=8123, host="127.0.0.1")
    with served(new_store(tmp_path / "sortie.db"), server=started_with) as server:
        (tmp_path / "WORKFLOW.md").write_text(WORKFLOW.replace("agent:", "server: {port: 9999}\nagent:"))
        settings = {one["key"]: one["value"] for one in server.get("/api/v2/health").json["settings"]}
        assert settings["server.port"] == "8123"


def test_secrets_of_the_workflow_are_on_no_page(tmp_path):
    secret = "hunter2-hunter2-hunter2"
    tracker = f"tracker: {{kind: github, api_key: {secret}, project: a/b}}"
    (tmp_path / "WORKFLOW.md").write_text(f"---\n{tracker}\n---\nDo it\n")
    with served(new_store(tmp_path / "sortie.db")) as server:
        for path in PAGES:
            assert secret not in server.get(path).text
        assert "tracker.api_key set, hidden" in shown(server, "/health").text


def test_a_secret_that_became_known_after_a_run_is_in_nothing_that_was_said_in_it(tmp_path):
    store = busy_store(tmp_path)
    workflow = tmp_path / "WORKFLOW.md"
    workflow.write_text(workflow.read_text().replace("tracker: {", "tracker: {api_key: cookie is in local time, "))
    with served(store) as server:
        running = server.get("/api/v2/status").json["running"]
        run = next(one["run_id"] for one in running if one["identifier"] == "SHOP-1")
        for path in ("/issues/SHOP-1", f"/runs/{run}", f"/api/v2/runs/{run}/log"):
            said = server.get(path).text
            assert "Two tests fail because the clock of the [redacted]." in said, path


def test_who_may_only_look_sees_no_form_and_how_to_get_more(busy):
    page = shown(busy, "/issues/SHOP-20")
    assert [one for one in page.named("form") if one.get("method") == "post"] == []
    assert "sortie token new" in page.text


def test_no_answer_that_the_service_would_take_is_cut_by_its_form(busy, operator):
    (form,) = shown(busy, "/issues/SHOP-20", **operator).named("textarea")
    assert int(form.get("maxlength") or LONGEST_ANSWER) >= LONGEST_ANSWER


@pytest.mark.parametrize(
    ("issue", "verbs"),
    [
        ("SHOP-20", {"answer", "unpark"}),
        ("SHOP-22", {"unpark"}),
        ("SHOP-1", {"stop", "answer"}),
        ("SHOP-30", {"retry", "stop"}),
        ("SHOP-50", {"start"}),
    ],
)
def test_an_issue_has_the_buttons_that_fit_it(busy, operator, issue, verbs):
    page = shown(busy, f"/issues/{issue}", **operator)
    assert page.decisions == verbs


def test_an_issue_that_nobody_knows_is_a_page_that_says_so(busy):
    assert "NOPE-1 is not known here." in shown(busy, "/issues/NOPE-1", 404).text
    assert "There is no run nope." in shown(busy, "/runs/nope", 404).text
    assert "no plan here" in shown(busy, "/plan", 404).text
    assert "sortie peers init" in shown(busy, "/peers", 404).text


def test_navigation_has_plan_and_peers_only_where_there_is_one(busy):
    assert {"/plan", "/peers"} & set(shown(busy, "/").links) == set()


def test_every_link_of_every_page_leads_somewhere(busy):
    seen, todo = set[str](), ["/"]
    while todo:
        path = todo.pop().partition("#")[0] or "/"
        if path in seen or len(seen) > 60:
            continue
        seen.add(path)
        todo += [one for one in shown(busy, path).links if not one.startswith("#")]
    assert len(seen) > 40


def test_a_broken_workflow_shows_what_is_known_and_says_so(tmp_path):
    (tmp_path / "WORKFLOW.md").write_text("---\ntracker: 7\n---\n")
    with served(new_store(tmp_path / "sortie.db")) as server:
        for path in ("/", "/money"):
            assert "limit not known" in shown(server, path).text
            assert "no limit" not in shown(server, path).text
        assert "The workflow is broken: what is ready" in shown(server, "/").text
        assert "slots" not in shown(server, "/").text
        assert "sortie_slots_available" not in re.sub("(?m)^#.*", "", server.get("/metrics").text)
        assert "broken" in shown(server, "/health").text


def test_while_a_service_runs_a_broken_workflow_hides_nothing_of_its_rules(tmp_path):
    """It goes on by the last good one."""
    now = time.time()
    policy = Policy(active_states=("To Do",), max_concurrent=3, per_day=Limits(usd=50), per_issue=Limits(turns=7))
    store = new_store(tmp_path / "sortie.db", *busy_events(now), ev.PolicySet(at=now, policy=policy))
    (tmp_path / "WORKFLOW.md").write_text("---\ntracker: 7\n---\n")
    with served(store) as server, held(store, {"pid": 1}):
        text = shown(server, "/").text
        assert "The workflow is broken: the service uses the last valid one" in text
        assert "of $50" in text and "of 3 slots" in text and "Ready" in text and "Held back" in text
        assert "of $50" in shown(server, "/money").text
        assert "of 7" in shown(server, "/issues/SHOP-20").text


def test_an_issue_leads_to_the_tracker_where_a_person_decides_about_it(tmp_path):
    """Only what may be followed is a link; the tracker does not learn where it was followed from."""
    now = time.time()
    run: dict[str, Any] = {"issue_id": "7", "run_id": "r7"}
    urls = {
        "1": 'https://tracker.example/1?a=b&c="><b>',
        "2": "javascript:alert(1)",
        "7": "http://tracker.example/7",
        "8": "https://tracker.example@evil.example/8",
    }
    parks = [
        ev.Parked(
            at=now, issue_id=key, identifier=f"T-{key}", park=Park(kind="signal", reason="?", fingerprint="f")
        )
        for key in ("1", "2", "8")
    ]
    handed_over = [
        ev.Claimed(at=now, identifier="T-7", attempt=1, agent="mock", day=day_of(now), **run),
        ev.RunEnded(at=now, status="succeeded", soft_stop="needs-human-review", turns=1, **run),
        ev.Settled(at=now, identifier="T-7", why="handed over", **run),
    ]
    views = [
        View(id=key, identifier=f"T-{key}", title="Do it.", state="In Review" if key == "7" else "To Do", url=url)
        for key, url in urls.items()
    ]
    seen = [ev.IssueSeen(at=now, issue_id=view.id, view=view) for view in views]
    with served(new_store(tmp_path / "sortie.db", *seen, *parks, *handed_over)) as server:
        for path, expected in (
            ("/", [urls["1"], urls["7"]]),
            ("/issues/T-1", [urls["1"]]),
            ("/issues/T-2", []),
            ("/issues/T-7", [urls["7"]]),
        ):
            links = [one for one in shown(server, path).named("a") if not one["href"].startswith(("/", "#"))]
            assert [one["href"] for one in links] == expected
            assert all(one["rel"] == "noreferrer" for one in links)
        told = {need["identifier"]: need["url"] for need in server.get("/api/v2/inbox").json["needs_person"]}
        assert told == {"T-1": urls["1"], "T-2": "", "T-7": urls["7"], "T-8": ""}
        assert server.get("/api/v2/issues/T-7").json["url"] == urls["7"]


def test_a_tracker_that_cannot_be_used_is_the_first_that_needs_a_person(tmp_path):
    store, now = busy_store(tmp_path), time.time()
    live = live_of(busy_events(now), now)
    assert live.report
    live.hear(replace(live.report, last_look_error="<b>refused", looks_failing_for=90.0))
    with served(store, live=live) as server:
        said = "The tracker cannot be used, so nothing new starts: <b>refused"
        text = shown(server, "/").text
        assert text.index("Needs you") < text.index("tracker cannot be used") < text.index(said)
        assert text.index(said) < text.index("question")
        assert server.get("/api/v2/inbox").json["needs_person"][0]["kind"] == "tracker"
        assert 'sortie_waiting_for_person{kind="tracker"} 1.0' in server.get("/metrics").text


def test_beside_a_service_that_speaks_to_others_nothing_is_said_to_cost_nothing(tmp_path):
    now = time.time()
    with served(busy_store(tmp_path), read_only=True) as server, held(server.site.database, {"pid": 1}):
        page = shown(server, "/")
        assert "Not known here" in {one.get("title", "")[:14] for one in page.named("span")}
        assert "interrupted" not in page.text
    (tmp_path / "more").mkdir()
    charge = ev.Charged(at=now, issue_id="", run_id="", usage=Usage(1000, 50, 0, 1.25), day=day_of(now))
    with served(busy_store(tmp_path / "more"), read_only=True) as server, held(server.site.database, {"pid": 1}):
        run = server.get("/api/v2/status").json["running"][0]
        assert (run["tokens"], run["cost_usd"]) == (None, None)
        append(server.site.database, replace(charge, issue_id=run["issue_id"], run_id=run["run_id"]))
        charged = server.get("/api/v2/status").json["running"][0]
        assert (charged["tokens"], charged["cost_usd"]) == (1050, 1.25)
        assert "$1.25" in shown(server, "/").text


def test_a_service_that_fell_silent_is_shown_as_stale_without_scripts(tmp_path):
    store, now = busy_store(tmp_path), time.time()
    live = live_of(busy_events(now), now)
    live.heard_at, live.believed_until = now - 60, 0.0
    with served(store, live=live) as server:
        page = shown(server, "/")
        assert "Stale since" in page.text and "not running" in page.text
        assert "interrupted" in page.text
