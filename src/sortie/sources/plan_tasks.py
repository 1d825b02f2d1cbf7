"""Tasks of a plan: each starts when all that it waits for is over, in a folder with an inbox and an outbox.

What a task came to is kept in the store alone, with the run that decided it in one transaction; so a plan that is
interrupted goes on where it was. A task that is over says which others that changes, so none is looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from anyio import to_thread
from msgspec.structs import replace

from ..agents.agent import AgentSettings
from ..core.conclude import Next, Outcome, Settlement, is_agent_fault
from ..core.events import EffectPlanned
from ..core.model import AgentChoice, Blocker, Issue, Park, Usage
from ..core.observe import Look, fingerprint
from ..core.policy import Spent
from ..core.records import Claim
from ..core.redact import Redactor
from ..core.schedule import Schedule
from ..errors import AgentError, TrackerError
from ..plans.escalations import append_escalation, escalation, failure_report, put_report
from ..plans.graph import order
from ..plans.inputs import Inputs
from ..plans.load import examine, version_of
from ..plans.plan import LAST_RUN, Plan
from ..plans.progress import COMPLETED, FAILED, PENDING, Memo, Progress
from ..plugins import load_agent
from ..protocol.error_report import TITLE as REPORT
from ..protocol.safefiles import open_directory, write_atomic
from ..runs.environment import passed_on
from ..runs.spec import RunSpec
from ..runs.task_verdict import decode_product
from . import plan_commands, work_log
from .plan_messages import Memory, PlanMessages
from .plan_rules import agent_spec, policy_of, secrets_of_plan
from .plan_specs import CUT_SHORT, TaskSpecs
from .source import Renewal, RunFacts, Source, Write

# What the run of a task met that a further attempt would meet again, whatever its plan says: a person has to look.
FOR_PEOPLE = ("inputs_changed",)


class _Pending(Mapping[str, Issue]):
    """Tasks that are still to be done, each made when somebody asks for it: after the first look these are few."""

    def __init__(self, names: list[str], make: Callable[[str], Issue]) -> None:
        self._names = dict.fromkeys(names)
        self._make = make

    def __getitem__(self, name: str) -> Issue:
        if name not in self._names:
            raise KeyError(name)
        return self._make(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class PlanSource(Source):
    """One version of a plan. `renew` gives the next one, which goes on from what this one knows."""

    command = "sortie plan"
    keeps_workspaces = True
    poll_interval = 30.0

    def __init__(self, plan: Plan, environ: Mapping[str, str], max_parallel: int | None = None) -> None:
        """`max_parallel` takes the place of the plan's own, whatever that is or becomes."""
        self._max_parallel = max_parallel
        self.plan = plan = replace(plan, max_parallel=max_parallel) if max_parallel else plan
        self.name = str(plan.path)
        self.workspace_root = str(plan.root)
        self.policy = policy_of(plan)
        self.inputs = Inputs(plan)
        self._environ = environ
        self._secrets = secrets_of_plan(plan, environ)
        self._hide = Redactor(self._secrets).text
        self.schedule = Schedule()
        self.progress = Progress(plan, self.inputs.digest, lambda name: self.schedule.spent_on(name).sessions)
        self._messages = PlanMessages(plan)
        self._work_log = work_log.WorkLog(plan.worklog, plan.mailbox, self._hide)
        self._specs = TaskSpecs(plan, self.progress, self.inputs)
        self._version = plan.version
        self._has_looked = False
        self.again: Mapping[str, str] = {}
        self._successor: PlanSource | None = None

    @property
    def latest(self) -> PlanSource:
        """The version of the plan that is in force."""
        return self._successor.latest if self._successor else self

    @property
    def secrets(self) -> Collection[str]:
        return self._secrets

    @property
    def watched_files(self) -> Sequence[Path]:
        return (self.plan.path,)

    # -- what there is to do ----------------------------------------------------------------------------------

    def remember(self, schedule: Schedule) -> None:
        self.schedule = schedule
        known = {view.id: (view.state, view.memo) for view in schedule.issues.values()}
        self._go_on_from(known)

    def _go_on_from(self, known: Mapping[str, tuple[str, str]]) -> None:
        """`again` says what has to be done once more, because the plan or its inputs changed."""
        self.again = self.progress.take_over(known, order(self.plan.edges))

    def _keep_a_copy(self) -> None:
        """Of the plan file, as far as the disk allows: who only looks needs it when the file is broken or gone."""
        with suppress(OSError):
            content = self.plan.path.read_bytes()
            if version_of(self.plan.path) == self._version:
                with open_directory(self.plan.root) as folder:
                    write_atomic(folder, LAST_RUN, content)

    def freed(self) -> list[str]:
        """Tasks that waited for a person, and are tried again because they are asked for something else now."""
        return [
            name
            for name, parked in self.schedule.parked.items()
            if self.progress.states.get(name) == PENDING
            and parked.park.kind not in ("budget", "operator")
            and parked.park.fingerprint not in ("", fingerprint(self._issue(name)))
        ]

    async def look(self, schedule: Schedule) -> Look:  # noqa: ARG002 - it is the one that we remember
        states = self.progress.states
        first, self._has_looked = not self._has_looked, True
        await self._work_log.prepare()
        if first:
            await to_thread.run_sync(self._keep_a_copy)
        return Look(
            issues=_Pending([name for name, state in states.items() if state == PENDING], self._issue),
            states={name: state for name, state in states.items() if state != PENDING},
            # The engine is told of every change when it happens.
            changed=None if first else frozenset(),
        )

    async def fetch(self, issue_id: str) -> Issue:
        if issue_id not in self.progress.states:
            raise TrackerError(TrackerError.NOT_FOUND, f"The plan has no task {issue_id}.")
        task = self.plan.by_name[issue_id]
        if self.inputs.are_given(task):
            # Here and not when its run is specified, for which everybody waits: what was read once is known.
            await to_thread.run_sync(self.inputs.digest, task)
        return self._issue(issue_id, whole=True)

    async def fetch_states(self, issue_ids: Collection[str]) -> Mapping[str, str]:
        states = self.progress.states
        return {name: states[name] for name in issue_ids if name in states}

    async def transition(self, issue_id: str, state: str) -> None:
        raise TrackerError(TrackerError.API, f"{issue_id} cannot be moved to {state}: its own run decides that.")

    def _issue(self, name: str, *, whole: bool = False) -> Issue:
        """`whole`: also where nobody compares it with what it was, which takes a look at its inputs."""
        task, states = self.plan.by_name[name], self.progress.states
        given = self.inputs.digest(task) if whole or name in self.schedule.parked else ""
        return Issue(
            id=name,
            identifier=name,
            title=task.title,
            state=states[name],
            # What frees one that waits for a person, when it changes.
            description=f"{task.definition} {given}",
            priority=task.priority,
            comments=(),
            blocked_by=tuple(Blocker(other, other, states[other]) for other in self.progress.blockers(name)),
            agent=AgentChoice(
                kind=task.agent.kind,
                model=task.agent.model,
                credential=task.agent.credential,
                max_turns=task.max_turns,
                limits=task.limits,
            ),
            memo=self.progress.memos[name].encode(),
        )

    def moved(self, issue_id: str, state: str, memo: str) -> Sequence[Issue]:
        if issue_id not in self.progress.states:
            return ()  # the plan has it no more
        return [self._issue(name) for name in self.progress.put(issue_id, state, Memo.decode(memo))]

    # -- how it is run ----------------------------------------------------------------------------------------

    def workspace_key(self, identifier: str) -> str:
        return identifier

    def spec_for(self, issue: Issue, run: RunFacts) -> RunSpec:
        return self._specs.spec_for(issue, run)

    def needs_login(self, kind: str) -> bool:
        return load_agent(kind).needs_login

    def missing_agent(self) -> AgentError | None:
        """Of the usual kind, where all tasks of that kind have the same one."""
        kind = self.policy.provider
        specs = [agent_spec(task, self.plan) for task in self.plan.tasks if task.agent.kind == kind]
        if any(spec != specs[0] for spec in specs):
            return None
        agent = load_agent(kind).from_settings(
            AgentSettings(kind=kind, command=specs[0].command, options=specs[0].options, base=self.plan.path.parent)
        )
        names = {name for task in self.plan.tasks for name in task.agent.env}
        return agent.missing(passed_on(self._environ, (*agent.variables, *names)))

    async def news(self, claim: Claim, turn: int) -> str:
        resumes = claim.cause in CUT_SHORT and claim.session_id and claim.agent != "command"
        memory: Memory = "everything" if turn > 1 else "not the last" if resumes else "nothing"
        return await self._messages.news(claim.issue_id, memory)

    async def call_tool(self, issue_id: str, tool: str, arguments: object) -> dict[str, Any]:
        return await self._messages.call(issue_id, tool, arguments)

    # -- how its end is judged --------------------------------------------------------------------------------

    def writes_at_end(  # a task is told by its claim
        self,
        issue: Issue,  # noqa: ARG002
        claim: Claim,
        outcome: Outcome,
        usage: Usage,
        seconds: float,
    ) -> Sequence[Write]:
        spent = self.schedule.spent_on(claim.issue_id)
        fate = self._fate(claim.issue_id, outcome, spent)
        writes = []
        if outcome.status in ("failed", "timed_out", "stalled") and not _is_anothers_fault(outcome):
            report = failure_report(outcome, fate)
            writes.append(Write(name="report", verb="comment", argument=report))
        if fate.then == "parked":
            text = escalation(claim, outcome, usage, seconds)
            writes.append(Write(name="escalation", verb="comment", argument=text))
        return writes

    async def comment(self, issue_id: str, body: str) -> None:
        """A report goes to the outbox of the task, everything else to where the maintainer reads."""
        if body.startswith(REPORT):
            await put_report(self.plan, issue_id, body)
        else:
            await append_escalation(self.plan, body)

    async def record(self, effect: EffectPlanned) -> str:
        return await work_log.record(effect)

    def writes_at_start(self, issue: Issue, claim: Claim) -> Sequence[Write]:
        return self._work_log.claimed(issue, claim)

    def writes_when_settled(
        self, issue: Issue, claim: Claim, outcome: Outcome, then: Settlement
    ) -> Sequence[Write]:
        files = [path for path, _, _ in decode_product(outcome.product).files] if outcome.product else []
        return self._work_log.settled(issue, claim, outcome, then, files)

    def writes_when_parked(self, issue: Issue, park: Park) -> Sequence[Write]:
        return self._work_log.parked(issue, park)

    def conclude(self, claim: Claim, outcome: Outcome, state: str, handed: bool | None) -> Next:  # noqa: ARG002
        if not outcome.product:
            return Next(then="again", why="it was cut short before its task was over", delay=0.0)
        product, memo = decode_product(outcome.product), self.progress.memos.get(claim.issue_id, Memo())
        completed = Memo(
            sessions=memo.sessions,
            made_by=product.made_by,
            attempt=product.attempt,
            files=product.files,
            findings=tuple(map(self._hide, product.findings)),
            helped=product.helped,
            why=outcome.reason,
        )
        return Next(then="released", why="it is completed", state=COMPLETED, memo=completed.encode())

    def give_up(self, claim: Claim, outcome: Outcome, spent: Spent) -> Next | None:
        return None if _is_anothers_fault(outcome) else self._fate(claim.issue_id, outcome, spent)

    def _fate(self, name: str, outcome: Outcome, spent: Spent) -> Next:
        """What follows a run that did not succeed."""
        task, memo = self.plan.by_name.get(name), self.progress.memos.get(name, Memo())
        if outcome.stop == "budget":
            return Next(then="parked", why=outcome.error)
        if outcome.status not in ("failed", "timed_out", "stalled") or task is None:
            return Next(then="released", why=outcome.error)
        if outcome.retryable and spent.sessions - memo.sessions <= task.retries:
            return Next(then="again", why=outcome.error, delay=task.retry_delay)
        if task.when_failed == "escalate" or outcome.error_kind in FOR_PEOPLE:
            return Next(then="parked", why=outcome.error)
        failed = Memo(
            sessions=memo.sessions,
            made_by=self.progress.made_by(task),
            kind=outcome.error_kind or outcome.status,
            why=outcome.error,
        )
        return Next(then="released", why=outcome.error, state=FAILED, memo=failed.encode())

    async def obey(self, verb: str, issue_id: str) -> Next:
        begun = self.schedule.waiting.keys() | self.schedule.parked.keys() | self.again.keys()
        sessions = self.schedule.spent_on(issue_id).sessions
        return await plan_commands.obey(verb, issue_id, self.plan, self.progress, begun, sessions)

    # -- a changed plan ---------------------------------------------------------------------------------------

    def renew(self) -> Renewal | None:
        version = version_of(self.plan.path)
        if version == self._version:
            return None
        self._version = version
        plan, problems = examine(self.plan.path)
        if plan is None or plan.root != self.plan.root:
            why = "\n".join(map(str, problems)) or "its workspace is another one: stop, and start again"
            return Renewal(
                self, (("warning", "the plan cannot be used as it is now; the last good one stays", why),)
            )
        source = PlanSource(plan, self._environ, self._max_parallel)
        source.schedule = self.schedule
        states, memos = self.progress.states, self.progress.memos
        source._go_on_from({name: (state, memos[name].encode()) for name, state in states.items()})
        self._successor = source
        again = ", ".join(source.again) or "nothing that is done"
        return Renewal(source, (("info", f"the plan changed; to be done again: {again}", ""),))


def _is_anothers_fault(outcome: Outcome) -> bool:
    """Of the agent itself, or of its provider: the task is not judged by it."""
    return is_agent_fault(outcome) or outcome.error_kind == "rate_limited"
