"""Login and logout: a link with a token sets a cookie, so that the token is in no later address."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from .access import cookie_name
from .addresses import LOGIN, LOGOUT
from .authentication import Authentication
from .header_checks import header, local_path
from .refusals import Refusal, leading_to, login_form, plain_page
from .site import Site

# The cookie; a token that is revoked ends before.
KEPT_FOR = 30 * 24 * 3600
# No referrer is sent from this page: the token is in its address.
_TOLD_TO_NOBODY = {"referrer-policy": "no-referrer"}


def routes(site: Site) -> list[BaseRoute]:
    pages = _Login(site)
    return [
        Route(LOGIN, pages.login, methods=["GET", "POST"]),
        Route(LOGOUT, pages.logout, methods=["POST"]),
    ]


class _Login:
    def __init__(self, site: Site) -> None:
        self.authentication = Authentication(site)

    async def login(self, request: Request) -> Response:
        """By the link that was printed, or by the form in which a token is pasted."""
        given = await _given(request)
        token, target = given.get("token", "").strip(), local_path(given.get("next", ""))
        if not token:
            if "next" in given and request.state.access.scope is not None:
                return RedirectResponse(target, 303)  # sent here by a page to which the cookie had not come along
            return plain_page(
                200, "With a token you can read from anywhere, and change things.", login_form(target)
            )
        try:
            scope = await self.authentication.scope_of(token)
            if scope is None:
                raise Refusal(401, "bad_token", "This token is not valid; it may have been revoked.")
            if scope == "metrics":
                raise Refusal(403, "scope", "This token is only for /metrics: send it there as a bearer token.")
            await self.authentication.refuse_agents(request.scope)
        except Refusal as refusal:
            return refusal.answer(request.scope, target)
        answer = _go_on(request, target)
        answer.set_cookie(
            cookie_name(request.scope),
            token,
            max_age=KEPT_FOR,
            path="/",
            secure=_is_encrypted(request),
            httponly=True,
            samesite="strict",
        )
        return answer

    async def logout(self, request: Request) -> Response:
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(cookie_name(request.scope), path="/", httponly=True, samesite="strict")
        return answer


async def _given(request: Request) -> dict[str, str]:
    text = request.scope["query_string"].decode("latin-1")
    if request.method == "POST":
        text = (await request.body()).decode("utf-8", "replace")
    return dict(parse_qsl(text))


def _go_on(request: Request, target: str) -> Response:
    """A browser that follows a link of another site sends no strict cookie along with the redirect: it has to set
    out from a page of ours."""
    if header(request.scope["headers"], b"sec-fetch-site") in ("", "none", "same-origin"):
        return RedirectResponse(target, 303, _TOLD_TO_NOBODY)
    more = f'<p><a href="{escape(target)}">Go on</a></p>\n'
    return plain_page(200, "You are logged in.", more, _TOLD_TO_NOBODY, leading_to(target))


def _is_encrypted(request: Request) -> bool:
    """As far as the browser sees: a proxy may end the encryption before us."""
    return "https" in (request.scope["scheme"], header(request.scope["headers"], b"x-forwarded-proto"))
