"""What a person decides about a task: `sortie plan retry`, `fix`, `skip`, `accept`, `stop`.

Where the plan runs, its orchestrator is asked; else the same is done on the store, for the next run.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import StoreLocked
from ..plans.plan import Plan
from .format import clean, runnable
from .main import DONE, FAILED
from .plan import load, load_to_look, plan_option, require_store, require_task

if TYPE_CHECKING:
    from ..core.operator import Reply

# What a person calls it, where the orchestrator has another word.
_CALLED = {"reopen": "retry"}
_TASKS = click.argument("tasks", nargs=-1, required=True, metavar="TASK...")


@click.command("retry")
@_TASKS
@plan_option
def retry_command(tasks: tuple[str, ...], plan: Path) -> int:
    """Try tasks again, with all attempts they are allowed; also such as are completed.

    What they delivered goes to `attempts/`; tasks that depend on them are done again if what they get changes.
    """
    return _decide("reopen", tasks, load(plan))


@click.command("fix")
@click.argument("task")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="FILE[=NAME]",
    help="The corrected file, and its name below the inbox; its own name if left out.",
)
@plan_option
def fix_command(task: str, inputs: tuple[str, ...], plan: Path) -> int:
    """Correct inputs of a task and try it again: each file takes the place of the input of that name."""
    from ..plans.corrections import Corrections

    loaded = load(plan)
    require_task(loaded, task)
    require_store(loaded)
    _refuse_agents(loaded, "fix")  # before anything is put into the inbox
    corrections = Corrections(loaded, loaded.by_name[task], inputs)
    corrections.put()
    code = DONE  # where nobody answers, it may still be done
    try:
        code = _decide("reopen", (task,), loaded)
    finally:
        if code == DONE:
            corrections.keep()
        else:
            corrections.take_back()
    return code


@click.command("skip")
@_TASKS
@plan_option
def skip_command(tasks: tuple[str, ...], plan: Path) -> int:
    """Do without tasks: those that depend on them decide by their `on_failure`."""
    return _decide("skip", tasks, load_to_look(plan))


@click.command("accept")
@_TASKS
@plan_option
def accept_command(tasks: tuple[str, ...], plan: Path) -> int:
    """Take what is in the outbox of tasks as it is now: they are completed."""
    return _decide("accept", tasks, load_to_look(plan))


@click.command("stop")
@_TASKS
@plan_option
def stop_command(tasks: tuple[str, ...], plan: Path) -> int:
    """End the agents of tasks, or call off their next try; a person decides what follows."""
    return _decide("stop", tasks, load_to_look(plan))


def _decide(verb: str, tasks: tuple[str, ...], plan: Plan) -> int:
    named = list(dict.fromkeys(tasks))
    require_task(plan, *named)
    require_store(plan)
    _refuse_agents(plan, _CALLED.get(verb, verb))
    replies = _carry_out(plan, verb, named)
    for reply in replies:
        click.echo(clean(runnable(reply.outcome)), err=not reply.ok)
    return DONE if all(reply.ok for reply in replies) else FAILED


def _refuse_agents(plan: Plan, verb: str) -> None:
    from .operate import refuse_agents

    refuse_agents(plan.store, f"{verb} a task", "plan", "status.json")


def _carry_out(plan: Plan, verb: str, tasks: list[str]) -> list[Reply]:
    import anyio

    from ..store.lock import holder_of
    from .operate import ask

    if holder_of(plan.store) is not None:
        return ask(plan.store, verb, tasks)
    try:
        return anyio.run(_offline, plan, verb, tasks)
    except StoreLocked:  # it was started just now
        return ask(plan.store, verb, tasks)


async def _offline(plan: Plan, verb: str, tasks: list[str]) -> list[Reply]:
    """What the orchestrator would do, done on the store while nobody else owns it."""
    from ..core.events import Commanded
    from ..engine.operator_commands import carry_out
    from ..sources.plan_tasks import PlanSource
    from ..store.open import Store

    now = time.time()
    source, replies = PlanSource(plan, os.environ), []
    async with Store.open(plan.store, holder={"command": verb}) as store:
        store.schedule.policy = source.policy
        source.remember(store.schedule)
        for task in tasks:
            if verb != "stop" and task in store.schedule.running:
                reply = _left_running(task)
            else:
                reply = await carry_out(store.schedule, source, verb, task, now)
            done = Commanded(
                at=now, issue_id=reply.issue_id, command_id=0, verb=verb, outcome=reply.outcome, ok=reply.ok
            )
            await store.write([store.apply(event) for event in (done, *reply.events)])
            replies.append(reply)
    return replies


def _left_running(task: str) -> Reply:
    """Nobody ends its agent before the next run does, so nothing can be decided about it before that."""
    from ..core.operator import Reply

    return Reply(
        False,
        f"{task} was at work when the orchestrator died: `sortie plan run` takes it up; "
        f"after `sortie plan stop {task}` that leaves it to you.",
        issue_id=task,
    )
