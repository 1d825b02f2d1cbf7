"""Where the dashboard listens: who decides, and what happens where that is impossible."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager

import pytest

from tests.cli.scene import REVIEW, WAIT, ask, wait_until

from .live_server import new_store
from .server_scene import ServerScene, dashboards_of, free_port, get, without_port

PLAN = """\
name: small
defaults: {agent: {kind: command, command: "true"}}
tasks:
  - {name: only, objective: wait, success_criteria: [it waited], outputs: [{path: result.md}]}
"""


@pytest.fixture
def scene(tmp_path):
    return ServerScene(tmp_path)


@contextmanager
def taken(port: int = 0, host: str = "127.0.0.1"):
    """By this process, or by somebody else already."""
    try:
        with socket.create_server((host, port)) as listening:
            yield listening.getsockname()[1]
    except OSError:
        assert port
        yield port


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run", "Port of the dashboard; 0: no dashboard. Default: 7678."),
        ("plan run", "Serve the dashboard here. Default: nowhere."),
        ("web", "Port of the dashboard; 0: any free one. Default: 7678."),
    ],
)
def test_each_command_says_what_its_own_port_means(capsys, command, words):
    assert words in " ".join(ask(capsys, *command.split(), "--help").out.split())


def test_the_usual_port_is_an_offer_and_without_it_the_service_goes_on(scene):
    scene.issue(1, REVIEW)
    with taken(7678), scene.started("run", environ=without_port()) as service:
        said = service.until_said("there is no dashboard")
        assert "127.0.0.1:7678 is taken" in said and " warn " in said and "--port 0" in said
        wait_until(lambda: '"In Review"' in (scene.directory / "issues.json").read_text())
        assert dashboards_of(service.pid) == []
        assert service.stop() == 0


@pytest.fixture
def refused(scene, capsys, monkeypatch):
    """`sortie run` that ends before anything starts, in this process."""
    monkeypatch.delenv("SORTIE_SERVER_PORT")

    def run(*flags, **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        said = ask(capsys, "run", str(scene.workflow), "--until-idle", *flags)
        assert said.err.count("\n") == 1, said.err
        assert not (scene.directory / ".sortie.db").exists()
        return said

    return run


@pytest.mark.parametrize("way", ["flag", "variable", "workflow"])
def test_a_port_that_was_asked_for_and_is_taken_ends_it_before_anything_starts(scene, refused, way):
    with taken() as port:
        if way == "flag":
            said = refused("--port", str(port))
        elif way == "variable":
            said = refused(SORTIE_SERVER_PORT=str(port))
        else:
            scene.set_server(f"port: {port}")
            said = refused()
    assert said.code == 1
    assert said.err.startswith(f"sortie: 127.0.0.1:{port} is taken by process {os.getpid()} (")
    assert "--port" in said.err


@pytest.mark.parametrize(
    ("command", "fix"),
    [
        ("run", "Name another one with `--port`; `--port 0` goes on without a dashboard."),
        ("plan run", "Name another one with `--port`; `--port 0` goes on without a dashboard."),
        ("web", "Name another one with `--port`; `--port 0` takes any that is free."),
    ],
)
def test_the_fix_of_a_port_that_is_taken_is_one_of_the_same_command(scene, capsys, command, fix):
    new_store(scene.directory / ".sortie.db")
    (scene.directory / "plan.yaml").write_text(PLAN)
    place = scene.directory / ("plan.yaml" if command == "plan run" else "WORKFLOW.md")
    with taken() as port:
        said = ask(capsys, *command.split(), str(place), "--port", str(port))
    assert said.code == 1
    assert said.err.endswith(f"{fix}\n")


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("localhost", 'must be an IP address, such as "127.0.0.1" or "::1"'),
        ("", "must be an IP address"),
        ("192.0.2.1", "needs a token"),
        ("0.0.0.0", "needs a token"),
        ("::", "needs a token"),
    ],
)
def test_a_host_that_cannot_be_or_that_strangers_reach_is_refused(refused, host, sentence):
    said = refused("--host", host)
    assert (said.code, sentence in said.err) == (2, True), said.err


def test_a_host_that_this_machine_has_not_is_told_apart_from_one_that_is_taken(refused):
    said = refused("--host", "192.0.2.1", SORTIE_SERVER_TOKENS_READ="r" * 16)
    assert said.code == 1
    assert "192.0.2.1:7678: this machine has no such address" in said.err


@pytest.mark.parametrize("port", ["65536", "-1", "x"])
def test_a_port_that_cannot_be_is_wrong_usage(refused, port):
    assert refused("--port", port).code == 2


def test_a_flag_counts_more_than_a_variable_and_that_more_than_the_workflow(scene):
    ports = [free_port() for _ in range(3)]
    scene.set_server(f"port: {ports[2]}")
    environ = {**without_port(), "SORTIE_SERVER_PORT": str(ports[1])}
    with scene.started("run", environ=environ) as service:
        assert service.url() == f"http://127.0.0.1:{ports[1]}/"
    with scene.started("run", "--port", "1", "--port", str(ports[0]), environ=environ) as service:
        assert service.url() == f"http://127.0.0.1:{ports[0]}/", "of two flags the last one counts"


def test_0_is_off_and_until_idle_serves_only_where_a_port_was_asked_for(scene):
    scene.issue(1, WAIT + REVIEW)
    with scene.started("run", "--port", "0") as service:
        service.until_said("turn 1 started")
        assert dashboards_of(service.pid) == []
        service.stop()  # while its agent waits: what that began is gone on with below
    assert "dashboard" not in service.said()
    (scene.directory / "go").unlink()
    with scene.started("run", "--until-idle", environ=without_port()) as service:
        service.until_said("turn 1 started")
        assert dashboards_of(service.pid) == []
        service.stop()
    assert "dashboard" not in service.said()
    (scene.directory / "go").unlink()
    port = free_port()
    with scene.running(port, "--until-idle") as service:
        assert get(port, "/livez").status == 200
        scene.go()
        assert service.wait() == 0
        assert dashboards_of(service.pid) == []


def test_a_host_of_either_kind_and_the_token_that_is_printed_once(scene):
    port = free_port()
    with scene.running(port, "--host", "::1") as service:
        assert service.url() == f"http://[::1]:{port}/"
        assert get(port, "/livez", host="::1").status == 200
        link = service.until_said("/login?token=").rpartition(" ")[2]
        answer = get(port, link.partition(f"[::1]:{port}")[2], host="::1")
        assert answer.status in (200, 302, 303) and "set-cookie" in answer.headers
    assert service.said().count("/login?token=") == 1
    with scene.running(port) as service:
        assert service.stop() == 0
    assert "/login?token=" not in service.said(), "whoever has a token needs no link"


def test_a_second_service_on_the_same_port_names_the_first(scene, tmp_path_factory):
    other = ServerScene(tmp_path_factory.mktemp("other"))
    port = free_port()
    with scene.running(port) as first:
        done = other.run("run", "--port", str(port))
        assert done.returncode == 1
        assert f"is taken by process {first.pid} (" in done.stderr
        assert get(port, "/livez").status == 200


def test_doctor_tells_a_free_port_our_own_and_a_strangers(scene, capsys, monkeypatch):
    port = free_port()

    def doctor():
        said = ask(capsys, "doctor", str(scene.workflow))
        return next(line for line in said.out.splitlines() if "  dashboard: " in line)

    assert doctor() == "PASS  dashboard: none, because server.port is 0"
    monkeypatch.setenv("SORTIE_SERVER_PORT", str(port))
    assert doctor() == f"PASS  dashboard: 127.0.0.1:{port} is free"
    with scene.running(port) as service:
        assert doctor() == f"PASS  dashboard: a service runs, and serves it on {service.url()}"
        assert service.stop() == 0
    with taken(port):
        assert doctor().startswith(f"FAIL  dashboard: 127.0.0.1:{port} is taken by process {os.getpid()} (")
    with taken(7678):
        monkeypatch.delenv("SORTIE_SERVER_PORT")
        assert doctor().startswith("WARN  dashboard: 127.0.0.1:7678 is taken")
