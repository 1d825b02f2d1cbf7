"""`sortie plan new`: a plan to begin with. A skeleton to fill in, or what an agent proposes; nothing is run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from ..errors import ConfigurationError, SortieError
from .format import amount, clean, count
from .main import DONE
from .plan import DEFAULT
from .plan_file import SCHEMA
from .printing import print_sentence
from .whole_file import write_whole

if TYPE_CHECKING:
    from ..engine.proposing import Proposal
    from ..plans.plan import Plan, TaskAgent
    from ..workflow.problems import Problem

REJECTED = ".rejected"
MOST_ROUNDS = 10


@click.command("new")
@click.argument("goal", type=click.Path(path_type=Path), metavar="GOAL.md")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=DEFAULT,
    help=f"Where to; default: {DEFAULT}.",
)
@click.option(
    "--agent",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Who proposes; again: who else may work.",
)
@click.option("--model", default="", help="The model of the agent that proposes.")
@click.option("--command", default="", help="How its program is started; ./name is beside the plan.")
@click.option(
    "--rounds",
    type=click.IntRange(1, MOST_ROUNDS),
    help="How often it is asked until its plan has no mistake; default: 3.",
)
@click.option("--force", is_flag=True, help="Overwrite a plan that exists.")
def new_command(
    goal: Path, output: Path, kinds: tuple[str, ...], model: str, command: str, rounds: int | None, force: bool
) -> int:
    """Write a plan for the goal in GOAL.md.

    Without --agent it is a commented skeleton, which cannot run until it is filled in. With --agent a coding agent
    proposes the tasks: its plan is checked like any other, corrected by it where it has mistakes, and drawn.
    Nothing is run.
    """
    from ..plans.beginning import read_goal

    if not kinds and (model or command or rounds):
        raise click.UsageError("--model, --command and --rounds are for --agent; add it, or leave them out.")
    path = (output / DEFAULT if output.is_dir() else output).absolute()
    _refuse_to_lose(path, output, force=force)
    content = read_goal(goal)
    if not kinds:
        return _write_skeleton(content, goal, path, output, force=force)
    agents = _agents(kinds, model, command, path.parent)
    return _ask(content, path, output, agents, rounds, force=force)


def _write_skeleton(content: bytes, goal: Path, path: Path, output: Path, *, force: bool) -> int:
    from ..plans.beginning import goal_of, skeleton

    _put(path, skeleton(path, goal_of(content, goal.name)).encode(), force=force)
    click.echo(clean(f"wrote {output}"))
    typed = shlex.quote(str(output))
    print_sentence(
        f"Next: fill in its {{PLACEHOLDERS}}; `sortie plan check {typed}` names those that are left, and then "
        f"`sortie plan run {typed}` runs it."
    )
    _tell_of_schema(output)
    return DONE


def _tell_of_schema(output: Path) -> None:
    schema = shlex.quote(str(output.with_name(SCHEMA)))
    print_sentence(f"For completion in editors: `sortie plan schema {schema}`.")


# -- with an agent ----------------------------------------------------------------------------------------------


def _agents(kinds: Sequence[str], model: str, command: str, base: Path) -> list[TaskAgent]:
    """Each once; model and command are those of the first."""
    from ..agents.agent import AgentSettings
    from ..plans.plan import TaskAgent
    from ..plugins import load_agent

    first, *others = dict.fromkeys(kinds)
    agents = [TaskAgent(kind=first, model=model, command=command), *(TaskAgent(kind=kind) for kind in others)]
    for agent in agents:
        settings = AgentSettings(kind=agent.kind, command=agent.command, options=agent.all_options, base=base)
        if found := load_agent(agent.kind).check(settings):
            raise ConfigurationError("", problems=tuple(f"{key}: {message}" for key, message in found))
    return agents


def _ask(
    content: bytes, path: Path, output: Path, agents: list[TaskAgent], rounds: int | None, *, force: bool
) -> int:
    from functools import partial

    from ..engine.proposing import ROUNDS, ask_for_proposal, propose

    rounds = rounds or ROUNDS
    kind = agents[0].kind

    def on_round(number: int, problems: Sequence[Problem]) -> None:
        errors = _errors(problems)
        if errors and number < rounds:
            click.echo(f"round {number} of {rounds}: {count(len(errors), 'mistake')}; asking again ...", err=True)

    click.echo(clean(f"asking {kind} for a plan, up to {count(rounds, 'round')} ..."), err=True)
    proposal = ask_for_proposal(
        partial(propose, content, path, agents, os.environ, rounds=rounds, on_round=on_round)
    )
    if proposal is None:
        raise click.Abort
    if proposal.plan is None:
        return _reject(proposal, path, output, kind)
    _keep(proposal, path, output, force=force)
    rounds_taken = count(proposal.rounds, "round")
    click.echo(clean(f"wrote {output}, proposed by {kind} in {rounds_taken}{_spent(proposal)}"))
    _show(proposal.plan)
    typed = shlex.quote(str(output))
    print_sentence(
        f"Nothing was run. Read {typed} and change what you like; then `sortie plan run {typed}` runs it."
    )
    _tell_of_schema(output)
    return DONE


def _show(plan: Plan) -> None:
    """As a graph, and which files it would hand to agents."""
    from ..plans.picture import picture_of
    from ..reports.plan_standing import task_states
    from .plan_graph import print_graph

    print_graph(plan.name, picture_of(plan, task_states(plan)))
    for task in plan.tasks:
        given = [each.path.removeprefix(f"{plan.path.parent}/") for each in task.inputs]
        if given:
            click.echo(clean(f"{task.name} is given {', '.join(given)}"))


def _keep(proposal: Proposal, path: Path, output: Path, *, force: bool) -> None:
    """With the line by which editors know it; a plan that came there meanwhile stays, and so does what was paid."""
    from ..plans.beginning import SCHEMA_LINE

    text = proposal.content.decode("utf-8-sig")
    if SCHEMA_LINE not in text.splitlines()[:5]:
        text = f"{SCHEMA_LINE}\n{text}"
    try:
        _put(path, text.encode(), force=force)
    except SortieError as error:
        _put(_rejected(path), proposal.content, force=True)
        raise SortieError(f"{error.message} The proposal is kept as {_rejected(output)}.", fix=error.fix) from error


def _reject(proposal: Proposal, path: Path, output: Path, kind: str) -> int:
    rejected = _rejected(output)
    if proposal.content:
        _put(_rejected(path), proposal.content, force=True)
        for problem in proposal.problems:
            click.echo(clean(f"{problem.severity}: {replace(problem, file=str(rejected))}"), err=True)
    kept = f" The last proposal is kept as {rejected}." if proposal.content else ""
    if proposal.failure:
        why = f"{kind} did not come to a plan{_spent(proposal)}: {proposal.failure.rstrip('.')}."
        raise SortieError(f"{why}{kept}", fix="Try again, or begin with a skeleton: leave out --agent.")
    rounds = count(proposal.rounds, "round")
    found = count(len(_errors(proposal.problems)), "mistake") if proposal.content else proposal.problems[0].message
    message = f"What {kind} proposed cannot be used after {rounds}{_spent(proposal)}: {found}.{kept}"
    correct = "Correct it and rename it, ask again" if proposal.content else "Ask again"
    raise SortieError(message, fix=f"{correct} with more --rounds, or leave out --agent for a skeleton.")


def _errors(problems: Sequence[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity == "error"]


def _spent(proposal: Proposal) -> str:
    tokens, cost = proposal.usage.total, proposal.usage.cost_usd
    told = [*([f"{amount(tokens)} tokens"] if tokens else []), *([f"${cost:.2f}"] if cost else [])]
    return f" ({', '.join(told)})" if told else ""


def _rejected(path: Path) -> Path:
    return path.with_name(path.name + REJECTED)


# -- files ------------------------------------------------------------------------------------------------------


def _refuse_to_lose(path: Path, output: Path, *, force: bool) -> None:
    """Before anything is asked or written."""
    if not path.parent.is_dir():
        raise SortieError(f"There is no directory {output.parent}.", fix="Make it, or name another file with -o.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise SortieError(f"{path.parent} cannot be written.", fix="Change its mode, or name another file with -o.")
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_file():
        raise SortieError(f"{path} is no regular file.", fix="Move it away, or name another one with -o.")
    if not force:
        raise _there_already(path)


def _there_already(path: Path) -> SortieError:
    return SortieError(f"There is a plan {path} already.", fix="Name another one with -o, or add --force.")


def _put(path: Path, content: bytes, *, force: bool) -> None:
    """One that is there is replaced only if that was asked for."""
    try:
        write_whole(path, content, "Name another one with -o.", replace=force)
    except FileExistsError:
        raise _there_already(path) from None
