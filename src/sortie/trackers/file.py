"""Issues in one JSON file, shared with people, editors and other programs: nobody's edit is lost, ours included.

As long as the file is unchanged, each answer costs a stat, and `fetch_candidates` gives the same object again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from uuid import uuid4

from ..core.model import Issue
from ..core.policy import Policy
from ..errors import TrackerError
from .file_disk import sentence
from .file_edits import NewComment, Transition
from .issue_file import IssueFile, read_table
from .tracker import Candidates, TrackerSettings

DEFAULT_PATH = "issues.json"

# What a refusal quotes of a state that nobody knows, and of those that there are.
LONGEST_STATE = 100
STATES_SHOWN = 20


class FileTracker:
    """`other_states` are those beside the active and terminal ones to which issues may be moved."""

    def __init__(
        self,
        path: Path,
        active_states: Collection[str],
        terminal_states: Collection[str],
        other_states: Collection[str] = (),
    ) -> None:
        self._path = path
        self._named = _by_lower((*active_states, *terminal_states, *other_states))
        policy = Policy(active_states=tuple(active_states), terminal_states=tuple(terminal_states))
        self._is_active = policy.is_active
        self._answer: Candidates | None = None
        self._answered = 0

    @classmethod
    def from_settings(cls, settings: TrackerSettings) -> FileTracker:
        path = Path(settings.options.get("path", DEFAULT_PATH)).expanduser()
        others = (settings.handoff_state, settings.in_progress_state, *settings.options.get("states", ()))
        return cls(settings.base / path, settings.active_states, settings.terminal_states, others)

    @classmethod
    def check(cls, settings: TrackerSettings) -> list[tuple[str, str]]:
        problems = [
            (f"file.{key}", f"`{key}` is not an option of the file tracker; its options are `path` and `states`.")
            for key in settings.options
            if key not in ("path", "states")
        ]
        path = settings.options.get("path", DEFAULT_PATH)
        if not isinstance(path, str) or not path.strip():
            problems.append(("file.path", "`path` must be the name of a JSON file, such as `issues.json`."))
        states = settings.options.get("states", [])
        if not isinstance(states, list) or not all(isinstance(state, str) and state.strip() for state in states):
            problems.append(("file.states", "`states` must be a list of names, such as `[Backlog, In Review]`."))
        return problems

    @classmethod
    def peek(cls, settings: TrackerSettings) -> Candidates:
        """What the file says now, read without an event loop."""
        tracker = cls.from_settings(settings)
        try:
            table, _ = read_table(tracker._path, tracker._is_active)
        except OSError as error:
            raise sentence(tracker._path, error) from error
        return Candidates(table.active, table.problems, dict(table.counts))

    @cached_property
    def _file(self) -> IssueFile:
        """Made when it is first used: it needs an event loop."""
        return IssueFile(self._path, self._is_active)

    async def fetch_candidates(self) -> Candidates:
        table = await self._file.table()
        changed = self._file.take_changed()
        if self._answer is None or self._answer.changed != frozenset() or self._answered != self._file.revision:
            self._answer = Candidates(table.active, table.problems, dict(table.counts), changed)
            self._answered = self._file.revision
        return self._answer

    async def fetch_issue(self, issue_id: str) -> Issue:
        table = await self._file.table()
        if issue_id in table.issues:
            return table.issues[issue_id]
        if issue_id in table.unusable:
            raise TrackerError(TrackerError.PAYLOAD, table.unusable[issue_id])
        raise table.missing(issue_id)

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        states = (await self._file.table()).states
        return {issue_id: states[issue_id] for issue_id in issue_ids if issue_id in states}

    async def transition(self, issue_id: str, state: str) -> None:
        if not state.strip():
            raise TrackerError(
                TrackerError.PAYLOAD,
                f'Issue "{issue_id}" cannot move to an empty state.',
                fix="Name the state.",
            )
        await self._file.write(Transition(issue_id, _stamp(), await self._spelled(state)))

    async def comment(self, issue_id: str, body: str) -> None:
        await self._file.write(NewComment(issue_id, _stamp(), f"sortie-{uuid4().hex}", _encodable(body)))

    def watched_files(self) -> tuple[Path, ...]:
        return (self._path,)

    async def aclose(self) -> None:
        """Nothing is held open between calls."""

    async def _spelled(self, state: str) -> str:
        """The state as the workflow spells it, or else the file: a state that neither knows is a mistake."""
        name = _encodable(state).strip().lower()
        if name in self._named:
            return self._named[name]
        present = _by_lower((await self._file.table()).states.values())
        if name not in present:
            known = ", ".join([*{**present, **self._named}.values()][:STATES_SHOWN])
            raise TrackerError(
                TrackerError.PAYLOAD,
                f'{self._path} knows no state "{state[:LONGEST_STATE]}"; its states are: {known}.',
                fix="Choose one of them, or add it to `file.states` in the workflow.",
            )
        return present[name]


def _by_lower(states: Iterable[str]) -> dict[str, str]:
    """Each state under its name without regard to case; the first spelling counts."""
    found: dict[str, str] = {}
    for state in states:
        found.setdefault(state.lower(), state)
    found.pop("", None)
    return found


def _stamp() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _encodable(text: str) -> str:
    """Output of agents can hold half characters, which JSON files cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")
