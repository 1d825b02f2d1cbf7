"""How Jira is asked about one project, and when its word that something is not there is believed.

Jira treats a token that ended as nobody in particular: such a one sees an empty site, and every issue seems to be
gone. So an issue counts as gone only where the project can be seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
from msgspec import Struct

from ...errors import TrackerError
from ...protocol.foreign_text import readable
from ..rest_client import RestClient
from ..rest_reply import Reply
from ..tracker import CallUse, TrackerSettings
from .records import read
from .settings import authorization, endpoint_of, is_bearer, secrets_of

# So long one look at the project counts.
SEEN_FOR = 5.0
# Said with any status, also with 200: the key was not accepted, and the answer is that to a stranger.
REFUSED = ("AUTHENTICATED_FAILED", "AUTHENTICATION_DENIED")

_LOST = 'Check tracker.endpoint, tracker.project, and that the account still has the permission "Browse projects".'


class Project(Struct, frozen=True):
    key: str
    name: str = ""
    archived: bool = False


class JiraApi:
    def __init__(self, settings: TrackerSettings) -> None:
        headers = authorization(settings.api_key)

        async def authorized() -> Mapping[str, str]:
            return headers

        self.endpoint = endpoint_of(settings)
        self.project = settings.project
        self.is_bearer = is_bearer(settings.api_key)
        self._client = RestClient(
            "Jira",
            self.endpoint,
            authorization=authorized,
            calls_per_minute=settings.calls_per_minute,
            secrets=secrets_of(settings.api_key),
        )
        self._seen_until = 0.0

    def call_use(self) -> CallUse:
        return self._client.call_use()

    async def aclose(self) -> None:
        await self._client.aclose()

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Reply:
        return await self.call("GET", path, params)

    async def call(self, method: str, path: str, params: Mapping[str, str] | None = None, **more: Any) -> Reply:
        """For what is no part of the project."""
        reply = await self._client.call(method, path, params, **more)
        if any(word in reply.headers.get("x-seraph-loginreason", "") for word in REFUSED):
            message = (
                f"Jira does not accept the key any more: it answered {method} {path} as if nobody were logged in."
            )
            fix = "Check tracker.api_key: the token may have expired, or have been revoked."
            raise TrackerError(TrackerError.AUTH, message, fix=fix)
        return reply

    async def ask(self, method: str, path: str, params: Mapping[str, str] | None = None, **more: Any) -> Reply:
        """For what is a part of the project: not found is not there, and not hidden from us."""
        try:
            return await self.call(method, path, params, **more)
        except TrackerError as error:
            if error.kind == TrackerError.NOT_FOUND:
                await self.confirm()
            elif error.status == 400:
                await self._confirm_access()
            raise

    async def confirm(self) -> None:
        """That the project can be seen, by the key that we know; raises `TrackerError` where nobody knows that."""
        if anyio.current_time() < self._seen_until:
            return
        try:
            found = read(await self.get(f"/rest/api/3/project/{self.project}"), Project)
        except TrackerError as error:
            if error.kind != TrackerError.NOT_FOUND:
                raise
            message = f"Jira shows this account no project {self.project}: {error.message}"
            raise TrackerError(TrackerError.AUTH, message, fix=_LOST) from error.__cause__
        if found.key != self.project:
            message = f"The project {self.project} is called {readable(found.key, 100)} now."
            raise TrackerError(TrackerError.AUTH, message, fix="Set tracker.project to that key.")
        self._seen_until = anyio.current_time() + SEEN_FOR

    async def _confirm_access(self) -> None:
        """To a search in what we may not see Jira says that there is no such project. Any other failure of this
        question tells less than what was refused."""
        try:
            await self.confirm()
        except TrackerError as error:
            if error.kind == TrackerError.AUTH:
                raise
