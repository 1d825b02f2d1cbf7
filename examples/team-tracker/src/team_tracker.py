"""A tracker on a board of folders: one folder for each state, in it one JSON file for each issue."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec
from msgspec.structs import replace

from sortie import Candidates, Comment, Issue, TrackerError, TrackerSettings


class BoardTracker:
    def __init__(self, board: Path, active_states: Collection[str]) -> None:
        self._board, self._active = board, active_states

    @classmethod
    def from_settings(cls, settings: TrackerSettings) -> BoardTracker:
        return cls(settings.base / settings.options["path"], settings.active_states)

    @classmethod
    def check(cls, settings: TrackerSettings) -> list[tuple[str, str]]:
        return [] if settings.options.get("path") else [("board.path", "Name the folder of the board.")]

    async def fetch_candidates(self) -> Candidates:
        found, problems = list[Issue](), list[str]()
        for path in sorted(self._board.glob("*/*.json")):
            try:
                found += [self._read(path)] if path.parent.name in self._active else []
            except msgspec.DecodeError as error:
                problems.append(f"{path} cannot be used: {error}.")
        return Candidates(tuple(found), tuple(problems))

    async def fetch_issue(self, issue_id: str) -> Issue:
        return self._read(self._find(issue_id))

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        states = {path.stem: path.parent.name for path in self._board.glob("*/*.json")}
        return {issue_id: states[issue_id] for issue_id in issue_ids if issue_id in states}

    async def transition(self, issue_id: str, state: str) -> None:
        path, folder = self._find(issue_id), self._board / state
        if not folder.is_dir():
            raise TrackerError(TrackerError.PAYLOAD, f'The board has no folder "{state}".')
        path.rename(folder / path.name)

    async def comment(self, issue_id: str, body: str) -> None:
        path, issue = self._find(issue_id), await self.fetch_issue(issue_id)
        comments = issue.comments or ()
        added = Comment(f"sortie-{len(comments)}", "sortie", body)
        new = path.with_suffix(".new")  # nobody ever sees half of it
        new.write_bytes(msgspec.json.encode(replace(issue, comments=(*comments, added))))
        new.replace(path)

    def watched_files(self) -> tuple[Path, ...]:
        return ()

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _find(self, issue_id: str) -> Path:
        for path in self._board.glob("*/*.json"):
            if path.stem == issue_id:
                return path
        raise TrackerError(TrackerError.NOT_FOUND, f'The board has no issue "{issue_id}".')

    def _read(self, path: Path) -> Issue:
        issue = msgspec.json.decode(path.read_bytes(), type=Issue)
        labels = tuple(label.lower() for label in issue.labels)
        return replace(issue, state=path.parent.name, labels=labels, comments=issue.comments or ())
