"""`sortie plan`: the commands for plans, each loaded when it is called; and how they find the plan."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .format import named_workflow
from .main import LazyGroup

if TYPE_CHECKING:
    from ..plans.plan import Plan

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT = "plan.yaml"
FAMILIES = {
    ("new",): "write a plan to begin with, or have an agent propose one",
    ("check",): "every mistake of a plan, with its line",
    ("run",): "run the tasks; short: sortie plan PLAN.yaml",
    ("status",): "how every task stands",
    ("why",): "why anything happened to a task, or did not",
    ("graph",): "draw it: text, SVG",
    ("retry", "fix", "skip", "accept", "stop"): "decide about a task",
    ("collect",): "all results in one folder, with a summary",
    ("archive",): "put away the folders of a plan that is over",
    ("schema",): "the JSON Schema of plan files, for editors",
}
_HOMES = {
    "new": "plan_new",
    "check": "plan_file",
    "schema": "plan_file",
    "run": "plan_run",
    "status": "plan_status",
    "why": "plan_status",
    "graph": "plan_graph",
    "collect": "plan_results",
    "archive": "plan_results",
}
HOMES = {name: _HOMES.get(name, "plan_operate") for names in FAMILIES for name in names}
BY_POSITION = "sortie.plan"


class PlanGroup(LazyGroup):
    families = FAMILIES
    homes = HOMES

    def is_shorthand(self, word: str) -> bool:
        return word.endswith((".yaml", ".yml")) or os.sep in word


@click.group("plan", cls=PlanGroup, invoke_without_command=True)
@click.pass_context
def plan_command(ctx: click.Context) -> None:
    """Run a graph of tasks: each has an agent and a folder with an inbox and an outbox, and starts when all that it
    waits for is over."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def plan_option(command: Command) -> Command:
    """`-p`; the plan file, or the directory it is in."""
    return click.option(
        "-p",
        "--plan",
        type=click.Path(path_type=Path),
        callback=_choose,
        help=f"The plan, or its directory; ./{DEFAULT} if left out.",
    )(command)


def plan_argument(command: Command) -> Command:
    """The same by position too, for commands that are not about a task. Eager: `-p` must know of it."""
    by_position = click.argument(
        "place",
        type=click.Path(path_type=Path),
        required=False,
        is_eager=True,
        expose_value=False,
        callback=_note,
        metavar=f"[{DEFAULT.upper()}]",
    )
    return by_position(plan_option(command))


def _note(ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    ctx.meta[BY_POSITION] = value


def _choose(ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> Path:
    by_position: Path | None = ctx.meta.get(BY_POSITION)
    if value is not None and by_position is not None:
        raise click.UsageError(f"{by_position} and -p {value} both name the plan; one of them is enough.")
    named = value or by_position
    named_workflow.set(str(named or ""))
    place = named or Path(DEFAULT)
    return place / DEFAULT if place.is_dir() else place


def load(path: Path) -> Plan:
    """The plan; raises `ConfigurationError` with every mistake, or with how to begin one."""
    from ..errors import ConfigurationError
    from ..plans.load import load_plan

    if not path.exists():
        fix = f"`sortie plan new GOAL.md -o {shlex.quote(str(path))}` writes one; or name another file."
        raise ConfigurationError(f"There is no {path}.", fix=fix)
    return _with_a_store_of_its_own(load_plan(path))


def load_to_look(path: Path) -> Plan:
    """The same for those who run nothing: of a file that is broken or gone by now, the plan that ran last."""
    from ..reports.plan import load_to_look
    from .store_access import complain

    plan, remark = load_to_look(path)
    if remark:
        complain(remark)
    return _with_a_store_of_its_own(plan) if plan else load(path)


def _with_a_store_of_its_own(plan: Plan) -> Plan:
    """Two plans with one workspace would take each other's tasks for their own."""
    import sqlite3

    from ..errors import ConfigurationError, StoreError
    from ..plans.load import examine
    from ..store.connect import connect_readonly
    from ..store.queries import last_opened_for

    if not plan.store.exists():
        return plan
    try:
        with closing(connect_readonly(plan.store)) as db:
            other = Path(last_opened_for(db))
    except (StoreError, sqlite3.Error):
        return plan  # whoever needs the store says what is wrong with it
    if other != plan.path and other.is_file():
        owner, _ = examine(other, to_run=False)
        if owner and owner.root.resolve() == plan.root.resolve():
            fix = "Give one of the two another `workspace`."
            raise ConfigurationError(f"{plan.root} is the workspace of {other} already.", fix=fix)
    return plan


def require_store(plan: Plan) -> None:
    _require_run(plan.store)


def _require_run(store: Path) -> None:
    from ..errors import SortieError

    if not store.exists():
        raise SortieError("The plan has not been run yet.", fix="`sortie plan run` runs it.")


def require_task(plan: Plan, *tasks: str) -> None:
    """Raises `SortieError` where the plan has no task of this name."""
    from ..errors import SortieError
    from ..workflow.problems import did_you_mean

    for task in tasks:
        if task not in plan.by_name:
            close = did_you_mean(task, plan.by_name)
            raise SortieError(f"The plan has no task {task}{close or '.'}")


def store_of(path: Path) -> Path:
    """Where a plan keeps what it remembers, also where the file is broken or gone by now. Raises `SortieError`
    where there is nothing: the plan was never run, or cannot be read."""
    from ..plans.load import SUFFIX, examine
    from ..plans.plan import STORE

    plan, _ = examine(path)
    store = plan.store if plan else path.absolute().with_name(path.stem + SUFFIX) / STORE
    if not store.exists():
        _require_run(plan.store if plan else load(path).store)
    return store
