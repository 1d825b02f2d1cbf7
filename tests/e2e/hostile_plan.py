"""A plan on disk and the real `sortie plan` as a child process: what each test writes, starts and reads back.

Each task has a shell script of its own, `agents/<task>.sh`, which is its agent and works in the folder of the task.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from sortie.core import events as ev
from sortie.core.schedule import Schedule
from sortie.plans.load import load_plan
from sortie.plans.progress import Memo
from sortie.plans.standing import Standing, standings
from sortie.store import queries
from sortie.store.connect import connect_readonly
from sortie.store.load import load

from .processes import DEADLINE, kill_all, living_in, wait_for
from .project import COMMAND

# What a task that behaves does: all that it owes, and no word in status.json.
DELIVER = "echo fine > outbox/data.txt; echo '# fine' > outbox/summary.md"


MOST_MEMORY = 400 * 1024 * 1024


class HostilePlan:
    """`outside` is a directory beside all that belongs to the plan, with a file that nobody is to read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plan_path = root / "plan.yaml"
        self.work = root / "plan.work"
        self.output_path = root / "service.log"
        self.diary_path = root / "diary"
        self.outside = root / "outside"
        self.secret = self.outside / "secret.txt"
        self.defaults: dict[str, Any] = {}
        self._tasks: list[dict[str, Any]] = []
        self._running: list[subprocess.Popen[bytes]] = []
        for directory in (root / "agents", self.outside):
            directory.mkdir(parents=True)
        self.secret.write_text("nobody is to read this")
        self.diary_path.touch()
        self.output_path.touch()

    # -- what a person writes ---------------------------------------------------------------------------------

    def task(self, name: str, script: str = DELIVER, **keys: Any) -> None:
        """A task, in place of the one of this name, and the script that is its agent."""
        (self.root / "agents" / f"{name}.sh").write_text(f"cat > /dev/null\n{script}\n")
        usual = {"objective": f"Do {name}.", "success_criteria": ["It is done."], "outputs": ["data.txt"]}
        self._tasks = [task for task in self._tasks if task["name"] != name]
        self._tasks.append({"name": name, **usual, **keys})
        self.write_plan()

    def write_plan(self) -> None:
        command = 'exec sh "$SORTIE_WORKFLOW_DIR/agents/$SORTIE_ISSUE_ID.sh"'
        agent = {"kind": "command", "command": command, "env": ["ROOT", "DIARY"]}
        usual = {"agent": agent, "skill": "code", "retries": 0, "retry_delay_ms": 0}
        plan = {"name": "hostile", "defaults": {**usual, **self.defaults}, "tasks": self._tasks}
        fresh = self.plan_path.with_suffix(".new")
        fresh.write_text(json.dumps(plan, indent=1))
        fresh.rename(self.plan_path)

    # -- the service ------------------------------------------------------------------------------------------

    def start(self) -> subprocess.Popen[bytes]:
        with self.output_path.open("ab") as output:
            popen = subprocess.Popen(
                [*COMMAND, "plan", "run", str(self.plan_path)],
                cwd=self.root,
                env={**os.environ, "ROOT": str(self.root), "DIARY": str(self.diary_path)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._running.append(popen)
        return popen

    def run(self) -> int:
        """Until nothing is left to do; the answer is the exit code. Whatever agents do, nobody crashes over it."""
        popen = self.start()
        resource.prlimit(popen.pid, resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
        try:
            code = popen.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the service hangs:\n{self.output()}") from None
        assert code in (0, 1, 3), self.output()
        for word in ("Traceback", "internal error", "unforeseen", "MemoryError"):
            assert word not in self.output(), self.output()
        assert self.living() == []
        return code

    def sortie(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments], cwd=self.root, capture_output=True, text=True, timeout=DEADLINE
        )

    def living(self) -> list[int]:
        services = {popen.pid for popen in self._running}
        return [pid for pid in living_in(self.work, str(self.diary_path)) if pid not in services]

    def wait_until(self, condition: Any) -> None:
        wait_for(condition, explain=self.output)

    def clean_up(self) -> None:
        for popen in self._running:
            popen.kill()
            popen.wait()
        kill_all(self.living)

    # -- what came of it --------------------------------------------------------------------------------------

    def output(self) -> str:
        return self.output_path.read_text("utf-8", "replace")

    def diary(self) -> list[str]:
        return self.diary_path.read_text("utf-8", "replace").splitlines()

    def schedule(self) -> Schedule:
        with closing(connect_readonly(self.work / ".sortie.db")) as db:
            return load(db).schedule

    def standing(self, task: str) -> Standing:
        """The state of a task and the reason, as people are told."""
        return standings(load_plan(self.plan_path), self.schedule(), time.time(), served=False)[task]

    def memo(self, task: str) -> Memo:
        return Memo.decode(self.schedule().issues[task].memo)

    def delivered(self, task: str) -> list[str]:
        return [path for path, _, _ in self.memo(task).files]

    def findings(self, task: str) -> str:
        """What was odd about it, as it was told while it ran."""
        with closing(connect_readonly(self.work / ".sortie.db")) as db:
            logged = queries.events(db, issue_id=task, limit=100_000)
        notes = [entry.event for entry in logged if isinstance(entry.event, ev.Noted)]
        return "\n".join(f"{note.message}: {note.detail}" for note in notes if note.level == "warning")

    def folder(self, task: str) -> Path:
        return self.work / task

    def status(self, task: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder(task) / "status.json").read_bytes())
        return found

    def everything_we_wrote(self) -> bytes:
        """All files of the store and its logs, and all reports: what nobody was to read must not be there."""
        paths = [*self.work.glob(".sortie*"), *self.work.glob(".sortie.logs/*"), *self.work.glob("*/outbox/*.md")]
        regular = [path for path in (*paths, self.output_path) if path.is_file() and not path.is_symlink()]
        return b"".join(path.read_bytes() for path in regular)
