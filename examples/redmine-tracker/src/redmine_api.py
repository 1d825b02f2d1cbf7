"""Redmine's REST API as the tracker uses it: its words, and the calls with what is peculiar about them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from sortie import TrackerError, TrackerSettings
from sortie.trackers.rest_client import Bounds, RestClient
from sortie.trackers.rest_reply import Reply, TooLarge
from sortie.trackers.tracker import CallUse

PAGE = 100  # the most that Redmine tells at once
PARTS = 10  # of a page that is too large
# A small Redmine answers one call after the other: calls wait here for their turn, where no time of theirs counts.
AT_ONCE = 2
KEPT_FOR = 300.0  # seconds: statuses, priorities and members change rarely
LARGEST_ID = 2**31 - 1


class Named(Struct):
    id: int
    name: str = ""


class Relation(Struct):
    issue_id: int
    issue_to_id: int
    relation_type: str


class Note(Struct):
    id: int
    created_on: str
    user: Named | None = None
    notes: str | None = None
    private_notes: bool = False


class Record(Struct):
    id: int
    project: Named
    status: Named
    subject: str
    created_on: str
    updated_on: str
    description: str | None = None
    author: Named | None = None
    tracker: Named | None = None
    priority: Named | None = None
    category: Named | None = None
    assigned_to: Named | None = None
    parent: Named | None = None
    journals: list[Note] = []
    relations: list[Relation] = []
    children: list[Named] = []
    allowed_statuses: list[Named] = []


class Page(Struct):
    """One record that cannot be read must not hide the others, so each is read by itself."""

    total_count: int
    issues: list[msgspec.Raw]


class Records(Struct):
    issues: list[Record]


class Membership(Struct):
    user: Named | None = None  # None: a group; its people are listed too, each by himself
    project: Named | None = None
    roles: list[Named] = []


class Members(Struct):
    total_count: int
    memberships: list[Membership]


class Account(Struct):
    id: int
    login: str
    admin: bool = False
    memberships: list[Membership] = []


class Role(Struct):
    permissions: list[str]


class Facts(Struct, frozen=True, kw_only=True):
    """What is asked for once in a while. Statuses are by name without regard to case; `ranks` has each priority's
    place, 1 is the most urgent; `members` are ids of users."""

    project: int
    statuses: Mapping[str, Named]
    ranks: Mapping[int, int]
    members: frozenset[int]
    until: float


class RedmineApi:
    def __init__(self, settings: TrackerSettings, bounds: Bounds | None = None) -> None:
        self._key = settings.api_key
        self._project = settings.project
        self._known: Facts | None = None
        self._learning = anyio.Lock()
        self._turns = anyio.Semaphore(AT_ONCE)
        self._client = RestClient(
            "Redmine",
            settings.endpoint,
            authorization=self._authorization,
            calls_per_minute=settings.calls_per_minute,
            secrets=[settings.api_key],
            bounds=bounds,
        )

    async def _authorization(self) -> Mapping[str, str]:
        return {"X-Redmine-API-Key": self._key}

    def call_use(self) -> CallUse:
        return self._client.call_use()

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _ask(self, method: str, path: str, query: Mapping[str, str] | None = None, **more: Any) -> Reply:
        async with self._turns:
            return await self._client.call(method, path, query, **more)

    # -- issues -------------------------------------------------------------------------------------------------

    async def page(self, query: Mapping[str, str], number: int, size: int = PAGE) -> Page:
        """In parts where it is too large an answer: some texts that are as long as their authors like must not keep
        all other issues from being seen."""
        place = {"limit": str(size), "offset": str(number * size)}
        try:
            return (await self._ask("GET", "/issues.json", {**query, **place}, look=True)).read(Page)
        except TooLarge:
            if size == 1:
                raise
        parts = [await self.page(query, number * PARTS + part, size // PARTS) for part in range(PARTS)]
        return Page(parts[-1].total_count, [issue for part in parts for issue in part.issues])

    async def records(self, numbers: Sequence[int], scope: Mapping[str, str] = {}) -> list[Record]:
        """Those of them that there are, in whatever status: a hundred with each call."""
        found: list[Record] = []
        for start in range(0, len(numbers), PAGE):
            found += await self._some(numbers[start : start + PAGE], scope)
        return found

    async def _some(self, numbers: Sequence[int], scope: Mapping[str, str]) -> list[Record]:
        query = {**scope, "issue_id": ",".join(map(str, numbers)), "status_id": "*", "limit": str(PAGE)}
        try:
            return (await self._ask("GET", "/issues.json", query)).read(Records).issues
        except TooLarge:
            if len(numbers) == 1:
                raise
        half = len(numbers) // 2
        return [*await self._some(numbers[:half], scope), *await self._some(numbers[half:], scope)]

    async def record(self, issue_id: str, include: str = "") -> Record:
        path, query = _path(issue_id), {"include": include} if include else {}
        try:
            return (await self._ask("GET", path, query)).read(dict[str, Record])["issue"]
        except TrackerError as error:
            raise await self._explained(error, issue_id) from error

    async def change(self, issue_id: str, fields: Mapping[str, Any], *, repeatable: bool = True) -> None:
        path = _path(issue_id)
        try:
            await self._ask("PUT", path, json={"issue": fields}, repeatable=repeatable)
        except TrackerError as error:
            raise await self._explained(error, issue_id) from error

    async def _explained(self, error: TrackerError, issue_id: str) -> TrackerError:
        """An issue that is hidden from this key is refused as if the key were wrong, which would stop all runs."""
        if error.kind != TrackerError.AUTH:
            return error
        await self.account()
        problem = f"Redmine does not let this key do that with issue {issue_id}"
        return TrackerError(TrackerError.NOT_FOUND, f"{problem}: it is private, or its project is closed to it.")

    # -- the rest -----------------------------------------------------------------------------------------------

    async def account(self) -> Account:
        reply = await self._ask("GET", "/users/current.json", {"include": "memberships"})
        return reply.read(dict[str, Account])["user"]

    async def permissions(self, role: int) -> list[str]:
        return (await self._ask("GET", f"/roles/{role}.json")).read(dict[str, Role])["role"].permissions

    async def facts(self, *, look: bool = False) -> Facts:
        async with self._learning:
            if self._known is None or self._known.until < time.monotonic():
                self._known = await self._learned(look=look)
            return self._known

    def forget_facts(self) -> None:
        self._known = None

    async def _learned(self, *, look: bool) -> Facts:
        async def listed(path: str, name: str) -> list[Named]:
            return (await self._ask("GET", path, look=look)).read(dict[str, list[Named]])[name]

        place = f"/projects/{self._project}"
        project = (await self._ask("GET", f"{place}.json", look=look)).read(dict[str, Named])["project"]
        statuses = await listed("/issue_statuses.json", "issue_statuses")
        priorities = await listed("/enumerations/issue_priorities.json", "issue_priorities")  # the lowest first
        members, offset, total = set[int](), 0, 1
        while offset < total:
            query = {"limit": str(PAGE), "offset": str(offset)}
            page = (await self._ask("GET", f"{place}/memberships.json", query, look=look)).read(Members)
            members |= {each.user.id for each in page.memberships if each.user}
            offset, total = offset + PAGE, page.total_count
        return Facts(
            project=project.id,
            statuses={each.name.casefold(): each for each in statuses},
            ranks={each.id: len(priorities) - place for place, each in enumerate(priorities)},
            members=frozenset(members),
            until=time.monotonic() + KEPT_FOR,
        )


def is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and 0 < int(text) <= LARGEST_ID


def _path(issue_id: str) -> str:
    if not is_id(issue_id):
        raise TrackerError(TrackerError.NOT_FOUND, f'Redmine has no issue "{issue_id}": ids are numbers.')
    return f"/issues/{issue_id}.json"
