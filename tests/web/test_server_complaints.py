"""What the process of the dashboard says of itself: without secrets, and in nobody's way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import msgspec

from sortie.engine.dashboard import Orders
from sortie.workflow.config import ServerConfig
from tests.cli.scene import DEADLINE, wait_until

from .server_scene import ServerScene, get


def test_an_agent_that_complains_while_the_settings_are_read_stops_nobody(tmp_path):
    (tmp_path / "project").mkdir()
    scene = ServerScene(tmp_path / "project")
    assert scene.run("run", "--until-idle").returncode == 0
    metadata = tmp_path / "loud-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[sortie.agents]\nloud = loud:Loud\n")
    (tmp_path / "loud.py").write_text(
        "import sys\nsys.stderr.write('loud is old\\n')\nclass Loud: variables = ()\n"
    )
    with scene.started("web", environ={**os.environ, "PYTHONPATH": str(tmp_path)}) as web:
        port = int(web.url().rstrip("/").rpartition(":")[2])
        scene.workflow.write_text(scene.workflow.read_text().replace("kind: command", "kind: loud"))
        wait_until(lambda: get(port, "/", Accept="text/html").status == 200 and "loud is old" in web.said())
        assert get(port, "/", Accept="text/html").status == 200


def test_a_report_that_cannot_be_read_costs_no_pages(tmp_path):
    """Said once, however often it comes; what is served is the store."""
    (tmp_path / "project").mkdir()
    scene = ServerScene(tmp_path / "project")
    assert scene.run("run", "--until-idle").returncode == 0
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        orders = Orders(
            descriptor=listening.fileno(),
            database=str(scene.directory / ".sortie.db"),
            place=str(scene.workflow),
            is_plan=False,
            server=ServerConfig(),
        )
        command = [sys.executable, "-P", "-m", "sortie.web", str(os.getpid())]
        log = tmp_path / "dashboard.log"
        with (
            log.open("wb") as output,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stderr=output, pass_fds=[listening.fileno()]
            ) as dashboard,
        ):
            assert dashboard.stdin
            dashboard.stdin.write(msgspec.json.encode(orders) + b"\n" + b'{"now": "never"}\n' * 3)
            dashboard.stdin.flush()
            wait_until(lambda: "cannot be read" in log.read_text() and get(port, "/").status == 200)
            assert dashboard.poll() is None
            dashboard.stdin.close()
            assert dashboard.wait(DEADLINE) == 0
    assert log.read_text().count("cannot be read") == 1
