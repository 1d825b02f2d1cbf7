"""JSON responses: one format for all errors, and the methods that an address supports."""

from __future__ import annotations

import inspect
import sqlite3
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..errors import SortieError

JSON = "application/json; charset=utf-8"
# The code of the error where the store cannot be read; the first surface has one of its own.
STORE_UNAVAILABLE = "store_unavailable"

# A handler that only reads is a plain function: it runs in a thread and does not block the event loop.
Handler = Callable[[Request], Response | Awaitable[Response]]


class ErrorWords(msgspec.Struct, frozen=True):
    """`code` is for programs and stays, `message` is one sentence for people."""

    code: str
    message: str


class ErrorAnswer(msgspec.Struct, frozen=True):
    error: ErrorWords


class Problem(Exception):
    """Ends a request with an error of the common shape."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers

    def answer(self) -> Response:
        words = ErrorAnswer(ErrorWords(self.code, str(self)))
        return json_answer(words, self.status, self.headers)


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    # The state changes every second, so no proxy or browser may cache it.
    kept = {"cache-control": "no-store", **(headers or {})}
    return Response(msgspec.json.encode(value), status, media_type=None, headers={**kept, "content-type": JSON})


class Address:
    """What answers at one address, by method; any other method is refused by name. HEAD is a GET without its body.

    `unreadable` is the code of the error where the store cannot be read, `plain` refuses methods in plain text.
    """

    def __init__(self, methods: Mapping[str, Handler], *, unreadable: str, plain: bool = False) -> None:
        self.methods = methods
        self.unreadable = unreadable
        self.plain = plain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ClientDisconnect:
            return  # the client has disconnected
        except Problem as problem:
            answer = problem.answer()
        except (SortieError, sqlite3.Error) as error:
            answer = Problem(503, self.unreadable, f"The store cannot be used: {error}").answer()
        except Exception:
            # One bad request must not end a connection that others wait on; who runs the service sees why.
            traceback.print_exc(file=sys.stderr)
            answer = Problem(500, "internal_error", "The server failed to answer; its log says why.").answer()
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        handler = self.methods.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            return self._refused(request.method)
        if inspect.iscoroutinefunction(handler):
            awaited: Response = await handler(request)
            return awaited
        return await run_in_threadpool(handler, request)  # type: ignore[arg-type]

    def _refused(self, method: str) -> Response:
        allow = {"allow": ", ".join(self.methods)}
        if self.plain:
            return Response("Method Not Allowed\n", 405, allow, "text/plain")
        said = f"method {method} is not allowed on this endpoint"
        return Problem(405, "method_not_allowed", said, allow).answer()
