"""A git repository that agents share, and the real `sortie` as child processes: what each test writes and reads.

Each agent is a shell script, `agents/<name>.sh`, outside of the checkout. Scripts append lines to `$DIARY`, which
lies outside of it too, and have `sortie` as a command.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from sortie.peers.author import Author
from sortie.peers.charter.charter_file import CharterFile
from sortie.peers.mailbox.mailbox_file import MailboxFile
from sortie.peers.place import place_at
from sortie.peers.roster import roster_of
from sortie.peers.turn_register import Turn, TurnRegister
from sortie.peers.worklog.event import Event
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.worklog_file import WorklogFile

from .processes import DEADLINE, kill_all, living_in, wait_for

COMMAND = [sys.executable, "-m", "sortie"]
ADA = Author(name="Ada", role="maintainer")
CHARTER = """\
# Session Charter

## Metadata

| Field | Value |
|---|---|
| Session ID | s1 |

## Roster

| Role | Agent | Model/Provider | Lane |
|---|---|---|---|
| Maintainer | Ada | human | all |
| Agent | Alice | command | api |
| Agent | Bob | command | web |

## Lane ownership

| Lane | Owner | Files/Scope |
|---|---|---|
| api | Alice | `src/**` |
| web | Bob | `web/**` |

## Governance settings

- Decision mode: consent
- Unowned files: maintainer

## Acceptance criteria

- [ ] the tests pass
"""
# What a script begins with.
PRELUDE = f"""\
set -u
sortie() {{ {sys.executable} -m sortie "$@"; }}
say() {{ echo "$*" >> "$DIARY"; }}
cat > "$DIARY.prompt-$SORTIE_ISSUE_ID"
"""
GIT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


class PeerProject:
    def __init__(self, base: Path, charter: str = CHARTER) -> None:
        self.base = base
        self.root = base / "checkout"
        self.agents = base / "agents"
        self.diary_path = base / "diary"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SORTIE_", "GIT_"))},
            **GIT,
            "DIARY": str(self.diary_path),
            "AGENTS": str(self.agents),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
        }
        for name in ("CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI", "OPENCODE", "COPILOT_CLI"):
            self.environment.pop(name, None)
        self._settings: dict[str, Any] = {}
        self._started: list[subprocess.Popen[str]] = []
        self.agents.mkdir(parents=True)
        self.diary_path.touch()
        self._make_repository()
        self.place = place_at(self.root)
        self._make_documents(charter)

    def _make_repository(self) -> None:
        (self.root / "src").mkdir(parents=True)
        (self.root / "web").mkdir()
        (self.root / "src" / "api.py").write_text("version = 1\n")
        (self.root / "web" / "page.js").write_text("let version = 1\n")
        self.git("init", "-q", "-b", "main")

    def _make_documents(self, charter: str) -> None:
        (self.root / "CHARTER.md").write_text(charter)
        roster = roster_of(self.place)
        WorklogFile(self.place.worklog, session_id="s1").create(
            roster.agents, roster.maintainer, ADA, 1_700_000_000
        )
        MailboxFile(self.place).create(ADA, 1_700_000_000)
        self.settings()
        for name in roster.agents:
            self.script(name, "true")
        CharterFile(self.place).adopt("agreed", ADA, at=1_700_000_001)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "the beginning")

    # -- what a person writes ---------------------------------------------------------------------------------

    def settings(self, agents: Mapping[str, Any] | None = None, **keys: Any) -> None:
        """peers.yaml; each agent is its shell script, with these settings over it."""
        self._settings |= keys
        usual = {"kind": "command", "env": ["DIARY", "AGENTS", "PYTHONPATH"], "turn_timeout_ms": 40_000}
        said: dict[str, Any] = {"maintainer": "Ada", "agents": {}, **self._settings}
        for name in ("Alice", "Bob"):
            command = f'exec sh "$AGENTS/{name.lower()}.sh"'
            said["agents"][name] = {**usual, "command": command, **(agents or {}).get(name, {})}
        (self.root / "peers.yaml").write_text(yaml.safe_dump(said, sort_keys=False))

    def script(self, agent: str, script: str) -> None:
        (self.agents / f"{agent.lower()}.sh").write_text(f"{PRELUDE}{script}\n")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self.root,
            env={**self.environment},
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    # -- running it -------------------------------------------------------------------------------------------

    def sortie(
        self, *words: str, code: int | None = 0, given: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE,
            **({"input": given} if given is not None else {"stdin": subprocess.DEVNULL}),
        )
        if code is not None:
            assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def turn(self, agent: str, script: str | None = None, *words: str, code: int | None = 0) -> dict[str, Any]:
        """One turn to its end; the answer is its report."""
        if script is not None:
            self.script(agent, script)
        done = self.sortie("turn", agent, *words, "--json", code=code)
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def start(self, agent: str, *words: str) -> subprocess.Popen[str]:
        """A turn in the background."""
        with (self.base / "said").open("a") as said:
            popen = subprocess.Popen(
                [*COMMAND, "turn", agent, *words],
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                text=True,
                start_new_session=True,
            )
        self._started.append(popen)
        return popen

    def kill(self, popen: subprocess.Popen[str]) -> None:
        popen.send_signal(signal.SIGKILL)
        popen.wait(DEADLINE)

    def said(self) -> str:
        return (self.base / "said").read_text()

    def living(self) -> list[int]:
        """Processes of agents, found by their environment or their directory."""
        started = {popen.pid for popen in self._started}
        return [pid for pid in living_in(self.root, str(self.diary_path)) if pid not in started]

    def clean_up(self) -> None:
        for popen in self._started:
            popen.kill()
            popen.wait()
        kill_all(self.living)

    # -- what is remembered -----------------------------------------------------------------------------------

    @property
    def worklog(self) -> WorklogFile:
        return WorklogFile(self.place.worklog, session_id="s1")

    @property
    def mailbox(self) -> MailboxFile:
        return MailboxFile(self.place)

    def events(self, kind: str = "", actor: str = "") -> list[Event]:
        found = events_of(self.worklog.read())
        return [one for one in found if kind in one.event_type and (not actor or one.actor == actor)]

    def turns(self) -> list[Turn]:
        return TurnRegister(self.place).turns()

    def prompt(self, number: int, agent: str) -> str:
        return Path(f"{self.diary_path}.prompt-{agent.lower()}-{number:04}").read_text()

    def diary(self) -> list[str]:
        return self.diary_path.read_text().splitlines()

    def wait_for_line(self, line: str) -> None:
        wait_for(lambda: line in self.diary(), explain=lambda: self.said() if (self.base / "said").exists() else "")

    def file(self, path: str) -> str:
        return (self.root / path).read_text()
