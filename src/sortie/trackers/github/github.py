"""Issues of one GitHub repository, moved by their labels: what we write shows at once, labels of people stay.

A look costs a call for each hundred issues, and nothing of the quota where nothing changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

import anyio
from msgspec.structs import replace

from ...core.model import Blocker, Finding, Issue
from ...errors import TrackerError
from ...protocol.foreign_text import parse_time
from ..tracker import CallUse, Candidates, TrackerSettings
from .api import GitHubApi
from .blockers import Blockers
from .comments import fitting, read_comments
from .examination import examine
from .listing import Listed, Listing
from .own_writes import OwnWrites, seconds
from .records import Record, read_labels
from .settings import problems
from .state_lookup import StateLookup
from .states import CLOSED, OPEN, Add, Standing, States, Step, Switch

LONGEST_STATE = 100


class GitHubTracker:
    """Made by `from_settings`; `check` says what is wrong with those."""

    trusted_by_default = ("@OWNER", "@MEMBER", "@COLLABORATOR")
    ids_within_project = True

    def __init__(self, settings: TrackerSettings) -> None:
        self._api = GitHubApi(settings)
        self._states = States(settings)
        self._writes = OwnWrites()
        self._listing = Listing(self._api, self._states, settings.query_filter)
        waits = settings.options.get("sub_issues", "wait") == "wait"
        self._blockers = Blockers(self._api, self._states, wait_for_sub_issues=waits)
        self._lookup = StateLookup(self._api, self._states, self._writes)
        self._looking = anyio.Lock()
        self._moving: WeakValueDictionary[int, anyio.Lock] = WeakValueDictionary()
        self._answer: Candidates | None = None
        self._answered: Listed | None = None  # the list that the answer was made from
        self._had_writes = False

    @classmethod
    def from_settings(cls, settings: TrackerSettings) -> GitHubTracker:
        return cls(settings)

    @classmethod
    def check(cls, settings: TrackerSettings) -> list[tuple[str, str]]:
        return problems(settings)

    # -- reading ----------------------------------------------------------------------------------------------

    async def fetch_candidates(self) -> Candidates:
        async with self._looking:
            listed = await self._listing.fetch()
            has_writes = bool(self._writes.recent)
            self._lookup.learn(listed.records)
            is_same = listed is self._answered and not has_writes and not self._had_writes
            if self._answer and is_same and self._is_settled():
                if self._answer.changed != frozenset():
                    self._answer = replace(self._answer, changed=frozenset())
                return self._answer
            active = await self._active(listed)
            blockers = await self._blockers.of_listed(active.values())
            is_bare = self._answer is None and not active
            others, counts_some = await self._listing.others(listed) if is_bare else ({}, False)
            answer = self._compared(active, blockers, listed.problems)
            self._answer = replace(answer, states=others, counts_some=counts_some)
            self._answered = listed
            self._had_writes = has_writes
            return self._answer

    async def fetch_issue(self, issue_id: str) -> Issue:
        record = self._writes.seen(await self._api.fetch(self._api.number(issue_id)))
        blockers = await self._blockers.of(record)
        comments = await read_comments(self._api, record) if self._writes.may_have_comments(record) else ()
        return record.issue(self._states, blockers, comments)

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        numbers: dict[str, int] = {}
        for issue_id in issue_ids:
            try:
                numbers[issue_id] = self._api.number(issue_id)
            except TrackerError:
                continue  # what is no number is nobody's
        found = await self._lookup.states_of(set(numbers.values())) if numbers else {}
        return {issue_id: found[number] for issue_id, number in numbers.items() if number in found}

    async def _active(self, listed: Listed) -> dict[int, Record]:
        """With what we moved a moment ago: where the list shows it otherwise than we left it, it is asked for."""
        shown = {number: self._writes.listed(record) for number, record in listed.records.items()}
        known = {int(issue.id) for issue in self._answer.issues} if self._answer else set()
        for number, standing in self._writes.recent.items():
            is_expected = self._states.is_active(self._states.state_of(standing))
            # What a filter leaves out is not for us, but for what it showed before we moved it.
            is_ours = number in known or not self._listing.is_filtered
            if shown.get(number) is None and (number in shown or (is_expected and is_ours)):
                try:
                    shown[number] = self._writes.seen(await self._api.fetch(number, look=True))
                except TrackerError as error:
                    if error.kind != TrackerError.NOT_FOUND:
                        raise
        is_active = {
            number: record
            for number, record in shown.items()
            if record and self._states.is_active(self._states.state_of(record.standing))
        }
        return dict(sorted(is_active.items()))

    def _compared(
        self, active: Mapping[int, Record], blockers: Mapping[int, tuple[Blocker, ...]], problems: tuple[str, ...]
    ) -> Candidates:
        """Issues that are as they were are the same objects, so that nobody looks at them again."""
        before = {issue.id: issue for issue in self._answer.issues} if self._answer else {}
        issues = [record.issue(self._states, blockers.get(number, ())) for number, record in active.items()]
        kept = tuple(before[issue.id] if before.get(issue.id) == issue else issue for issue in issues)
        if self._answer is None:
            return Candidates(kept, problems)
        differing = {issue.id for issue in kept if before.get(issue.id) is not issue}
        gone = before.keys() - {issue.id for issue in kept}
        return Candidates(kept, problems, changed=frozenset(differing | gone))

    def _is_settled(self) -> bool:
        """Whether nothing is left to ask about blockers."""
        issues = self._answer.issues if self._answer else ()
        return self._blockers.are_known(int(issue.id) for issue in issues if issue.blocked_by)

    # -- writing ----------------------------------------------------------------------------------------------

    async def transition(self, issue_id: str, state: str) -> None:
        """By the difference between what is and what is wanted: whatever was cut short is completed so."""
        number = self._api.number(issue_id)
        target = self._states.spelled(state)
        if target is None:
            raise TrackerError(
                TrackerError.PAYLOAD,
                f'The workflow has no state "{state[:LONGEST_STATE]}"; it has {", ".join(self._states.names)}.',
                fix="Choose one of them, or add it to the states of the tracker.",
            )
        moving = self._moving.setdefault(number, anyio.Lock())
        async with moving:
            await self._move(number, target)

    async def comment(self, issue_id: str, body: str) -> None:
        number = self._api.number(issue_id)
        try:
            await self._api.call("POST", f"/issues/{number}/comments", json={"body": fitting(body)})
        except TrackerError as error:
            if error.kind != TrackerError.NOT_FOUND:
                raise
            await self._api.fetch(number)
            raise self._not_allowed("comment on", number) from error.__cause__  # it is there
        finally:
            # Also where the answer was lost: whether it is there has to be looked up, not believed of a count.
            self._writes.commented(number)

    async def _move(self, number: int, target: str) -> None:
        record = await self._api.fetch(number)
        standing, last = record.standing, parse_time(record.updated_at) or 0.0
        if self._states.is_out_of_reach(standing, target):
            raise self._kept_reason(number, standing)
        steps = self._states.steps(standing, target)
        if not steps:
            self._writes.moved(number, standing, last, last)  # perhaps by a write of ours that had no answer
        for step in steps:
            standing, written = await self._take(number, step, standing)
            first, last = last, max(last, written)
            self._writes.moved(number, standing, first, last)
            if not _is_done(standing, step):
                raise self._dropped(number, step)

    async def _take(self, number: int, step: Step, standing: Standing) -> tuple[Standing, float]:
        """How the issue stands then by what GitHub answers, and when that was; made twice it is the same."""
        path = f"/issues/{number}"
        try:
            if isinstance(step, Switch):
                state = CLOSED if step.is_closed else OPEN
                switched = {"state": state, "state_reason": step.reason}
                reply = await self._api.call("PATCH", path, json=switched, repeatable=True)
                return self._api.record_in(reply).standing, seconds(reply.headers.get("date", ""))
            if isinstance(step, Add):
                added = {"labels": [step.label]}
                reply = await self._api.call("POST", f"{path}/labels", json=added, repeatable=True)
            else:
                reply = await self._api.call("DELETE", f"{path}/labels/{quote(step.label, safe='')}")
        except TrackerError as error:
            if error.kind != TrackerError.NOT_FOUND:
                raise
            # Somebody else has taken the label away, the whole issue is gone, or the token may not write.
            return (await self._api.fetch(number)).standing, 0.0
        labels = read_labels(reply.read(list[Any]))
        return replace(standing, labels=labels), seconds(reply.headers.get("date", ""))

    def _kept_reason(self, number: int, standing: Standing) -> TrackerError:
        why = f"GitHub keeps why {self._api.repository}#{number} was closed ({standing.reason})"
        message = f'{why}: that is the state "{self._states.state_of(Standing(True, standing.reason))}".'
        return TrackerError(TrackerError.PAYLOAD, message, fix="Move it to an open state first.")

    def _dropped(self, number: int, step: Step) -> TrackerError:
        if isinstance(step, Switch):
            did = "close" if step.is_closed else "open"
        else:
            did = "set the labels of" if isinstance(step, Add) else "take the label from"
        return self._not_allowed(did, number)

    def _not_allowed(self, did: str, number: int) -> TrackerError:
        """GitHub leaves out what a token may not, or says that there is no such thing."""
        message = f"GitHub did not {did} {self._api.repository}#{number}: the token may not."
        fix = (
            "Give it Issues: read and write, a classic one the scope repo, and its owner the role Triage or Write"
            " in the repository."
        )
        return TrackerError(TrackerError.AUTH, message, fix=fix)

    # -- the rest ---------------------------------------------------------------------------------------------

    async def examine(self) -> Sequence[Finding]:
        return await examine(self._api, self._states)

    def call_use(self) -> CallUse:
        return self._api.call_use()

    def watched_files(self) -> tuple[Path, ...]:
        return ()

    async def aclose(self) -> None:
        await self._api.aclose()


def _is_done(standing: Standing, step: Step) -> bool:
    """Whether the issue, as GitHub shows it now, has what this step is for."""
    if isinstance(step, Switch):
        return standing.is_closed == step.is_closed
    return any(label.lower() == step.label.lower() for label in standing.labels) == isinstance(step, Add)
