"""One operation of `/api/v2`: both its route and its description are made from this."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec
from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from .json_api import Problem, json_answer
from .site import Site

# SQLite counts no further, and no answer is meant for a longer name.
MOST_NUMBER = 2**63 - 1
MOST_NAME = 1000

Q = TypeVar("Q", bound=Struct)
B = TypeVar("B")


class NoParameters(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Asked(Struct, Generic[Q, B], frozen=True):
    """A request, checked: `named` are the parts of the address that stand for names."""

    site: Site
    named: dict[str, str]
    query: Q
    body: B


class Described(Struct, frozen=True, kw_only=True):
    """`path` is below `/api/v2`. An `answer` of this `media` is sent with `status`; `told` describes it. `headers`
    are those that are looked at, with what they mean. `errors` are the codes that it gives beside those that every
    operation can give."""

    name: str
    method: Literal["GET", "POST"]
    path: str
    summary: str
    answer: Any
    query: type[Struct] = NoParameters
    headers: tuple[tuple[str, str], ...] = ()
    body: type[Struct] | None = None
    status: int = 200
    media: str = "application/json"
    told: str = "What was asked for."
    errors: tuple[tuple[int, str], ...] = ()

    @property
    def scope(self) -> Literal["read", "operate"]:
        return "read" if self.method == "GET" else "operate"


class Operation(Described, frozen=True, kw_only=True):
    """`call` gives the answer; one that waits is asynchronous, every other one runs in a thread."""

    call: Callable[[Asked[Any, Any]], Any]


async def carried_out(operation: Operation, site: Site, request: Request) -> Response:
    named = {name: _name(name, value) for name, value in request.path_params.items()}
    query = parameters(operation.query, request)
    body = await _body(operation.body, request) if operation.body else None
    asked: Asked[Any, Any] = Asked(site, named, query, body)
    if inspect.iscoroutinefunction(operation.call):
        found = await cast("Callable[[Asked[Any, Any]], Awaitable[Any]]", operation.call)(asked)
    else:
        found = await run_in_threadpool(operation.call, asked)
    return json_answer(found, operation.status)


def _name(name: str, value: str) -> str:
    if len(value) > MOST_NAME:
        raise Problem(400, "invalid_parameter", f"{name} is longer than {MOST_NAME} characters.")
    return value


def parameters(kind: type[Q], request: Request) -> Q:
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise Problem(400, "invalid_parameter", f"{name[:MOST_NAME]} is given twice.")
        given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        known = ", ".join(kind.__struct_encode_fields__) or "none"
        raise Problem(400, "invalid_parameter", f"{error}; the parameters here are: {known}.") from None


async def _body(kind: type[Struct], request: Request) -> Struct:
    sent_as = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent_as != "application/json":
        raise Problem(415, "unsupported_media_type", "Send the body as application/json.")
    try:
        plain = msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "invalid_json", f"The body is not valid JSON: {error}.") from None
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise Problem(422, "invalid_body", f"{error}.") from None
