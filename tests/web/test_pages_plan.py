"""Plans on pages: the graph with the state of every task, however many; a task opens like an issue."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from sortie.cli.plan_status import what_is_left
from sortie.core import events as ev
from sortie.core.model import Park, View
from sortie.core.policy import Policy
from sortie.plans.progress import DEPENDENCY_FAILED, Memo
from sortie.reports.plan import load_to_look
from sortie.reports.plan_standing import task_lines
from sortie.web.tokens import new_token

from .live_server import LiveServer, new_store, served
from .page_text import Page

POLICY = Policy(active_states=("pending",), terminal_states=("completed",), max_concurrent=3)
QUESTION = "A change breaks what users have; <i>may</i> it be released?"


def task(name: str, *waits_for: str) -> dict[str, Any]:
    return {
        "name": name,
        "objective": "Do <b>it</b>.",
        "outputs": ["out.txt"],
        "success_criteria": ["It is done."],
        "agent": {"kind": "command", "command": "true"},
        "depends_on": [{"task": other} for other in waits_for],
    }


def plan_of(folder: Path, *tasks: dict[str, Any]) -> Path:
    (folder / "plan.work").mkdir()
    (folder / "plan.yaml").write_text(json.dumps({"name": "big", "tasks": tasks}))
    return folder / "plan.yaml"


def read(server: LiveServer, path: str, most: int = 100_000, **headers: str) -> Page:
    answer = server.get(path, **headers)
    assert answer.status == 200, answer.text[:500]
    assert len(answer.body) < most, len(answer.body)
    page = Page(answer.text)
    assert page.faults == []
    return page


@pytest.fixture(scope="module")
def big_plan(tmp_path_factory):
    """Thirty layers of ten, each task waiting for three of the layer before."""
    folder = tmp_path_factory.mktemp("plan")
    tasks = [
        task(
            f"t{layer:02}-{place}",
            *(f"t{layer - 1:02}-{(place + step) % 10}" for step in range(3 if layer else 0)),
        )
        for layer in range(30)
        for place in range(10)
    ]
    place = plan_of(folder, *tasks)
    with served(new_store(folder / "plan.work" / ".sortie.db"), place=place, is_plan=True) as server:
        yield server


def test_a_plan_of_three_hundred_tasks_is_a_graph_of_bounded_size(big_plan):
    page = read(big_plan, "/plan", 450_000)
    boxes = [one for one in page.named("g") if one.get("class", "").startswith("box")]
    assert len(boxes) == 300
    assert sum(one.get("class", "").startswith("edge") for one in page.named("path")) == 870
    assert "10 ready" in page.text and "290 waiting" in page.text
    assert {f"/plan/t{layer:02}-0" for layer in range(30)} <= set(page.links)


def test_the_graph_is_drawn_by_classes_of_the_style_sheet_alone(big_plan):
    page = read(big_plan, "/plan", 450_000)
    assert page.named("style") == []
    assert {one["class"] for one in page.named("g") if one.get("class")} == {"box b-ready", "box b-waiting"}


def test_a_task_opens_like_an_issue_though_it_never_ran(big_plan):
    page = read(big_plan, "/plan/t01-3", 60_000)
    assert "Do <b>it</b>." in page.text
    assert "/plan/t00-3" in page.links and "/plan/t02-1" in page.links


def test_a_task_that_nobody_knows_is_a_page_that_says_so(big_plan):
    answer = big_plan.get("/plan/nope")
    assert answer.status == 404 and "The plan has no task nope." in Page(answer.text).text


def test_a_plan_that_cannot_be_read_is_a_page_that_says_how_to_find_out(tmp_path):
    (tmp_path / "plan.yaml").write_text("tasks: 7\n")
    store = new_store(tmp_path / "sortie.db")
    with served(store, place=tmp_path / "plan.yaml", is_plan=True) as server:
        answer = server.get("/plan")
    assert answer.status == 404 and "sortie plan check" in answer.text


def verdicts(page: Page) -> str:
    """What *Health* says at a glance."""
    return page.text.partition("Loop lag")[0].partition("Recent problems")[0]


def test_a_plan_that_can_be_read_is_nowhere_called_broken_and_its_limits_are_known(asking):
    """Neither is it read as a workflow, nor are settings of one shown."""
    server, _ = asking
    now, health = read(server, "/"), read(server, "/health")
    assert "broken" not in now.text + health.text
    assert "of 3 slots" in now.text and "/plan/draft" in now.links
    assert "Plan" in verdicts(health) and "Settings" not in health.text
    assert server.get("/readyz").json["checks"]["workflow"] == "pass"


def test_a_plan_that_is_broken_says_so_and_how_to_find_out(tmp_path):
    place = plan_of(tmp_path, task("draft"))
    store = new_store(tmp_path / "plan.work" / ".sortie.db", ev.PolicySet(at=time.time(), policy=POLICY))
    place.write_text("tasks: 7\n")
    with served(store, place=place, is_plan=True) as server:
        now, health = read(server, "/"), read(server, "/health")
        assert "The plan is broken: what is ready, and the limits, are unknown" in now.text
        assert "sortie plan check" in now.text and "sortie validate" not in now.text + health.text
        assert "broken" in verdicts(health)
        assert server.get("/readyz").json["checks"]["workflow"] == "fail"


def test_what_is_said_of_other_commands_works_for_a_plan(tmp_path):
    place = plan_of(tmp_path, task("draft"))
    store = new_store(tmp_path / "plan.work" / ".sortie.db")
    with served(store, place=place, is_plan=True) as server:
        assert "sortie token new -w plan.yaml prints" in read(server, "/plan").text
    with served(store, place=place, is_plan=True, read_only=True) as server:
        refused = server.post("/api/v2/commands", Authorization=server.bearer())
        assert (refused.status, refused.code) == (403, "read_only")
        assert "`sortie plan run`" in refused.text


@pytest.mark.parametrize("name", ["sortie.db", "peers.db"])
def test_a_store_that_is_named_itself_has_no_workflow_that_could_be_broken(tmp_path, name):
    """Its rules are those that were in force last."""
    view = View(id="1", identifier="T-1", title="Mend it", state="pending")
    seen = ev.IssueSeen(at=time.time(), issue_id="1", view=view)
    store = new_store(tmp_path / name, ev.PolicySet(at=time.time(), policy=POLICY), seen)
    with served(store, place=store, read_only=True) as server:
        now, health = read(server, "/"), read(server, "/health")
        assert "broken" not in now.text + health.text and "Workflow" not in verdicts(health)
        assert "of 3 slots" in now.text and "/issues/T-1" in now.links
        assert server.get("/readyz").json["checks"]["workflow"] == "pass"


@pytest.fixture(scope="module")
def asking(tmp_path_factory):
    """A plan one task of which needs a decision."""
    folder, now = tmp_path_factory.mktemp("asking"), time.time()
    place = plan_of(folder, task("draft"), task("review", "draft"), task("announce", "review"))
    view = View(id="review", identifier="review", title="Do <b>it</b>.", state="pending")
    park = Park(kind="signal", reason=QUESTION, fingerprint="f")
    draft = View(id="draft", identifier="draft", title="Do it.", state="pending")
    events = [
        ev.PolicySet(at=now, policy=POLICY),
        ev.IssueSeen(at=now, issue_id="draft", view=draft),
        ev.IssueSeen(at=now, issue_id="review", view=view),
        ev.Parked(at=now, issue_id="review", identifier="review", park=park),
    ]
    with served(new_store(folder / "plan.work" / ".sortie.db", *events), place=place, is_plan=True) as server:
        yield server, {"authorization": f"Bearer {new_token(server.site.database, 'operate')}"}


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """One task used up its attempts, another lacks what it owes, and a third failed with the first."""
    folder, now = tmp_path_factory.mktemp("failed"), time.time()
    edge = {"task": "build", "on_failure": "fail"}
    place = plan_of(folder, task("build"), task("measure"), task("publish") | {"depends_on": [edge]}, task("rest"))
    memos = {
        "build": Memo(kind="agent_failed", why="exited with <i>1</i>"),
        "measure": Memo(kind="task_incomplete", why="result.md is missing"),
        "publish": Memo(kind=DEPENDENCY_FAILED, why="build failed, and this task fails with it"),
    }
    views = [
        View(id=name, identifier=name, title="Do it.", state="failed", memo=memo.encode())
        for name, memo in memos.items()
    ]
    events = [
        ev.PolicySet(at=now, policy=POLICY),
        *(ev.IssueSeen(at=now, issue_id=view.id, view=view) for view in views),
        ev.Claimed(at=now - 9000, issue_id="build", run_id="r1", identifier="build", attempt=1, agent="command"),
        ev.RunEnded(at=now - 7200, issue_id="build", run_id="r1", status="failed", error="exited with 1", turns=1),
        ev.Settled(at=now - 7200, issue_id="build", run_id="r1", identifier="build", why="it failed"),
    ]
    with served(new_store(folder / "plan.work" / ".sortie.db", *events), place=place, is_plan=True) as server:
        yield server, {"authorization": f"Bearer {new_token(server.site.database, 'operate')}"}


def test_a_task_that_failed_waits_for_a_person_as_the_command_line_says(failed):
    """One that failed with another leaves nothing to be decided."""
    server, token = failed
    needs = server.get("/api/v2/inbox").json["needs_person"]
    assert [(need["kind"], need["identifier"]) for need in needs] == [("error", "build"), ("error", "measure")]
    assert needs[0]["text"] == "exited with <i>1</i>" and time.time() - needs[0]["since"] > 7000
    plan, _ = load_to_look(server.site.place)
    assert plan is not None
    assert "Left to you: build, measure." in what_is_left(plan, task_lines(plan))
    now = read(server, "/", **token)
    assert "2 need you" in now.text and "result.md is missing" in now.text
    assert now.decisions == {"reopen", "accept", "skip"}
    assert 'sortie_waiting_for_person{kind="error"} 2.0' in server.get("/metrics").text


def test_a_task_that_asks_is_shown_in_the_graph_and_first_of_all_now(asking):
    server, _ = asking
    assert "1 escalated" in read(server, "/plan").text
    now = read(server, "/")
    assert QUESTION in now.text and "/plan/review" in now.links
    assert "escalated review Do <b>it</b>." in now.text, "the same word on every page"


def test_a_task_has_the_decisions_that_a_plan_knows(asking):
    server, token = asking
    page = read(server, "/plan/review", **token)
    assert QUESTION in page.text
    assert page.decisions == {"reopen", "accept", "skip", "answer"}


def test_a_decision_about_a_task_leads_back_to_it(asking):
    server, token = asking
    headers = {**token, "origin": server.url}
    answer = server.request("POST", "/issues/review/reopen", headers, "back=%2Fplan%2Freview")
    assert answer.headers["location"].startswith("/plan/review?reply=")
    assert "sortie plan run" in read(server, answer.headers["location"]).text
    with server.site.looking() as db:
        assert db.execute("SELECT verb, issue FROM commands").fetchall() == [("reopen", "review")]


def test_the_page_of_an_issue_is_that_of_its_task(asking):
    server, _ = asking
    answer = server.get("/issues/review")
    assert (answer.status, answer.headers["location"]) == (307, "/plan/review")
