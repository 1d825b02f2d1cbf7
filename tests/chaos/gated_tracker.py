"""A file tracker with gates: whoever wants to stop the orchestrator inside a tracker call closes one.

Before and after each write is a gate, named after the state or the kind of comment: `before-Review`,
`after-completion`; and one before a single issue is looked at, `before-look`. It is closed while `<gates>/NAME`
exists; a call that waits there writes `<gates>/NAME.reached`.
Every write that was carried out is noted in `<gates>/journal`.
"""

from __future__ import annotations

import os
from pathlib import Path

import anyio

from sortie.core.model import Issue
from sortie.core.observe import mark_of
from sortie.trackers.file import FileTracker
from sortie.trackers.tracker import TrackerSettings

PATIENCE = 0.005


class GatedTracker(FileTracker):
    gates: Path

    @classmethod
    def from_settings(cls, settings: TrackerSettings) -> GatedTracker:
        others = (settings.handoff_state, settings.in_progress_state)
        tracker = cls(settings.base / "issues.json", settings.active_states, settings.terminal_states, others)
        tracker.gates = settings.base / "gates"
        return tracker

    async def fetch_issue(self, issue_id: str) -> Issue:
        await self._pass("before-look")
        return await super().fetch_issue(issue_id)

    async def transition(self, issue_id: str, state: str) -> None:
        await self._pass(f"before-{state}")
        await super().transition(issue_id, state)
        self._note("transition", issue_id, state)
        await self._pass(f"after-{state}")

    async def comment(self, issue_id: str, body: str) -> None:
        effect_id = mark_of(body) or ""
        name = effect_id.rpartition(".")[2]
        await self._pass(f"before-{name}")
        await super().comment(issue_id, body)
        self._note("comment", issue_id, effect_id)
        await self._pass(f"after-{name}")

    async def _pass(self, name: str) -> None:
        gate = self.gates / name
        while gate.exists():
            self.gates.joinpath(f"{name}.reached").touch()
            await anyio.sleep(PATIENCE)

    def _note(self, *words: str) -> None:
        journal = os.open(self.gates / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(journal, ("\t".join(words) + "\n").encode())
        os.close(journal)
