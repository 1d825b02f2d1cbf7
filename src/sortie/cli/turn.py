"""`sortie turn`: let an agent take a turn in the checkout that all share; or say whose turn it is, and what was."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .format import clean, program
from .main import DONE, UNFINISHED, decided
from .peers_options import place_of, root_option, text_from
from .printing import json_option
from .ticker import QUIET_SECONDS

if TYPE_CHECKING:
    from ..engine.orchestrator import Orchestrator
    from ..engine.report import Summary
    from ..peers.place import Place
    from ..peers.turns.conclude import TurnReport
    from ..sources.peer_turns import PeerSource
    from .run import Output

KINDS = ("work", "review", "mailbox")


@click.command("turn")
@click.argument("agent", required=False)
@click.option("--task", "-t", default="", metavar="TEXT", help="What it is to do; `-` reads it from a pipe.")
@click.option("--kind", type=click.Choice(KINDS), help="What kind of turn; work if left out.")
@click.option("--next", "propose", is_flag=True, help="Only say whose turn it is, and why.")
@click.option("--list", "listing", is_flag=True, help="List the turns so far.")
@click.option("--why", type=click.IntRange(1), metavar="NUMBER", help="Explain what happened in a turn.")
@click.option("--log", type=click.IntRange(1), metavar="NUMBER", help="Print what the agent said in a turn.")
@click.option("-f", "--follow", is_flag=True, help="With --log: go on until the turn ends.")
@click.option("--dry-run", is_flag=True, help="Print the prompt of the turn; change nothing.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="Default: text.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warn", "error"]), default="info", help="Default: info."
)
@root_option
@json_option
@click.pass_context
def turn_command(
    ctx: click.Context,
    agent: str | None,
    task: str,
    kind: str | None,
    propose: bool,
    listing: bool,
    why: int | None,
    log: int | None,
    follow: bool,
    dry_run: bool,
    log_format: str,
    log_level: str,
    root: Path | None,
    as_json: bool,
) -> int:
    """Let AGENT take a turn in the checkout that all share. It is told the charter, its lane, what happened since
    its last turn, its mail and the task.

    Afterwards what it changed is checked against the lanes and the log. Nothing starts by itself: every turn is
    asked for by a person, and only one at a time.

    The exit code is 0 where the turn is done, 3 where something of it needs the maintainer (it is blocked, failed
    or was interrupted, changed what is not its own, left urgent mail unanswered, or the budget is used up), 1 where
    none could be taken, and 2 where peers.yaml or the command is wrong.
    """
    _refuse_several(agent, propose=propose, listing=listing, why=why, log=log)
    place = place_of(root)
    if propose or not (agent or listing or why or log):
        from .turn_look import show_next

        if not propose:
            click.echo(f"{ctx.get_usage()}\n", err=True)
        return show_next(place, root, as_json=as_json, asked=propose)
    if listing or why or log:
        from .turn_look import show_log, show_turns, show_why

        if why:
            return show_why(place, why, as_json=as_json)
        return show_log(ctx, place, log, follow=follow) if log else show_turns(place, as_json=as_json)
    return _take(place, root, agent or "", task, kind, dry_run, log_format, log_level, as_json=as_json)


def _refuse_several(agent: str | None, **others: object) -> None:
    given = [
        f"--{name.replace('propose', 'next').replace('listing', 'list')}" for name, value in others.items() if value
    ]
    if agent and given:
        raise click.UsageError(f"AGENT starts a turn, and {given[0]} does not; only one of them can be given.")
    if len(given) > 1:
        raise click.UsageError(f"Either {given[0]} or {given[1]}.")


def _take(
    place: Place,
    root: Path | None,
    agent: str,
    task: str,
    kind: str | None,
    dry_run: bool,
    log_format: str,
    log_level: str,
    *,
    as_json: bool,
) -> int:
    from ..engine.turn_taking import OutOfBudget, TurnTaking
    from ..peers.author import refuse_in_a_run
    from ..peers.turns.begin import TurnOrder, open_session, preview
    from .printing import print_json
    from .store_access import complain
    from .turn_report import print_report, report_json

    order = TurnOrder(
        agent=agent,
        kind=kind or "work",  # type: ignore[arg-type]
        task=text_from(task),
        command=_command(),
    )
    session = open_session(place)
    if not dry_run:
        refuse_in_a_run("starts a turn", fix="Record in the work log what should be done next, and end your turn.")
    for warning in session.warnings:
        complain(warning)
    if dry_run:
        click.echo(preview(session, order), nl=False)
        return DONE
    earlier: list[TurnReport] = []
    with _Progress() as progress:
        runner = _Runner(place, log_format, log_level, progress)
        taking = TurnTaking(place, os.environ, run=runner, watch=progress.watch, tell=earlier.append)
        try:
            report = taking.take(order)
        except OutOfBudget as error:
            for one in earlier:
                print_report(one, root)
            complain(str(error))
            return UNFINISHED
    code = decided(UNFINISHED if report.needs_maintainer else DONE)
    if as_json:
        print_json({**report_json(report), "earlier": [report_json(one) for one in earlier]})
        return code
    for one in (*earlier, report):
        print_report(one, root)
    return code


def _command() -> str:
    """How an agent starts us, whatever its directory and its PATH."""
    if (typed := program()) == "sortie":
        return typed
    started = Path(sys.argv[0]).absolute()
    return shlex.quote(str(started)) if started.name == "sortie" else f"{shlex.quote(sys.executable)} -m sortie"


class _Progress:
    """Says what is being done once that takes long enough for a person to wonder."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def watch(self, doing: str) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = threading.Timer(QUIET_SECONDS, click.echo, (f"{clean(doing)} …",), {"err": True})
        self._timer.daemon = True
        if doing:
            self._timer.start()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.watch("")


class _Runner:
    """Carries out a turn, and shows it meanwhile."""

    def __init__(self, place: Place, log_format: str, log_level: str, progress: _Progress) -> None:
        self._place = place
        self._progress = progress
        self._log_format = log_format
        self._log_level = log_level

    def __call__(self, source: PeerSource) -> Summary:
        from ..engine.orchestrator import Orchestrator
        from ..sources.peer_turns import STORE
        from .run import serve_with_output

        self._progress.watch("")

        def build(output: Output) -> Orchestrator:
            return Orchestrator.on_this_machine(
                source,
                self._place.state / STORE,
                os.environ,
                listeners=[output.on_event],
                on_trouble=output.on_trouble,
            )

        return serve_with_output(
            build, source.secrets, {}, log_format=self._log_format, log_level=self._log_level, until_idle=True
        )
