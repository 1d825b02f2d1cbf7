"""`sortie unpark|stop|retry`: the operator's hands, through the service if one runs, else on the store itself."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import anyio
import click

from ..core.budget import day_of
from ..core.events import Commanded
from ..core.operator import obey
from ..errors import SortieError, StoreLocked
from ..store.commands import CommandOutcome, add_command, command_outcome
from ..store.connect import connect_readonly
from ..store.load import load
from ..store.lock import holder_of
from ..store.open import Store
from ..workflow.config import Config
from .exits import DONE, FAILED
from .place import load_config, looking_at, workflow_option
from .words import clean

ANSWER_WITHIN = 15.0
ASK_EVERY = 0.05


@click.command("unpark")
@click.argument("issue")
@workflow_option
def unpark_command(issue: str, workflow: Path) -> int:
    """Free a parked issue to start again; an issue that was parked for its budget begins a new one."""
    return _operate("unpark", issue, workflow)


@click.command("stop")
@click.argument("issue")
@workflow_option
def stop_command(issue: str, workflow: Path) -> int:
    """End the agent of an issue, or call off its next try, and park the issue."""
    return _operate("stop", issue, workflow)


@click.command("retry")
@click.argument("issue")
@workflow_option
def retry_command(issue: str, workflow: Path) -> int:
    """Try an issue again now instead of later; frees it where it is parked."""
    return _operate("retry", issue, workflow)


def _operate(verb: str, issue: str, workflow: Path) -> int:
    config = load_config(workflow)
    with closing(connect_readonly(config.db_path)):
        pass  # no store, or not one of ours: say so instead of making one
    outcome = _carry_out(config, verb, issue)
    click.echo(clean(outcome.outcome), err=not outcome.ok)
    return DONE if outcome.ok else FAILED


def _carry_out(config: Config, verb: str, issue: str) -> CommandOutcome:
    if holder_of(config.db_path) is not None:
        return ask_service(config, verb, issue)
    try:
        return anyio.run(obey_offline, config, verb, issue)
    except StoreLocked:  # a service started just now
        return ask_service(config, verb, issue)


def ask_service(config: Config, verb: str, issue: str) -> CommandOutcome:
    """Leave the command for the service and wait for its answer."""
    command_id = add_command(config.db_path, verb, issue)
    deadline = time.monotonic() + ANSWER_WITHIN
    with looking_at(config) as db:
        while time.monotonic() < deadline:
            if outcome := command_outcome(db, command_id):
                return outcome
            time.sleep(ASK_EVERY)
    raise SortieError(
        f"The service did not answer within {ANSWER_WITHIN:g} s.",
        fix=f"It will {verb} {issue} when it goes on; `sortie why {issue}` will show it.",
    )


async def obey_offline(config: Config, verb: str, issue: str) -> CommandOutcome:
    """What the service would do with the command, done on the store while nobody else owns it."""
    from ..engine.memory import world_of

    now = time.time()
    async with Store.open(config.db_path, holder={"command": verb}) as store:
        world = world_of(await store.read(lambda db: load(db, day_of(now))), config.policy())
        answer = obey(world, verb, issue, now)
        done = Commanded(
            at=now, issue_id=answer.issue_id, command_id=0, verb=verb, outcome=answer.outcome, ok=answer.ok
        )
        await store.append(done, *answer.events)
    return CommandOutcome(answer.ok, answer.outcome, now)
