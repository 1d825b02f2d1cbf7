"""A project on disk and the real service as a child process: what each test writes, starts and reads back.

Each issue has a shell script of its own, `agents/<id>.sh`, which is its agent. Scripts and hooks append lines to
`$DIARY`, a file outside every workspace, so the order of what happened in different processes can be read there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

import yaml

from sortie.core import events as ev
from sortie.core.schedule import Schedule
from sortie.errors import StoreError
from sortie.store import queries as reading
from sortie.store.connect import connect_readonly
from sortie.store.load import load

from .processes import DEADLINE, kill_all, living_in, wait_for
from .recording_tracker import install

T = TypeVar("T")
Event = TypeVar("Event", bound=ev.AnyEvent)

NOBODY = 65534
PROMPT = "Work on {{ issue.identifier }}: {{ issue.title }}"
COMMAND = [sys.executable, "-m", "sortie"]

DEFAULTS: dict[str, Any] = {
    "tracker": {
        "kind": "file",
        "active_states": ["To Do", "In Progress"],
        "terminal_states": ["Done"],
    },
    "polling": {"interval_ms": 200},
    "agent": {
        "kind": "command",
        "command": 'exec sh "$SORTIE_WORKFLOW_DIR/agents/$SORTIE_ISSUE_ID.sh"',
        "max_turns": 1,
        "max_retry_backoff_ms": 200,
        "stall_timeout_ms": 30_000,
        "turn_timeout_ms": 30_000,
        "env": ["DIARY"],
    },
    "hooks": {"timeout_ms": 20_000},
    "budget": {"per_issue": {"sessions": 1}},
}


class Project:
    def __init__(self, root: Path, *, unprivileged: bool = False) -> None:
        self.root = root
        self.workflow_path = root / "WORKFLOW.md"
        self.issues_path = root / "issues.json"
        self.db_path = root / ".sortie.db"
        self.workspaces = root / "workspaces"
        self.diary_path = root / "diary"
        self.output_path = root / "service.log"
        self.environment = {**os.environ, "DIARY": str(self.diary_path)}
        self._services: list[subprocess.Popen[bytes]] = []
        self.prefix: list[str] = []
        self._unprivileged = unprivileged and os.geteuid() == 0
        if self._unprivileged:
            self.prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            os.chown(root, NOBODY, NOBODY)
        (root / "agents").mkdir()
        self.diary_path.touch()
        self.own(self.diary_path)
        self.workflow()
        self.write_issues([])

    # -- what a person writes ---------------------------------------------------------------------------------

    def workflow(self, settings: Mapping[str, Any] = {}, prompt: str = PROMPT) -> None:
        """WORKFLOW.md: the settings over those that all tests share."""
        front = yaml.safe_dump(merged(DEFAULTS, settings), sort_keys=False)
        self.put(self.workflow_path, f"---\n{front}---\n{prompt}\n".encode())

    def add(self, issue_id: str, script: str = "true", **fields: Any) -> str:
        """One more issue and the script that is its agent; the identifier is `T-<id>` if none is given."""
        agent = self.root / "agents" / f"{issue_id}.sh"
        agent.write_text(script)
        record = {"id": issue_id, "identifier": f"T-{issue_id}", "title": f"Task {issue_id}", "state": "To Do"}
        self.write_issues([*self.issues(), {**record, **fields}])
        return issue_id

    def issues(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.issues_path.read_bytes())
        return found

    def issue(self, issue_id: str) -> dict[str, Any]:
        return next(record for record in self.issues() if record["id"] == issue_id)

    def state(self, issue_id: str) -> str:
        return str(self.issue(issue_id)["state"])

    def edit(self, issue_id: str, **changes: Any) -> None:
        self.write_issues([{**r, **changes} if r["id"] == issue_id else r for r in self.issues()])

    def write_issues(self, records: list[dict[str, Any]]) -> None:
        self.put(self.issues_path, json.dumps(records, indent=2).encode())

    def put(self, path: Path, content: bytes) -> None:
        """Replace a file in one step, as careful editors do."""
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_bytes(content)
        self.own(fresh)
        fresh.rename(path)

    def own(self, path: Path) -> None:
        if self._unprivileged:
            os.chown(path, NOBODY, NOBODY)

    def record_tracker_calls(self, **options: Any) -> dict[str, Any]:
        """Install a tracker that writes every call to the diary; the answer is the settings that select it."""
        if not (self.root / "plugins").exists():
            install(self.root / "plugins")
        self.find_modules_in(self.root / "plugins")
        return {"tracker": {"kind": "recording"}, "recording": {"diary": str(self.diary_path), **options}}

    def find_modules_in(self, place: Path) -> None:
        """As if what lies there were installed beside Sortie."""
        path = [str(place), self.environment.get("PYTHONPATH", "")]
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))

    # -- the service ------------------------------------------------------------------------------------------

    def start(self, *, until_idle: bool = False, **environment: str) -> Service:
        command = [*COMMAND, "run", self.workflow_path.name, "--log-format", "json"]
        return Service(self, self._popen([*command, "--until-idle"] if until_idle else command, environment))

    def run(self, **environment: str) -> int:
        """Until nothing is left to do; the answer is the exit code."""
        return self.start(until_idle=True, **environment).wait()

    def sortie(self, *arguments: str, prefix: list[str] | None = None) -> subprocess.CompletedProcess[str]:
        """Another command of the same program, to its end."""
        return subprocess.run(
            [*(self.prefix if prefix is None else prefix), *COMMAND, *arguments],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )

    def _popen(self, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with self.output_path.open("ab") as output:
            popen = subprocess.Popen(
                [*self.prefix, *command],
                cwd=self.root,
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._services.append(popen)
        return popen

    def living(self) -> list[int]:
        """Processes of agents and hooks of this project, found by their environment or their directory."""
        services = {popen.pid for popen in self._services}
        return [pid for pid in living_in(self.root, str(self.diary_path)) if pid not in services]

    def clean_up(self) -> None:
        for popen in self._services:
            popen.kill()
            popen.wait()
        kill_all(self.living)

    # -- what is remembered -----------------------------------------------------------------------------------

    @contextmanager
    def store(self) -> Iterator[Connection]:
        with closing(connect_readonly(self.db_path)) as db:
            yield db

    def events(self, kind: type[Event], issue_id: str | None = None) -> list[Event]:
        """All events of one kind, oldest first; none while there is no store yet."""
        if not self.db_path.exists():
            return []
        with self.store() as db:
            logged = reading.events(db, issue_id=issue_id, limit=1_000_000)
        return [entry.event for entry in logged if isinstance(entry.event, kind)]

    def runs(self, issue_id: str) -> list[reading.HistoryRow]:
        """Finished runs, oldest first."""
        with self.store() as db:
            return reading.history(db, issue_id)[::-1]

    def only_run(self, issue_id: str) -> reading.HistoryRow:
        (run,) = self.runs(issue_id)
        return run

    def schedule(self) -> Schedule:
        with self.store() as db:
            return load(db).schedule

    def parked(self) -> dict[str, tuple[str, str]]:
        """Kind and reason by issue id."""
        parked = self.schedule().parked.values()
        return {item.issue_id: (item.park.kind, item.park.reason) for item in parked}

    def settled(self, issue_id: str) -> ev.Settled:
        """What followed the last run of the issue."""
        return self.events(ev.Settled, issue_id)[-1]

    def notes(self, issue_id: str | None = None, level: str = "warning") -> str:
        """The remarks of one level, one line for each."""
        found = self.events(ev.Noted, issue_id)
        return "\n".join(f"{note.message}: {note.detail}" for note in found if note.level == level)

    def diary(self) -> list[str]:
        return self.diary_path.read_text("utf-8", "replace").splitlines()

    def run_log(self) -> str:
        """What all agents and hooks said."""
        logs = sorted(self.db_path.with_suffix(".logs").glob("*.log*"))
        return "".join(path.read_text("utf-8", "replace") for path in logs)

    def output(self) -> str:
        return self.output_path.read_text("utf-8", "replace")

    def workspace(self, issue_id: str) -> Path:
        return self.workspaces / f"T-{issue_id}"


class Service:
    """The service in the background."""

    def __init__(self, project: Project, popen: subprocess.Popen[bytes]) -> None:
        self._project = project
        self.popen = popen

    @property
    def pid(self) -> int:
        return self.popen.pid

    def wait(self, seconds: float = DEADLINE) -> int:
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the service did not end in {seconds} s:\n{self._project.output()}") from None

    def until(self, condition: Callable[[], T], seconds: float = DEADLINE) -> T:
        """Wait until the condition is true; a service that ends before is an error."""

        def check() -> T | None:
            ended = self.popen.poll() is not None
            try:
                result = condition()
            except StoreError:
                result = None  # the service has not made its store yet
            assert result or not ended, f"the service ended too early:\n{self._project.output()}"
            return result

        return wait_for(check, seconds, self._project.output)

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        """The end without warning: SIGKILL to the service alone, as the kernel does when memory runs out."""
        self.popen.kill()
        self.popen.wait()

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result
