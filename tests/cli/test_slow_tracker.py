"""Commands that ask a tracker which takes its time: whoever waits is told what for."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

WORKFLOW = """\
---
tracker:
  kind: github
  endpoint: http://127.0.0.1:{port}
  project: octo/parser
  api_key: key-of-octo
  active_states: [todo]
  terminal_states: [done]
agent: {{kind: mock}}
---
Work on {{{{ issue.title }}}}
"""


@pytest.mark.parametrize("command", [("doctor",), ("run", "--dry-run"), ("why", "7"), ("start", "7")])
def test_whoever_waits_for_the_tracker_is_told_so(tmp_path: Path, command: tuple[str, ...]) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes calls, and answers none
        port = silent.getsockname()[1]
        (tmp_path / "WORKFLOW.md").write_text(WORKFLOW.format(port=port))
        if command[0] == "start":
            _make_store(tmp_path)
        argv = [sys.executable, "-m", "sortie", *command]
        with subprocess.Popen(
            argv, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as asking:
            assert asking.stderr
            said = asking.stderr.readline()
            asking.kill()
    assert said == "asking the tracker …\n"


def _make_store(directory: Path) -> None:
    from contextlib import closing

    from sortie.store.connect import connect_writer, migrate

    path = directory / ".sortie.db"
    with closing(connect_writer(path)) as db:
        migrate(db, path)
