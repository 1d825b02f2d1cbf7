"""What a workflow says about its project in Jira Cloud: read, and checked before anything is asked."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from ...protocol.foreign_text import readable
from ..rest_client import endpoint_problem
from ..tracker import TrackerSettings
from .jql import filter_problem

OPTIONS = ("blocking_link",)
DEFAULT_BLOCKING_LINK = "Blocks"

_PROJECT = re.compile(r"[A-Z][A-Z0-9_]*")
_API = re.compile(r"/rest(/api(/[0-9a-z]+)?)?$")
# What can be sent as a bearer token: no e-mail address can.
_BEARER = re.compile(r"[0-9A-Za-z._~+/=-]+")
# Names are no proof of who it is; an account id always has a digit.
_AUTHOR = re.compile(r"@(atlassian|customer|app)|(?=.*[0-9])[0-9A-Za-z:_-]{1,128}", re.IGNORECASE)
_KINDS = "`@atlassian`, `@customer` or `@app`"
_EXAMPLE = "`https://your-domain.atlassian.net`"


def endpoint_of(settings: TrackerSettings) -> str:
    """The address of the site, or that of one behind api.atlassian.com; the path of the API is ours to add."""
    return _API.sub("", settings.endpoint.strip().rstrip("/")).rstrip("/")


def is_behind_gateway(endpoint: str) -> bool:
    """Whether the address is that of Atlassian's gateway, where scoped tokens are used and people see nothing."""
    return "/ex/jira/" in urlsplit(endpoint).path


def blocking_link(settings: TrackerSettings) -> str:
    """The type of links that hold an issue back."""
    return str(settings.options.get("blocking_link", DEFAULT_BLOCKING_LINK)).strip()


def authorization(api_key: str) -> Mapping[str, str]:
    """`email:token` for people and service accounts, anything else is the token of an app."""
    key = api_key.strip()
    if not key:
        return {}
    return {"Authorization": f"Bearer {key}" if is_bearer(key) else f"Basic {_encoded(key)}"}


def is_bearer(api_key: str) -> bool:
    """Whether it is no `email:token`, and sent as the token of an app."""
    return ":" not in api_key


def _has_both(key: str) -> bool:
    email, _, token = key.partition(":")
    return all(part and part == part.strip() for part in (email, token))


def secrets_of(api_key: str) -> tuple[str, ...]:
    """Every form in which the key may come back to us."""
    key = api_key.strip()
    return (key, key.partition(":")[2], _encoded(key)) if key else ()


def _encoded(key: str) -> str:
    return base64.b64encode(key.encode("utf-8", "surrogateescape")).decode("ascii")


def problems(settings: TrackerSettings) -> list[tuple[str, str]]:
    """As (key path, one sentence)."""
    found: list[tuple[str, str]] = []
    if not settings.endpoint.strip():
        found.append(("tracker.endpoint", f"`endpoint` is missing; it is your site, such as {_EXAMPLE}."))
    elif problem := endpoint_problem(settings.endpoint.strip()):
        found.append(("tracker.endpoint", f"`endpoint` {problem}."))
    if not settings.project:
        found.append(("tracker.project", "`project` is missing; it is the key of a project, such as `PROJ`."))
    elif not _PROJECT.fullmatch(settings.project):
        found.append(("tracker.project", "`project` must be the key of a project in capitals, such as `PROJ`."))
    key = settings.api_key.strip()
    if not key:
        found.append(("tracker.api_key", "`api_key` is missing; write `email:token`, or the token of an app."))
    elif not (_BEARER.fullmatch(key) if is_bearer(key) else key.isprintable() and _has_both(key)):
        found.append(("tracker.api_key", "`api_key` must be `email:token`, or the token of an app, in one line."))
    if problem := filter_problem(settings.query_filter):
        found.append(("tracker.query_filter", f"`query_filter` {problem}."))
    if strange := [entry for entry in settings.trusted_authors if not _AUTHOR.fullmatch(entry)]:
        problem = f'has "{readable(strange[0], 100)}", which names nobody in Jira'
        found.append(("tracker.trusted_authors", f"`trusted_authors` {problem}; write an account id, or {_KINDS}."))
    found += [
        (f"jira.{key}", f"`{key}` is not an option of the Jira tracker; its only option is `blocking_link`.")
        for key in settings.options
        if key not in OPTIONS
    ]
    link = settings.options.get("blocking_link", DEFAULT_BLOCKING_LINK)
    if not isinstance(link, str) or not link.strip():
        found.append(("jira.blocking_link", "`blocking_link` must be the name of a link type, such as `Blocks`."))
    return found
