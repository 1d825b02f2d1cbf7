"""Issues of a tracker, run by the rules of a WORKFLOW.md: the first of the sources."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..agents.agent import Agent, AgentSettings
from ..core.conclude import Next, Outcome, Settlement
from ..core.events import EffectPlanned, Level
from ..core.hand_off import judge_issue, wants_handoff
from ..core.model import Comment, Issue, Park, Usage
from ..core.observe import Look, held_elsewhere
from ..core.policy import Policy
from ..core.records import Claim, WorkspaceRecord
from ..core.redact import Redactor
from ..core.schedule import Schedule
from ..errors import AgentError, ConfigurationError, SortieError, TrackerError
from ..hosts.host import Removal
from ..plugins import kinds, load_agent
from ..runs.environment import passed_on
from ..runs.spec import (
    AgentSpec,
    HooksSpec,
    KnownWorkspace,
    PromptSpec,
    RunLimits,
    RunSpec,
    ToolsSpec,
    WorkspaceSpec,
)
from ..tools import envelope
from ..tools.definitions import TRACKER_API
from ..tools.tracker_api import Reach, handle, tracker_settings
from ..trackers.tracker import CallUse, Candidates, Tracker, marked_comments
from ..workflow.channels import Channels
from ..workflow.loader import Workflow
from ..workflow.reloader import Broken, Changed, Reloader
from ..workspace.directory import workspace_key
from . import adapters, comments, work_log
from .full_issues import FullIssues
from .reviews import Reviews
from .same_project import other_project
from .source import Renewal, RunFacts, Source, Write
from .warnings import Warning, warnings_about

# The overrides by which a tool server gets what `$VARIABLES` in the workflow stood for here; one that is not set
# there would make the workflow unusable for it.
_RESOLVED = ("kind", "endpoint", "api_key", "project", "query_filter", "handoff_state", "in_progress_state")


class IssueSource(Source):
    """One version of a workflow with its tracker. `renew` gives the next one, with the same tracker if it can."""

    def __init__(
        self,
        reloader: Reloader,
        environ: Mapping[str, str],
        *,
        tracker: Tracker | None = None,
        full: FullIssues | None = None,
        known_secrets: Collection[str] = (),
    ) -> None:
        self._reloader = reloader
        self._environ = environ
        self.workflow: Workflow = reloader.current
        config = self.config = self.workflow.config
        self.tracker = tracker or adapters.build_tracker(config)
        self.agent: Agent = adapters.build_agent(config)
        self.name = str(config.path)
        self.policy: Policy = config.policy()
        self._secrets = frozenset({*known_secrets, *adapters.secrets(config, environ)})
        self.poll_interval = config.polling.interval
        self.workspace_root = str(config.workspace.root)
        self.keep_days = float(config.workspace.archive_keep_days)
        hide, judges = Redactor(self._secrets).text, adapters.judges_authors(config)
        self._work_log = work_log.WorkLog(config.worklog, hide=hide, judges=judges)
        self._was_broken = False
        self._owns_tracker = True
        self._last_answer: Candidates | None = None
        self._full = full or FullIssues()
        self._reviews = Reviews()

    @classmethod
    def open(cls, workflow: Path, environ: Mapping[str, str], env_file: Path | None = None) -> IssueSource:
        """Raises `ConfigurationError` with every problem of the workflow."""
        reloader = Reloader(
            workflow,
            environ=environ,
            env_file=env_file,
            kinds=kinds(),
            inspect=adapters.problems,
            inspect_first=adapters.problems_and_addresses,
        )
        return cls(reloader, environ)

    @property
    def secrets(self) -> Collection[str]:
        return self._secrets

    @property
    def channels(self) -> Channels:
        return self.config.notifications

    @property
    def watched_files(self) -> Sequence[Path]:
        return (self.config.path, *self.tracker.watched_files())

    # -- what there is to do ----------------------------------------------------------------------------------

    def refusal(self, schedule: Schedule) -> SortieError | None:
        return other_project(schedule, self.config)

    async def look(self, schedule: Schedule) -> Look:
        await self._work_log.prepare()
        candidates = await self.tracker.fetch_candidates()
        # Tools of agents ask the same tracker: what changed is counted from the last look, not the last answer.
        changed = candidates.changed_since(self._last_answer)
        issues = dict(zip(map(attrgetter("id"), candidates.issues), candidates.issues, strict=True))
        elsewhere = held_elsewhere(schedule, issues)
        states, unread = await self._states_of(elsewhere, schedule)
        handed_over = await self._reviews.states(schedule, issues, self.tracker)
        # An answer in a comment is what frees a parked issue, and not every tracker lists comments, or blockers.
        told = await self._full.complete(issues, schedule, self.tracker)
        issues |= told.issues
        self._last_answer = candidates  # only now: where this look fails, the next one compares all
        return Look(
            issues=issues,
            states={**handed_over, **states},
            changed=None if changed is None else changed | told.fetched,
            unasked=told.unasked,
            problems=(*candidates.problems, *unread),
            counts=candidates.states,
            counts_some=candidates.counts_some,
        )

    async def _states_of(
        self, issue_ids: Collection[str], schedule: Schedule
    ) -> tuple[Mapping[str, str], list[str]]:
        """Where the tracker cannot read one of them, what is known of all, and a sentence: one that is broken there
        must not keep others from being worked on."""
        try:
            return (await self.tracker.fetch_states(issue_ids) if issue_ids else {}), []
        except TrackerError as error:
            if error.kind not in (TrackerError.API, TrackerError.PAYLOAD):
                raise
            seen = schedule.issues  # one may have gone meanwhile, with its run
            return {issue_id: seen[issue_id].state for issue_id in issue_ids if issue_id in seen}, [
                f"The states of issues that left the list cannot be read, the last known ones count: {error}"
            ]

    def warnings(self, look: Look) -> Sequence[Warning]:
        return warnings_about(look, self.policy)

    async def fetch(self, issue_id: str) -> Issue:
        issue = await self.tracker.fetch_issue(issue_id)
        self._full.learn(issue, self.policy)
        return issue

    async def fetch_marked(self, issue_id: str) -> Sequence[Comment]:
        return await marked_comments(self.tracker, issue_id)

    async def find(self, name: str) -> Issue:
        return await adapters.find_issue(self.tracker, self.config, name)

    def call_use(self) -> CallUse | None:
        count = getattr(self.tracker, "call_use", None)
        return count() if count else None

    def requests_made(self) -> Mapping[tuple[str, str], int]:
        count = getattr(self.tracker, "requests_made", None)
        return count() if count else {}

    async def fetch_states(self, issue_ids: Collection[str]) -> Mapping[str, str]:
        return await self.tracker.fetch_states(issue_ids)

    async def transition(self, issue_id: str, state: str) -> None:
        await self.tracker.transition(issue_id, state)

    async def comment(self, issue_id: str, body: str) -> None:
        await self.tracker.comment(issue_id, body)

    def answer_comment(self, text: str) -> str:
        return comments.on_answer(text)

    async def record(self, effect: EffectPlanned) -> str:
        return await work_log.record(effect)

    # -- how it is run ----------------------------------------------------------------------------------------

    def spec_for(self, issue: Issue, run: RunFacts) -> RunSpec:
        spec, config, choice = self._spec, self.config, issue.agent
        if choice and (choice.kind or choice.model):
            spec = replace(spec, agent=self._chosen_agent(choice.kind or config.agent.kind, choice.model))
        if choice and choice.max_turns:
            spec = replace(spec, limits=replace(spec.limits, max_turns=choice.max_turns))
        if servers := adapters.operator_servers(config):  # the file may have changed
            assert spec.tools
            spec = replace(spec, tools=replace(spec.tools, servers=servers))
        return replace(
            spec,
            store_id=run.store_id,
            run_id=run.claim.run_id,
            attempt=run.claim.attempt,
            issue=issue,
            workspace=replace(spec.workspace, key=workspace_key(issue.identifier), known=run.workspace),
            resume=run.resume,
        )

    @cached_property
    def _spec(self) -> RunSpec:
        """What all runs by this version of the workflow have in common."""
        config, prompt = self.config, self.workflow.template
        return RunSpec(
            store_id="",
            run_id="",
            attempt=0,
            issue=Issue(id="", identifier="", title="", state=""),
            agent=_agent_spec(adapters.agent_settings(config)),
            prompt=PromptSpec(text=prompt.text, file=prompt.file, line=prompt.line),
            workspace=WorkspaceSpec(root=self.workspace_root),
            limits=RunLimits(
                max_turns=config.agent.max_turns,
                turn_timeout=config.agent.turn_timeout,
                stall_timeout=config.agent.stall_timeout,
            ),
            hooks=HooksSpec(
                after_create=config.hooks.after_create,
                before_run=config.hooks.before_run,
                after_run=config.hooks.after_run,
                timeout=config.hooks.timeout,
            ),
            environment=config.agent.env,
            tools=ToolsSpec(
                workflow=str(config.path),
                database=str(config.db_path),
                credentials="broker" if config.tools.credentials == "broker" else "workspace",
                transitions=config.tools.transitions,
                project=config.tracker.project,
                environment=self._tool_environment(),
            ),
            rates=config.token_rates.get(config.agent.kind),
        )

    def _chosen_agent(self, kind: str, model: str) -> AgentSpec:
        """That of an issue which does not follow the workflow; raises `ConfigurationError` where there is none."""
        settings = adapters.agent_settings(self.config, kind)
        if model:
            settings = replace(settings, options={**settings.options, "model": model})
        if problems := load_agent(kind).check(settings):
            told = "; ".join(f"{key}: {sentence}" for key, sentence in problems)
            raise ConfigurationError(f"The agent that this issue asks for cannot be used: {told}")
        return _agent_spec(settings)

    def _tool_environment(self) -> dict[str, str]:
        tracker = self.config.tracker
        resolved = {f"SORTIE_TRACKER_{key.upper()}": getattr(tracker, key) for key in _RESOLVED}
        resolved["SORTIE_WORKSPACE_ROOT"] = str(self.config.workspace.root)
        return {**self.config.overrides, **{name: value for name, value in resolved.items() if value}}

    def needs_login(self, kind: str) -> bool:
        return load_agent(kind).needs_login

    def missing_agent(self) -> AgentError | None:
        names = (*self.agent.variables, *self.config.agent.env)
        return self.agent.missing(passed_on(self._environ, names))

    async def call_tool(self, issue_id: str, tool: str, arguments: object) -> dict[str, Any]:
        if tool != TRACKER_API.name:
            return envelope.failure(envelope.INTERNAL_ERROR, f"{tool} needs no broker.")
        reach = Reach(self.config.tools.transitions, issue_id)
        return await handle(arguments, self.tracker, tracker_settings(self.config), reach)

    # -- how its end is judged --------------------------------------------------------------------------------

    def progress_state(self, issue: Issue) -> str:  # noqa: ARG002 - one for all issues
        return self.config.tracker.in_progress_state

    def writes_at_start(self, issue: Issue, claim: Claim) -> Sequence[Write]:
        recorded = self._work_log.claimed(issue, claim)
        if not self.config.tracker.comments.on_dispatch:
            return recorded
        text = comments.on_dispatch(claim.agent, claim.attempt)
        return (Write(name="dispatch", verb="comment", argument=text), *recorded)

    def writes_at_end(
        self, issue: Issue, claim: Claim, outcome: Outcome, usage: Usage, seconds: float
    ) -> Sequence[Write]:
        writes: list[Write] = []
        if wants_handoff(outcome, self.policy, issue.state, by_hand=claim.by_hand):
            writes.append(Write(name="handoff", verb="transition", argument=self.policy.handoff_state))
        wanted = self.config.tracker.comments
        if outcome.status == "succeeded" and wanted.on_completion:
            text = comments.on_completion(outcome, usage, seconds)
            writes.append(Write(name="completion", verb="comment", argument=text))
        elif outcome.status in ("failed", "timed_out", "stalled") and wanted.on_failure:
            text = comments.on_failure(outcome, usage, seconds)
            writes.append(Write(name="failure", verb="comment", argument=text))
        return writes

    def writes_when_settled(
        self, issue: Issue, claim: Claim, outcome: Outcome, then: Settlement
    ) -> Sequence[Write]:
        return self._work_log.settled(issue, claim, outcome, then)

    def writes_when_parked(self, issue: Issue, park: Park) -> Sequence[Write]:
        return self._work_log.parked(issue, park)

    def conclude(self, claim: Claim, outcome: Outcome, state: str, handed: bool | None) -> Next:
        return judge_issue(outcome, self.policy, state, handed, by_hand=claim.by_hand)

    def removal_of(self, record: WorkspaceRecord, state: str, attempt: int, store_id: str) -> Removal | None:
        config = self.config
        return Removal(
            store_id=store_id,
            issue=Issue(id=record.issue_id, identifier=record.identifier, title="", state=state),
            attempt=attempt,
            workspace=WorkspaceSpec(root=self.workspace_root, key=record.key, known=KnownWorkspace.of(record)),
            before_remove=config.hooks.before_remove,
            hook_timeout=config.hooks.timeout,
            environment=config.agent.env,
        )

    # -- a changed workflow -----------------------------------------------------------------------------------

    def renew(self) -> Renewal | None:
        match self._reloader.refresh():
            case Changed() as reload:
                return self._renewed(reload)
            case Broken(problems):
                self._was_broken = True
                message = "the workflow is broken; the last good one stays"
                return Renewal(self, (("warning", message, "\n".join(problems)),))
            case _:
                return None

    def _renewed(self, reload: Changed) -> Renewal:
        same = tracker_settings(self.config) == tracker_settings(reload.workflow.config)
        self._owns_tracker = not same
        source = IssueSource(
            self._reloader,
            self._environ,
            tracker=self.tracker if same else None,
            full=self._full if same else None,
            known_secrets=self.secrets,
        )
        what = "can be used again" if self._was_broken else "changed"
        notes: list[tuple[Level, str, str]] = [("info", f"the workflow {what}; new runs follow it", "")]
        if reload.needs_restart:
            keys = ", ".join(reload.needs_restart)
            notes.append(("warning", f"a change takes effect only after a restart: {keys}", ""))
        return Renewal(source, tuple(notes))

    async def aclose(self) -> None:
        """The tracker is closed by the last version that uses it."""
        if self._owns_tracker:
            await self.tracker.aclose()


def _agent_spec(settings: AgentSettings) -> AgentSpec:
    return AgentSpec(
        kind=settings.kind,
        command=settings.command,
        options=dict(settings.options),
        base=str(settings.base),
        read_timeout=settings.read_timeout,
    )
