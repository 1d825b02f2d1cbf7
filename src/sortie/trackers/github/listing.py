"""All issues that may be active, from GitHub's lists or its search: bounded, and nothing is cut silently."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

import anyio.lowlevel
from msgspec import Struct

from ...errors import TrackerError
from ..rest_reply import Reply
from .api import GitHubApi, side_by_side
from .records import Record, read_records
from .states import States

PAGE = 100
PAGES_IN_A_LOOK = 20
MOST_FOUND = 1000  # of a search, by GitHub's own limit

_CHECK_FILTER = "Check tracker.query_filter, tracker.project, and what the token may see."

_OR = re.compile(r"\bor\b", re.IGNORECASE)


class Listed(Struct, frozen=True):
    records: dict[int, Record]
    problems: tuple[str, ...]


class _Page(Struct):
    """What a search answers with; of a list there are the items."""

    items: list[Any]
    total_count: int = 0
    incomplete_results: bool = False


class Listing:
    def __init__(self, api: GitHubApi, states: States, query_filter: str) -> None:
        self._api = api
        self._states = states
        self._labels = states.active_labels
        self._filter = query_filter.strip()
        self._last: Listed | None = None

    @property
    def is_filtered(self) -> bool:
        return bool(self._filter)

    async def fetch(self) -> Listed:
        """The very list of the last time where GitHub says of every page that it is the same. Raises `TrackerError`
        where a page cannot be had: half a list would look as if issues had left."""
        last, self._last = self._last, None  # where this one fails, the next is read as a whole
        try:
            pages, is_cut = await (self._found() if self._filter else self._listed())
        except TrackerError as error:
            raise self._api.no_access(error) from error.__cause__
        if last is None or not all(page.unchanged for page in pages):
            last = await self._read(pages, is_cut=is_cut)
        self._last = last
        return last

    async def others(self, listed: Listed) -> tuple[Counter[str], bool]:
        """In which states the open issues are that are not active, so that who has labelled none is told: all that
        the search found, else the first hundred that no list shows, and whether there are more; nothing where that
        cannot be known."""
        if self._filter:
            return self._counted(listed.records.values()), False
        if not self._labels:
            return Counter(), False
        try:
            reply = await self._api.get("/issues", {"state": "open", "per_page": str(PAGE)}, look=True)
            records, _ = read_records(reply.read(list[Any]), self._api.repository)
        except TrackerError:
            return Counter(), False
        return self._counted(records), reply.next_page is not None

    def _counted(self, records: Iterable[Record]) -> Counter[str]:
        return Counter(self._states.state_of(one.standing) for one in records)

    async def _read(self, pages: list[Reply], *, is_cut: bool) -> Listed:
        records: dict[int, Record] = {}
        problems: list[str] = []
        for reply in pages:
            await anyio.lowlevel.checkpoint()  # thousands of records take a while, and others have their turn
            page = self._page(reply)
            if page.incomplete_results:
                problems.append(
                    "GitHub's search took too long and is incomplete: some issues may be missing in this poll."
                )
            found, unusable = read_records(page.items, self._api.repository)
            problems += unusable
            for record in found:
                known = records.get(record.number)
                # An issue with two labels is in two lists, of which one may be older.
                if record.repository == self._api.repository and (
                    not known or known.updated_at < record.updated_at
                ):
                    records[record.number] = record
        if is_cut:
            problems.append(
                f"{self._api.repository} has more active issues than the {PAGE * len(pages)} that one poll reads:"
                " the newest are missing. Narrow tracker.active_states or tracker.query_filter."
            )
        return Listed(dict(sorted(records.items())), tuple(dict.fromkeys(problems)))

    async def _listed(self) -> tuple[list[Reply], bool]:
        """A list for each label of an active state, or one of all open issues; a page of each in turn. And whether
        there is more."""
        first = {"state": "open", "sort": "created", "direction": "asc", "per_page": str(PAGE)}
        lists = [{**first, "labels": label} for label in self._labels] or [first]
        due: list[tuple[dict[str, str], dict[str, str]]] = [(wanted, {}) for wanted in lists]
        pages: list[Reply] = []
        number = 0
        is_cut = False
        while due:
            asked = [partial(self._api.get, "/issues", {**wanted, **place}, look=True) for wanted, place in due]
            replies = await side_by_side(asked)
            pages += replies
            number += 1
            room = max(PAGES_IN_A_LOOK - len(pages), 0)
            following = [
                (wanted, place, reply)
                for (wanted, _), reply in zip(due, replies, strict=True)
                if (place := self._after(reply, number))
            ]
            due = [(wanted, place) for wanted, place, _ in following[:room]]
            is_cut = is_cut or any(reply.next_page for _, _, reply in following[room:])
        return pages, is_cut

    async def _found(self) -> tuple[list[Reply], bool]:
        """Of the search only what is ours counts, so a filter with an OR in it is bound together."""
        wanted = f"({self._filter})" if _OR.search(self._filter) else self._filter
        query = f"repo:{self._api.repository} is:issue state:open {wanted}"
        params = {"q": query, "sort": "created", "order": "asc", "per_page": str(PAGE), "advanced_search": "true"}
        try:
            pages = [await self._api.search(params)]
        except TrackerError as error:
            if error.status != 422:
                raise
            # So GitHub answers too where the repository cannot be seen.
            raise error.with_fix(_CHECK_FILTER) from error.__cause__
        while len(pages) < MOST_FOUND // PAGE and (place := self._after(pages[-1], len(pages))):
            pages.append(await self._api.search({**params, **place}))
        return pages, self._page(pages[-1]).total_count > MOST_FOUND  # no link leads there

    def _after(self, page: Reply, number: int) -> dict[str, str] | None:
        """Where it goes on after the page of this number. A full page stays as it is when another one follows it,
        and its tag may do so too: so what comes after it is asked for, whatever was said of that."""
        if page.next_page:
            return page.next_page
        return {"page": str(number + 1)} if len(self._page(page).items) == PAGE else None

    def _page(self, reply: Reply) -> _Page:
        return reply.read(_Page) if self._filter else _Page(reply.read(list[Any]))
