"""`GET /api/v2/events/stream`: the event log as it grows, for any number of readers, nothing lost or repeated.

Each reader has a position in the log and gets what comes after it, from memory if that reaches back far enough,
otherwise from the store. So no reader has a queue that could overflow, a slow reader costs only its connection, and
one that reconnects with the number of its last event continues there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable

import anyio
import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from ..errors import SortieError
from ..store.queries import find_issue
from ..store.web_tokens import Scope as TokenScope
from .addresses import API_V2
from .api_v2_parameters import Name, Number
from .feed import Feed, FeedEnded, Position, unreadable
from .json_api import Problem
from .operation import Described, parameters
from .site import Site

# Whether the token that let the reader in still does.
StillAllows = Callable[[TokenScope], Awaitable[bool]]

# How soon a browser comes back, in milliseconds: the first line of the first message.
_COME_BACK = b"retry: 1000\n"
# What a browser sends that comes back.
_LAST = "Last-Event-ID"


class StreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without `after`, what happens from now on."""

    after: Number | UnsetType = UNSET
    issue: Name = ""


STREAM = Described(
    name="event_stream",
    method="GET",
    path="/events/stream",
    summary="The event log as it grows, after the number `after` or from now on, and the state of the service.",
    query=StreamQuery,
    headers=((_LAST, "The last number that was received, as browsers send it; it takes precedence over `after`."),),
    answer=str,
    media="text/event-stream",
    told="""The number after which the stream starts, then messages without end, with JSON as data. `change`, with
its number, is an event of the log; `live`, once a second the current state; `stale`, since when the service has
not reported it; `reset`, with a number, this is another log, which ends there; `failed`, why the stream ends.""",
    errors=((404, "issue_not_found"), (503, "too_many_streams")),
)


def routes(site: Site) -> list[BaseRoute]:
    feed = Feed(site)

    async def stream(request: Request) -> Response:
        try:
            query = parameters(StreamQuery, request)
            after = _after(request, query)
            issue_id = await run_in_threadpool(_issue, site, query.issue)
        except Problem as problem:
            return problem.answer()
        return EventStream(feed, after, issue_id, request.state.still_allows)

    return [Route(API_V2 + STREAM.path, stream, methods=["GET"])]


class EventStream(Response):
    """Speaks until the reader leaves, may listen no more, or the store is gone."""

    media_type = "text/event-stream; charset=utf-8"

    def __init__(self, feed: Feed, after: int | None, issue_id: str | None, still_allows: StillAllows) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self.feed = feed
        self.after = after
        self.issue_id = issue_id
        self.still_allows = still_allows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self.feed.joined(self.after, self.issue_id) as position, anyio.create_task_group() as group:

                async def leave_with_reader() -> None:
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    group.cancel_scope.cancel()

                group.start_soon(leave_with_reader)
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                if scope["method"] != "HEAD":
                    await self._speak(position, send)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                group.cancel_scope.cancel()
        except Problem as problem:
            await problem.answer()(scope, receive, send)

    async def _speak(self, position: Position, send: Send) -> None:
        said = _COME_BACK
        is_over = False
        while not is_over:
            try:
                said += await position.next()
            except FeedEnded as ended:
                said, is_over = said + ended.last_words, True
            if not await self.still_allows("read"):
                return  # the next request gets the reason
            # Waits for a reader that is slow; one that does not read at all is cut off by the connection.
            await send({"type": "http.response.body", "body": said, "more_body": True})
            said = b""


def _after(request: Request, query: StreamQuery) -> int | None:
    """Where to go on; a browser that comes back names the last event that it has."""
    if not (last := request.headers.get(_LAST)):
        return None if query.after is UNSET else query.after
    try:
        return msgspec.convert(last, Number, strict=False)
    except msgspec.ValidationError:
        raise Problem(400, "invalid_parameter", f"{_LAST} is not the number of an event.") from None


def _issue(site: Site, named: str) -> str | None:
    """The issue whose events are wanted; None for all."""
    if not named:
        return None
    try:
        with site.looking() as db:
            found = find_issue(db, named)
    except (SortieError, sqlite3.Error) as error:
        raise unreadable(error) from error
    if found is None:
        raise Problem(404, "issue_not_found", f"There is no issue {site.hide(named)[:200]}.")
    return found
