"""What a plan says as a whole: rules for all its tasks, what each owes to the others, what nobody may see."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..core.policy import Policy
from ..plans.plan import Plan
from ..plans.progress import COMPLETED, FAILED, PENDING, SKIPPED
from ..plugins import load_agent
from ..workflow.variables import secrets_of


def owed_by(plan: Plan) -> dict[str, tuple[str, ...]]:
    """What each task has to deliver: what it declares, and what those that depend on it name."""
    owed = {task.name: dict.fromkeys(output.path for output in task.outputs) for task in plan.tasks}
    for task in plan.tasks:
        for dependency in task.depends_on:
            owed[dependency.task].update(dict.fromkeys(dependency.outputs))
    return {name: tuple(paths) for name, paths in owed.items()}


def secrets_in(plan: Plan, environ: Mapping[str, str]) -> Collection[str]:
    """What agents are given and nobody may see: keys of their kinds, and what the plan passes on that is named like
    a secret."""
    names = {name for kind in {task.agent.kind for task in plan.tasks} for name in load_agent(kind).variables}
    names |= {name for task in plan.tasks for name in task.agent.env}
    options = [task.agent.options for task in plan.tasks if task.agent.options]
    return secrets_of(environ, names, {"options": options}, "")


def policy_of(plan: Plan) -> Policy:
    kinds = [task.agent.kind for task in plan.tasks]
    return Policy(
        active_states=(PENDING,),
        terminal_states=(COMPLETED, FAILED, SKIPPED),
        failed_states=(FAILED, SKIPPED),
        provider=max(kinds, key=kinds.count) if kinds else "command",
        max_concurrent=plan.max_parallel,
        max_turns=max((task.max_turns for task in plan.tasks), default=1),
        in_all=plan.budget,
    )
