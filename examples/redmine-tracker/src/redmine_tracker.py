"""A tracker on Redmine's REST API: the issues of one project, their notes as comments, their statuses as states."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from urllib.parse import parse_qsl

import msgspec
from redmine_api import PAGE, Account, Facts, Named, Note, Record, RedmineApi, Relation, is_id

from sortie import Blocker, Candidates, Comment, Issue, IssueRef, TrackerError, TrackerSettings
from sortie.core.model import Finding
from sortie.trackers.rest_client import Bounds, endpoint_problem
from sortie.trackers.tracker import CallUse

MOST_PAGES = 10

PROJECT = re.compile(r"(?!\d+$)[a-z0-9][a-z0-9_-]{0,99}")
# Redmine does not refuse a filter that it does not know, it ignores it: a slip of the pen would start everything.
FILTERS = {
    "assigned_to_id", "author_id", "category_id", "fixed_version_id", "is_private", "parent_id", "priority_id",
    "subject", "tracker_id", "watcher_id",
}  # fmt: skip
CUSTOM_FIELD = re.compile(r"cf_[0-9]{1,9}")
NEEDED = ("view_issues", "edit_issues", "add_issue_notes")


class RedmineTracker:
    trusted_by_default = ("@member",)  # in a public project every account may write, and often anybody can get one

    def __init__(self, settings: TrackerSettings, bounds: Bounds | None = None) -> None:
        self._settings = settings
        self._project = settings.project
        self._filter = dict(parse_qsl(settings.query_filter))
        # Issues of subprojects are none of this project.
        self._scope = {"project_id": settings.project, "subproject_id": "!*"}
        self._url = settings.endpoint.rstrip("/")
        self._api = RedmineApi(settings, bounds)

    @classmethod
    def from_settings(cls, settings: TrackerSettings) -> RedmineTracker:
        return cls(settings)

    @classmethod
    def check(cls, settings: TrackerSettings) -> list[tuple[str, str]]:
        found = [(f"redmine.{key}", "There is no such option; Redmine has none.") for key in settings.options]
        if not settings.endpoint:
            found.append(("tracker.endpoint", "Name the address of Redmine, such as https://redmine.example.com."))
        elif problem := endpoint_problem(settings.endpoint):
            found.append(("tracker.endpoint", f"The address of Redmine {problem}."))
        if not settings.api_key:
            found.append(("tracker.api_key", "Set it to the API key that is shown on the page My account."))
        if not PROJECT.fullmatch(settings.project):
            problem = "Name the project by its identifier: lower-case letters, as in its address /projects/NAME."
            found.append(("tracker.project", problem))
        return found + [("tracker.query_filter", problem) for problem in filter_problems(settings.query_filter)]

    async def fetch_candidates(self) -> Candidates:
        """Without comments and blockers, which only the full record has: one call for every hundred issues."""
        facts = await self._api.facts(look=True)
        wanted = {name: facts.statuses.get(name.casefold()) for name in self._settings.active_states}
        problems = [f'Redmine has no status "{name}".' for name, found in wanted.items() if found is None]
        statuses = [str(found.id) for found in wanted.values() if found is not None]
        if wanted and not statuses:
            return Candidates((), tuple(problems))
        query = {**self._filter, **self._scope, "status_id": "|".join(statuses) or "*", "sort": "priority:desc,id"}
        issues: dict[str, Issue] = {}
        for number in range(MOST_PAGES):
            page = await self._api.page(query, number)
            for raw in page.issues:
                try:
                    issue = self._issue(msgspec.json.decode(raw, type=Record), facts)
                    issues[issue.id] = issue
                except msgspec.DecodeError as error:
                    problems.append(f"An issue of Redmine cannot be used: {error}.")
            if (number + 1) * PAGE >= page.total_count:
                break
        else:
            more = f"Redmine has {page.total_count} issues to work on, only the first {MOST_PAGES * PAGE} are seen"
            problems.append(f"{more}; narrow tracker.query_filter.")
        return Candidates(tuple(issues.values()), tuple(problems))

    async def fetch_issue(self, issue_id: str) -> Issue:
        record = await self._api.record(issue_id, "journals,relations,children")
        facts = await self._api.facts()
        waits_for = [each.issue_id for each in record.relations if _blocks(each, record.id)]
        waits_for += [child.id for child in record.children]  # Redmine too closes no issue before its subtasks
        states = {each.id: each for each in await self._api.records(waits_for)}
        return self._issue(record, facts, [self._blocker(each, states.get(each), facts) for each in waits_for])

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        """An issue that was moved to another project is gone."""
        numbers = [int(each) for each in issue_ids if is_id(each)]
        return {str(each.id): each.status.name for each in await self._api.records(numbers, self._scope)}

    async def transition(self, issue_id: str, state: str) -> None:
        """Redmine answers 204 to a move that its workflow forbids, and does nothing: so it is looked at again."""
        before = await self._api.record(issue_id, "allowed_statuses")
        if before.status.name.casefold() == state.casefold():
            return
        status = (await self._api.facts()).statuses.get(state.casefold())
        if status is None:
            self._api.forget_facts()  # somebody may add it
            raise TrackerError(TrackerError.PAYLOAD, f'Redmine has no status "{state}".', fix="Check its name.")
        await self._api.change(issue_id, {"status_id": status.id})
        after = await self._api.record(issue_id)
        if after.status.id != status.id:
            allowed = ", ".join(each.name for each in before.allowed_statuses) or "none"
            problem = f'Redmine does not let this key move issue {issue_id} from "{after.status.name}" to "{state}"'
            fix = "Allow it in Redmine's workflow, for the role of the key."
            raise TrackerError(TrackerError.PAYLOAD, f"{problem}; allowed: {allowed}.", fix=fix)

    async def comment(self, issue_id: str, body: str) -> None:
        """Never sent twice: each time would be another note."""
        await self._api.change(issue_id, {"notes": body}, repeatable=False)

    def watched_files(self) -> tuple[Path, ...]:
        return ()

    def call_use(self) -> CallUse:
        return self._api.call_use()

    async def aclose(self) -> None:
        await self._api.aclose()

    # -- for sortie doctor --------------------------------------------------------------------------------------

    async def examine(self) -> Sequence[Finding]:
        try:
            user = await self._api.account()
        except TrackerError as error:
            fix = "Check tracker.endpoint and tracker.api_key; REST must be enabled in Redmine's settings."
            return [Finding("FAIL", "Redmine", str(error), fix)]
        found = [Finding("PASS", "Redmine", f"the key is that of {user.login}, user {user.id}")]
        try:
            facts = await self._api.facts()
            return [*found, *self._missing_statuses(facts), await self._rights(user, facts)]
        except TrackerError as error:
            fix = f"Check tracker.project, and make {user.login} a member of it."
            return [*found, Finding("FAIL", f"Redmine project {self._project}", str(error), fix)]

    def _missing_statuses(self, facts: Facts) -> Iterator[Finding]:
        settings, known = self._settings, ", ".join(each.name for each in facts.statuses.values())
        named = [*settings.active_states, *settings.terminal_states, *settings.failed_states]
        for name in dict.fromkeys([*named, settings.in_progress_state, settings.handoff_state]):
            if name and name.casefold() not in facts.statuses:
                fix = f"Use the name of a status as Redmine shows it; it has: {known}."
                yield Finding("FAIL", "Redmine statuses", f'there is no status "{name}"', fix)

    async def _rights(self, user: Account, facts: Facts) -> Finding:
        mine = [each for each in user.memberships if each.project and each.project.id == facts.project]
        granted = set(NEEDED) if user.admin else set[str]()
        for role in {role.id for each in mine for role in each.roles}:
            granted |= {*await self._api.permissions(role)}
        name, missing = f"Redmine project {self._project}", [each for each in NEEDED if each not in granted]
        if missing:
            fix = f"Give {user.login} a role in the project that has them."
            return Finding("FAIL", name, f"{user.login} lacks the permissions {', '.join(missing)}", fix)
        return Finding("PASS", name, f"{user.login} may read, move and comment; {len(facts.members)} members")

    # -- telling ------------------------------------------------------------------------------------------------

    def _issue(self, record: Record, facts: Facts, blockers: Sequence[Blocker] | None = None) -> Issue:
        """Without blockers it is one of a list, which has no comments either."""
        author, author_id, association = _writer(record.author, facts)
        told = [each for each in record.journals if each.notes and not each.private_notes]
        return Issue(
            id=str(record.id),
            identifier=self._name(record, facts),
            title=record.subject,
            state=record.status.name,
            description=_lines(record.description),
            priority=facts.ranks.get(record.priority.id) if record.priority else None,
            labels=(record.category.name.lower(),) if record.category else (),
            assignee=record.assigned_to.name if record.assigned_to else "",
            issue_type=record.tracker.name if record.tracker else "",
            url=f"{self._url}/issues/{record.id}",
            parent=IssueRef(str(record.parent.id), f"#{record.parent.id}") if record.parent else None,
            comments=None if blockers is None else tuple(self._comment(each, facts) for each in told),
            blocked_by=tuple(blockers or ()),
            created_at=record.created_on,
            updated_at=record.updated_on,
            author=author,
            author_id=author_id,
            association=association,
        )

    def _comment(self, note: Note, facts: Facts) -> Comment:
        author, author_id, association = _writer(note.user, facts)
        return Comment(str(note.id), author, _lines(note.notes), note.created_on, author_id, association)

    def _blocker(self, number: int, found: Record | None, facts: Facts) -> Blocker:
        name = self._name(found, facts) if found else f"#{number}"
        return Blocker(str(number), name, found.status.name if found else "")

    def _name(self, record: Record, facts: Facts) -> str:
        """An issue of another project is called as Redmine does: without a project, so it is never one of ours."""
        return f"{self._project if record.project.id == facts.project else ''}#{record.id}"


def filter_problems(query_filter: str) -> Iterator[str]:
    try:
        pairs = parse_qsl(query_filter, keep_blank_values=True, strict_parsing=True) if query_filter else []
    except ValueError:
        pairs = [("", "")]
    names = [name for name, _ in pairs]
    for name, value in pairs:
        if name not in FILTERS and not CUSTOM_FIELD.fullmatch(name):
            yield f'"{name}" is no filter that can be used here; use: {", ".join(sorted(FILTERS))} or cf_NUMBER.'
        elif not value or names.count(name) > 1:
            yield f"{name} must be there once, with a value: write it like tracker_id=1&assigned_to_id=me."


def _writer(user: Named | None, facts: Facts) -> tuple[str, str, str]:
    """Name, id and association. Anybody may choose his name, so the id is the number of the account."""
    return (user.name, str(user.id), "member" if user.id in facts.members else "") if user else ("", "", "")


def _blocks(relation: Relation, number: int) -> bool:
    return relation.relation_type == "blocks" and relation.issue_to_id == number


def _lines(text: str | None) -> str:
    """Redmine's own forms end lines in the way of mail."""
    return (text or "").replace("\r\n", "\n")
