"""Whether the account can do in Jira what a workflow wants, found out by reading only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ...core.model import Finding
from ...errors import TrackerError
from ...protocol.foreign_text import readable
from ..tracker import TrackerSettings
from .api import JiraApi, Project
from .records import Named, User, read
from .settings import blocking_link

T = TypeVar("T")

PERMISSIONS = {
    "BROWSE_PROJECTS": "Browse projects",
    "ADD_COMMENTS": "Add comments",
    "TRANSITION_ISSUES": "Transition issues",
}
MOST_SHOWN = 30

_ADD_EMAIL = "It was sent as the token of an app: with that of a person write `email:token`."


class IssueType(Struct, frozen=True):
    statuses: list[Named] = []


class Permission(Struct, frozen=True, rename="camel"):
    have_permission: bool = False


class Permissions(Struct, frozen=True):
    permissions: dict[str, Permission] = {}


class LinkTypes(Struct, frozen=True, rename="camel"):
    issue_link_types: list[Named] = []


async def examine(api: JiraApi, settings: TrackerSettings) -> list[Finding]:
    """Without access nothing else is asked, and without a project nothing about it."""
    key = settings.project
    access = await _asked(api, "access", "/rest/api/3/myself", {}, User, _access)
    if access[0].verdict == "FAIL":
        return access
    path = f"/rest/api/3/project/{key}"
    project = await _asked(api, "project", path, {}, Project, partial(_project, key))
    if project[0].verdict == "FAIL":
        return [*access, *project]
    states = await _asked(api, "states", f"{path}/statuses", {}, list[IssueType], partial(_states, settings))
    asked = {"projectKey": key, "permissions": ",".join(PERMISSIONS)}
    path = "/rest/api/3/mypermissions"
    permissions = await _asked(api, "permissions", path, asked, Permissions, partial(_permissions, settings))
    path = "/rest/api/3/issueLinkType"
    links = await _asked(api, "blockers", path, {}, LinkTypes, partial(_links, blocking_link(settings)))
    if "blocking_link" not in settings.options:
        links = [replace(each, verdict="WARN") if each.verdict == "FAIL" else each for each in links]
    return [*access, *project, *states, *permissions, *links]


async def _asked(
    api: JiraApi,
    name: str,
    path: str,
    params: dict[str, str],
    kind: type[T],
    judge: Callable[[T], list[Finding]],
) -> list[Finding]:
    try:
        return judge(read(await api.get(path, params), kind))
    except TrackerError as error:
        fix = error.fix
        if name == "access" and error.kind == TrackerError.NOT_FOUND:
            fix = "Check tracker.endpoint: there is no Jira Cloud at that address."
        if name == "access" and error.kind == TrackerError.AUTH and api.is_bearer:
            fix = f"{fix} {_ADD_EMAIL}"
        if name == "project" and error.kind == TrackerError.NOT_FOUND:
            fix = 'Check tracker.project, and whether the account has the permission "Browse projects".'
        if name == "blockers" and error.kind == TrackerError.NOT_FOUND:
            fix = "Switch on issue linking in Jira, if issues are to wait for others."
        return [Finding("FAIL", name, error.message, fix)]


def _access(user: User) -> list[Finding]:
    name = readable(user.display_name or user.account_id or "somebody", 100)
    return [Finding("PASS", "access", f"logged in to Jira as {name}")]


def _project(key: str, project: Project) -> list[Finding]:
    name = readable(project.name, 100)
    if project.key != key:
        detail = f'the project "{name}" is called {readable(project.key, 100)} now.'
        return [Finding("FAIL", "project", detail, "Set tracker.project to that key.")]
    if project.archived:
        detail = f'the project {key}, "{name}", is archived: nobody can write to it.'
        return [Finding("FAIL", "project", detail, "Restore it in Jira, or name another project.")]
    return [Finding("PASS", "project", f'{key}, "{name}"')]


def _states(settings: TrackerSettings, types: list[IssueType]) -> list[Finding]:
    there = dict.fromkeys(status.name for each in types for status in each.statuses if status.name)
    known = {name.lower() for name in there}
    needed = (*settings.active_states, settings.in_progress_state, settings.handoff_state)
    names = ", ".join(readable(name, 100) for name in [*there][:MOST_SHOWN])
    fix = f"The states of {settings.project} are: {names}."
    found = [*_missing("FAIL", needed, known, fix), *_missing("WARN", settings.terminal_states, known, fix)]
    return found or [Finding("PASS", "states", "Jira knows every state that the workflow names")]


def _permissions(settings: TrackerSettings, told: Permissions) -> list[Finding]:
    has = {name for name, each in told.permissions.items() if each.have_permission}
    moves = bool(settings.handoff_state or settings.in_progress_state)
    found: list[Finding] = []
    for name, called in PERMISSIONS.items():
        if name in has:
            continue
        is_needed = name == "BROWSE_PROJECTS" or (name == "TRANSITION_ISSUES" and moves)
        detail = f'the account has no permission "{called}" in {settings.project}.'
        fix = "Give it that permission in the permission scheme of the project."
        found.append(Finding("FAIL" if is_needed else "WARN", "permissions", detail, fix))
    return found or [Finding("PASS", "permissions", "the account may read, comment and move issues")]


def _links(name: str, told: LinkTypes) -> list[Finding]:
    there = [each.name for each in told.issue_link_types if each.name]
    if name.lower() in (each.lower() for each in there):
        return [Finding("PASS", "blockers", f'issues are held back by links of the type "{name}"')]
    detail = f'Jira has no type of links "{readable(name, 100)}": no issue would be held back.'
    names = ", ".join(readable(each, 100) for each in there[:MOST_SHOWN])
    return [Finding("FAIL", "blockers", detail, f"Set jira.blocking_link to one of: {names}.")]


def _missing(
    verdict: Literal["WARN", "FAIL"], states: Iterable[str], known: set[str], fix: str
) -> Iterable[Finding]:
    for state in dict.fromkeys(states):
        if state and state.lower() not in known:
            yield Finding(verdict, "states", f'Jira knows no state "{readable(state, 100)}" in this project.', fix)
