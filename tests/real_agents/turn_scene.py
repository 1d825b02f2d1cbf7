"""Turns of two real agent programs in one git repository: Alice owns `src`, Bob owns `web`, Ada is the maintainer.

Each turn is a real `sortie turn` whose task holds the script that the fake model plays. Ada's own commands have an
environment without any mark of a run.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from sortie.store.connect import connect_readonly
from sortie.store.queries import HistoryRow, history, tool_calls
from tests.e2e.processes import kill_all, living_in

from .network import LoopbackWorld
from .plan_scene import WIRES
from .programs import need
from .recipes import RECIPES
from .scene import KEY, PATIENCE, Model

Steps = list[dict[str, Any]]

USAGE = {"usage": {"input": 1000, "output": 50}}
TOKENS_OF_A_STEP = 1050
# How an agent starts us in its shell.
SORTIE = shlex.join([sys.executable, "-m", "sortie"])
LANES = {"Alice": "src/**", "Bob": "web/**"}
FILES = {"src/api.py": "version = 1\n", "web/page.txt": "version 1\n"}

_QUOTED = re.compile(r"^((?:Entry|Message) \d+[^\n]*:)\n\n(`{3,})data-([0-9a-f]+)\n(.*?)\n\2$", re.M | re.S)


class Quoted(NamedTuple):
    """A text of somebody's as a prompt has it: what stands above its block, the mark, and what is in it."""

    above: str
    mark: str
    text: str


class TurnScene:
    """`agents` says which program each of the two is, by the names of the recipes."""

    def __init__(self, directory: Path, world: LoopbackWorld, agents: dict[str, str]) -> None:
        self.agents = agents
        self.model = Model(world, directory)
        self.root = directory / "checkout"
        self._prefix = world.prefix
        self._home = directory / "home"
        self._said = directory / "said"
        self._started: list[subprocess.Popen[bytes]] = []
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "TMPDIR": str(self._home / "tmp"),
            "LANG": "C.UTF-8",
        }
        (self._home / "tmp").mkdir(parents=True)
        self._put(".gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.invalid\n")
        for name in agents.values():
            for variable, value in RECIPES[name].environment.items():
                self._environment[variable] = self._filled(value)
            for path, content in RECIPES[name].home.items():
                self._put(path, content)
        self._make_repository()

    def _put(self, name: str, content: str) -> None:
        path = self._home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._filled(content))

    def _filled(self, text: str) -> str:
        return text.replace("{model}", self.model.url).replace("{key}", KEY)

    def _make_repository(self) -> None:
        for name, content in FILES.items():
            self.write(name, content)
        self.git("init", "--quiet", "--initial-branch=main")
        taking_part = [f"--agent={name}={kind}:{need(RECIPES[kind].program)}" for name, kind in self.agents.items()]
        self.sortie("peers", "init", "--maintainer=Ada", *taking_part)
        charter = self.read("CHARTER.md").replace("{WHAT THIS SESSION IS FOR}", "A page with an answer")
        charter = charter.replace("{HOW ONE SEES THAT THE WORK IS DONE}", "The page has the answer.")
        for name, glob in LANES.items():
            charter = charter.replace(f"| {name} | `{{FILES OF THIS LANE}}`", f"| {name} | `{glob}`")
        self.write("CHARTER.md", charter)
        self.write("peers.yaml", self.read("peers.yaml").replace("violations: report", "violations: revert"))
        self.sortie("charter", "adopt")
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "The beginning")

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
        kill_all(self.living)
        self.model.close()

    # -- what people do ---------------------------------------------------------------------------------------

    def sortie(self, *words: str, code: int = 0) -> str:
        """A command of Ada's, to its end."""
        done = subprocess.run(
            [*self._prefix, sys.executable, "-m", "sortie", *words],
            cwd=self.root,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert KEY not in done.stdout + done.stderr
        return done.stdout

    def turn(self, agent: str, task: str, steps: Steps, *, code: int = 0) -> dict[str, Any]:
        """One turn to its end; the answer is its report."""
        told = self.sortie("turn", agent, "--json", "--task", _with_script(task, steps), code=code)
        report: dict[str, Any] = json.loads(told)
        return report

    def start(self, agent: str, task: str, steps: Steps) -> subprocess.Popen[bytes]:
        """A turn in the background."""
        with self._said.open("ab") as said:
            process = subprocess.Popen(
                [*self._prefix, sys.executable, "-m", "sortie", "turn", agent, "--task", _with_script(task, steps)],
                cwd=self.root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.root, env=self._environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    def write(self, name: str, content: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    # -- what there is to see ---------------------------------------------------------------------------------

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def said(self) -> str:
        return self._said.read_text()

    def living(self) -> list[int]:
        """Processes of agents."""
        started = {process.pid for process in self._started}
        return [pid for pid in living_in(self.root, f"HOME={self._home}") if pid not in started]

    def events(self, kind: str = "", actor: str = "") -> list[dict[str, Any]]:
        """The envelopes of the work log."""
        found: list[dict[str, Any]] = json.loads(self.sortie("worklog", "events", "--json"))
        return [one for one in found if kind in one["event_type"] and actor in ("", one["actor"])]

    def mail(self) -> dict[str, dict[str, Any]]:
        """All messages by subject."""
        found = json.loads(self.sortie("mailbox", "list", "--all", "--json"))
        return {message["subject"]: message for message in found}

    def requests(self, number: int, agent: str) -> list[dict[str, Any]]:
        """What the model of this agent was asked in a turn, as far as its script answered it."""
        wire, first_line = WIRES[self.agents[agent]], f"# Turn {number}: {agent}\n"
        asked = [request for request in self.model.steps() if first_line in request["told"]]
        assert {request["wire"] for request in asked} == {wire}, "another program had this turn"
        return asked

    def prompt(self, number: int, agent: str) -> str:
        """What the model was told before anything was done in the turn."""
        first = self.requests(number, agent)[0]
        assert first["last_result"] is None
        return str(first["told"])

    def results(self, number: int, agent: str) -> list[str]:
        """What the tools that the model called answered, one for each step but the last."""
        return [request["last_result"] or "" for request in self.requests(number, agent)[1:]]

    def runs(self) -> list[HistoryRow]:
        """The runs of all turns as the store has them, the oldest first."""
        with closing(connect_readonly(self._store)) as db:
            return history(db)[::-1]

    def tool_calls(self) -> dict[str, dict[str, int]]:
        with closing(connect_readonly(self._store)) as db:
            return tool_calls(db)

    @property
    def _store(self) -> Path:
        return self.root / ".git/sortie/peers.db"


def quoted_in(prompt: str) -> list[Quoted]:
    """The entries and messages that a prompt has as data."""
    return [Quoted(above, mark, text) for above, _, mark, text in _QUOTED.findall(prompt)]


def the_one(quoted: Sequence[Quoted], text: str) -> Quoted:
    """The only block with this text."""
    (found,) = [one for one in quoted if text in one.text]
    return found


def _with_script(task: str, steps: Steps) -> str:
    """The first line is what the turn is called."""
    return f"{task}\n\n<script>{json.dumps([{**step, **USAGE} for step in steps])}</script>"
