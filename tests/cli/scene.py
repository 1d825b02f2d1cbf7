"""A directory with a workflow, and the real command run in it: as a process, or in this one where it only looks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sortie.cli.main import main

DEADLINE = 30.0

# Each agent does what the file `plan/ISSUE` beside the workflow says, and waits there for `go` where it is told to.
AGENT = """\
#!/bin/sh
cat > prompt.txt
base="$SORTIE_WORKFLOW_DIR"
. "$base/plan/$SORTIE_ISSUE_IDENTIFIER"
"""
REVIEW = "echo working; mkdir -p .sortie; printf 'needs-human-review\\nreason: look\\n' > .sortie/status\n"
BLOCK = "mkdir -p .sortie; printf 'blocked\\nreason: no access\\n' > .sortie/status\n"
CRASH = "echo it broke; exit 7\n"
WAIT = 'echo standing by; while [ ! -e "$base/go" ]; do sleep 0.02; done\n'

WORKFLOW = """\
---
tracker:
  kind: file
  active_states: [To Do, In Progress]
  terminal_states: [Done]
  in_progress_state: In Progress
  handoff_state: In Review
polling: {interval_ms: 200}
agent:
  kind: command
  max_turns: 3
---
Do {{ issue.title }}
"""


class Scene:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.workflow = directory / "WORKFLOW.md"
        self.workflow.write_text(WORKFLOW)
        (directory / "plan").mkdir()
        self._executable(directory / "agent.sh", AGENT)
        self._issues: list[dict[str, Any]] = []
        self.write_issues()

    def issue(self, number: int, plan: str, **fields) -> str:
        identifier = f"T-{number}"
        self._issues.append(
            {"id": str(number), "identifier": identifier, "title": f"Task {number}", "state": "To Do", **fields}
        )
        (self.directory / "plan" / identifier).write_text(plan)
        self.write_issues()
        return identifier

    def write_issues(self) -> None:
        (self.directory / "issues.json").write_text(json.dumps(self._issues))

    def go(self) -> None:
        (self.directory / "go").touch()

    def run(self, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
        """The command as a process of its own, to its end."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            **options,
        )

    @contextmanager
    def service(self, *arguments: str):
        """`sortie run` in the background; whoever is still alive at the end is killed."""
        log = self.directory / "service.log"
        with log.open("ab") as stderr:
            process = subprocess.Popen(
                self.command("run", *arguments),
                cwd=self.directory,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        try:
            yield process
        finally:
            self.go()  # agents that were told to wait end by themselves, also where their service was killed
            process.terminate()
            try:
                process.communicate(timeout=DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()

    def background(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments), cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "sortie", *arguments]

    def _executable(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)


class Said:
    """What a command run in this process answered."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def json(self) -> Any:
        return json.loads(self.out)


def ask(capsys, *arguments: str) -> Said:
    """A command that only looks or asks, in this process: a tenth of the time."""
    capsys.readouterr()
    code = main(arguments)
    captured = capsys.readouterr()
    return Said(code, captured.out, captured.err)


def wait_until(condition, deadline: float = DEADLINE):
    """The first true answer; fails when there is none in time."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        if answer := condition():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"not within {deadline:g} s: {condition}")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIG_DFL)
    except ProcessLookupError:
        return False
    return True
