"""The board keeps the contract of every tracker."""

from __future__ import annotations

import shutil

import msgspec
from team_tracker import BoardTracker

from sortie.testing import TrackerContract
from sortie.testing.tracker_contract import ACTIVE_STATES, HANDOFF_STATE, TERMINAL_STATES


class TestBoardTracker(TrackerContract):
    async def store(self, directory, issues):
        shutil.rmtree(directory / "board", ignore_errors=True)
        for state in (*ACTIVE_STATES, *TERMINAL_STATES, HANDOFF_STATE):
            (directory / "board" / state).mkdir(parents=True)
        for issue in issues:
            path = directory / "board" / issue.state / f"{issue.id}.json"
            path.write_bytes(msgspec.json.encode(issue))

    def tracker(self, directory):
        return BoardTracker(directory / "board", ACTIVE_STATES)
