"""The dashboard as a process: comes and goes with its service, comes back when it dies, is in nobody's way."""

from __future__ import annotations

import os
import resource
import signal
import socket
from contextlib import ExitStack

import pytest

from tests.cli.scene import CRASH, REVIEW, WAIT, wait_until

from .server_scene import ServerScene, can_be_taken, free_port, get, is_in_table


@pytest.fixture
def scene(tmp_path):
    return ServerScene(tmp_path)


def work_of(port: int) -> list[str]:
    """The issues that the service says it works on: not from the store, which has no last line of an agent."""
    return [run["issue_identifier"] for run in get(port, "/api/v1/state").json["running"] if run["last_message"]]


def test_kill_9_of_the_dashboard_costs_the_service_nothing_and_it_comes_back(scene):
    scene.issue(1, WAIT + REVIEW)
    port = free_port()
    with scene.running(port) as service:
        wait_until(lambda: work_of(port) == ["T-1"])
        first = service.dashboard()
        os.kill(first.pid, signal.SIGKILL)
        assert get(port, "/livez").status == 200, "who asks meanwhile waits for the next one, and is answered"
        second = service.dashboard()
        assert second.pid != first.pid
        assert not is_in_table(first)
        wait_until(lambda: work_of(port) == ["T-1"])
        service.until_said("the dashboard was ended by signal 9, and is started anew")
        scene.go()
        wait_until(lambda: '"In Review"' in (scene.directory / "issues.json").read_text())
        assert service.stop() == 0
        assert not is_in_table(second)
        assert can_be_taken(port)
    assert " error " not in service.said()


def test_kill_9_of_the_service_takes_the_dashboard_along_and_frees_the_port(scene):
    scene.issue(1, WAIT + REVIEW)
    port = free_port()
    with scene.running(port) as service, socket.create_connection(("127.0.0.1", port)) as stream:
        stream.sendall(b"GET /api/v2/events/stream HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
        assert stream.recv(15) == b"HTTP/1.1 200 OK"
        dashboard = service.dashboard()
        service.popen.kill()
        service.wait()
        wait_until(lambda: not is_in_table(dashboard))
        assert can_be_taken(port)
    with scene.running(port) as service:
        assert get(port, "/livez").status == 200
        assert service.stop() == 0


def test_what_waited_when_the_service_was_killed_is_shown_by_the_next_one(scene):
    scene.issue(1, CRASH)
    port = free_port()
    with scene.running(port) as service:
        service.until_said("T-1 next try (error)")
        service.popen.kill()
        service.wait()
    with scene.running(port) as service:
        state = wait_until(lambda: (answer := get(port, "/api/v1/state")).status == 200 and answer.json)
        assert [one["issue_identifier"] for one in state["retrying"]] == ["T-1"]
        assert service.stop() == 0
        assert "started anew" not in service.said()


def test_the_dashboard_gives_way_to_the_service(scene):
    port = free_port()
    with scene.running(port) as service:
        assert get(port, "/livez").status == 200
        assert niceness(service.dashboard().pid) > niceness(service.pid)


def niceness(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


def test_sigterm_drains_both_also_with_streams_open(scene):
    scene.issue(1, WAIT + REVIEW)
    port = free_port()
    with scene.running(port) as service, ExitStack() as open_streams:
        service.until_said("turn 1 started")
        for _ in range(20):
            stream = open_streams.enter_context(socket.create_connection(("127.0.0.1", port)))
            stream.sendall(b"GET /api/v2/events/stream HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
            assert stream.recv(15) == b"HTTP/1.1 200 OK"
        dashboard = service.dashboard()
        assert service.stop() == 0
        assert not is_in_table(dashboard)
        assert can_be_taken(port)
    assert "Stopped; interrupted: T-1." in service.said()
    assert "signal" not in service.said(), "that it ended is no accident"
    assert "dashboard: Traceback" not in service.said(), "nor that its streams did"


def test_the_second_request_to_stop_ends_both_at_once(scene):
    scene.issue(1, "trap '' TERM INT; touch \"$base/ready\"; " + WAIT)
    port = free_port()
    with scene.running(port) as service:
        wait_until((scene.directory / "ready").exists)
        dashboard = service.dashboard()
        service.popen.send_signal(signal.SIGTERM)
        service.until_said("stopping, once more to force")
        assert service.stop() == 1
        wait_until(lambda: not is_in_table(dashboard))
        assert can_be_taken(port)


@pytest.fixture
def many_files():
    """As many as a thousand clients of one process need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_clients_that_send_half_read_nothing_or_only_wait_keep_no_issue_waiting(scene, many_files):
    """While they are there, the service works off what there is, and others are answered."""
    issues = [scene.issue(number, (WAIT if number == 1 else "") + REVIEW) for number in range(1, 7)]
    port = free_port()
    with scene.running(port) as service, ExitStack() as clients:
        service.until_said("turn 1 started")

        dashboard = service.dashboard()

        def client() -> socket.socket:
            return clients.enter_context(socket.create_connection(("127.0.0.1", port)))

        head = b"POST /api/v1/refresh HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 60000\r\n\r\n" % port
        for _ in range(700):
            client()
        for _ in range(100):
            client().sendall(head[:40])
            client().sendall(head + b"half")
            client().sendall(head.replace(b"POST /api/v1/refresh", b"GET /").replace(b"60000", b"0") * 50)
        scene.go()
        wait_until(
            lambda: (scene.directory / "issues.json").read_text().count('"In Review"') == len(issues),
            deadline=50,
        )
        assert get(port, "/livez").status == 200
        assert service.dashboard().pid == dashboard.pid
        assert service.stop() == 0
    assert "started anew" not in service.said()


def test_a_broken_dashboard_is_given_up_and_the_service_goes_on(scene):
    """One whose code cannot be loaded, as after an update that went wrong."""
    scene.issue(1, WAIT + REVIEW)
    broken = scene.directory / "broken"
    broken.mkdir()
    (broken / "starlette.py").write_text("raise RuntimeError('not like this')\n")
    port = free_port()
    environ = {**os.environ, "PYTHONPATH": str(broken)}
    with scene.started("run", "--port", str(port), environ=environ) as service:
        service.until_said("dashboard: RuntimeError: not like this")
        service.until_said("is given up; the service goes on without it")
        with pytest.raises(ConnectionRefusedError):
            get(port, "/livez")
        scene.go()
        wait_until(lambda: '"In Review"' in (scene.directory / "issues.json").read_text())
        assert service.stop() == 0
