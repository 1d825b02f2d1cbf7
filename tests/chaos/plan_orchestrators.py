"""Orchestrators of plans by the hundred: real processes that need not import anything, because they are forked.

`Forge` is a process that has imported all of `sortie plan run` and forks one orchestrator for each request, a line
of JSON on its standard input; a line with the process id is the answer. It waits for one that has ended when asked
to, so no process id is used again before that.
"""

from __future__ import annotations

import gc
import json
import os
import select
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent.parent


class Forge:
    """`agent` is the program of all agents, built from `plan_agent.c` in the folder that is given."""

    def __init__(self, folder: Path) -> None:
        self.agent = folder / "plan_agent"
        source = Path(__file__).with_name("plan_agent.c")
        subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", self.agent, source], check=True)
        self._one_at_a_time = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.plan_orchestrators"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def start(self, plan: Path, said: Path, diary: Path) -> Orchestrator:
        answer = self.ask({"plan": str(plan), "said": str(said), "diary": str(diary)})
        return Orchestrator(self, answer)

    def ask(self, request: dict[str, Any]) -> int:
        assert self._process.stdin and self._process.stdout
        with self._one_at_a_time:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


class Orchestrator:
    """One that was forked; `code` is None until `wait` has found its end."""

    def __init__(self, forge: Forge, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None
        self._forge = forge
        self._descriptor = os.pidfd_open(pid)

    def has_ended(self, within: float = 0.0) -> bool:
        return self.code is not None or bool(select.select([self._descriptor], [], [], within)[0])

    def send_signal(self, number: int) -> None:
        if self.code is None:
            os.kill(self.pid, number)

    def wait(self, deadline: float) -> int | None:
        """Its exit code, negative for a signal; None where the deadline passes."""
        if self.code is None and self.has_ended(deadline):
            self.code = self._forge.ask({"wait": self.pid})
            os.close(self._descriptor)
        return self.code


def main() -> None:
    _import_all()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        elif not (answer := os.fork()):
            _become_orchestrator(request)
        print(answer, flush=True)


def _import_all() -> None:
    import sortie.agents.command
    import sortie.cli.loglines
    import sortie.cli.plan_run
    import sortie.cli.plan_status
    import sortie.cli.run
    import sortie.engine.orchestrator
    import sortie.engine.service
    import sortie.hosts.local_host
    import sortie.sources.plan_tasks  # noqa: F401


def _become_orchestrator(request: dict[str, str]) -> None:
    said = os.open(request["said"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(descriptor, number)
    os.environ["CHAOS_DIARY"] = request["diary"]
    os.chdir(Path(request["plan"]).parent)
    sys.argv = ["sortie", "plan", "run", request["plan"]]
    code = 70
    try:
        from sortie.__main__ import main as run_sortie

        code = run_sortie()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
