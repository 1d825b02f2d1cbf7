"""A tracker in memory that lists issues as servers do, and counts what it is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import anyio
from msgspec.structs import replace

from sortie.core.model import Blocker, Comment, Issue
from sortie.errors import TrackerError
from sortie.testing.fakes import MemoryTracker
from sortie.trackers.tracker import Candidates


class ListingTracker(MemoryTracker):
    """Lists neither comments nor blockers, as servers do, and counts what it is asked. Calls of the kinds that
    `limits` names are answered with `limit`, where there is one; writes that worked are in `written`."""

    def __init__(self, issues: Collection[Issue]) -> None:
        super().__init__(issues, ["todo"], ["done"], ["review"])
        self.calls: Counter[str] = Counter()
        self.fetched: list[str] = []
        self.refused: set[str] = set()
        self.limit: Exception | None = None
        self.limits: Collection[str] = ("full",)
        self.written: list[tuple[str, str]] = []
        self.lists_blockers = False
        self.stuck: set[str] = set()

    async def fetch_candidates(self) -> Candidates:
        self._count("list")
        found = await super().fetch_candidates()
        return replace(
            found,
            issues=tuple(
                replace(one, comments=None, blocked_by=one.blocked_by if self.lists_blockers else ())
                for one in found.issues
            ),
        )

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        self._count("states")
        return await super().fetch_states(issue_ids)

    async def fetch_issue(self, issue_id: str) -> Issue:
        self.fetched.append(issue_id)
        self._count("full")
        if issue_id in self.stuck:
            await anyio.sleep_forever()
        if issue_id in self.refused:
            raise TrackerError(TrackerError.TRANSPORT, "no answer.")
        issue = await super().fetch_issue(issue_id)
        states = {one.id: one.state for one in self.issues.values()}
        return replace(
            issue, blocked_by=tuple(replace(one, state=states.get(one.id, "")) for one in issue.blocked_by)
        )

    async def transition(self, issue_id: str, state: str) -> None:
        await self.before_move()
        self._count("move")
        self.written.append((issue_id, state))
        self.change(issue_id, state=state, updated_at=f"{len(self.written)} writes")

    async def comment(self, issue_id: str, body: str) -> None:
        self._count("comment")
        self.written.append((issue_id, body))
        comments = (*(self.issues[issue_id].comments or ()), Comment(str(len(self.written)), "sortie", body))
        self.change(issue_id, comments=comments, updated_at=f"{len(self.written)} writes")

    async def before_move(self) -> None:
        """For tests in which something happens first."""

    def _count(self, kind: str) -> None:
        self.calls[kind] += 1
        if self.limit and kind in self.limits:
            raise self.limit

    def change(self, issue_id: str, **fields: object) -> None:
        self.issues[issue_id] = replace(self.issues[issue_id], **fields)


def issue(name: str, *blockers: str, **fields: object) -> Issue:
    made = {"id": name, "identifier": name.upper(), "title": name, "state": "todo", "updated_at": "1"}
    return Issue(**made | {"blocked_by": tuple(Blocker(one, one.upper()) for one in blockers)} | fields)  # type: ignore[arg-type]
