"""Issues of one project in Jira Cloud. What it answers is what Jira says now; only its search may be late.

`author` of an issue is who created it, not its reporter: that is a field which others may change.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec import Raw

from ...core.model import Comment, Finding, Issue
from ...core.policy import Policy
from ...errors import TrackerError
from ...protocol.foreign_text import readable
from ..rest_reply import TooLarge
from ..tracker import CallUse, Candidates, TrackerSettings
from . import jql
from .adf_write import comment_document
from .api import JiraApi
from .candidates import CandidateSearch
from .examination import examine
from .records import (
    FIELDS,
    LONGEST_REASON,
    CommentPage,
    Fetched,
    Record,
    ServerInfo,
    comment_of,
    issue_of,
    name_in,
    read,
    record_of,
)
from .settings import blocking_link, is_behind_gateway, problems
from .transitions import Transitions, chosen

ISSUE = "/rest/api/3/issue"
PER_PAGE = 100

# So many Jira lets an issue have, and all are read: were it fewer, a comment of a stranger could push one out that
# counts. Of more, what comes first moves in steps of a page, so that one more does not change which are there.
MOST_COMMENTS = 5000

# For how long the search may not know what we wrote, and how many issues it takes to be told of.
LATE = 120.0
MOST_TOLD = 50

_ID = re.compile(r"[0-9]{1,18}")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]*-[0-9]{1,18}")


class JiraTracker:
    """Customers of a service desk write to a project too: by default only accounts of the site are trusted."""

    trusted_by_default = ("@atlassian",)
    most_comments = MOST_COMMENTS

    def __init__(self, settings: TrackerSettings) -> None:
        self._api = JiraApi(settings)
        self._settings = settings
        self._project = settings.project
        self._link = blocking_link(settings)
        self._site = None if is_behind_gateway(self._api.endpoint) else self._api.endpoint
        policy = Policy(active_states=settings.active_states, terminal_states=settings.terminal_states)
        self._is_active = policy.is_active
        question = jql.candidates(settings.project, settings.active_states, settings.query_filter)
        self._search = CandidateSearch(self._api, question, self._project, self._link, self._is_active)
        self._moved: dict[int, float] = {}

    @classmethod
    def from_settings(cls, settings: TrackerSettings) -> JiraTracker:
        return cls(settings)

    @classmethod
    def check(cls, settings: TrackerSettings) -> list[tuple[str, str]]:
        return problems(settings)

    async def fetch_candidates(self) -> Candidates:
        now = time.monotonic()
        self._moved = {issue_id: at for issue_id, at in self._moved.items() if at > now - LATE}
        by_age = sorted(self._moved, key=self._moved.__getitem__)
        # Those that there is no room to name are looked at by themselves: what we moved away must not start again.
        states = await self.fetch_states([str(number) for number in by_age[:-MOST_TOLD]])
        left = {issue_id for issue_id, state in states.items() if not self._is_active(state)}
        return await self._search.look(await self._site_address(), by_age[-MOST_TOLD:], left)

    async def fetch_issue(self, issue_id: str) -> Issue:
        path = self._path(issue_id)
        record = await self._record(path, FIELDS)
        return issue_of(record, await self._site_address(), self._link, await self._comments(path))

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        """By id only. Jira tells which issues it could not read just now: those are asked for one by one, because
        an issue without a state counts as gone."""
        numbers = list(dict.fromkeys(issue_id for issue_id in issue_ids if _ID.fullmatch(issue_id)))
        states: dict[str, str] = {}
        for start in range(0, len(numbers), PER_PAGE):
            batch = numbers[start : start + PER_PAGE]
            asked = {"issueIdsOrKeys": batch, "fields": ["status"]}
            reply = await self._api.ask("POST", f"{ISSUE}/bulkfetch", json=asked, repeatable=True, look=True)
            fetched = read(reply, Fetched)
            records = [_usable(raw) for raw in fetched.issues]
            for failed in fetched.issue_errors:
                if failed.id not in batch:
                    reason = readable(failed.error_message, LONGEST_REASON)
                    raise TrackerError(TrackerError.PAYLOAD, f"Jira cannot read an issue just now: {reason}.")
                try:
                    records.append(await self._record(self._path(failed.id), ("status",)))
                except TrackerError as error:
                    if error.kind != TrackerError.NOT_FOUND:
                        raise
            states |= {record.id: record.state for record in records if record.project == self._project}
        if len(states) < len(numbers):
            await self._api.confirm()
        return {issue_id: states[issue_id] for issue_id in numbers if issue_id in states}

    async def transition(self, issue_id: str, state: str) -> None:
        path = self._path(issue_id)
        try:
            await self._move(path, state)
        except TrackerError as error:
            # A conflict: somebody changed the issue at the same moment. It may be where it belongs by now.
            if error.kind != TrackerError.API or error.passing:
                raise
            try:
                await self._move(path, state)
            except TrackerError as again:
                if again.kind != TrackerError.API or again.passing:
                    raise
                raise TrackerError(TrackerError.PAYLOAD, again.message) from again

    async def comment(self, issue_id: str, body: str) -> None:
        await self._api.ask("POST", f"{self._path(issue_id)}/comment", json={"body": comment_document(body)})

    def watched_files(self) -> tuple[Path, ...]:
        return ()

    async def examine(self) -> Sequence[Finding]:
        return await examine(self._api, self._settings)

    def call_use(self) -> CallUse:
        return self._api.call_use()

    async def aclose(self) -> None:
        await self._api.aclose()

    async def _move(self, path: str, state: str) -> None:
        record = await self._record(path, ("status",))
        if record.state.lower() == state.strip().lower():
            return
        reply = await self._api.ask("GET", f"{path}/transitions", {"expand": "transitions.fields"})
        transition = chosen(record, read(reply, Transitions).transitions, state)
        self._moved[int(record.id)] = time.monotonic()  # also where no answer comes: it may have happened
        await self._api.ask("POST", f"{path}/transitions", json={"transition": {"id": transition.id}})

    async def _record(self, path: str, fields: Sequence[str]) -> Record:
        """One issue of the project; one that was moved to another project is not there any more."""
        reply = await self._api.ask("GET", path, {"fields": ",".join(fields)})
        record = _usable(read(reply, Raw))
        if record.project != self._project:
            await self._api.confirm()
            problem = f"Issue {record.key} is not in the project {self._project} any more."
            raise TrackerError(TrackerError.NOT_FOUND, problem)
        return record

    async def _comments(self, path: str) -> tuple[Comment, ...]:
        """The oldest first."""
        page = await self._comment_page(path, 0)
        start = max((page.total - self.most_comments) // PER_PAGE, 0) * PER_PAGE
        note = f"[The first {start} comments are left out.]"
        # Each page is read at once: what it was read from may be a thousand times as large.
        found = [] if start else _read(page)
        read_to = start or len(page.comments)
        while page.comments and read_to < page.total:
            page = await self._comment_page(path, read_to)
            found += _read(page)
            read_to += len(page.comments)
        return (*([Comment("", "", note)] if start else ()), *found)

    async def _comment_page(self, path: str, start: int, most: int = PER_PAGE) -> CommentPage:
        """Shorter where so many at once are too large an answer."""
        asked = {"orderBy": "created", "startAt": str(start), "maxResults": str(most)}
        try:
            return read(await self._api.ask("GET", f"{path}/comment", asked), CommentPage)
        except TooLarge:
            if most == 1:
                raise
            return await self._comment_page(path, start, most // 5 or 1)

    async def _site_address(self) -> str:
        """Where people see the issues: behind Atlassian's gateway Jira has to be asked for it, once."""
        if self._site is None:
            try:
                info = read(await self._api.get("/rest/api/3/serverInfo"), ServerInfo)
                self._site = info.base_url.rstrip("/")
            except TrackerError as error:
                if error.passing:
                    raise
                self._site = ""
        return self._site

    def _path(self, issue_id: str) -> str:
        if _ID.fullmatch(issue_id) or _KEY.fullmatch(issue_id):
            return f"{ISSUE}/{issue_id}"
        shown = readable(issue_id, 100)
        raise TrackerError(TrackerError.NOT_FOUND, f'Jira has no issue "{shown}": that is neither an id nor a key.')


def _read(page: CommentPage) -> list[Comment]:
    return [comment for comment in map(comment_of, page.comments) if comment]


def _usable(raw: Raw) -> Record:
    try:
        return record_of(raw)
    except ValueError as error:
        raise TrackerError(TrackerError.PAYLOAD, f"{name_in(raw)} cannot be used: {error}.") from error
