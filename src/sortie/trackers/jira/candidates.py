"""The active issues of a project, found by Jira's search: page by page, with what changed since the last answer.

Jira's search is late by some seconds; issues that we moved ourselves are named to it, so that these are not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from msgspec import Raw, Struct

from ...core.model import Issue
from ...errors import TrackerError
from ..rest_reply import TooLarge
from ..tracker import Candidates
from .api import JiraApi
from .records import FIELDS, Record, SearchPage, issue_of, name_in, read, record_of

SEARCH = "/rest/api/3/search/jql"
PER_PAGE = 100
MOST_PAGES = 20

_CHECK_QUESTION = "Check tracker.active_states and tracker.query_filter; `sortie doctor` lists the states."


class _Seen(Struct, frozen=True):
    """The issue that was made of these bytes."""

    digest: bytes
    issue: Issue


class CandidateSearch:
    """`is_active` decides by the state what the search itself cannot, or tells too late."""

    def __init__(
        self, api: JiraApi, jql: str, project: str, blocking_link: str, is_active: Callable[[str], bool]
    ) -> None:
        self._api = api
        self._jql = jql
        self._project = project
        self._blocking_link = blocking_link
        self._is_active = is_active
        self._seen: dict[str, _Seen] = {}
        self._answer: Candidates | None = None

    async def look(self, site: str, moved: Sequence[int], left: Collection[str] = ()) -> Candidates:
        """`moved` are the ids of issues of which the search may not know yet, it takes at most 50; `left` are those
        that are known to be active no more, whatever it says."""
        issues: dict[str, Issue] = {}
        seen: dict[str, _Seen] = {}
        problems: list[str] = []
        async for raw in self._records(moved, problems):
            try:
                one = self._read(raw, site)
            except ValueError as error:
                problems.append(str(error))
                continue
            if one is not None and one.issue.id not in left:
                issues.setdefault(one.issue.id, one.issue)
                seen.setdefault(one.issue.id, one)
        self._seen = seen
        return self._compared(tuple(issues.values()), tuple(dict.fromkeys(problems)))

    async def _records(self, moved: Sequence[int], problems: list[str]) -> AsyncIterator[Raw]:
        """Page by page, so that each is read before the next one comes: what they are read from may be a thousand
        times as large, and others have their turn in between."""
        asked: dict[str, Any] = {"jql": self._jql, "fields": FIELDS}
        if moved:
            asked["reconcileIssues"] = moved
        count = 0
        tokens: set[str] = set()
        for _ in range(MOST_PAGES):
            page = await self._page(asked)
            count += len(page.issues)
            for raw in page.issues:
                yield raw
            token = page.next_page_token
            if page.is_last or not token:
                break
            if token in tokens:
                raise TrackerError(TrackerError.PAYLOAD, "Jira gives the same page of its search again and again.")
            tokens.add(token)
            asked["nextPageToken"] = token
        else:
            problem = f"Jira has more issues than the {count} that were read, the most urgent ones; narrow"
            problems.append(f"{problem} tracker.query_filter to see the others.")
        if not count:
            await self._api.confirm()  # so it may also answer whom it shows nothing

    async def _page(self, asked: Mapping[str, Any], most: int = PER_PAGE) -> SearchPage:
        """Shorter where so many at once are too large an answer."""
        question = {**asked, "maxResults": most}
        try:
            return read(await self._api.ask("POST", SEARCH, json=question, repeatable=True, look=True), SearchPage)
        except TooLarge:
            if most == 1:
                raise
            return await self._page(asked, most // 5 or 1)
        except TrackerError as error:
            if error.status != 400:
                raise
            raise error.with_fix(_CHECK_QUESTION) from error.__cause__

    def _read(self, raw: Raw, site: str) -> _Seen | None:
        """None for one that is not active; raises `ValueError` with a sentence for one that cannot be used."""
        digest = blake2b(bytes(raw), digest_size=16).digest()
        try:
            record = record_of(raw)
        except ValueError as error:
            raise ValueError(f"{name_in(raw)} cannot be used: {error}.") from None
        if record.project != self._project:
            raise ValueError(other_project(record, self._project))
        if not self._is_active(record.state):
            return None
        before = self._seen.get(record.id)
        if before and before.digest == digest:
            return before
        return _Seen(digest, issue_of(record, site, self._blocking_link))

    def _compared(self, issues: tuple[Issue, ...], problems: tuple[str, ...]) -> Candidates:
        """With what changed; the very answer of before where nothing did."""
        before, changed = self._answer, None
        if before is not None:
            old, new = ({issue.id: issue for issue in each} for each in (before.issues, issues))
            changed = frozenset(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
            if not changed and before.changed == changed and before.problems == problems:
                return before
        self._answer = Candidates(issues, problems, {}, changed)
        return self._answer


def other_project(record: Record, project: str) -> str:
    return f"Issues of the project {project} are called {record.project}-… now: set tracker.project to that key."
