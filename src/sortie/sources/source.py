"""The seam between the engine and whatever there is to do: issues of a tracker, tasks of a plan, turns of peers.

A source says what there is to do (`look`), how each item is run (`spec_for`) and how the end of its run is judged
(`writes_at_end`, `conclude`). The engine schedules, remembers, pays, retries, parks and explains, for every source
alike. An item is an `Issue` here and everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from ..core.conclude import Next, Outcome, Settlement
from ..core.events import EffectPlanned, EffectVerb, Level
from ..core.model import Comment, Issue, Park, Usage
from ..core.observe import Look, mark_of
from ..core.policy import Policy, Spent
from ..core.records import Claim, WorkspaceRecord
from ..core.schedule import Schedule
from ..errors import AgentError, SortieError, TrackerError
from ..hosts.host import Removal
from ..runs.spec import Conversation, KnownWorkspace, RunSpec
from ..tools import envelope
from ..trackers.tracker import CallUse
from ..workflow.channels import Channels
from ..workspace.directory import workspace_key
from .warnings import Warning


class RunFacts(Struct, frozen=True, kw_only=True):
    """What the engine knows of a run that is to start; `workspace` is what is on record of the directory for it."""

    store_id: str
    claim: Claim
    workspace: KnownWorkspace | None = None
    resume: Conversation = Conversation()


class Write(Struct, frozen=True, kw_only=True):
    """A write to the source that must happen once. `name` tells it from the others of its run."""

    name: str
    verb: EffectVerb
    argument: str


class Renewal(Struct, frozen=True):
    """A source that takes the place of the one that was asked; the same one where its settings cannot be used.

    `notes` is what people are to read about it, each with its level, what, and details.
    """

    source: Source
    notes: tuple[tuple[Level, str, str], ...] = ()


class Source(Protocol):
    """Never changes its rules: a changed workflow is another source, and runs keep the one they began with.

    Whoever inherits it has what stands here with a body, and need not write it; a `return` is such a body, because
    type checkers take a bare docstring for a method that is still to be written.
    """

    name: str
    """What people call it, such as the path of its workflow."""

    policy: Policy

    workspace_root: str
    """The directory of all workspaces."""

    poll_interval: float = 30.0
    """Seconds between two looks for which there is no other reason."""

    keep_days: float = 14.0
    """For how long archives of workspaces and logs of runs are kept."""

    command: str = "sortie"
    """How the commands begin that people give about its items."""

    keeps_workspaces: bool = False
    """Whether the workspace of an item that is over stays where it is."""

    works_in_root: bool = False
    """Whether items are worked on in `workspace_root` itself: a person's directory, where we tidy nothing."""

    @property
    def secrets(self) -> Collection[str]:
        """Texts that must not be shown."""
        return ()

    @property
    def channels(self) -> Channels:
        """Where people are told, by name, when something needs them."""
        return {}

    @property
    def watched_files(self) -> Sequence[Path]:
        """Files whose change is a reason to look, or to renew the source, at once."""
        return ()

    def refusal(self, schedule: Schedule) -> SortieError | None:
        """Called once, before anything else: why it cannot go on with what the store knows; None where it can."""
        return None

    def remember(self, schedule: Schedule) -> None:
        """Called once, before it is asked for anything: what the store knows of the items."""
        return

    async def look(self, schedule: Schedule) -> Look:
        """What there is to do now, in a bounded number of calls; raises `TrackerError`."""
        ...

    def warnings(self, look: Look) -> Sequence[Warning]:
        """What keeps items of this look from being worked on by mistake. May walk over all of them."""
        return ()

    async def fetch(self, issue_id: str) -> Issue:
        """One item in full, comments included; raises `TrackerError`, of kind NOT_FOUND where it is gone."""
        ...

    async def fetch_marked(self, issue_id: str) -> Sequence[Comment]:
        """The comments of an item that end with a mark of ours, whoever wrote them; raises `TrackerError`."""
        return [one for one in (await self.fetch(issue_id)).comments or () if mark_of(one.body)]

    async def find(self, name: str) -> Issue:
        """One item by its id or by the name that people use; raises `TrackerError` as `fetch` does."""
        return await self.fetch(name)

    async def fetch_states(self, issue_ids: Collection[str]) -> Mapping[str, str]:
        """The states of those that are still there; raises `TrackerError`."""
        ...

    async def transition(self, issue_id: str, state: str) -> None:
        """Move it; raises `TrackerError`."""
        ...

    async def comment(self, issue_id: str, body: str) -> None:
        """Say something about it where people read it; raises `TrackerError`. Only planned writes are said."""
        return

    async def record(self, effect: EffectPlanned) -> str:
        """Write down the entry that was planned, once however often it is asked for; raises `TrackerError`. The
        answer is what people have to hear of the log besides, such as that somebody threw out other entries."""
        raise TrackerError(TrackerError.API, f"{self.name} keeps no work log.")

    def workspace_key(self, identifier: str) -> str:
        """The name under which the workspace of the item so called is on record."""
        return workspace_key(identifier)

    def spec_for(self, issue: Issue, run: RunFacts) -> RunSpec:
        """How this item is run; raises `ConfigurationError` where that cannot be."""
        ...

    async def news(self, claim: Claim, turn: int) -> str:
        """What the agent of this run is to be told with the prompt of this turn, beside what `spec_for` says."""
        return ""

    def answer_comment(self, text: str) -> str:
        """What is said about an item where people read it, when a person has answered its agent elsewhere; empty
        where there is no such place."""
        return ""

    def progress_state(self, issue: Issue) -> str:
        """The state that says that work goes on; empty where there is none."""
        return ""

    def writes_at_start(self, issue: Issue, claim: Claim) -> Sequence[Write]:
        """What is written when the agent is at work."""
        return ()

    def writes_at_end(
        self, issue: Issue, claim: Claim, outcome: Outcome, usage: Usage, seconds: float
    ) -> Sequence[Write]:
        """What is written when a run ended, in order; a transition among them is the hand-off."""
        ...

    def writes_when_settled(
        self, issue: Issue, claim: Claim, outcome: Outcome, then: Settlement
    ) -> Sequence[Write]:
        """What is recorded of a run when it is known what follows it. Nothing waits for these: `record` alone."""
        return ()

    def writes_when_parked(self, issue: Issue, park: Park) -> Sequence[Write]:
        """The same of an item that is put aside without a run, because its budget is used up."""
        return ()

    def conclude(self, claim: Claim, outcome: Outcome, state: str, handed: bool | None) -> Next:
        """What becomes of an item whose run succeeded; where the policy tries each once, of any. `handed` is None
        where no hand-off was due, else whether it worked; `state` is the item's own after it."""
        ...

    def give_up(self, claim: Claim, outcome: Outcome, spent: Spent) -> Next | None:
        """What becomes of an item whose run failed: tried again, over, or left to a person; None where the engine
        decides. `spent` is what was charged for the item so far, this run included."""
        return None

    def moved(self, issue_id: str, state: str, memo: str) -> Sequence[Issue]:
        """An item is in this state from now on, by the word of `conclude`, `give_up` or `obey`: those that look
        different for it, such as others that it blocked."""
        return ()

    async def obey(self, verb: str, issue_id: str) -> Next:
        """Carry out a person's command that only this source knows. The answer is where it leaves the item, and
        what to tell the person; raises `SortieError` where it cannot be done."""
        raise SortieError(f"{verb} is not a command; use one of start, stop, retry and unpark.")

    def call_use(self) -> CallUse | None:
        """How much is used of what the server behind it allows; None where it asks none. Asks nobody."""
        return None

    def requests_made(self) -> Mapping[tuple[str, str], int]:
        """What it has asked of a tracker since this was last asked: how often, by operation (`fetch_candidates`,
        `fetch_issue`, `fetch_states_by_ids`, `transition`, `comment`) and result (`success`, `error`)."""
        return {}

    def needs_login(self, kind: str) -> bool:
        """Whether a provider may refuse this kind of agent: then only its first answer shows that it works."""
        return False

    def missing_agent(self) -> AgentError | None:
        """Why its usual agent cannot start, seen without starting anything; None where nothing is known."""
        return None

    async def call_tool(self, issue_id: str, tool: str, arguments: object) -> dict[str, Any]:
        """A call of a tool server without credentials, on behalf of the agent of this item."""
        return envelope.failure(envelope.INTERNAL_ERROR, f"{tool} cannot be used here.")

    def removal_of(
        self,
        record: WorkspaceRecord,
        state: str,
        attempt: int,
        store_id: str,
    ) -> Removal | None:
        """How the workspace of an item that is over is removed; None where it is not ours to remove."""
        return None

    def renew(self) -> Renewal | None:
        """A source by changed settings; None where nothing changed. Costs a look at some files."""
        return None

    async def aclose(self) -> None:
        """Give back what is held open."""
        return
