"""What a workflow says about its repository on GitHub: read, completed with what is usual, and checked.

An open issue without a label of any state is in the state `open`: it is worked on only where `active_states` has
`open`. A closed one is always in a terminal state.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from ...protocol.foreign_text import readable
from ..rest_client import endpoint_problem
from ..tracker import TrackerSettings
from .states import CLOSED, OPEN, States

DEFAULT_ENDPOINT = "https://api.github.com"
PUBLIC = ("github.com", "www.github.com", "api.github.com")
OPTIONS = ("app_id", "private_key_path", "installation_id", "sub_issues", "renamed_from")
SUB_ISSUES = ("wait", "ignore")
LONGEST_LABEL = 50
# In the address of a label they would lead to what is above it, however they are written there.
NO_PART_OF_A_PATH = (".", "..")
MOST_LISTED_STATES = 20

_PROJECT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*/(?!\.{1,2}$)[A-Za-z0-9_.-]+")
# What GitHub says of an author, and what a login can be; `_` is in those that companies manage.
ASSOCIATIONS = (
    "OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR", "FIRST_TIME_CONTRIBUTOR", "FIRST_TIMER", "MANNEQUIN", "NONE",
)  # fmt: skip
_LOGIN = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*(\[bot\])?")
_APP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_APP = "a token in `tracker.api_key`, or a GitHub App in `github.app_id` and `github.private_key_path`"


class AppSettings(Struct, frozen=True):
    app_id: str
    key_path: Path
    installation_id: str


def app_settings(settings: TrackerSettings) -> AppSettings | None:
    """None where a token is used."""
    options = settings.options
    if not options.get("app_id"):
        return None
    path = Path(str(options.get("private_key_path", ""))).expanduser()
    return AppSettings(str(options["app_id"]), settings.base / path, str(options.get("installation_id") or ""))


def endpoint_of(settings: TrackerSettings) -> str:
    """Where the API is. The address of a server that people use is turned into that of its API; a plain http one is
    on this machine, and taken as it is."""
    endpoint = (settings.endpoint or DEFAULT_ENDPOINT).strip().rstrip("/")
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    if parts.scheme != "https" or parts.path or host.startswith("api."):
        return endpoint
    if host in PUBLIC:
        return DEFAULT_ENDPOINT
    if host.endswith(".ghe.com"):
        return f"https://api.{parts.netloc}"
    return f"{endpoint}/api/v3"


def problems(settings: TrackerSettings) -> list[tuple[str, str]]:
    """As (key path, one sentence)."""
    found: list[tuple[str, str]] = []
    if not settings.project:
        found.append(("tracker.project", "`project` is missing; it is the repository, such as `octocat/hello`."))
    elif not _PROJECT.fullmatch(settings.project) or settings.project.endswith(".git"):
        problem = "`project` must be `owner/repository`, such as `octocat/hello`: no address, no `.git`."
        found.append(("tracker.project", problem))
    if problem := endpoint_problem((settings.endpoint or DEFAULT_ENDPOINT).strip()):
        found.append(("tracker.endpoint", f"`endpoint` {problem}."))
    elif urlsplit(settings.endpoint).hostname in PUBLIC and urlsplit(settings.endpoint).path.strip("/"):
        problem = "`endpoint` has a path that github.com does not have; leave `endpoint` out there."
        found.append(("tracker.endpoint", problem))
    found += _author_problems(settings)
    return [*found, *_option_problems(settings), *_access_problems(settings), *_state_problems(settings)]


def _author_problems(settings: TrackerSettings) -> list[tuple[str, str]]:
    """Who is named so that GitHub calls nobody so would be trusted without ever being it."""
    words = {f"@{word}" for word in ASSOCIATIONS}
    for entry in settings.trusted_authors:
        is_word = entry.startswith("@")
        if entry in ASSOCIATIONS or (entry.upper() not in words if is_word else not _LOGIN.fullmatch(entry)):
            problem = f'has "{readable(entry, 100)}", which names nobody on GitHub'
            known = ", ".join(f"`@{word}`" for word in ASSOCIATIONS[:4])
            said = f"`trusted_authors` {problem}; write a login, or what GitHub says of authors, such as {known}."
            return [("tracker.trusted_authors", said)]
    return []


def _option_problems(settings: TrackerSettings) -> list[tuple[str, str]]:
    options = settings.options
    known = ", ".join(f"`{key}`" for key in OPTIONS)
    found = [
        (f"github.{key}", f"`{key}` is not an option of the GitHub tracker; its options are {known}.")
        for key in options
        if key not in OPTIONS
    ]
    if options.get("sub_issues", SUB_ISSUES[0]) not in SUB_ISSUES:
        found.append(("github.sub_issues", "`sub_issues` must be `wait` or `ignore`."))
    if not _is_app_id(options.get("app_id", 1)):
        found.append(("github.app_id", "`app_id` must be the number of the App, or its client ID."))
    if "renamed_from" in options and not _PROJECT.fullmatch(str(options["renamed_from"])):
        found.append(("github.renamed_from", "`renamed_from` must be the former `owner/repository`."))
    installation = options.get("installation_id", 1)
    if isinstance(installation, bool) or not re.fullmatch("[0-9]+", str(installation), re.ASCII):
        found.append(("github.installation_id", "`installation_id` must be a number; without it, it is looked up."))
    return found


def _is_app_id(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return value > 0
    return isinstance(value, str) and bool(_APP_ID.fullmatch(value)) and value.strip("0") != ""


def _access_problems(settings: TrackerSettings) -> list[tuple[str, str]]:
    options = settings.options
    has_app = "app_id" in options or "private_key_path" in options
    if settings.api_key and has_app:
        return [("tracker.api_key", f"Two kinds of access are set; keep one: {_APP}.")]
    if not settings.api_key and not has_app:
        return [("tracker.api_key", f"`api_key` is missing; give {_APP}.")]
    if not (settings.api_key.isascii() and settings.api_key.isprintable()) or " " in settings.api_key:
        return [("tracker.api_key", "`api_key` is no token: it has characters that no token has.")]
    if not has_app:
        return []
    path = options.get("private_key_path")
    if not isinstance(path, str) or not path.strip():
        return [("github.private_key_path", "`private_key_path` must name the App's private key, a .pem file.")]
    if "app_id" not in options:
        return [("github.app_id", "`app_id` is missing; it is the number of the App whose key this is.")]
    if not (settings.base / Path(path).expanduser()).is_file():
        return [("github.private_key_path", f"There is no file {settings.base / Path(path).expanduser()}.")]
    return []


def _state_problems(settings: TrackerSettings) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for state in States(settings).labels:
        if "," in state or len(state) > LONGEST_LABEL or state != state.strip() or state in NO_PART_OF_A_PATH:
            shown = state[: LONGEST_LABEL + 10]
            problem = f"no comma, no space at its ends, no `.` or `..`, at most {LONGEST_LABEL} characters"
            found.append(
                ("tracker.active_states", f'"{shown}" cannot be a label of GitHub, and states are: {problem}.')
            )
    if not settings.active_states and settings.terminal_states:
        problem = (
            "`active_states` is missing: every open issue of the repository would be worked on, also one without a"
            " label. List labels, such as `todo`, or `open` if that is what you want."
        )
        found.append(("tracker.active_states", problem))
    done = {*map(str.lower, settings.terminal_states)} - {*map(str.lower, settings.failed_states)}
    if settings.active_states and not done:
        problem = (
            "`terminal_states` has no state of work that is done: a closed issue would never be over, and what"
            " waits for it would wait for ever. List a label, such as `done`, or `closed`."
        )
        found.append(("tracker.terminal_states", problem))
    if len(settings.active_states) > MOST_LISTED_STATES:
        problem = f"`active_states` has more than {MOST_LISTED_STATES} states, and each takes a call in every poll."
        found.append(("tracker.active_states", problem))
    working = (*settings.active_states, settings.handoff_state, settings.in_progress_state)
    if CLOSED in (state.lower() for state in working):
        found.append(("tracker.active_states", "`closed` can only be a terminal state: a closed issue is over."))
    if OPEN in (state.lower() for state in settings.terminal_states):
        found.append(("tracker.terminal_states", "`open` cannot be a terminal state: an open issue is not over."))
    return found
