"""`sortie web`: a store without a service, to look at; and a plan while it runs."""

from __future__ import annotations

import http.client
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.scene import BLOCK, DEADLINE, WAIT, ask, wait_until

from .server_scene import ServerScene, dashboards_of, free_port, get

PLAN = """\
name: small
defaults: {agent: {kind: command, command: 'while [ ! -e "$SORTIE_WORKFLOW_DIR/go" ]; do sleep 0.02; done; exit 1'}}
tasks:
  - {name: only, objective: wait, success_criteria: [it waited], outputs: [{path: result.md}]}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """T-1 is parked."""
    scene = ServerScene(tmp_path_factory.mktemp("finished"))
    scene.issue(1, BLOCK)
    assert scene.run("run", "--until-idle").returncode == 3
    return scene


def port_of(command) -> int:
    return int(command.url().rstrip("/").rpartition(":")[2])


def post(port: int, path: str) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)) as connection:
        connection.request("POST", path)
        return connection.getresponse().status


def not_broken(port: int) -> bool:
    """Neither people nor probes are told that what the store belongs to cannot be used."""
    pages = [get(port, path, Accept="text/html").text for path in ("/", "/health")]
    return all("broken" not in text for text in pages) and get(port, "/readyz").json["checks"]["workflow"] == "pass"


@pytest.mark.parametrize("place", ["", "WORKFLOW.md", ".", ".sortie.db"])
def test_a_store_is_shown_by_any_name_and_nothing_can_be_changed_there(finished, place):
    with finished.started("web", *([place] if place else [])) as command:
        port = port_of(command)
        page = get(port, "/issues/T-1", Accept="text/html")
        assert page.status == 200
        assert "no access" in page.text
        if place == "":
            assert get(port, "/livez").status == 200
            paths = ("/issues/T-1/unpark", "/api/v2/commands", "/api/v1/refresh")
            assert {path: post(port, path) in (403, 409, 503) for path in paths} == dict.fromkeys(paths, True)
        assert command.stop(signal.SIGINT) == 0
    assert command.said() == f"dashboard: http://127.0.0.1:{port}/ (Ctrl-C ends it)\n"


def test_beside_a_service_it_works_and_says_where_that_ones_is(tmp_path):
    scene = ServerScene(tmp_path)
    scene.issue(1, WAIT)
    port = free_port()
    with scene.running(port) as service:
        done = scene.run("web", "--port", str(port))
        assert (done.returncode, f"taken by process {service.pid} (" in done.stderr) == (1, True)
        service.until_said("turn 1 started")
        other = tmp_path / "other"
        other.mkdir()
        with ServerScene(other).started("web", str(scene.workflow), "--host", "127.0.0.2") as command:
            command.until_said(f"has its own dashboard, which can change things: http://127.0.0.1:{port}/")
            assert get(port_of(command), "/api/v1/state", host="127.0.0.2").json["running"][0]["issue_id"] == "1"


def test_a_store_of_an_earlier_version_is_refused_with_the_fix(tmp_path, capsys):
    with closing(sqlite3.connect(tmp_path / "old.db")) as db:
        db.executescript((Path(__file__).parents[1] / "store" / "earlier_store.sql").read_text())
    said = ask(capsys, "web", str(tmp_path / "old.db"))
    assert said.code == 1
    assert "old.db is not up to date" in said.err and "once, which brings it up to date." in said.err


@pytest.mark.parametrize("place", ["nowhere", "plan.yaml", "notes.md"])
def test_where_there_is_no_store_it_says_so(tmp_path, capsys, place):
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "notes.md").write_text("no workflow\n")
    said = ask(capsys, "web", str(tmp_path / place))
    assert said.code in (1, 2)
    assert "unforeseen" not in said.err and said.err


def test_a_plan_is_served_only_where_that_is_asked_for(tmp_path):
    scene = ServerScene(tmp_path)
    (tmp_path / "plan.yaml").write_text(PLAN)
    port = free_port()
    with scene.started("plan", "run", "--port", str(port)) as command:
        assert command.url() == f"http://127.0.0.1:{port}/"
        page = wait_until(lambda: (found := get(port, "/plan", Accept="text/html")).status == 200 and found)
        assert "only" in page.text
        wait_until(lambda: get(port, "/readyz").status == 200)
        assert not_broken(port)
        assert command.stop() == 1
    (tmp_path / "go").unlink()
    with scene.started("plan", "run") as command:
        command.until_said("turn 1 started")
        assert dashboards_of(command.pid) == []
    with scene.started("web", "plan.yaml") as command:
        assert get(port_of(command), "/plan", Accept="text/html").status == 200
        assert not_broken(port_of(command))
    (tmp_path / "plan.yaml").unlink()
    store = next(scene.directory.glob("*/.sortie.db"))
    with scene.started("web", str(store)) as command:
        assert not_broken(port_of(command))
