"""What the process of the dashboard says of itself: without secrets, and in nobody's way."""

from __future__ import annotations

import os

from tests.cli.scene import wait_until

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
