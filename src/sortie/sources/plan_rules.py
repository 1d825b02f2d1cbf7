"""What the engine has to know of a plan as a whole: its rules, its secrets, who works, and what each task owes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..core.policy import Policy
from ..plans.plan import Plan, Task
from ..plans.progress import COMPLETED, FAILED, PENDING, SKIPPED
from ..plugins import load_agent
from ..runs.spec import AgentSpec
from ..workflow.variables import secrets_of


def secrets_of_plan(plan: Plan, environ: Mapping[str, str]) -> Collection[str]:
    """What must not be shown: keys that agents are given by their kinds, by `env`, and by their options."""
    agents = {id(task.agent): task.agent for task in plan.tasks}.values()  # most tasks have the same one
    names = {name for kind in {agent.kind for agent in agents} for name in load_agent(kind).variables}
    passed = names.union(*(agent.env for agent in agents))
    return secrets_of(environ, passed, {str(n): agent.options for n, agent in enumerate(agents)}, "")


def owed_by(plan: Plan) -> dict[str, tuple[str, ...]]:
    """What each task has to deliver: what it declares, and what those that depend on it name."""
    owed = {task.name: dict.fromkeys(output.path for output in task.outputs) for task in plan.tasks}
    for task in plan.tasks:
        for dependency in task.depends_on:
            owed[dependency.task].update(dict.fromkeys(dependency.outputs))
    return {name: tuple(paths) for name, paths in owed.items()}


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


def agent_spec(task: Task, plan: Plan) -> AgentSpec:
    agent = task.agent
    return AgentSpec(
        kind=agent.kind,
        command=agent.command,
        options=agent.all_options,
        base=str(plan.path.parent),
        read_timeout=agent.read_timeout,
    )
