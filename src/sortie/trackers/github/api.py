"""How GitHub is asked about one repository: with a token or as an App, and sure of what "not found" means.

GitHub answers 404 both for an issue that does not exist and for a repository that the token may not see. Only the
first is a fact about an issue, so before anybody believes it the repository is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio

from ...errors import TrackerError
from ..rest_client import RestClient
from ..rest_reply import Reply
from ..tracker import FETCHES_AT_ONCE, CallUse, TrackerSettings
from .app import App
from .records import Record, Unusable, read_record
from .settings import app_settings, endpoint_of

HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
# So long one look at the repository counts.
SEEN_FOR = 30.0

T = TypeVar("T")

_NUMBER = re.compile("[1-9][0-9]{0,9}", re.ASCII)


class GitHubApi:
    """`repository` is `owner/name`; paths are those below it, but for `search`."""

    def __init__(self, settings: TrackerSettings) -> None:
        self.repository = settings.project
        self._key = settings.api_key
        app = app_settings(settings)
        self._app = App(app, self.repository, lambda: self._client) if app else None
        self._client = RestClient(
            "GitHub",
            endpoint_of(settings),
            authorization=self._app.authorization if self._app else self._with_key,
            calls_per_minute=settings.calls_per_minute,
            headers=HEADERS,
            secrets=[settings.api_key] if settings.api_key else [],
        )
        self._seen_until = 0.0

    @property
    def is_installation(self) -> bool:
        """Whether we come as an App: that has permissions, and no role in the repository."""
        return self._app is not None or self._key.startswith("ghs_")

    @property
    def permissions(self) -> Mapping[str, object] | None:
        """Of the App, once it was used; None where nobody says."""
        return self._app.permissions if self._app else None

    def call_use(self) -> CallUse:
        return self._client.call_use()

    async def aclose(self) -> None:
        await self._client.aclose()

    def number(self, issue_id: str) -> int:
        """Of an issue by its number or its full name; anything else is nobody's, and nothing is asked for."""
        place, _, tail = issue_id.rpartition("#")
        if (place and place.lower() != self.repository.lower()) or not _NUMBER.fullmatch(tail):
            raise TrackerError(
                TrackerError.NOT_FOUND, f'There is no issue "{issue_id[:100]}" in {self.repository}.'
            )
        return int(tail)

    async def get(self, path: str, params: Mapping[str, str] | None = None, *, look: bool = False) -> Reply:
        return await self.call("GET", path, params, look=look)

    async def search(self, params: Mapping[str, str]) -> Reply:
        return await self._asked("GET", "/search/issues", params, look=True, bucket="search")

    async def call(self, method: str, path: str, params: Mapping[str, str] | None = None, **more: Any) -> Reply:
        return await self._asked(method, f"/repos/{self.repository}{path}", params, **more)

    async def fetch(self, number: int, *, look: bool = False) -> Record:
        """One issue as it is now; `tracker_not_found` where there is none, or a pull request of that number."""
        try:
            reply = await self.get(f"/issues/{number}", look=look)
        except TrackerError as error:
            raise await self.about(error) from error.__cause__
        record = self.record_in(reply)
        if record.is_pull_request or record.repository != self.repository:
            message = f"{self.repository}#{number} is no issue of this repository."
            raise TrackerError(TrackerError.NOT_FOUND, message)
        return record

    def record_in(self, reply: Reply) -> Record:
        """The issue that this answer is."""
        try:
            return read_record(reply.read(dict[str, Any]), self.repository)
        except Unusable as problem:
            raise TrackerError(TrackerError.PAYLOAD, str(problem)) from problem

    async def about(self, error: TrackerError) -> TrackerError:
        """What an error about an issue means: not found only where the repository itself can be seen."""
        if error.kind != TrackerError.NOT_FOUND or anyio.current_time() < self._seen_until:
            return error
        try:
            found = (await self.get("")).read(dict[str, Any])
        except TrackerError as failure:
            return self.no_access(failure)
        if found.get("has_issues") is False:
            return self.no_access(error)
        self._seen_until = anyio.current_time() + SEEN_FOR
        return error

    def no_access(self, error: TrackerError) -> TrackerError:
        """What "not found" means where the repository was asked for."""
        if error.kind != TrackerError.NOT_FOUND:
            return error
        message = f"GitHub shows no issues of {self.repository}: {error.message}"
        return TrackerError(TrackerError.AUTH, message, fix="Check tracker.project, and what the token may see.")

    async def _asked(self, method: str, path: str, params: Mapping[str, str] | None, **more: Any) -> Reply:
        app = self._app
        if not app:
            return await self._client.call(method, path, params, **more)
        used: Mapping[str, str] = {}

        async def authorization() -> Mapping[str, str]:
            nonlocal used
            used = await app.authorization()
            return used

        try:
            return await self._client.call(method, path, params, authorization=authorization, **more)
        except TrackerError as error:
            # A token of an App can end early; what was refused so was not done.
            if error.status != 401:
                raise
        app.forget(used)
        return await self._client.call(method, path, params, **more)

    async def _with_key(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._key}"}


async def side_by_side(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """What each answers, a few asked at once; the first error of any, after which no further one is asked."""
    found: dict[int, T] = {}
    errors: list[TrackerError] = []
    remaining = iter(enumerate(calls))

    async def ask_remaining() -> None:
        for place, call in remaining:
            if errors:
                return
            try:
                found[place] = await call()
            except TrackerError as error:
                errors.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(min(FETCHES_AT_ONCE, len(calls))):
            tasks.start_soon(ask_remaining)
    if errors:
        raise errors[0]
    return [found[place] for place in range(len(calls))]
