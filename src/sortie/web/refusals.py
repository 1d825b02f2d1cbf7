"""How a request is refused: one sentence, as JSON for programs and as a small page for people."""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from urllib.parse import urlencode

from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Scope as Connection

from .addresses import API, LOGIN
from .header_checks import header, local_path, may_lack_our_cookie
from .json_api import Problem
from .static import address

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{head}<title>{title}</title>
<link rel="stylesheet" href="{style}">
<main>
<h1>{title}</h1>
<p>{sentence}</p>
{more}</main>
</html>
"""
_LOGIN_FORM = """<p>Where the service runs, <code>sortie token new</code> prints a login link. Or:</p>
<form method="post" action="{login}">
<input type="hidden" name="next" value="{target}">
<p><label>Token <input type="password" name="token" autocomplete="off" required></label>
<button>Log in</button></p>
</form>
"""


class Refusal(Exception):
    """Ends a request before any route sees it. `code` is for programs and stays."""

    def __init__(self, status: int, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code

    def answer(self, connection: Connection, target: str = "") -> Response:
        """`target` is where who logs in goes on to; the address that was asked for if left out."""
        # The rest of the request is not read, nor what follows one that could not be parsed.
        is_over = connection["method"] in ("GET", "HEAD") and self.status != HTTPStatus.BAD_REQUEST
        headers = {} if is_over else {"connection": "close"}
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = 'Bearer realm="sortie"'
        if connection["path"].startswith(API):
            return Problem(self.status, self.code, str(self), headers).answer()
        if "text/html" not in header(connection["headers"], b"accept"):
            return PlainTextResponse(f"{self}\n", self.status, headers)
        if self.status != HTTPStatus.UNAUTHORIZED:
            return plain_page(self.status, str(self), headers=headers)
        head = ""
        if not target and connection["method"] == "GET":
            target = _address(connection)
            if may_lack_our_cookie(connection["headers"]):
                head = leading_to(f"{LOGIN}?{urlencode({'next': target})}")
        return plain_page(self.status, str(self), login_form(target or "/"), headers, head)


def login_form(target: str) -> str:
    return _LOGIN_FORM.format(login=LOGIN, target=escape(target))


def leading_to(target: str) -> str:
    """The head of a page that a browser leaves at once for another of ours, and as one that sets out from ours."""
    return f'<meta http-equiv="refresh" content="0; url={escape(target)}">\n'


def _address(connection: Connection) -> str:
    query = b"?" + connection["query_string"] if connection["query_string"] else b""
    return local_path((connection["raw_path"] + query).decode("latin-1"))


def plain_page(
    status: int, sentence: str, more: str = "", headers: dict[str, str] | None = None, head: str = ""
) -> Response:
    """`more` and `head` are HTML of ours; the sentence may hold anything."""
    title = "Sortie" if status < HTTPStatus.BAD_REQUEST else f"{HTTPStatus(status).phrase} · Sortie"
    text = _PAGE.format(title=title, head=head, style=address("sortie.css"), sentence=escape(sentence), more=more)
    return HTMLResponse(text, status, headers)
