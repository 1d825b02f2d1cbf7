"""An agent must not approve of itself: what its processes send is refused, whatever token they have found."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext

import pytest

from sortie.core.policy import Spent
from sortie.engine.report import LiveReport
from sortie.process.identity import RUN_MARK, limit_marked, limit_marker
from sortie.store.commands import pending_commands
from sortie.store.connect import connect_readonly
from sortie.web.sender_process import sender_of
from tests.store.sample import noted

from .live_server import LiveServer, new_store, served

# Sends one request and prints status and body; with `shed`, without the marks that it was born with.
CLIENT = """
import http.client, json, resource, sys
asked = json.loads(sys.argv[1])
if asked["shed"]:
    resource.setrlimit(resource.RLIMIT_RTTIME, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
connection = http.client.HTTPConnection(asked["host"], asked["port"], timeout=30)
connection.request(asked["method"], asked["path"], body=asked["body"], headers=asked["headers"])
answer = connection.getresponse()
print(json.dumps([answer.status, answer.read().decode(), dict(answer.getheaders())]))
"""
BELOW_ANOTHER = ["sh", "-c", 'env -i "$@"; true', "sh"]
MARKER = limit_marker("store", "run-1")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with served(new_store(tmp_path_factory.mktemp("agents") / "sortie.db", noted("begun", issue="1"))) as started:
        yield started


def sent_by(
    server: LiveServer,
    headers: dict[str, str],
    *,
    method: str = "POST",
    path: str = "/api/v2/commands",
    mark: str = "",
    marker: int = 0,
    above: list[str] | None = None,
    shed: bool = False,
) -> tuple[int, str, dict[str, str]]:
    """What a process of its own is answered: one that bears these marks, or whose parents `above` do."""
    asked = {
        "host": server.host,
        "port": server.port,
        "method": method,
        "path": path,
        "headers": {"Content-Type": "application/json", **headers},
        "body": '{"verb": "refresh"}' if method == "POST" else None,
        "shed": shed,
    }
    environment = {"PATH": os.environ["PATH"], **({RUN_MARK: mark} if mark else {})}
    with limit_marked(marker) if marker else nullcontext():
        started = subprocess.Popen(
            [*(above or []), sys.executable, "-I", "-S", "-c", CLIENT, json.dumps(asked)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
    said, _ = started.communicate(timeout=30)
    status, body, answered = json.loads(said)
    return status, body, {name.lower(): value for name, value in answered.items()}


def commands(server: LiveServer) -> int:
    with closing(connect_readonly(server.site.database)) as db:
        return len(pending_commands(db))


@pytest.mark.parametrize(
    "marks",
    [
        {"mark": "run-1"},
        {"marker": MARKER},
        {"mark": "run-1", "marker": MARKER},
        {"mark": "run-1", "above": BELOW_ANOTHER},
        {"mark": "run-1", "marker": MARKER, "above": BELOW_ANOTHER, "shed": True},
    ],
    ids=["variable", "limit", "both", "child without the variable", "child without any mark"],
)
def test_a_process_of_a_run_is_refused_with_cookie_and_bearer_alike(server, marks):
    before = commands(server)
    proofs = ({"Cookie": server.cookie(), "Origin": server.url}, {"Authorization": server.bearer()})
    for proof in proofs:
        status, body, _ = sent_by(server, proof, **marks)
        assert status == 403
        assert json.loads(body)["error"]["code"] == "agent"
    assert commands(server) == before


def test_a_process_without_a_mark_is_not(server):
    before = commands(server)
    for proof in ({"Cookie": server.cookie(), "Origin": server.url}, {"Authorization": server.bearer()}):
        status, body, _ = sent_by(server, proof)
        assert status == 202, body
    assert commands(server) == before + 2


def test_an_agent_cannot_log_in(server):
    token = server.bearer().split()[1]
    status, body, headers = sent_by(server, {}, method="GET", path=f"/login?token={token}", mark="run-1")
    assert status == 403
    assert "inside a run" in body
    assert "set-cookie" not in headers
    status, _, headers = sent_by(server, {}, method="GET", path=f"/login?token={token}")
    assert (status, "set-cookie" in headers) == (303, True)


@pytest.mark.parametrize("path", ["/api/v1/refresh", "/webhooks/tracker", "/issues/1/answer", "/logout"])
def test_that_holds_for_everything_that_changes_something(server, path):
    status, body, _ = sent_by(server, {"Authorization": server.bearer()}, path=path, mark="run-1")
    assert status == 403
    assert "inside a run" in body


def test_an_agent_may_look(server):
    assert sent_by(server, {}, method="GET", path="/api/v2/issues", mark="run-1")[0] == 200


def test_what_a_request_says_of_where_it_comes_from_counts_for_nothing(server):
    said = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9", "X-Real-IP": "203.0.113.9"}
    assert sent_by(server, {**said, "Authorization": server.bearer()}, mark="run-1")[0] == 403


def test_what_lost_its_parents_and_its_marks_belongs_to_the_service(tmp_path):
    """Here this process is the service, and what it started without a mark is an orphan that came to it."""
    with served(new_store(tmp_path / "sortie.db", noted("begun"))) as server:
        bearer = {"Authorization": server.bearer()}
        assert sent_by(server, bearer)[0] == 202
        server.live.hear(
            LiveReport(now=1.0, running=(), waiting=(), parked=(), ready=0, slots=1, today=Spent(), pid=os.getpid())
        )
        assert sent_by(server, bearer)[0] == 403


def test_a_connection_that_was_handed_to_an_agent_is_an_agents(server):
    """A process may open a connection and let another speak: whoever has it counts."""
    with socket.create_connection((server.host, server.port)) as connection:
        held = subprocess.Popen(
            ["sh", "-c", "echo ready; read line"],
            env={"PATH": os.environ["PATH"], RUN_MARK: "run-1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[connection.fileno()],
        )
        assert held.stdout is not None
        held.stdout.readline()
        assert sender_of(connection.getsockname(), connection.getpeername()) == "agent"
        held.communicate(b"\n")
        assert sender_of(connection.getsockname(), connection.getpeername()) == "other"


@pytest.mark.parametrize("family", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_whoever_does_not_wait_for_the_answer_is_nobody(family):
    """Else an agent would send its wish and be gone before anybody looks who it was."""
    host = "::1" if family == "::1" else "127.0.0.1"
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        client = socket.socket(socket.AF_INET6 if ":" in family else socket.AF_INET)
        client.connect((family, listening.getsockname()[1]))
        accepted, address = listening.accept()
        with accepted:
            server = accepted.getsockname()
            assert sender_of(address[:2], server[:2]) == "other"
            client.close()
            assert sender_of(address[:2], server[:2]) == "nobody"


@contextmanager
def agents_connection() -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """A process of a run that alone has one end of a connection; the other end is ours."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connection = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    with limit_marked(MARKER):
        agent = subprocess.Popen(["sleep", "60"], pass_fds=[connection.fileno()])
    connection.close()
    with accepted:
        try:
            yield agent, accepted
        finally:
            agent.kill()
            agent.wait()


def test_who_ends_while_it_is_looked_for_is_not_let_through():
    """An agent sends its wish and is gone, at whichever moment of the look."""
    found: list[str] = []
    for moment in range(40):
        with agents_connection() as (agent, accepted):
            ends = accepted.getpeername(), accepted.getsockname()
            began = time.monotonic()
            assert sender_of(*ends) == "agent"
            end = threading.Timer((time.monotonic() - began) * moment / 40, agent.kill)
            end.start()
            found.append(sender_of(*ends))
            end.join()
    assert {*found} <= {"agent", "nobody"}


def test_who_comes_from_another_machine_has_no_process_here():
    assert sender_of(("192.0.2.1", 40000), ("192.0.2.2", 7678)) == "other"
