"""The HTTP client of all trackers on a server: respects rate limits, and waits for no answer longer than it may.

It reuses connections, limits the time of every call and the size of every answer, retries only what is safe to
repeat, sends conditional requests (ETag), and stays within the server's rate limits and our own. Every failure is a
`TrackerError` of the kind that the status means, without secrets. Redirects and links to other hosts are not
followed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from msgspec import Struct

from .. import __version__
from ..core.narrate import clock as told_time
from ..core.redact import Redactor
from ..errors import TrackerError
from ..protocol.foreign_text import readable
from ..protocol.web_address import address_problem
from .rate_limits import MINUTE, CallBudget, Refusals, ServerCount, server_count
from .response_cache import ResponseCache, next_page
from .rest_reply import LONGEST_MESSAGE, Reply, TooLarge, is_page, refusal_in
from .tracker import CallUse

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

CONNECTING = 8.0
PAUSES = (0.3, 1.2)
LONGEST_WAIT_FOR_BUDGET = 10.0
CONNECTIONS = 16

REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})
PASSING = frozenset({500, 502, 503, 504})
MOVED = frozenset({301, 302, 303, 307, 308})
# What is packed twice may take minutes to unpack and never show a byte. No other way of packing is asked for, also
# where the library that asks knows more.
PACKED = frozenset({"", "identity", "gzip", "deflate"})
ASKED_PACKED = "gzip, deflate"

_CHECK_KEY = "Check tracker.api_key and its permissions."
# GitHub's messages for an issue or repository that nobody can write to, whatever the permissions.
_CLOSED = {
    "archived": "It can be read only: unarchive it, or leave it alone.",
    "issue is locked": "Unlock it, or leave it alone.",
}
_RAISE_BUDGET = "Raise tracker.calls_per_minute (default: 120), or narrow the selection of issues."
_CHECK_WAY = "Check tracker.endpoint, the network, and its proxy variables."
_CHECK_SITE = "Check tracker.endpoint, and whether a proxy on the way asks for a login."
_CHECK_VARIABLES = "Correct HTTP_PROXY, HTTPS_PROXY, ALL_PROXY (SOCKS needs the package socksio) or SSL_CERT_FILE."
# What Jira says in a header, and only there.
_SOLVE = "Log in with a browser and solve the CAPTCHA: the account failed to log in too often."

Headers = Callable[[], Awaitable[Mapping[str, str]]]


class Bounds(Struct, frozen=True, kw_only=True):
    """In seconds for one try and for all tries of a call together, in bytes for an answer. Callers of trackers give
    up after 30 s."""

    one_try: float = 12.0
    call: float = 26.0
    answer: int = 32 * 1024 * 1024


class RestClient:
    """`name` is what people call the server. `authorization` gives the headers that prove who asks, anew for each
    call; `secrets` are texts that no error may contain."""

    def __init__(
        self,
        name: str,
        endpoint: str,
        *,
        authorization: Headers,
        calls_per_minute: int,
        headers: Mapping[str, str] | None = None,
        secrets: Collection[str] = (),
        bounds: Bounds | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._endpoint = endpoint.rstrip("/")
        self._authorization = authorization
        usual = {"User-Agent": f"sortie/{__version__}", "Accept": "application/json"}
        self._headers = {**usual, "Accept-Encoding": ASKED_PACKED, **(headers or {})}
        self._secrets = frozenset(secrets)
        self._redactor = Redactor(secrets)
        self._bounds = bounds or Bounds()
        self._budget = CallBudget(calls_per_minute)
        self._known = ResponseCache()
        self._connections = anyio.Semaphore(CONNECTIONS)  # to wait for a free one is no failure of the server
        self._http: AsyncClient | None = None
        self._clock = clock
        self._server_count = ServerCount()
        self._refusals = Refusals()
        self._held: dict[str, float] = {}

    def call_use(self) -> CallUse:
        now, core = self._clock(), self._server_count
        held = max(self._held.get(kind, 0.0) for kind in ("", "core"))  # what holds searches alone holds no run
        return CallUse(
            made=self._budget.made,
            per_minute=self._budget.per_minute,
            limit=core.limit,
            remaining=core.remaining,
            resets_at=core.resets_at,
            held_until=held if held > now else None,
        )

    def hide(self, secrets: Collection[str]) -> None:
        """Texts beside the first ones that no error may contain from now on; those given here before may."""
        self._redactor = Redactor({*self._secrets, *secrets})

    async def aclose(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def get(self, path: str, params: Mapping[str, str] | None = None, *, look: bool = False) -> Reply:
        """GET, with the ETag of the last answer, so that unchanged data is not sent again."""
        return await self.call("GET", path, params, look=look)

    async def call(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        json: Any = None,
        repeatable: bool | None = None,
        look: bool = False,
        bucket: str = "core",
        authorization: Headers | None = None,
    ) -> Reply:
        """One call, tried again where that may be done: by its method, unless `repeatable` says otherwise.

        `look`: it is for a look at what there is to do, which waits when calls get scarce, so that runs need not.
        `bucket` names the kind of calls that the server counts together; raises `TrackerError`.
        """
        may_repeat = method in REPEATABLE if repeatable is None else repeatable
        asked = _Asked(method, path, dict(params or {}), json, bucket)
        gives_up = anyio.current_time() + self._bounds.call
        for pause in (*PAUSES, None):
            await self._admitted(asked, look=look)
            # To prove who we are may take a call, so it comes before a connection is occupied.
            proof = await (authorization or self._authorization)()
            try:
                async with self._connections:
                    with anyio.fail_after(min(self._bounds.one_try, gives_up - anyio.current_time())):
                        return await self._tried(asked, proof)
            except TimeoutError:
                failure = self._error(TrackerError.TRANSPORT, f"{self._name} did not answer in time to {asked}")
            except TrackerError as error:
                failure = error
            delay = random.uniform(0.5, 1.5) * (pause or 0.0)  # noqa: S311 - so that not all come back at once
            in_time = anyio.current_time() + delay + 1.0 < gives_up
            is_over = failure.kind == TrackerError.RATE_LIMITED or not failure.passing
            if pause is None or is_over or not may_repeat or not in_time:
                break
            await anyio.sleep(delay)
        raise failure

    async def _admitted(self, asked: _Asked, *, look: bool) -> None:
        """Wait a little for the budget; raise where the server or the budget wants no call for longer."""
        until = max(self._held.get(asked.bucket, 0.0), self._held.get("", 0.0))
        if until > self._clock():
            raise self._limited(f"{self._name} limits the rate of our calls for now", until)
        what = f"{asked} {asked.params} {asked.json}" if look else ""
        while wait := self._budget.take(look=look, what=what):
            if look and self._budget.is_too_small(what):
                raise self._too_small()
            if look or wait > LONGEST_WAIT_FOR_BUDGET:
                used = f"the {self._budget.share()} of tracker.calls_per_minute are used up"
                raise self._limited(used, self._clock() + wait)
            await anyio.sleep(wait)

    async def _tried(self, asked: _Asked, proof: Mapping[str, str]) -> Reply:
        import httpx2

        headers = {**self._headers, **proof}
        known = self._known.find(asked.path, asked.params) if asked.method == "GET" else None
        if known:
            headers["If-None-Match"] = known.etag
        content = None if asked.json is None else msgspec.json.encode(asked.json)
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            async with self._client().stream(
                asked.method, self._endpoint + asked.path, params=asked.params, content=content, headers=headers
            ) as response:
                body = await self._body(response, asked)
        except httpx2.HTTPError as error:
            said = str(error) or type(error).__name__
            has_secret = self._redactor.text(said) != said  # as where a key has what no header may have
            what = f"{self._name} cannot be reached at {self._endpoint}: {said}"
            failure = self._error(TrackerError.TRANSPORT, what, fix=_CHECK_WAY)
            raise failure from (None if has_secret else error)
        except httpx2.InvalidURL as error:
            raise self._error(TrackerError.PAYLOAD, f"{asked} is not a valid address: {error}") from error
        self._heed(response.headers, asked.bucket)
        if response.status_code == 304 and known:
            # Another page may have come after one that is as it was; not every server says so again.
            following = self._following(response, asked) or known.next_page
            self._refusals.heeded(self._clock())
            return Reply(status=200, body=known.body, unchanged=True, next_page=following)
        if not 200 <= response.status_code < 300:
            refusal = self._refusal(response, body, asked)
            refusal.status = response.status_code
            raise refusal
        if is_page(response.headers, body):
            # Whoever says so has not done what was asked: it is a login, or the site beside the API.
            what = f"{self._name} answered {asked} with a web page"
            raise self._error(TrackerError.PAYLOAD, what, fix=_CHECK_SITE)
        self._refusals.heeded(self._clock())
        following = self._following(response, asked)
        if asked.method == "GET":
            self._known.keep(asked.path, asked.params, response.headers.get("etag", ""), body, following)
        return Reply(status=response.status_code, body=body, headers=response.headers, next_page=following)

    def _following(self, response: Response, asked: _Asked) -> dict[str, str] | None:
        try:
            return next_page(response.headers)
        except ValueError as error:
            raise self._error(TrackerError.PAYLOAD, f"{self._name} answered {asked}: {error}") from error

    async def _body(self, response: Response, asked: _Asked) -> bytes:
        packed = response.headers.get("content-encoding", "").strip().lower()
        if packed not in PACKED:
            raise self._error(TrackerError.PAYLOAD, f"{self._name} answered {asked} packed as {packed[:100]}")
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > self._bounds.answer:
                size = f"more than {self._bounds.answer:,} bytes"
                problem = self._shown(f"{self._name} answered {asked} with {size}.")
                raise TooLarge(TrackerError.PAYLOAD, problem)
        return bytes(body)

    def _heed(self, headers: Mapping[str, str], bucket: str) -> None:
        """What the server counts."""
        count = server_count(headers, self._clock())
        if count.limit is None:
            return
        if headers.get("x-ratelimit-resource", bucket) == "core":
            self._server_count = count
        if count.remaining == 0 and count.resets_at is not None:
            self._held[bucket] = count.resets_at

    def _refusal(self, response: Response, body: bytes, asked: _Asked) -> TrackerError:
        headers, status, message = response.headers, response.status_code, refusal_in(body)
        if until := self._refusals.limited_until(status, headers, message, self._clock()):
            # A count that is used up holds calls of its kind; "not now" holds all of them.
            kind = asked.bucket if headers.get("x-ratelimit-remaining") == "0" else ""
            self._held[kind] = max(self._held.get(kind, 0.0), until)
            return self._limited(f"{self._name} limits our calls: {message or status}", until)
        answered = f"{self._name} answered {status} to {asked}{': ' if message else ''}{message}"
        if status in MOVED:
            place = headers.get("location", "another place")
            return self._error(TrackerError.NOT_FOUND, f"{answered}. It moved to {place}")
        if status in (401, 403):
            is_locked = "AUTHENTICATION_DENIED" in headers.get("x-seraph-loginreason", "")
            advice = (fix for words, fix in _CLOSED.items() if words in message.lower())
            return self._error(TrackerError.AUTH, answered, fix=_SOLVE if is_locked else next(advice, _CHECK_KEY))
        if status in (404, 410):
            return self._error(TrackerError.NOT_FOUND, answered)
        if status in (400, 422):
            return self._error(TrackerError.PAYLOAD, answered)
        failure = self._error(TrackerError.API, answered)
        failure.passing = status in PASSING
        return failure

    def _limited(self, what: str, until: float) -> TrackerError:
        said = f"{self._shown(what)}; retried at {told_time(until)}."
        return TrackerError(TrackerError.RATE_LIMITED, said, until=until)

    def _too_small(self) -> TrackerError:
        """The error of a look that can never finish, because it needs more than all calls of a minute."""
        budget = self._budget
        message = (
            f"One poll takes more than the {budget.of_looks} calls a minute that tracker.calls_per_minute:"
            f" {budget.per_minute} leaves for polling, so no poll can finish."
        )
        failure = TrackerError(TrackerError.RATE_LIMITED, message, fix=_RAISE_BUDGET, until=self._clock() + MINUTE)
        failure.passing = False
        return failure

    def _error(self, kind: str, message: str, fix: str = "") -> TrackerError:
        text = self._shown(message)
        return TrackerError(kind, text if text.endswith(".") else f"{text}.", fix=fix)

    def _shown(self, text: str) -> str:
        """On one line. Secrets are hidden before anything is cut: no half of one stays."""
        return readable(self._redactor.text(text), LONGEST_MESSAGE).replace("\n", " ")

    def _client(self) -> AsyncClient:
        """Made when it is first used: it needs an event loop, and takes a while to load."""
        if self._http is None:
            import httpx2

            try:
                self._http = httpx2.AsyncClient(
                    timeout=httpx2.Timeout(self._bounds.one_try, connect=CONNECTING),
                    limits=httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
                    follow_redirects=False,
                    # What is on this machine is asked in plain text, so no proxy may see it.
                    trust_env=not self._endpoint.lower().startswith("http:"),
                    # None is kept: they would be sent with every call, however many a server sets.
                    cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                )
            except httpx2.InvalidURL:  # what it says may quote a password
                what = f"{self._name} cannot be reached with these proxy settings: a variable has no address"
                raise self._error(TrackerError.TRANSPORT, what, fix=_CHECK_VARIABLES) from None
            except (ImportError, ValueError, OSError) as error:  # variables of the network have their effect here
                what = f"{self._name} cannot be reached with these proxy settings: {error}"
                raise self._error(TrackerError.TRANSPORT, what, fix=_CHECK_VARIABLES) from error
        return self._http


class _Asked(Struct, frozen=True):
    """One call, however often it is tried."""

    method: str
    path: str
    params: dict[str, str]
    json: Any
    bucket: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def endpoint_problem(endpoint: str) -> str:
    """Why a key must not be sent to this address, or nothing can be asked there; empty where all is well."""
    return address_problem(endpoint, "https://tracker.example.com")
