"""How a task of a plan is run: its specification, with all that its folder is to hold before the agent begins."""

from __future__ import annotations

from ..core.model import Issue
from ..plans.inputs import Inputs
from ..plans.instructions import dependencies_json, instructions_md, skill_md
from ..plans.plan import Plan, Task
from ..plans.progress import Progress
from ..plans.prompts import CONTINUE_PROMPT, TASK_PROMPT
from ..runs.spec import (
    Conversation,
    InboxFile,
    PromptSpec,
    Received,
    RunLimits,
    RunSpec,
    TaskSpec,
    ToolsSpec,
    WorkspaceSpec,
)
from ..tools.definitions import FOR_TASKS
from .plan_rules import agent_spec, owed_by
from .source import RunFacts

# A run that was cut short goes on with what it left; any other begins with an empty outbox.
CUT_SHORT = ("resume", "limit", "continuation")


class TaskSpecs:
    """Those of one version of a plan; `progress` says what the tasks before have handed on."""

    def __init__(self, plan: Plan, progress: Progress, inputs: Inputs) -> None:
        self._plan = plan
        self._progress = progress
        self._inputs = inputs
        self._owed = owed_by(plan)

    def spec_for(self, issue: Issue, run: RunFacts) -> RunSpec:
        task = self._plan.by_name[issue.id]
        resumes = run.claim.cause in CUT_SHORT
        has_conversation = resumes and task.agent.kind != "command"
        return RunSpec(
            store_id=run.store_id,
            run_id=run.claim.run_id,
            attempt=run.claim.attempt,
            issue=issue,
            agent=agent_spec(task, self._plan),
            prompt=PromptSpec(text=TASK_PROMPT, later=CONTINUE_PROMPT, is_template=False),
            workspace=WorkspaceSpec(
                kind="task folder", root=str(self._plan.root), key=task.name, known=run.workspace
            ),
            signal="none",  # the word of a task counts only with what it delivered
            limits=RunLimits(
                max_turns=task.max_turns, turn_timeout=task.turn_timeout, stall_timeout=task.stall_timeout
            ),
            environment=task.agent.env,
            tools=ToolsSpec(
                workflow=str(self._plan.path), database=str(self._plan.store), names=FOR_TASKS, credentials="broker"
            ),
            task=self._task_spec(task, resumes=resumes),
            resume=run.resume if has_conversation else Conversation(),
        )

    def _task_spec(self, task: Task, *, resumes: bool) -> TaskSpec:
        files = self._inputs.of(task)
        references = {
            file.name: f"{file.path}, {file.size:,} bytes, SHA-256 {file.sha256}"
            for file in files
            if file.by_reference
        }
        corrected = {f"inbox/{file.name}" for file in files}  # also what another task handed over
        received = [
            Received(
                task=dependency.task,
                attempt=self._progress.memos[dependency.task].attempt,
                folder=str(self._plan.root / dependency.task),
                files=tuple((file.path, file.here, file.size, file.sha256) for file in handed),
            )
            for dependency in task.depends_on
            if (handed := [file for file in self._progress.handed(dependency) if file.here not in corrected])
        ]
        return TaskSpec(
            made_by=self._progress.made_by(task),
            skill=skill_md(task),
            instructions=instructions_md(self._plan, task, references),
            dependencies=dependencies_json(task, self._plan),
            inputs=tuple(
                InboxFile(**{name: getattr(file, name) for name in file.__struct_fields__}) for file in files
            ),
            received=tuple(received),
            outputs=self._owed[task.name],
            resumes=resumes,
            skip_unsafe=task.skip_unsafe,
            outbox_bytes=task.outbox_bytes,
            outbox_files=task.outbox_files,
        )
