"""Access control: middleware that checks host, origin, token and sender of every request.

Reading is open on loopback and needs a token anywhere else; whatever changes something needs a token with the scope
`operate`, and must not come from an agent. Routes check nothing themselves: what a method may do is decided here.
"""

from __future__ import annotations

import os
from functools import partial

from msgspec import Struct
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from ..protocol.web_address import is_loopback
from ..store.web_tokens import Scope
from . import addresses
from . import header_checks as checks
from .authentication import Authentication
from .bodies import BodyLimits, BodyTooLarge, BodyTooSlow, gathered, replayed
from .refusals import Refusal
from .site import Site
from .tokens import covers

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# What shows nothing of the store: the way in and out, and what pages look like.
LOGIN_AND_LOGOUT = (addresses.LOGIN, addresses.LOGOUT)
STATIC_FILES = f"{addresses.STATIC}/"
SHOWS_NOTHING = (*LOGIN_AND_LOGOUT, addresses.FAVICON)
# What comes there proves itself by a signature, and is sent to whichever name the tracker's server knows us by.
SIGNED = addresses.TRACKER_WEBHOOK
# The older surface has one address that changes anything, which asks for a look; on loopback it is open, as it was.
FIRST_API = f"{addresses.API_V1}/"
PROBES = ("/livez", "/readyz")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ON_EVERY_ANSWER = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
# A browser that may name no referrer at all calls the origin of our own forms `null`; other sites are told nothing.
UNLESS_SAID = {"cache-control": "no-store", "referrer-policy": "same-origin"}


class Access(Struct, frozen=True):
    """What one request may do, as `request.state.access`. `scope` is that of its token, None without one."""

    scope: Scope | None
    reads_freely: bool
    changes_nothing: bool

    def allows(self, wanted: Scope) -> bool:
        if wanted == "operate":
            return not self.changes_nothing and covers(self.scope, wanted)
        return self.reads_freely or covers(self.scope, wanted)

    @property
    def may_operate(self) -> bool:
        return self.allows("operate")


def cookie_name(connection: Connection) -> str:
    """Cookies know no ports: two services on one machine must not take each other's."""
    return f"sortie_{connection['server'][1]}"


