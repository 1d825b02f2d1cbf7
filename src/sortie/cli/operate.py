"""`sortie start|stop|retry|unpark`: a person's commands, through the service where one runs, else on the store."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from ..core.events import Commanded
from ..core.model import ParkKind, RetryKind
from ..core.operator import Reply, matching, obey
from ..errors import SortieError, StoreLocked
from ..process.ancestry import is_in_a_run_of
from ..process.process_table import is_suspended
from ..store.commands import add_commands, reply_to
from ..store.connect import connect_readonly
from ..store.load import load
from ..store.lock import holder_of
from ..store.queries import store_id
from ..store.sqlite_errors import explained
from ..workflow.config import Config
from .format import clean, runnable
from .main import DONE, FAILED
from .store_access import load_config, workflow_option
from .ticker import Ticker

if TYPE_CHECKING:
    from ..core.schedule import Schedule

ANSWER_WITHIN = 15.0
ASK_EVERY = 0.05
KINDS = tuple(dict.fromkeys((*get_args(ParkKind), *get_args(RetryKind))))

# What `retry` says of the agent instead of an issue.
THE_AGENT = ""


def _several(command: Callable[..., Any]) -> Callable[..., Any]:
    """One issue, several of them, or all that a rule holds."""
    command = click.option(
        "--reason",
        "kind",
        type=click.Choice(KINDS),
        metavar="REASON",
        help=f"All that are parked or wait for this reason: {', '.join(KINDS)}.",
    )(command)
    command = click.option("--all", "everything", is_flag=True, help="All to which it applies.")(command)
    return click.argument("issues", nargs=-1, metavar="[ISSUE]...")(command)


@click.command("start")
@_several
@workflow_option
def start_command(issues: tuple[str, ...], everything: bool, kind: str | None, workflow: Path) -> int:
    """Start issues that would not start by themselves: not active, blocked by others, parked or waiting.

    Where no service runs, they start with the next `sortie run`.
    """
    return _operate("start", issues, everything, kind, workflow)


@click.command("unpark")
@_several
@workflow_option
def unpark_command(issues: tuple[str, ...], everything: bool, kind: str | None, workflow: Path) -> int:
    """Free parked issues to start again; an issue that was parked for its budget begins a new one."""
    return _operate("unpark", issues, everything, kind, workflow)


@click.command("stop")
@_several
@workflow_option
def stop_command(issues: tuple[str, ...], everything: bool, kind: str | None, workflow: Path) -> int:
    """End the agents of issues, or call off their next try, and park the issues."""
    return _operate("stop", issues, everything, kind, workflow)


@click.command("retry")
@_several
@workflow_option
def retry_command(issues: tuple[str, ...], everything: bool, kind: str | None, workflow: Path) -> int:
    """Try issues again now instead of later; frees those that are parked.

    Where the agent itself cannot run, it is tried again too; without any issue, the agent alone.
    """
    return _operate("retry", issues, everything, kind, workflow)


def _operate(verb: str, issues: tuple[str, ...], everything: bool, kind: str | None, workflow: Path) -> int:
    chosen = everything or kind is not None
    if (issues and chosen) or not (issues or chosen or verb == "retry"):
        raise click.UsageError("Name the issues, or use one of --all and --reason instead.")
    config = load_config(workflow)
    named = _chosen(config, verb, kind or "") if chosen else list(dict.fromkeys(issues)) or [THE_AGENT]
    if not named:
        click.echo(f"There is nothing to {verb}.")
        return DONE
    return carry_out(config, verb, named)


def carry_out(config: Config, verb: str, named: list[str], text: str = "") -> int:
    """See to it that it is done, and tell what became of it."""
    refuse_agents(config.db_path, f"{verb} an issue", "service", ".sortie/status")
    outcomes = _carry_out(config, verb, named, text)
    for issue, outcome in zip(named, outcomes, strict=True):
        said = outcome.outcome if outcome.ok or verb == "start" else _refusal(config, issue, outcome)
        click.echo(clean(runnable(said)), err=not outcome.ok)
    return DONE if all(outcome.ok for outcome in outcomes) else FAILED


def refuse_agents(database: Path, what: str, whole: str, file: str) -> None:
    """An agent decides nothing about what it works for: that store and its `whole`. In `file` it may say something.

    A store that is not ours says so here, before anything is changed."""
    with closing(connect_readonly(database)) as db:
        ours = store_id(db)
    if is_in_a_run_of(ours):
        raise SortieError(
            f"Only a person may {what}, and this command runs inside a run of the same {whole}.",
            fix=f"Write what you need into {file}, and end your turn.",
        )


def _refusal(config: Config, issue: str, outcome: Reply) -> str:
    """An issue that is to be worked on no more, or not yet, is known all the same: the tracker says where it is."""
    from .why import look_up

    with suppress(SortieError):
        situation, _ = look_up(config, issue)
        if situation.state in ("released", "unseen"):
            return situation.sentence
    return outcome.outcome


def _chosen(config: Config, verb: str, kind: str) -> list[str]:
    """What the store says now; whatever changes before the command is carried out is answered then."""
    with closing(connect_readonly(config.db_path)) as db:
        schedule = _remembered(db, config)
    held = verb == "retry" and schedule.fault_of(schedule.policy.provider) is not None
    # What can be started by hand is what can be tried again: all that is parked or waits.
    return [
        *matching(schedule, "retry" if verb == "start" else verb, kind),
        *([THE_AGENT] if held and not kind else []),
    ]


def _remembered(db: Any, config: Config) -> Schedule:
    with explained(config.db_path):
        schedule = load(db).schedule
    schedule.policy = config.policy()
    return schedule


def _carry_out(config: Config, verb: str, issues: list[str], text: str) -> list[Reply]:
    with closing(connect_readonly(config.db_path)):
        pass  # no store, or not one of ours: say so instead of making one
    if holder_of(config.db_path) is not None:
        return ask(config.db_path, verb, issues, text)
    if verb == "start":
        return _queue(config, verb, issues)
    import anyio

    try:
        return anyio.run(obey_offline, config, verb, issues, text)
    except StoreLocked:  # a service started just now
        return ask(config.db_path, verb, issues, text)


def _queue(config: Config, verb: str, issues: list[str]) -> list[Reply]:
    """Leave the commands for the next service: only one that knows the tracker can carry them out."""
    from .why import look_up

    situations = {issue: look_up(config, issue)[0] for issue in issues}
    known = [issue for issue in issues if situations[issue].state != "unknown"]
    add_commands(config.db_path, verb, known)
    return [
        Reply(True, f"{issue} is queued: it starts with the next `sortie run`.")
        if issue in known
        else Reply(False, situations[issue].sentence)
        for issue in issues
    ]


def ask(database: Path, verb: str, issues: list[str], text: str = "") -> list[Reply]:
    """Leave the commands for the service and wait for its answers."""
    waiting = add_commands(database, verb, issues, text)
    answers: dict[int, Reply] = {}
    deadline = time.monotonic() + ANSWER_WITHIN
    pid = (holder_of(database) or {}).get("pid", "?")
    with closing(connect_readonly(database)) as db, Ticker() as ticker:
        while time.monotonic() < deadline:
            ticker.watch(_waiting_for(pid))
            answers |= {one: answer for one in waiting if one not in answers and (answer := reply_to(db, one))}
            if len(answers) == len(waiting):
                return [answers[one] for one in waiting]
            time.sleep(ASK_EVERY)
    raise SortieError(
        f"The service did not answer within {ANSWER_WITHIN:g} s.",
        fix=f"It will {verb} {', '.join(issues)} when it goes on; `sortie why` will show it.",
    )


def _waiting_for(pid: object) -> str:
    mended_by = f", which is suspended: `fg` in its terminal, or `kill -CONT {pid}`, lets it go on"
    return f"waiting for the service, process {pid}{mended_by if is_suspended(pid) else ''}"


async def obey_offline(config: Config, verb: str, issues: list[str], text: str) -> list[Reply]:
    """What the service would do with the commands, done on the store while nobody else owns it."""
    from ..store.open import Store

    now = time.time()
    outcomes, changes = [], []
    async with Store.open(config.db_path, holder={"command": verb}) as store:
        schedule = store.schedule
        schedule.policy = config.policy()
        for issue in issues:
            if verb == "answer":
                from .answer import answered

                answer = answered(config, schedule, issue, text, now)
            else:
                answer = obey(schedule, verb, issue, now)
            done = Commanded(
                at=now, issue_id=answer.issue_id, command_id=0, verb=verb, outcome=answer.outcome, ok=answer.ok
            )
            changes += [store.apply(event) for event in (done, *answer.events)]
            outcomes.append(answer)
        await store.write(changes)
    return outcomes
