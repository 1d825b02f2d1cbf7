"""Whether a repository, and the access to it, are enough for the service: found out by reading only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.model import Finding
from ...errors import TrackerError
from .api import GitHubApi
from .app import NEEDED
from .states import States

MOST_PAGES_OF_LABELS = 10
ROLES = ("triage", "push", "maintain", "admin")

_READ_AND_WRITE = "Give the token the permission Issues: read and write for this repository."


async def examine(api: GitHubApi, states: States) -> Sequence[Finding]:
    """Raises `TrackerError` only where GitHub cannot be asked at all."""
    try:
        reply = await api.get("")
        repository = reply.read(dict[str, Any])
    except TrackerError as error:
        return [_refused("GitHub repository", api.no_access(error))]
    if api.is_installation:
        repository.pop("permissions", None)  # the roles of a person, all of them told as missing
    found = [_about(api.repository, repository), *_granted(api.permissions)]
    found += _scopes(reply.headers.get("x-oauth-scopes", ""), repository)
    try:
        await api.get("/issues", {"state": "open", "per_page": "1"})
        found.append(await _labels(api, states, repository))
    except TrackerError as error:
        found.append(_refused("GitHub issues", api.no_access(error)))
    return found


def _about(name: str, repository: Mapping[str, Any]) -> Finding:
    label = "GitHub repository"
    if repository.get("archived") is True:
        return Finding("FAIL", label, f"{name} is archived: nothing in it can be changed.", "Unarchive it.")
    if repository.get("has_issues") is False:
        fix = "Switch on Issues in the settings of the repository."
        return Finding("FAIL", label, f"{name} has its issues switched off.", fix)
    roles = repository.get("permissions")
    if isinstance(roles, dict) and not any(roles.get(role) is True for role in ROLES):
        detail = f"{name} can be read, but this account may neither label nor close issues in it."
        return Finding("FAIL", label, detail, "Give the account the role Triage or Write in the repository.")
    may_move = ", and this account may move its issues" if isinstance(roles, dict) else ""
    return Finding("PASS", label, f"{name} can be read{may_move}.")


def _granted(permissions: Mapping[str, Any] | None) -> list[Finding]:
    """Of an App."""
    missing = [
        f"{name}: {level}"
        for name, level in NEEDED.items()
        if permissions is not None and permissions.get(name) not in (level, "write")
    ]
    if not missing:
        return []
    detail = f"The installation of the App lacks the permissions {', '.join(missing)}."
    fix = "Give them to the App in its settings, and accept that where it is installed."
    return [Finding("FAIL", "GitHub App", detail, fix)]


def _scopes(header: str, repository: Mapping[str, Any]) -> list[Finding]:
    """Only classic tokens name any."""
    given = {scope.strip() for scope in header.split(",") if scope.strip()}
    enough = {"repo"} if repository.get("private") is True else {"repo", "public_repo"}
    if not given or given & enough:
        return []
    wanted = " or ".join(sorted(enough))
    detail = f"The token has the scopes {', '.join(sorted(given))}, and needs {wanted} to change issues."
    return [Finding("FAIL", "GitHub token", detail, f"Give it the scope {wanted}.")]


async def _labels(api: GitHubApi, states: States, repository: Mapping[str, Any]) -> Finding:
    """Those that stand for states."""
    present: set[str] = set()
    following: dict[str, str] | None = {}
    for _ in range(MOST_PAGES_OF_LABELS):
        if following is None:
            break
        reply = await api.get("/labels", {"per_page": "100", **following})
        present |= {
            label["name"].lower()
            for label in reply.read(list[Any])
            if isinstance(label, dict) and isinstance(label.get("name"), str)
        }
        following = reply.next_page
    missing = [label for label in states.labels if label.lower() not in present]
    if not missing:
        return Finding("PASS", "GitHub labels", f"There is a label for each of {len(states.labels)} states.")
    roles = repository.get("permissions")
    may_create = not isinstance(roles, dict) or any(roles.get(role) is True for role in ROLES[1:])
    fix = "They are created when first used." if may_create else "Create them: this account may not."
    return Finding(
        "WARN", "GitHub labels", f"There are no labels {', '.join(missing)} in {api.repository} yet.", fix
    )


def _refused(name: str, error: TrackerError) -> Finding:
    if error.kind not in (TrackerError.AUTH, TrackerError.NOT_FOUND):
        raise error
    return Finding("FAIL", name, error.message, _READ_AND_WRITE if error.status == 403 else error.fix)
