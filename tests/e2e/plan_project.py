"""A plan on disk and the real `sortie plan` as a child process: what each test writes, runs and reads back.

Each task has a shell script of its own, `agents/<task>.sh`, which is its agent. Scripts append lines to `$DIARY`, a
file
outside every task folder, so the order of what happened in different processes can be read there.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from sortie.core.schedule import Schedule
from sortie.plans.progress import Memo
from sortie.store.connect import connect_readonly
from sortie.store.load import load
from sortie.store.queries import HistoryRow, history

from .processes import DEADLINE, kill_all, living_in, wait_for

COMMAND = [sys.executable, "-m", "sortie", "plan"]
# What every agent can begin with: deliver writes what a task owes.
PRELUDE = """\
set -eu
task=$SORTIE_ISSUE_ID
say() { echo "$task $*" >> "$DIARY"; }
deliver() {
  echo "${1:-made by $task}" > outbox/result.md
  printf '# Done by %s\\n- [x] done\\n' "$task" > outbox/summary.md
}
status() { printf '%s' "$1" > status.json; }
"""


class PlanProject:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "plan.yaml"
        self.work = root / "plan.work"
        self.store = self.work / ".sortie.db"
        self.diary_path = root / "diary"
        self.environment = {**os.environ, "DIARY": str(self.diary_path)}
        self.prefix: list[str] = []
        self._started: list[subprocess.Popen[bytes]] = []
        self._tasks: dict[str, dict[str, Any]] = {}
        self._plan: dict[str, Any] = {
            "name": "tested",
            "defaults": {
                "agent": {
                    "kind": "command",
                    "command": 'exec sh "$SORTIE_WORKFLOW_DIR/agents/$SORTIE_ISSUE_ID.sh"',
                    "env": ["DIARY"],
                },
                "retries": 0,
                "retry_delay_ms": 20,
                "turn_timeout_ms": 30_000,
            },
        }
        (root / "agents").mkdir()
        self.diary_path.touch()

    # -- what it is made of -----------------------------------------------------------------------------------

    def plan(self, **keys: Any) -> None:
        """Change keys of the plan; maps are merged with those that are there."""
        for key, value in keys.items():
            old = self._plan.get(key)
            self._plan[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
        self._write()

    def task(self, name: str, script: str = "deliver", **keys: Any) -> None:
        """A task and its agent; a second call changes both."""
        usual = {"objective": f"Do {name}.", "success_criteria": ["done"], "outputs": ["result.md"]}
        self._tasks[name] = {"name": name, **usual, **self._tasks.get(name, {}), **keys}
        self.script(name, script)
        self._write()

    def remove(self, name: str) -> None:
        del self._tasks[name]
        self._write()

    def script(self, name: str, script: str) -> None:
        (self.root / "agents" / f"{name}.sh").write_text(PRELUDE + script + "\n")

    def _write(self) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_text(yaml.safe_dump({**self._plan, "tasks": list(self._tasks.values())}, sort_keys=False))
        fresh.replace(self.path)

    # -- running it -------------------------------------------------------------------------------------------

    def sortie(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """`sortie plan …`, to its end."""
        done = subprocess.run(
            [*self.prefix, *COMMAND, *words],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done

    def run(self, code: int = 0, *flags: str) -> str:
        """All of the plan; the answer is what was logged."""
        return self.sortie("run", *flags, code=code).stderr

    def start(self, *flags: str) -> subprocess.Popen[bytes]:
        with (self.root / "log").open("ab") as log:
            process = subprocess.Popen(
                [*self.prefix, *COMMAND, "run", *flags],
                cwd=self.root,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def log(self) -> str:
        return (self.root / "log").read_text()

    def clean_up(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        kill_all(self.living)

    def living(self) -> list[int]:
        return living_in(self.root, f"DIARY={self.diary_path}")

    # -- reading it back --------------------------------------------------------------------------------------

    def folder(self, task: str) -> Path:
        return self.work / task

    def states(self) -> dict[str, str]:
        """As people see them."""
        told = json.loads(self.sortie("status", "--json").stdout)
        return {task["task"]: task["state"] for task in told["tasks"]}

    def note(self, task: str) -> str:
        told = json.loads(self.sortie("status", "--json").stdout)
        notes: dict[str, str] = {one["task"]: one["note"] for one in told["tasks"]}
        return notes[task]

    def schedule(self) -> Schedule:
        with closing(connect_readonly(self.store)) as db:
            return load(db).schedule

    def memo(self, task: str) -> Memo:
        return Memo.decode(self.schedule().issues[task].memo)

    def history(self, task: str | None = None) -> list[HistoryRow]:
        """The oldest first."""
        with closing(connect_readonly(self.store)) as db:
            return history(db, task, limit=10_000)[::-1]

    def status_of(self, task: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder(task) / "status.json").read_text())
        return found

    def diary(self) -> list[str]:
        return self.diary_path.read_text().splitlines()

    def until_said(self, line: str) -> None:
        wait_for(lambda: line in self.diary())

    def outboxes(self) -> dict[str, str]:
        """The hash of every file that was delivered."""
        return {
            str(path.relative_to(self.work)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.work.glob("*/outbox/**/*"))
            if path.is_file()
        }