class Guard:
    """The middleware around all routes of a site."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self.app = app
        self.site = site
        self.authentication = Authentication(site)

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        if connection["type"] == "lifespan":
            await self.app(connection, receive, send)
            return
        if connection["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        begun = False

        async def send_guarded(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(_with_headers(message))

        try:
            receive = await self._admit(connection, receive)
            await self.app(connection, receive, send_guarded)
        except Refusal as refusal:
            await refusal.answer(connection)(connection, receive, send_guarded)
        except ClientDisconnect:
            return  # the client has disconnected
        except Exception:
            if not begun:
                failed = Refusal(500, "internal_error", "The server failed to answer; its log says why.")
                await failed.answer(connection)(connection, receive, send_guarded)
            raise

    async def _admit(self, connection: Connection, receive: Receive) -> Receive:
        """Let the request through, or raise; answers from where its body is to be read."""
        method, path, headers = connection["method"], connection["path"], connection["headers"]
        if checks.has_two_ends(headers):
            raise Refusal(
                400,
                "two_lengths",
                "The request has both Content-Length and Transfer-Encoding; send only one of them.",
            )
        if path != SIGNED and not self._is_public(headers):
            self._require_our_name(connection)
        if checks.is_of_another_site(method, headers):
            raise Refusal(403, "other_site", "This request comes from a page of another site, and is refused.")
        access, by_cookie = await self._access(connection)
        state = connection.setdefault("state", {})
        state["access"], state["still_allows"] = access, partial(self._still_allows, connection)
        if method in SAFE_METHODS:
            wanted: Scope = "metrics" if path == addresses.METRICS else "read"
            if not (path in SHOWS_NOTHING or path.startswith(STATIC_FILES) or access.allows(wanted)):
                raise _lacking(access, wanted)
            return receive
        await self._require_permission(connection, access, by_cookie)
        limits = self.site.bodies
        return await _bounded(connection, receive, limits.of_login() if path in LOGIN_AND_LOGOUT else limits)

    def _is_public(self, headers: checks.Headers) -> bool:
        """Whether it was sent to the name of the proxy in front of us: then anybody may be behind it."""
        return bool(self.site.server.public_url) and checks.is_sent_to(headers, self.site.server.public_url)

    def _require_our_name(self, connection: Connection) -> None:
        address, port = connection["server"]
        names = {*checks.LOOPBACK_NAMES, self.site.host, address}
        if not is_loopback(self.site.host):
            names.add(os.uname().nodename.lower())
        for_us = checks.is_for_us(connection["headers"], names, port)
        if for_us is None:
            raise Refusal(400, "bad_host", "The request has no valid Host header.")
        if not for_us:
            said = "The service does not answer to this host name; use the address that it printed."
            raise Refusal(421, "wrong_host", said)

    async def _access(self, connection: Connection) -> tuple[Access, bool]:
        """What the request may do, and whether that is by a cookie: a browser sends those for any page."""
        shown, by_cookie = _token_of(connection)
        scope = await self.authentication.scope_of(shown) if shown else None
        if shown and not by_cookie and scope is None:
            raise Refusal(401, "bad_token", "This token is not valid; it may have been revoked.")
        return Access(scope, self._reads_freely(connection), self.site.read_only), by_cookie

    def _reads_freely(self, connection: Connection) -> bool:
        headers = connection["headers"]
        return is_loopback(self.site.host) and not (checks.is_relayed(headers) or self._is_public(headers))

    async def _still_allows(self, connection: Connection, wanted: Scope) -> bool:
        """Whether what goes on for long may do so: a token may have been revoked since it was let in."""
        shown, by_cookie = _token_of(connection)
        scope = await self.authentication.scope_lately(shown) if shown else None
        if shown and not by_cookie and scope is None:
            return False
        return Access(scope, self._reads_freely(connection), self.site.read_only).allows(wanted)

    async def _require_permission(self, connection: Connection, access: Access, by_cookie: bool) -> None:
        path: str = connection["path"]
        is_first = path.startswith(FIRST_API) or path in PROBES
        is_free = path in (*LOGIN_AND_LOGOUT, SIGNED) or (is_first and access.reads_freely)
        if not is_free:
            if self.site.read_only:
                said = f"This dashboard is read-only; the one of `{self.site.start_command}` can change things."
                raise Refusal(403, "read_only", said)
            if not access.may_operate:
                raise _lacking(access, "operate")
            if by_cookie and not checks.names_its_site(connection["headers"]):
                raise Refusal(
                    403,
                    "no_origin",
                    "The browser did not say which page sent this; use the pages of the dashboard.",
                )
        await self.authentication.refuse_agents(connection)


def _token_of(connection: Connection) -> tuple[str, bool]:
    """The token that a request shows, and whether as a cookie; a bearer says it on purpose, and counts first."""
    kind, _, bearer = checks.header(connection["headers"], b"authorization").partition(" ")
    if kind.lower() == "bearer":
        return bearer.strip(), False
    cookies = cookie_parser(checks.header(connection["headers"], b"cookie"))
    return cookies.get(cookie_name(connection), ""), True


def _lacking(access: Access, wanted: Scope) -> Refusal:
    if access.scope is not None:
        return Refusal(403, "scope", f"This token allows `{access.scope}`, and here `{wanted}` is needed.")
    return Refusal(401, "no_token", "This needs a token; `sortie token new` prints a link with one.")


async def _bounded(connection: Connection, receive: Receive, limits: BodyLimits) -> Receive:
    """The whole body at once: no handler waits for a slow one, nor holds a huge one."""
    try:
        body = await gathered(connection, receive, limits)
    except BodyTooLarge as error:
        raise Refusal(413, "too_large", str(error)) from error
    except BodyTooSlow as error:
        raise Refusal(408, "too_slow", str(error)) from error
    return replayed(body, receive)


def _with_headers(message: Message) -> Message:
    if message["type"] != "http.response.start":
        return message
    said = {bytes(name).lower() for name, _ in message.get("headers", ())}
    added = [(name, value) for name, value in _UNLESS_SAID if name not in said]
    kept = [(name, value) for name, value in message.get("headers", ()) if bytes(name).lower() not in dict(_ALWAYS)]
    return {**message, "headers": [*kept, *_ALWAYS, *added]}


def _raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]


_ALWAYS = _raw(ON_EVERY_ANSWER)
_UNLESS_SAID = _raw(UNLESS_SAID)
