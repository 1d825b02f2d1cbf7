"""`sortie plan run`: the tasks of a plan to their end; the graph live on a terminal, log lines elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .format import clean, runnable
from .main import DONE, FAILED, UNFINISHED, decided
from .plan import load, plan_argument
from .serving import Served, open_dashboard, server_options, settings_of_environment

if TYPE_CHECKING:
    from ..core.events import AnyEvent
    from ..engine.orchestrator import Orchestrator
    from ..engine.report import LiveReport, Summary
    from ..plans.plan import Plan
    from ..sources.plan_tasks import PlanSource
    from ..store.load import Loaded
    from .plan_live import PlanView
    from .run import Output


@click.command("run")
@plan_argument
@click.option("--dry-run", is_flag=True, help="Show what would be done and what would not; change nothing.")
@click.option(
    "--max-parallel", type=click.IntRange(1), help="Instead of the plan's own: how many at the same time."
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="Default: text.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warn", "warning", "error"]),
    default="info",
    help="Default: info.",
)
@server_options("Serve the dashboard here. Default: nowhere.")
def run_command(
    plan: Path,
    dry_run: bool,
    max_parallel: int | None,
    log_format: str,
    log_level: str,
    port: int | None,
    host: str | None,
) -> int:
    """Run a plan: every task starts when all that it waits for is over, until none is left that can.

    A plan that was interrupted goes on where it was; after a change, what the change touches is done again, and is
    named first. The exit code is 0 where every task is completed, 3 where some failed or wait for a person, and 1
    where it was stopped before that. The dashboard is served only where --port, --host or SORTIE_SERVER_PORT asks
    for it.
    """
    from ..engine.listen_socket import as_asked
    from ..sources.plan_tasks import PlanSource
    from .run import remembered

    loaded = load(plan)
    before = remembered(loaded.store)
    source = PlanSource(loaded, os.environ, max_parallel)
    if before:
        source.remember(before.schedule)
    if dry_run:
        return _show_plan(source, before)
    server = as_asked(settings_of_environment(os.environ), port, host)
    served = open_dashboard(server, loaded.store, plan, os.environ, is_plan=True, only_if_asked=True)
    _say_what_is_done_again(source)
    summary = serve_plan(source, before, log_format=log_format, log_level=log_level, served=served)
    return _close(source.latest.plan, summary)  # it may have changed meanwhile


def serve_plan(
    source: PlanSource,
    before: Loaded | None = None,
    *,
    log_format: str = "text",
    log_level: str = "info",
    served: Served | None = None,
) -> Summary:
    """Run it to its end, and show it meanwhile."""
    from ..engine.orchestrator import Orchestrator
    from .run import names_in, serve_with_output

    plan, names = source.plan, names_in(before) if before else {}

    def make(output: Output) -> Orchestrator:
        return Orchestrator.on_this_machine(
            source,
            plan.store,
            os.environ,
            listeners=[_unless_it_waits(output.on_event)],
            on_trouble=output.on_trouble,
        )

    def view(look: Callable[[], LiveReport | None], hide: Callable[[str], str]) -> PlanView:
        from .plan_live import PlanView  # brings rich
        from .plan_look import PlanLook

        return PlanView(plan, PlanLook(source, look), hide, names)

    return serve_with_output(
        make,
        source.secrets,
        names,
        log_format=log_format,
        log_level=log_level,
        until_idle=True,
        view=view,
        served=served,
    )


def _unless_it_waits(listener: Callable[[AnyEvent], None]) -> Callable[[AnyEvent], None]:
    """That a task waits for others is what a plan says already, and of a large one it would be most of the log."""
    from ..core.events import Skipped

    def heard(event: AnyEvent) -> None:
        if not (isinstance(event, Skipped) and event.rule == "blocked-by"):
            listener(event)

    return heard


def _say_what_is_done_again(source: PlanSource) -> None:
    if not source.again:
        return
    they_are = "it is" if len(source.again) == 1 else "they are"
    click.echo(
        clean(f"To be done again: {', '.join(source.again)} (what {they_are} asked for, or given, changed)."),
        err=True,
    )
    if after := _may_follow(source):
        click.echo(clean(f"After that, if what they get changes: {', '.join(after)}."), err=True)


def _may_follow(source: PlanSource) -> list[str]:
    """Completed tasks that are done again if what those before them deliver then is something else."""
    from ..plans.graph import descendants
    from ..plans.progress import COMPLETED

    touched = descendants(source.plan.edges, source.again)
    return [name for name, state in source.progress.states.items() if name in touched and state == COMPLETED]


def _show_plan(source: PlanSource, before: Loaded | None) -> int:
    from ..core.schedule import Schedule
    from ..plans.standing import standings
    from .printing import Columns, print_table

    schedule = before.schedule if before else Schedule()
    found = standings(source.plan, schedule, time.time(), served=False)
    follow, freed = set(_may_follow(source)), set(source.freed())
    rows = []
    for task in source.plan.tasks:
        state, note = found[task.name].state, found[task.name].note
        if again := source.again.get(task.name):
            state, note = "outdated", f"would be done again: {again}"
        elif task.name in freed:
            state, note = "ready", "would be tried again: what it is asked for changed"
        elif task.name in follow:
            state, note = "outdated", "would be done again if what it gets changes"
        rows.append((task.name, state, note))
    print_table(Columns(("task", "state", "because"), rows, cut=("because",)))
    return DONE


def _close(plan: Plan, summary: Summary) -> int:
    """What came of it, and what a person can do about the rest."""
    from ..reports.plan_standing import task_lines
    from .plan_status import print_standing, what_is_left
    from .printing import print_sentence

    lines = task_lines(plan)
    done = all(line.state == "completed" for line in lines)
    code = decided(FAILED if summary.drained else DONE if done else UNFINISHED)
    print_standing(plan, lines)
    if summary.drained:
        click.echo(runnable("Stopped; the next `sortie plan run` goes on."))
    elif done:
        click.echo(runnable("Every task is completed; `sortie plan collect` brings the results together."))
    else:
        print_sentence(what_is_left(plan, lines))
    return code
