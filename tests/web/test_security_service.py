"""The real service with its dashboard: it writes no token, prints one link for the first person, obeys no agent."""

from __future__ import annotations

import http.client
import json
import sys
from contextlib import closing

import pytest

from tests.cli.scene import REVIEW, wait_until

from .live_server import Answer
from .server_scene import ServerScene, free_port, get

# The agent of T-1 has found a token, and asks for what only a person may ask for; it notes what it was answered.
ASKS = f"""
while [ ! -s "$base/found" ]; do sleep 0.02; done
{sys.executable} - "$base" <<'END'
import http.client, pathlib, sys
base = pathlib.Path(sys.argv[1])
port, token = (base / "found").read_text().split()
said = {{}}
for headers in ({{"Authorization": "Bearer " + token}}, {{"Cookie": "sortie_" + port + "=" + token}}):
    headers |= {{"Content-Type": "application/json", "Origin": "http://127.0.0.1:" + port}}
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    connection.request("POST", "/api/v2/commands", '{{"verb": "unpark", "issue": "T-1"}}', headers)
    said[connection.getresponse().read().decode()] = True
connection.request("GET", "/login?token=" + token)
said[connection.getresponse().read().decode()] = True
(base / "answered").write_text("\\n".join(said))
END
"""


@pytest.fixture
def scene(tmp_path):
    return ServerScene(tmp_path)


def post(port: int, path: str, body: str = "", **headers: str) -> Answer:
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("POST", path, body, said)
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


def test_no_token_is_in_anything_that_the_service_writes(scene):
    port = free_port()
    with scene.running(port) as service:
        token = json.loads(scene.run("token", "new", "--json").stdout)["token"]
        for path in (f"/login?token={token}", f"/nowhere?token={token}", f"/login?token={token}x&next=//evil"):
            get(port, path)
            get(port, path, Sec_Fetch_Site="cross-site")
            get(port, path, Host="evil.example")
            post(port, path, f"token={token}", Authorization=f"Bearer {token}")
        answer = post(
            port, "/api/v2/commands", "{", Authorization=f"Bearer {token}", Content_Type="application/json"
        )
        assert answer.status in (400, 422)
        assert service.stop() == 0
        assert token not in service.said()
    written = [path for path in scene.directory.rglob("*") if path.is_file()]
    assert len(written) > 3
    assert not [path for path in written if token.encode() in path.read_bytes()]


def test_the_first_start_prints_one_link_and_no_later_one_does_and_it_is_a_key_until_it_is_revoked(scene):
    port = free_port()
    with scene.running(port) as service:
        line = service.until_said("/login?token=")
        assert "(keep it secret" in line and "token revoke` revokes it)" in line
        link = line.split()[-1]
        assert link.startswith(f"http://127.0.0.1:{port}/login?token=")
        for _ in range(2):
            answer = get(port, link.partition(str(port))[2])
            assert (answer.status, answer.headers["location"]) == (303, "/")
        service.stop()
        assert service.said().count("/login?token=") == 1
    with scene.running(port) as service:
        assert get(port, link.partition(str(port))[2]).status == 303
        (made,) = json.loads(scene.run("token", "list", "--json").stdout)
        assert scene.run("token", "revoke", made["id"]).returncode == 0
        assert get(port, link.partition(str(port))[2]).status == 401
        service.stop()
        assert "token=" not in service.said()


def test_a_token_that_is_made_and_revoked_while_the_service_runs_counts_at_once(scene):
    port = free_port()
    with scene.running(port):
        made = json.loads(scene.run("token", "new", "--json").stdout)
        assert made["link"].startswith(f"http://127.0.0.1:{port}/login?token=")
        refresh = {"Authorization": f"Bearer {made['token']}", "Content_Type": "application/json"}
        assert post(port, "/api/v2/commands", '{"verb": "refresh"}', **refresh).status == 202
        assert scene.run("token", "revoke", made["id"]).returncode == 0
        assert post(port, "/api/v2/commands", '{"verb": "refresh"}', **refresh).status == 401


def test_an_agent_that_found_a_token_cannot_use_it_and_a_person_can(scene):
    scene.issue(1, ASKS + REVIEW)
    port = free_port()
    with scene.running(port) as service:
        token = json.loads(scene.run("token", "new", "--json").stdout)["token"]
        service.until_said("turn 1 started")
        (scene.directory / "found").write_text(f"{port} {token}")
        answers = wait_until(lambda: (scene.directory / "answered").exists() and _answers(scene))
        assert len(answers) >= 1
        assert all("inside a run of Sortie" in answer for answer in answers)
        refresh = {"Authorization": f"Bearer {token}", "Content_Type": "application/json"}
        assert post(port, "/api/v2/commands", '{"verb": "refresh"}', **refresh).status == 202


def _answers(scene: ServerScene) -> list[str]:
    return (scene.directory / "answered").read_text().splitlines()
