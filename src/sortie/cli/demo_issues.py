"""`sortie demo`: six issues in a file, worked off by agents of all manners."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from ..core import events as ev
from ..engine.orchestrator import Orchestrator
from ..engine.report import Summary
from ..hosts.local_host import LocalHost
from ..sources.adapters import load_workflow
from ..sources.issues import IssueSource
from .demo_show import DemoCheck, Played, Show, templates
from .run import serve_with_output
from .run_summary import IssueTally, Tally, plain, print_tally

if TYPE_CHECKING:
    from .run import Output

INTRODUCTION = """\
Six issues in a file, up to three agents at a time, each a real process in a workspace of its own.
One needs two turns, one blocks, one crashes, one waits for another, one leaves a daemon behind.
"""
DEADLINE = 60.0
REVIEWED = "DEMO-1"
SETTLED = ("handed off", "parked")


def _prepare(directory: Path) -> None:
    """The workflow, the issues and the agent."""
    command = f'exec {shlex.quote(sys.executable)} -I "$SORTIE_WORKFLOW_DIR/agent.py"'
    for name, target in (
        ("WORKFLOW.md", "WORKFLOW.md"),
        ("issues.json", "issues.json"),
        ("demo_agent.py", "agent.py"),
    ):
        text = templates("demo").joinpath(name).read_text("utf-8")
        (directory / target).write_text(text.replace("@COMMAND@", json.dumps(command)), "utf-8")


class DemoOrchestrator(Orchestrator):
    """Drains itself when all six issues are settled: a reviewer acts in between, so being idle is not the end."""

    def __init__(self, workflow: Path, environ: dict[str, str], tally: Tally, output: Output) -> None:
        source = IssueSource.open(workflow, environ)
        database = source.config.db_path
        super().__init__(
            source,
            [LocalHost(database, environ)],
            database,
            listeners=[tally.on_event, self._drain_when_settled, output.on_event],
            on_trouble=output.on_trouble,
        )
        self._tracker = source.tracker
        self._tally = tally
        self._output = output

    async def run(self, *, until_idle: bool = False) -> Summary:  # noqa: ARG002
        self._handed_over = anyio.Event()
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._review)
            beside.start_soon(self._end_in_time)
            summary = await super().run()
            beside.cancel_scope.cancel()
        return summary

    def _drain_when_settled(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.Settled):
            if event.identifier == REVIEWED:
                self._handed_over.set()
            lines = self._tally.lines.values()
            if len(lines) == 6 and all(line.outcome in SETTLED for line in lines):
                self.drain()

    async def _review(self) -> None:
        await self._handed_over.wait()
        self._output.log("info", f"{REVIEWED} a person approves it: the demo moves it to Done, as you would")
        with anyio.fail_after(DEADLINE):
            await self._tracker.transition("1", "Done")

    async def _end_in_time(self) -> None:
        await anyio.sleep(DEADLINE)
        self.drain()


def _play(directory: Path) -> Played:
    """Run it to its end. What the caller's environment says about other workflows is left out."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SORTIE_")}
    workflow = directory / "WORKFLOW.md"
    config = load_workflow(workflow, environ, None).config
    tally = Tally()

    def build(output: Output) -> DemoOrchestrator:
        return DemoOrchestrator(workflow, environ, tally, output)

    serve_with_output(build, config.secrets, {})
    place = shlex.quote(str(workflow))
    return Played(
        checks=tuple(_checks(tally, config.workspace.root / "DEMO-5" / "daemon.pid")),
        print_table=lambda: print_tally(tally),
        data={"workflow": str(workflow), "issues": [plain(line) for line in _by_name(tally).values()]},
        advice=(
            ("why DEMO-3 ran twice", f"why DEMO-3 -w {place}"),
            ("what DEMO-1 said", f"logs DEMO-1 -w {place}"),
            ("your own issues", "init my-project"),
        ),
    )


def _checks(tally: Tally, daemon: Path) -> list[DemoCheck]:
    line = {f"DEMO-{number}": IssueTally(f"DEMO-{number}") for number in range(1, 7)} | _by_name(tally)
    first, blocked, crashed, second = line["DEMO-1"], line["DEMO-2"], line["DEMO-3"], line["DEMO-4"]
    return [
        DemoCheck(
            "DEMO-1 took two turns and asked for a review; it was handed over to In Review.",
            first.outcome == "handed off" and first.turns == 2,
        ),
        DemoCheck(
            "DEMO-2 blocked; it stays parked, with its reason, until a person acts.",
            blocked.outcome == "parked" and "password" in blocked.reason,
        ),
        DemoCheck(
            "DEMO-3 crashed, was tried again after a pause, and got through.",
            crashed.outcome == "handed off" and crashed.attempts == 2,
        ),
        DemoCheck(
            "DEMO-4 waited until DEMO-1 was approved.",
            second.outcome == "handed off" and second.started > first.started + first.seconds,
        ),
        DemoCheck(
            "DEMO-5 left a daemon behind, in a session of its own; it was found and ended.",
            line["DEMO-5"].outcome == "handed off" and _was_ended(daemon),
        ),
        DemoCheck("DEMO-6 waited for a free slot, then did its work.", line["DEMO-6"].outcome == "handed off"),
    ]


def _by_name(tally: Tally) -> dict[str, IssueTally]:
    lines = sorted(tally.lines.values(), key=lambda line: line.identifier)
    return {line.identifier: line for line in lines}


def _was_ended(daemon: Path) -> bool:
    """It was started, and no process with its number is it."""
    try:
        pid = daemon.read_text("ascii")
    except FileNotFoundError:
        return False
    try:
        return b"sortie-demo-daemon" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return True


SHOW = Show(introduction=INTRODUCTION, prepare=_prepare, play=_play)
