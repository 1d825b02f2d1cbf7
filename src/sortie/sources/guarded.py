"""A source that keeps the promises of its Protocol: whatever goes wrong in somebody else's code costs one item.

What may fail fails with a `TrackerError`, as if the tracker had; what may not fail is answered as a source would
that knows nothing, and the service's log says why.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from ..core.conclude import Next, Outcome, Settlement
from ..core.events import EffectPlanned
from ..core.model import Comment, Issue, Park, Usage
from ..core.observe import Look
from ..core.policy import Spent
from ..core.records import Claim, WorkspaceRecord
from ..core.schedule import Schedule
from ..errors import AgentError, SortieError, TrackerError
from ..hosts.host import Removal
from ..runs.spec import RunSpec
from ..tools import envelope
from ..trackers.tracker import CallUse, guarded
from ..workflow.channels import Channels
from .source import Renewal, RunFacts, Source, Write
from .warnings import Warning

log = logging.getLogger(__name__)
T = TypeVar("T")


class GuardedSource(Source):
    def __init__(self, source: Source) -> None:
        self._source = source
        self.name, self.policy, self.workspace_root = source.name, source.policy, source.workspace_root
        self.poll_interval, self.keep_days = source.poll_interval, source.keep_days
        self.command = source.command
        self.keeps_workspaces, self.works_in_root = source.keeps_workspaces, source.works_in_root

    @property
    def secrets(self) -> Collection[str]:
        return self._source.secrets

    @property
    def channels(self) -> Channels:
        return self._source.channels

    @property
    def watched_files(self) -> Sequence[Path]:
        return self._source.watched_files

    # -- what may fail ----------------------------------------------------------------------------------------

    async def look(self, schedule: Schedule) -> Look:
        return _a(Look, await guarded(self._source.look(schedule)))

    async def fetch(self, issue_id: str) -> Issue:
        return _a(Issue, await guarded(self._source.fetch(issue_id)))

    async def fetch_marked(self, issue_id: str) -> Sequence[Comment]:
        return await guarded(self._source.fetch_marked(issue_id))

    async def find(self, name: str) -> Issue:
        return _a(Issue, await guarded(self._source.find(name)))

    async def fetch_states(self, issue_ids: Collection[str]) -> Mapping[str, str]:
        return await guarded(self._source.fetch_states(issue_ids))

    async def transition(self, issue_id: str, state: str) -> None:
        await guarded(self._source.transition(issue_id, state))

    async def comment(self, issue_id: str, body: str) -> None:
        await guarded(self._source.comment(issue_id, body))

    async def record(self, effect: EffectPlanned) -> str:
        return _a(str, await guarded(self._source.record(effect)))

    async def obey(self, verb: str, issue_id: str) -> Next:
        try:
            return _a(Next, await self._source.obey(verb, issue_id))
        except SortieError:
            raise
        except Exception as error:
            raise SortieError(f"The source {self.name} failed in {verb}: {error!r}.") from error

    def spec_for(self, issue: Issue, run: RunFacts) -> RunSpec:
        return self._source.spec_for(issue, run)  # its run is where all of its failures end

    # -- what may not -----------------------------------------------------------------------------------------

    def refusal(self, schedule: Schedule) -> SortieError | None:
        found: object = self._answer("refusal", None, schedule)
        return found if isinstance(found, SortieError) else None

    def remember(self, schedule: Schedule) -> None:
        self._answer("remember", None, schedule)

    async def news(self, claim: Claim, turn: int) -> str:
        try:
            return await self._source.news(claim, turn)
        except Exception:
            log.exception("the source %s failed in news", self.name)
            return ""

    def warnings(self, look: Look) -> Sequence[Warning]:
        return self._answer("warnings", (), look)

    def workspace_key(self, identifier: str) -> str:
        return self._answer("workspace_key", super().workspace_key(identifier), identifier)

    def answer_comment(self, text: str) -> str:
        return self._answer("answer_comment", "", text)

    def progress_state(self, issue: Issue) -> str:
        return self._answer("progress_state", "", issue)

    def writes_at_start(self, issue: Issue, claim: Claim) -> Sequence[Write]:
        return self._answer("writes_at_start", (), issue, claim)

    def writes_at_end(
        self, issue: Issue, claim: Claim, outcome: Outcome, usage: Usage, seconds: float
    ) -> Sequence[Write]:
        return self._answer("writes_at_end", (), issue, claim, outcome, usage, seconds)

    def writes_when_settled(
        self, issue: Issue, claim: Claim, outcome: Outcome, then: Settlement
    ) -> Sequence[Write]:
        return self._answer("writes_when_settled", (), issue, claim, outcome, then)

    def writes_when_parked(self, issue: Issue, park: Park) -> Sequence[Write]:
        return self._answer("writes_when_parked", (), issue, park)

    def conclude(self, claim: Claim, outcome: Outcome, state: str, handed: bool | None) -> Next:
        unknown = Next(then="parked", why="its source failed when it judged the end of its run; the log says how")
        return self._answer("conclude", unknown, claim, outcome, state, handed)

    def give_up(self, claim: Claim, outcome: Outcome, spent: Spent) -> Next | None:
        return self._answer("give_up", None, claim, outcome, spent)

    def moved(self, issue_id: str, state: str, memo: str) -> Sequence[Issue]:
        return self._answer("moved", (), issue_id, state, memo)

    def call_use(self) -> CallUse | None:
        use: Any = self._answer("call_use", None)
        is_counted = isinstance(use, CallUse) and {type(use.made), type(use.per_minute)} == {int}
        return use if is_counted and use.per_minute > 0 else None

    def requests_made(self) -> Mapping[tuple[str, str], int]:
        try:
            made = self._source.requests_made().items()
            return {(str(operation), str(result)): int(calls) for (operation, result), calls in made}
        except Exception:
            log.exception("the source %s failed in requests_made", self.name)
            return {}

    def needs_login(self, kind: str) -> bool:
        return self._answer("needs_login", False, kind)

    def missing_agent(self) -> AgentError | None:
        return self._answer("missing_agent", None)

    async def call_tool(self, issue_id: str, tool: str, arguments: object) -> dict[str, Any]:
        try:
            return await self._source.call_tool(issue_id, tool, arguments)
        except Exception as error:
            return envelope.unexpected(error)

    def removal_of(self, record: WorkspaceRecord, state: str, attempt: int, store_id: str) -> Removal | None:
        return self._answer("removal_of", None, record, state, attempt, store_id)

    def renew(self) -> Renewal | None:
        renewal: Renewal | None = self._answer("renew", None)
        if renewal is None:
            return None
        same = renewal.source is self._source
        return replace(renewal, source=self if same else GuardedSource(renewal.source))

    async def aclose(self) -> None:
        try:
            await self._source.aclose()
        except Exception:
            log.exception("the source %s could not be closed", self.name)

    def _answer(self, method: str, default: T, *arguments: object) -> T:
        try:
            answer: T = getattr(self._source, method)(*arguments)
        except Exception:
            log.exception("the source %s failed in %s", self.name, method)
            return default
        return answer


def _a(kind: type[T], answer: object) -> T:
    if not isinstance(answer, kind):
        raise TrackerError(TrackerError.API, f"the source answered with {answer!r} instead of a {kind.__name__}.")
    return answer
