"""The demo while it plays: an orchestrator with a reviewer beside it, and what must be seen at the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct

from ..core import events as ev
from ..engine.adapters import build_tracker
from ..engine.orchestrator import Orchestrator
from ..engine.reload import load_workflow
from ..engine.report import Summary
from .run_summary import Line, Tally, plain
from .serving import Voice, serve_aloud

DEADLINE = 60.0
REVIEWED = "DEMO-1"
SETTLED = ("handed off", "parked")


class Sight(Struct, frozen=True):
    """Something that everyone who watches the demo must have seen."""

    sentence: str
    seen: bool


class Played(Struct, frozen=True):
    directory: Path
    tally: Tally
    sights: tuple[Sight, ...]

    @property
    def ok(self) -> bool:
        return all(sight.seen for sight in self.sights)

    def plain(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "workflow": str(self.directory / "WORKFLOW.md"),
            "checks": self.sights,
            "issues": [plain(line) for line in _by_name(self.tally).values()],
        }


class Performance(Orchestrator):
    """Drains itself when all six issues are settled: a reviewer acts in between, so being idle is not the end."""

    def __init__(self, workflow: Path, environ: dict[str, str], tally: Tally, voice: Voice) -> None:
        super().__init__(
            workflow,
            environ=environ,
            listeners=[tally.hear, self._direct, voice.hear],
            on_trouble=voice.trouble,
        )
        self._tracker = build_tracker(load_workflow(workflow, environ, None).config)
        self._tally = tally
        self._voice = voice

    async def run(self, *, until_idle: bool = False) -> Summary:  # noqa: ARG002
        self._handed_over = anyio.Event()
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._review)
            beside.start_soon(self._end_in_time)
            summary = await super().run()
            beside.cancel_scope.cancel()
        return summary

    def _direct(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.Settled):
            if event.identifier == REVIEWED:
                self._handed_over.set()
            lines = self._tally.lines.values()
            if len(lines) == 6 and all(line.outcome in SETTLED for line in lines):
                self.drain()

    async def _review(self) -> None:
        await self._handed_over.wait()
        self._voice.say("info", f"{REVIEWED} a person approves it: the demo moves it to Done, as you would")
        with anyio.fail_after(DEADLINE):
            await self._tracker.transition("1", "Done")

    async def _end_in_time(self) -> None:
        await anyio.sleep(DEADLINE)
        self.drain()


def perform(directory: Path) -> Played:
    """Play it to its end. What the caller's environment says about other workflows is left out."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SORTIE_")}
    workflow = directory / "WORKFLOW.md"
    config = load_workflow(workflow, environ, None).config
    tally = Tally()
    serve_aloud(lambda voice: Performance(workflow, environ, tally, voice), config, {}, log_format="text")
    return Played(directory, tally, tuple(_sights(tally, config.workspace.root / "DEMO-5" / "daemon.pid")))


def _sights(tally: Tally, daemon: Path) -> list[Sight]:
    line = {f"DEMO-{number}": Line(f"DEMO-{number}") for number in range(1, 7)} | _by_name(tally)
    first, blocked, crashed, second = line["DEMO-1"], line["DEMO-2"], line["DEMO-3"], line["DEMO-4"]
    return [
        Sight(
            "DEMO-1 took two turns and asked for a review; it was handed over to In Review.",
            first.outcome == "handed off" and first.turns == 2,
        ),
        Sight(
            "DEMO-2 blocked; it stays parked, with its reason, until a person acts.",
            blocked.outcome == "parked" and "password" in blocked.reason,
        ),
        Sight(
            "DEMO-3 crashed, was tried again after a pause, and got through.",
            crashed.outcome == "handed off" and crashed.attempts == 2,
        ),
        Sight(
            "DEMO-4 waited until DEMO-1 was approved.",
            second.outcome == "handed off" and second.started > first.started + first.seconds,
        ),
        Sight(
            "DEMO-5 left a daemon behind, in a session of its own; it was found and ended.",
            line["DEMO-5"].outcome == "handed off" and _was_ended(daemon),
        ),
        Sight("DEMO-6 waited for a free slot, then did its work.", line["DEMO-6"].outcome == "handed off"),
    ]


def _by_name(tally: Tally) -> dict[str, Line]:
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
