"""Two sources without a tracker: a list of items in memory, and tasks in folders. Models for a source of your own.

Neither has a memory: what became of an item in an earlier start is what the schedule remembers of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..core.conclude import Next, Outcome
from ..core.model import AgentChoice, Issue, Usage
from ..core.observe import Look
from ..core.policy import Policy
from ..core.records import Claim
from ..core.schedule import Schedule
from ..errors import TrackerError
from ..runs.spec import (
    AgentSpec,
    PromptSpec,
    RunLimits,
    RunSpec,
    Signal,
    WorkspaceKind,
    WorkspaceSpec,
)
from ..sources.source import RunFacts, Source, Write
from ..sources.warnings import Warning, warnings_about

STATES = Policy(active_states=("todo",), terminal_states=("done", "failed"), failed_states=("failed",))


class ListSource(Source):
    """Each item has one run, and each run one turn unless the item wants more. Success makes an item `done`; an
    agent that signals `blocked` or `needs-human-review` has it parked.

    `scripts` is the shell command for all items, or one for each by its id. `options` are the settings of other
    kinds of agents, by kind, for items that choose one.
    """

    name = "a list"
    keep_days = 1.0
    signal: Signal = ".sortie/status"
    workspace_kind: WorkspaceKind = "per issue"

    def __init__(
        self,
        items: Iterable[Issue],
        root: Path,
        scripts: str | Mapping[str, str] = "",
        *,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        policy: Policy = STATES,
        poll_interval: float = 0.1,
    ) -> None:
        self.items = {item.id: item for item in items}
        self.workspace_root = str(root)
        self.policy = policy
        self.poll_interval = poll_interval
        self._scripts = scripts
        self._options = options or {}
        self._states: dict[str, str] = {}

    # -- what there is to do ----------------------------------------------------------------------------------

    async def look(self, schedule: Schedule) -> Look:
        self._states = {view.id: view.state for view in schedule.issues.values()} | self._states
        items = [self._now(item) for item in self.items.values()]
        # An item that is in neither of the two is gone, and nothing more would be remembered of it.
        return Look(
            issues={item.id: item for item in items if self.policy.is_active(item.state)},
            states={item.id: item.state for item in items if not self.policy.is_active(item.state)},
        )

    def warnings(self, look: Look) -> Sequence[Warning]:
        return warnings_about(look, self.policy)

    async def fetch(self, issue_id: str) -> Issue:
        if issue_id not in self.items:
            raise TrackerError(TrackerError.NOT_FOUND, f"There is no item {issue_id}.")
        return self._now(self.items[issue_id])

    async def fetch_states(self, issue_ids: Collection[str]) -> Mapping[str, str]:
        return {key: self._state(key) for key in issue_ids if key in self.items}

    async def transition(self, issue_id: str, state: str) -> None:
        self._states[issue_id] = state

    def _now(self, item: Issue) -> Issue:
        blockers = tuple(replace(blocker, state=self._state(blocker.id)) for blocker in item.blocked_by)
        return replace(item, state=self._state(item.id), blocked_by=blockers, comments=())

    def _state(self, issue_id: str) -> str:
        item = self.items.get(issue_id)
        return self._states.get(issue_id, item.state) if item else ""

    # -- how it is run ----------------------------------------------------------------------------------------

    def spec_for(self, issue: Issue, run: RunFacts) -> RunSpec:
        choice = issue.agent or AgentChoice()
        return RunSpec(
            store_id=run.store_id,
            run_id=run.claim.run_id,
            attempt=run.claim.attempt,
            issue=issue,
            agent=self._agent(issue.id, choice),
            prompt=PromptSpec(text=issue.description or issue.title, is_template=False),
            workspace=WorkspaceSpec(
                kind=self.workspace_kind,
                root=self.workspace_root,
                key=self.workspace_key(issue.identifier),
                known=run.workspace,
            ),
            signal=self.signal,
            limits=RunLimits(max_turns=choice.max_turns or 1),
            resume=run.resume,
        )

    def _agent(self, issue_id: str, choice: AgentChoice) -> AgentSpec:
        kind = choice.kind or self.policy.provider
        options = dict(self._options.get(kind, {})) | ({"model": choice.model} if choice.model else {})
        script = self._scripts if isinstance(self._scripts, str) else self._scripts.get(issue_id, "")
        return AgentSpec(kind=kind, command=script, options=options, base=self.workspace_root)

    # -- how its end is judged --------------------------------------------------------------------------------

    def writes_at_end(
        self,
        issue: Issue,  # noqa: ARG002
        claim: Claim,  # noqa: ARG002
        outcome: Outcome,
        usage: Usage,  # noqa: ARG002
        seconds: float,  # noqa: ARG002
    ) -> Sequence[Write]:
        state = self.state_after(outcome)
        return (Write(name="move", verb="transition", argument=state),) if state else ()

    def state_after(self, outcome: Outcome) -> str:
        """Where the end of a run moves its item; empty where the item is tried again or waits for a person."""
        return "done" if outcome.status == "succeeded" and not outcome.soft_stop else ""

    def conclude(self, claim: Claim, outcome: Outcome, state: str, handed: bool | None) -> Next:  # noqa: ARG002
        if not self.policy.is_active(state):
            return Next(then="released", why=f"it is {state}")
        return Next(then="parked", why=outcome.reason or outcome.soft_stop or "its agent left no word")


class TaskFolderSource(ListSource):
    """Tasks with an inbox and an outbox, whose agents say in `status.json` how they ended. One that `failed` for
    good is over too; one of which nothing is said waits for a person."""

    signal: Signal = "status.json"
    workspace_kind: WorkspaceKind = "task folder"

    def state_after(self, outcome: Outcome) -> str:
        if outcome.error_kind == "task_failed" and not outcome.retryable:
            return "failed"
        return "done" if outcome.soft_stop == "completed" else ""
