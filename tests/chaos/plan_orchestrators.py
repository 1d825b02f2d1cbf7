"""Orchestrators by the hundred: real processes that need not import anything, because they are forked.

`Forge` is a process that has imported all of `sortie plan run` and `sortie turn`, and forks one of them for each
request, a line of JSON on its standard input; a line with the process id is the answer. It waits for one that has
ended when asked to, so no process id is used again before that.
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
from functools import cached_property
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent.parent


class Forge:
    """`agent` is the program of all agents of plans, built from `plan_agent.c` in the folder that is given."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._one_at_a_time = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.plan_orchestrators"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    @cached_property
    def agent(self) -> Path:
        source, built = Path(__file__).with_name("plan_agent.c"), self._folder / "plan_agent"
        subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", built, source], check=True)
        return built

    def start(self, plan: Path, said: Path, diary: Path) -> Orchestrator:
        return self.command(["plan", "run", str(plan)], plan.parent, said, {"CHAOS_DIARY": str(diary)})

    def command(self, words: list[str], directory: Path, said: Path, environ: dict[str, str]) -> Orchestrator:
        """`sortie` with these words, in a directory, with these variables besides ours."""
        request = {"words": words, "directory": str(directory), "said": str(said), "environ": environ}
        return Orchestrator(self, self.ask(request))

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
    import sortie.cli.turn
    import sortie.cli.turn_report
    import sortie.engine.orchestrator
    import sortie.engine.service
    import sortie.engine.turn_taking
    import sortie.hosts.local_host
    import sortie.sources.plan_tasks  # noqa: F401


def _become_orchestrator(request: dict[str, Any]) -> None:
    said = os.open(request["said"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(descriptor, number)
    os.environ.update(request["environ"])
    os.chdir(request["directory"])
    sys.argv = ["sortie", *request["words"]]
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
