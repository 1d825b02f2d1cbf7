"""How a request is refused: one sentence, as JSON for programs and as a small page for people."""

from __future__ import annotations

from html import escape
from http import HTTPStatus

from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Scope as Connection

from .addresses import API, LOGIN
from .header_checks import header
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
LOGIN_FORM = f"""<p>Where the service runs, <code>sortie token new</code> prints a link that lets you in. Or:</p>
<form method="post" action="{LOGIN}">
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

    def answer(self, connection: Connection) -> Response:
        # What is left of the request is not waited for.
        headers = {"connection": "close"} if connection["method"] not in ("GET", "HEAD") else {}
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = 'Bearer realm="sortie"'
        if connection["path"].startswith(API):
            return Problem(self.status, self.code, str(self), headers).answer()
        if "text/html" not in header(connection["headers"], b"accept"):
            return PlainTextResponse(f"{self}\n", self.status, headers)
        more = LOGIN_FORM if self.status == HTTPStatus.UNAUTHORIZED else ""
        return plain_page(self.status, str(self), more, headers)


def plain_page(
    status: int, sentence: str, more: str = "", headers: dict[str, str] | None = None, head: str = ""
) -> Response:
    """`more` and `head` are HTML of ours; the sentence may hold anything."""
    title = "Sortie" if status < HTTPStatus.BAD_REQUEST else f"{HTTPStatus(status).phrase} · Sortie"
    text = _PAGE.format(title=title, head=head, style=address("sortie.css"), sentence=escape(sentence), more=more)
    return HTMLResponse(text, status, headers)
