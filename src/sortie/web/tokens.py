"""Tokens for the HTTP server, with the scopes `read`, `operate` and `metrics`. Imports nothing of the server.

A token is 256 random bits. The store keeps only its digest, so reading the store gives nobody a token; tokens that
the workflow sets are valid besides those of the store.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlencode

from ..store.web_tokens import Scope, TokenRow, add_token
from ..workflow.config import ServerConfig
from .addresses import LOGIN

# No token is longer; longer input is not hashed.
_LONGEST = 1024
_BYTES = 32
# Of two that look the same, the one that allows more counts.
_STRONGEST_FIRST: tuple[Scope, ...] = ("operate", "read", "metrics")


def new_token(database: Path, scope: Scope) -> str:
    """A token that counts from now on; this is the only time that anybody sees it."""
    token = secrets.token_urlsafe(_BYTES)
    add_token(database, TokenRow(digest_of(token), scope, time.time()))
    return token


def first_link(database: Path, url: str) -> str | None:
    """The address that lets the first person in, with a token that may do everything; None where there was a token
    before. `url` is that of the server."""
    token = secrets.token_urlsafe(_BYTES)
    row = TokenRow(digest_of(token), "operate", time.time())
    return link(url, token) if add_token(database, row, only_first=True) else None


def link(url: str, token: str) -> str:
    return f"{url.rstrip('/')}{LOGIN}?{urlencode({'token': token})}"


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def granted(token: str, known: Iterable[tuple[str, Scope]]) -> Scope | None:
    """What this token allows, by digests and what each of them allows. It takes as long for a wrong token as for a
    right one: every digest is compared, each to its end."""
    digest = digest_of(token if len(token) <= _LONGEST else "").encode("ascii")
    found = [scope for one, scope in known if hmac.compare_digest(one.encode("utf-8", "replace"), digest)]
    return next((scope for scope in _STRONGEST_FIRST if scope in found), None)


def of_workflow(server: ServerConfig) -> list[tuple[str, Scope]]:
    """The digests of the tokens that the workflow names."""
    named: list[tuple[str, Scope]] = [
        (server.tokens.read, "read"),
        (server.tokens.operate, "operate"),
        (server.tokens.metrics, "metrics"),
    ]
    return [(digest_of(token), scope) for token, scope in named if token]


def covers(granted_scope: Scope | None, wanted: Scope) -> bool:
    """`operate` covers everything, `read` figures too, and nothing covers what no token was shown for."""
    return granted_scope == "operate" or granted_scope == wanted or (granted_scope, wanted) == ("read", "metrics")
