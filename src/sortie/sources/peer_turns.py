"""Turns of peers: one at a time, each asked for by a person, in the checkout that they share.

A turn is one run of one agent with one prompt, and is over when that has ended, in whatever way: nothing is resumed
or tried again by itself. What a turn came to is kept in the store; who wrote what is decided by the register of
turns, so the run of a turn is there before its agent starts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ..core.conclude import Next, Outcome
from ..core.model import AgentChoice, Issue, Usage
from ..core.observe import Look
from ..core.policy import Policy
from ..core.records import Claim
from ..core.schedule import Schedule
from ..errors import AgentError, TrackerError
from ..peers.author import Author
from ..peers.place import Place
from ..peers.settings import PeerAgent, PeerSettings
from ..peers.turn_register import INTERRUPTED, Turn, TurnRegister
from ..peers.turns.outcome import FAILED, OUTCOMES, SUCCEEDED
from ..plugins import load_agent
from ..runs.environment import passed_on
from ..runs.spec import AgentSpec, PromptSpec, RunLimits, RunSpec, ToolsSpec, WorkspaceSpec
from ..tools import envelope
from ..tools.definitions import FOR_PEERS
from ..workflow.variables import secrets_of
from .peer_tools import PeerTools
from .source import RunFacts, Source, Write

STORE = "peers.db"
ASKED = "asked"

_CUT_SHORT = ("crash", "shutdown", "lost")
_NOT_IN_ID = re.compile(r"[^a-z0-9]+")


class AskedTurn(Struct, frozen=True, kw_only=True):
    """The turn that is to be taken: how its agent is run, and what it is told. `since` is where it had read the
    work log to before, `session_id` the name of the session in the charter."""

    turn: Turn
    agent: PeerAgent
    prompt: str
    since: str = ""
    session_id: str = ""

    @property
    def id(self) -> str:
        return id_of(self.turn)


class PeerSource(Source):
    """The turns of one checkout. Without one that was asked for there is nothing to do: what an earlier
    orchestrator left is brought to an end, and no more."""

    command = "sortie turn"
    keeps_workspaces = True
    works_in_root = True

    def __init__(
        self, place: Place, settings: PeerSettings, environ: Mapping[str, str], asked: AskedTurn | None = None
    ) -> None:
        self._place = place
        self._environ = environ
        self._asked = asked
        self._schedule = Schedule()
        self._tools: PeerTools | None = None
        self.run_id = ""
        """Of the turn that was asked for, once it is specified."""
        self.name = str(place.root)
        self.workspace_root = str(place.root)
        self.policy = policy_of(settings, asked.agent if asked else None)

    @property
    def store(self) -> str:
        return str(self._place.state / STORE)

    @property
    def secrets(self) -> Collection[str]:
        if self._asked is None:
            return ()
        agent = self._asked.agent
        passed = {*load_agent(agent.kind).variables, *agent.env}
        return secrets_of(self._environ, passed, {agent.kind: agent.options}, "")

    # -- what there is to do ----------------------------------------------------------------------------------

    def remember(self, schedule: Schedule) -> None:
        self._schedule = schedule

    async def look(self, schedule: Schedule) -> Look:
        asked = self._asked
        known = {view.id: view.state for view in schedule.issues.values()}
        is_over = asked is None or known.get(asked.id) in OUTCOMES
        issues = {} if asked is None or is_over else {asked.id: self._issue(asked)}
        # What is still open of an earlier turn is over too: a turn is taken once, or not at all.
        states = {
            name: state if state in OUTCOMES else INTERRUPTED for name, state in known.items() if name not in issues
        }
        return Look(issues=issues, states=states)

    async def fetch(self, issue_id: str) -> Issue:
        if self._asked and issue_id == self._asked.id and self._state(issue_id) == ASKED:
            return self._issue(self._asked)
        view = self._schedule.issues.get(issue_id)
        if view is None:
            raise TrackerError(TrackerError.NOT_FOUND, f"There is no turn {issue_id} here.")
        return Issue(id=view.id, identifier=view.identifier, title=view.title, state=view.state, comments=())

    async def fetch_states(self, issue_ids: Collection[str]) -> Mapping[str, str]:
        views = self._schedule.issues
        return {name: views[name].state for name in issue_ids if name in views}

    async def transition(self, issue_id: str, state: str) -> None:
        raise TrackerError(TrackerError.API, f"{issue_id} cannot be moved to {state}: its own run decides that.")

    def _state(self, issue_id: str) -> str:
        view = self._schedule.issues.get(issue_id)
        return view.state if view else ASKED

    def _issue(self, asked: AskedTurn) -> Issue:
        turn, agent = asked.turn, asked.agent
        return Issue(
            id=asked.id,
            identifier=asked.id,
            title=turn.task or turn.kind,
            state=ASKED,
            comments=(),
            agent=AgentChoice(kind=agent.kind, model=agent.model, credential=agent.credential, max_turns=1),
        )

    # -- how it is run ----------------------------------------------------------------------------------------

    def workspace_key(self, identifier: str) -> str:
        return identifier

    def spec_for(self, issue: Issue, run: RunFacts) -> RunSpec:
        asked = self._asked
        if asked is None or issue.id != asked.id:
            raise AgentError(AgentError.CONFIG, f"Nobody asked for the turn {issue.id}.")
        # On disk before anything of it starts: by this an agent is known when it writes.
        turn = TurnRegister(self._place).amend(asked.turn.number, run_id=run.claim.run_id)
        self.run_id = turn.run_id
        author = Author(name=turn.agent, role="agent", run_id=turn.run_id)
        self._tools = PeerTools(self._place, author, session_id=asked.session_id, since=asked.since)
        agent = asked.agent
        return RunSpec(
            store_id=run.store_id,
            run_id=run.claim.run_id,
            attempt=run.claim.attempt,
            issue=issue,
            agent=AgentSpec(
                kind=agent.kind,
                command=agent.command,
                options=agent.all_options,
                base=self.workspace_root,
                read_timeout=agent.read_timeout,
            ),
            prompt=PromptSpec(text=asked.prompt, is_template=False),
            workspace=WorkspaceSpec(kind="shared checkout", root=self.workspace_root),
            limits=RunLimits(max_turns=1, turn_timeout=agent.turn_timeout, stall_timeout=agent.stall_timeout),
            environment=agent.env,
            tools=ToolsSpec(workflow=self.name, database=self.store, names=FOR_PEERS, credentials="broker"),
        )

    def needs_login(self, kind: str) -> bool:
        return load_agent(kind).needs_login

    def missing_agent(self) -> AgentError | None:
        if self._asked is None:
            return None
        return missing_program(self._place, self._asked.agent, self._environ)

    async def call_tool(self, issue_id: str, tool: str, arguments: object) -> dict[str, Any]:
        if self._tools is None or self._asked is None or issue_id != self._asked.id:
            return envelope.failure(envelope.INTERNAL_ERROR, "This turn is over.")
        return await self._tools.call(tool, arguments)

    # -- how its end is judged --------------------------------------------------------------------------------

    def writes_at_end(
        self,
        issue: Issue,  # noqa: ARG002
        claim: Claim,  # noqa: ARG002
        outcome: Outcome,  # noqa: ARG002
        usage: Usage,  # noqa: ARG002
        seconds: float,  # noqa: ARG002
    ) -> Sequence[Write]:
        """Nothing: whoever concludes the turn writes into its documents, when nothing of it runs any more."""
        return ()

    def conclude(self, claim: Claim, outcome: Outcome, state: str, handed: bool | None) -> Next:  # noqa: ARG002
        left, why = verdict(outcome)
        return Next(then="released", why=why, state=left)


def verdict(outcome: Outcome) -> tuple[str, str]:
    """In which state a run leaves its turn, and why."""
    if outcome.status == "succeeded" and not outcome.stop:
        return outcome.soft_stop or SUCCEEDED, outcome.reason or "the turn is over"
    if outcome.stop in _CUT_SHORT:
        return INTERRUPTED, outcome.error or "it was cut short"
    return FAILED, outcome.error or outcome.status


def missing_program(place: Place, agent: PeerAgent, environ: Mapping[str, str]) -> AgentError | None:
    """Why it cannot start, seen without starting anything; None where nothing is known."""
    made = load_agent(agent.kind).from_settings(agent.settings(place.root))
    return made.missing(passed_on(environ, (*made.variables, *agent.env)))


def policy_of(settings: PeerSettings, agent: PeerAgent | None) -> Policy:
    agent = agent or PeerAgent()
    return Policy(
        active_states=(ASKED,),
        terminal_states=OUTCOMES,
        failed_states=(FAILED, INTERRUPTED),
        provider=agent.kind,
        max_concurrent=1,
        max_turns=1,
        turn_timeout=agent.turn_timeout,
        stall_timeout=agent.stall_timeout,
        per_issue=settings.budget.turn,
        per_day=settings.budget.day,
        tries_once=True,
    )


def id_of(turn: Turn) -> str:
    """What people and the store call a turn, such as `alice-0007`."""
    name = _NOT_IN_ID.sub("-", turn.agent.lower()).strip("-") or "turn"
    return f"{name}-{turn.number:04}"
