"""Whether the account can do in Jira what a workflow wants, found out by reading only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

from msgspec import Struct

from ...core.model import Finding
from ...errors import TrackerError
from ...protocol.foreign_text import readable
from ..rest_client import RestClient
from ..tracker import TrackerSettings
from .records import Named, User, read

T = TypeVar("T")

PERMISSIONS = {
    "BROWSE_PROJECTS": "Browse projects",
    "ADD_COMMENTS": "Add comments",
    "TRANSITION_ISSUES": "Transition issues",
}
MOST_SHOWN = 30


class Project(Struct, frozen=True):
    key: str
    name: str = ""
    archived: bool = False


class IssueType(Struct, frozen=True):
    statuses: list[Named] = []


class Permission(Struct, frozen=True, rename="camel"):
    have_permission: bool = False


class Permissions(Struct, frozen=True):
    permissions: dict[str, Permission] = {}


class Examination:
    def __init__(self, rest: RestClient, settings: TrackerSettings) -> None:
        self._rest = rest
        self._settings = settings
        self._key = settings.project

    async def findings(self) -> list[Finding]:
        """Without access nothing else is asked, and without a project nothing about it."""
        access = await self._asked("access", "/rest/api/3/myself", {}, User, self._access)
        if access[0].verdict == "FAIL":
            return access
        project = await self._asked("project", f"/rest/api/3/project/{self._key}", {}, Project, self._project)
        if project[0].verdict == "FAIL":
            return [*access, *project]
        path = f"/rest/api/3/project/{self._key}/statuses"
        states = await self._asked("states", path, {}, list[IssueType], self._states)
        asked = {"projectKey": self._key, "permissions": ",".join(PERMISSIONS)}
        path = "/rest/api/3/mypermissions"
        permissions = await self._asked("permissions", path, asked, Permissions, self._permissions)
        return [*access, *project, *states, *permissions]

    async def _asked(
        self, name: str, path: str, params: dict[str, str], kind: type[T], judge: Callable[[T], list[Finding]]
    ) -> list[Finding]:
        try:
            return judge(read(await self._rest.get(path, params), kind))
        except TrackerError as error:
            fix = error.fix
            if name == "project" and error.kind == TrackerError.NOT_FOUND:
                fix = 'Check tracker.project, and whether the account has the permission "Browse projects".'
            return [Finding("FAIL", name, error.message, fix)]

    def _access(self, user: User) -> list[Finding]:
        name = readable(user.display_name or user.account_id or "somebody", 100)
        return [Finding("PASS", "access", f"Jira knows us as {name}")]

    def _project(self, project: Project) -> list[Finding]:
        name = readable(project.name, 100)
        if project.key != self._key:
            detail = f'the project "{name}" is called {readable(project.key, 100)} now.'
            return [Finding("FAIL", "project", detail, "Set tracker.project to that key.")]
        if project.archived:
            detail = f'the project {self._key}, "{name}", is archived: nobody can write to it.'
            return [Finding("FAIL", "project", detail, "Restore it in Jira, or name another project.")]
        return [Finding("PASS", "project", f'{self._key}, "{name}"')]

    def _states(self, types: list[IssueType]) -> list[Finding]:
        there = dict.fromkeys(status.name for each in types for status in each.statuses if status.name)
        known = {name.lower() for name in there}
        settings = self._settings
        needed = (*settings.active_states, settings.in_progress_state, settings.handoff_state)
        fix = f"The states of {self._key} are: {', '.join(readable(name, 100) for name in [*there][:MOST_SHOWN])}."
        found = [*_missing("FAIL", needed, known, fix), *_missing("WARN", settings.terminal_states, known, fix)]
        return found or [Finding("PASS", "states", "Jira knows every state that the workflow names")]

    def _permissions(self, told: Permissions) -> list[Finding]:
        has = {name for name, each in told.permissions.items() if each.have_permission}
        moves = bool(self._settings.handoff_state or self._settings.in_progress_state)
        found: list[Finding] = []
        for name, called in PERMISSIONS.items():
            if name in has:
                continue
            is_needed = name == "BROWSE_PROJECTS" or (name == "TRANSITION_ISSUES" and moves)
            detail = f'the account has no permission "{called}" in {self._key}.'
            fix = "Give it that permission in the permission scheme of the project."
            found.append(Finding("FAIL" if is_needed else "WARN", "permissions", detail, fix))
        return found or [Finding("PASS", "permissions", "the account may read, comment and move issues")]


def _missing(
    verdict: Literal["WARN", "FAIL"], states: Iterable[str], known: set[str], fix: str
) -> Iterable[Finding]:
    for state in dict.fromkeys(states):
        if state and state.lower() not in known:
            yield Finding(verdict, "states", f'Jira knows no state "{readable(state, 100)}" in this project.', fix)
