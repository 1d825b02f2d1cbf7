"""The inspector, a client in another language by the people who make the protocol."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from tests import npm

from .inspector import installed

pytestmark = npm.TIME_TO_INSTALL


@pytest.fixture
def inspect(project):
    try:
        program = installed()
    except npm.NotInstalled as problem:
        npm.not_tested(problem)

    def inspect(*options: str) -> tuple[int, dict[str, Any]]:
        variables = [word for pair in project.environment().items() for word in ("-e", "=".join(pair))]
        done = subprocess.run(
            [program, "--cli", *variables, *options, *project.command()[:-2], f"--workflow={project.workflow}"],
            env={**os.environ, "HOME": str(project.root)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    return inspect


def test_the_inspector_lists_and_calls_the_tools(inspect):
    code, listed = inspect("--method", "tools/list")
    assert code == 0
    assert [tool["name"] for tool in listed["tools"]] == ["tracker_api", "sortie_status", "workspace_history"]
    call = ("--method", "tools/call", "--tool-name")
    arguments = '{"operation": "fetch_issue", "issue_id": "abc123"}'
    code, found = inspect(*call, "tracker_api", "--tool-args-json", arguments)
    assert code == 0
    assert found["structuredContent"]["data"]["identifier"] == "PROJ-42"
    _, refused = inspect(*call, "tracker_api", "--tool-args-json", '{"operation": "fetch_issue"}')
    assert refused["isError"] is True
    code, status = inspect(*call, "sortie_status")
    assert json.loads(status["content"][0]["text"])["turns_remaining"] == 17
