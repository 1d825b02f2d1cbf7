"""`sortie run`: the service on a terminal, in a log, or as a preview of what it would do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .exit_codes import DONE, FAILED, UNFINISHED, decided
from .format import clean, runnable
from .store_access import env_file_option, json_option, load_checked, workflow_argument

if TYPE_CHECKING:
    from ..engine.report import Summary
    from ..store.load import Loaded
    from .run_summary import Tally

NAMED_AT_THE_END = 10


@click.command("run")
@workflow_argument
@click.option("--until-idle", is_flag=True, help="End when nothing is running, due or ready to start.")
@click.option("--dry-run", is_flag=True, help="Show what would start and what would not; change nothing.")
@env_file_option
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Default: logging.format, else text.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warn", "warning", "error"]),
    help="Default: logging.level, else info.",
)
@json_option
def run_command(
    workflow: Path,
    until_idle: bool,
    dry_run: bool,
    env_file: Path | None,
    log_format: str | None,
    log_level: str | None,
    as_json: bool,
) -> int:
    """Work off the tracker: give each active issue a workspace and an agent, until told to stop.

    On a terminal you see a live view, otherwise log lines on standard error. The first Ctrl-C (or SIGTERM) ends
    the agents and keeps what is needed to resume them; a second one ends at once.

    With --until-idle the exit code is 0 where everything was done, 3 where issues were left parked, failed, blocked
    by others or out of budget, and 1 where it was stopped before that.
    """
    if dry_run:
        from .dry_run import show_preview

        return show_preview(workflow, env_file, as_json=as_json)
    if as_json:
        raise click.UsageError("--json goes with --dry-run; for logs there is --log-format json.")
    return _serve(workflow, env_file, log_format, log_level, until_idle=until_idle)


def _serve(
    workflow: Path, env_file: Path | None, log_format: str | None, log_level: str | None, *, until_idle: bool
) -> int:
    from ..engine.orchestrator import Orchestrator
    from .run_summary import Tally, print_tally
    from .serving import Voice, remembered, serve_aloud

    loaded = load_checked(workflow, env_file)
    before = remembered(loaded.config)
    tally = Tally()
    if before:
        tally.remember(before)

    def build(voice: Voice) -> Orchestrator:
        for warning in loaded.warnings:
            voice.say("warning", warning)
        return Orchestrator(
            workflow,
            environ=os.environ,
            env_file=env_file,
            listeners=[tally.hear, voice.hear],
            on_trouble=voice.trouble,
        )

    summary = serve_aloud(
        build,
        loaded.config,
        _names(before) if before else {},
        log_format=log_format,
        log_level=log_level,
        until_idle=until_idle,
    )
    code = decided(_code(summary, until_idle=until_idle))
    if until_idle:
        print_tally(tally)
    if summary.drained:
        click.echo(runnable(_farewell(tally)))
    return code


def _names(before: Loaded) -> dict[str, str]:
    """By issue id: those that are active, and those of which only the workspace is left."""
    left = {row.issue_id: row.identifier for row in before.workspaces}
    return left | {view.id: view.identifier for view in before.issues.values()}


def _code(summary: Summary, *, until_idle: bool) -> int:
    if not until_idle:
        return DONE
    if summary.drained:
        return FAILED
    return DONE if summary.clean else UNFINISHED


def _farewell(tally: Tally) -> str:
    interrupted = tally.interrupted()
    if not interrupted:
        return "Stopped; nothing was interrupted."
    named = ", ".join(interrupted[:NAMED_AT_THE_END])
    more = len(interrupted) - NAMED_AT_THE_END
    others = f" and {more} more" if more > 0 else ""
    return clean(f"Stopped; interrupted: {named}{others}. The next `sortie run` resumes it.")
