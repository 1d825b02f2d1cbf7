"""`sortie run`: the service, shown live on a terminal and as log lines elsewhere; or a preview of it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from .format import clean, runnable
from .main import DONE, FAILED, UNFINISHED, decided
from .printing import json_option
from .serving import Served, open_dashboard, server_options
from .store_access import env_file_option, load_checked, require_workflow, workflow_argument

if TYPE_CHECKING:
    from ..core import events as ev
    from ..engine.orchestrator import Orchestrator
    from ..engine.report import LiveReport, Summary
    from ..store.load import Loaded
    from .live_screen import LiveScreen
    from .loglines import LogLines
    from .run_summary import Tally

    Output = LiveScreen[Any] | LogLines

NAMED_AT_THE_END = 10


@click.command("run")
@workflow_argument
@click.option("--until-idle", is_flag=True, help="End when nothing is running, due or ready to start.")
@click.option("--dry-run", is_flag=True, help="Show what would start and what would not; change nothing.")
@server_options("Port of the dashboard; 0: no dashboard. Default: 7678.")
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
    port: int | None,
    host: str | None,
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

    The dashboard is served on http://127.0.0.1:7678/ where that port is free; with --until-idle only where a port
    was asked for. A port that was asked for and is taken ends the command before anything starts.
    """
    if dry_run:
        return _show_preview(workflow, env_file, as_json=as_json)
    if as_json:
        raise click.UsageError("--json goes with --dry-run; for logs there is --log-format json.")
    return _serve(workflow, env_file, log_format, log_level, port, host, until_idle=until_idle)


def _serve(
    workflow: Path,
    env_file: Path | None,
    log_format: str | None,
    log_level: str | None,
    port: int | None,
    host: str | None,
    *,
    until_idle: bool,
) -> int:
    from ..engine.listen_socket import as_asked
    from ..engine.orchestrator import Orchestrator
    from ..sources.issues import IssueSource
    from .run_summary import Tally, print_tally

    require_workflow(workflow)
    source = IssueSource.open(workflow, os.environ, env_file)
    served = open_dashboard(
        as_asked(source.config.server, port, host),
        source.config.db_path,
        workflow,
        os.environ,
        env_file=env_file,
        only_if_asked=until_idle,
    )
    before = remembered(source.config.db_path)
    tally = Tally()
    if before:
        tally.remember(before)

    def build(output: Output) -> Orchestrator:
        for warning in source.workflow.warnings:
            output.log("warning", warning)
        return Orchestrator.on_this_machine(
            source,
            source.config.db_path,
            os.environ,
            listeners=[tally.on_event, output.on_event],
            on_trouble=output.on_trouble,
        )

    summary = serve_with_output(
        build,
        source.config.secrets,
        names_in(before) if before else {},
        log_format=log_format or source.config.logging.format,
        log_level=log_level or source.config.logging.level,
        until_idle=until_idle,
        served=served,
    )
    code = decided(_code(summary, until_idle=until_idle))
    if until_idle and (tally.lines or not summary.drained):  # who was stopped before the first look knows nothing
        print_tally(tally)
    if summary.drained:
        click.echo(runnable(_farewell(tally)))
    return code


def names_in(before: Loaded) -> dict[str, str]:
    """By issue id: those that are active, and those of which only the workspace is left."""
    schedule = before.schedule
    left = {record.issue_id: record.identifier for record in schedule.workspaces.values()}
    return left | {view.id: view.identifier for view in schedule.issues.values()}


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


def serve_with_output(
    build: Callable[[Output], Orchestrator],
    secrets: Collection[str],
    names: dict[str, str],
    *,
    log_format: str = "text",
    log_level: str = "info",
    until_idle: bool = False,
    view: Callable[[Callable[[], LiveReport | None], Callable[[str], str]], Output] | None = None,
    served: Served | None = None,
) -> Summary:
    """Build the orchestrator with somewhere to tell about it, and run it to its end.

    `names` are the identifiers, by issue id, of the issues that are known before. `view` makes another live view
    than the usual one, of a look at what goes on and of what takes secrets out. `served` is its dashboard.
    """

    from ..core.redact import Redactor
    from ..engine.service import serve
    from .loglines import LogLines

    def look() -> LiveReport | None:
        return orchestrator.report()

    hide = Redactor(secrets).text
    output: Output
    if log_format == "json" or not _is_drawable(sys.stderr):
        output = LogLines(log_level, as_json=log_format == "json", names=names)
    elif view:
        output = view(look, hide)
    else:
        from .live import LiveView  # brings rich

        output = LiveView(look, hide, names)
    orchestrator = build(output)
    served = served or Served(None)
    beside = []
    if served.dashboard:
        orchestrator.dashboard = served.dashboard.url
        beside.append(partial(served.dashboard.run, orchestrator.report, partial(served.announce, output)))

    def end_output() -> None:
        output.close()
        click.echo("Ended at once. The next run resumes what was running.", err=True)

    with served.held(), closing(output), _records_forwarded(output.log):
        output.open()
        if served.hint:
            output.log("warning", served.hint)
        return serve(
            orchestrator,
            until_idle=until_idle,
            on_drain=output.on_drain,
            before_exit=end_output,
            beside=beside,
        )


def _is_drawable(stream: IO[str]) -> bool:
    """Whether a live view can be drawn there."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def remembered(database: Path) -> Loaded | None:
    """What an earlier run left in the store; None where there is none that can be read."""
    import sqlite3

    from ..errors import StoreError
    from ..store.connect import connect_readonly
    from ..store.load import load

    if not database.exists():
        return None
    try:
        with closing(connect_readonly(database)) as db:
            return load(db)
    except (StoreError, sqlite3.Error):
        return None  # the service itself is about to say what is wrong with it


class _Forwarder(logging.Handler):
    def __init__(self, log: Callable[[str, str], None]) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log("error" if record.levelno >= logging.ERROR else "warning", self.format(record))


@contextmanager
def _records_forwarded(log: Callable[[str, str], None]) -> Iterator[None]:
    """What libraries and the service itself tell `logging` goes where everything else goes."""
    forwarder = _Forwarder(log)
    logging.getLogger().addHandler(forwarder)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(forwarder)


# -- the preview ----------------------------------------------------------------------------------------------


def _show_preview(workflow: Path, env_file: Path | None, *, as_json: bool) -> int:
    """What a start would do now, without doing it."""
    import anyio

    from ..engine.preview import preview
    from .printing import Columns, print_json, print_table
    from .ticker import told_when_slow

    load_checked(workflow, env_file)
    with told_when_slow("asking the tracker"):
        found = anyio.run(partial(preview, workflow, environ=os.environ, env_file=env_file))
    for sentence in (*found.problems, *(f"{warning}. {warning.fix}" for warning in found.warnings)):
        click.echo(clean(f"warning: {sentence}"), err=True)
    if as_json:
        print_json([{**_plain(event), "text": ": ".join(_words(event))} for event in found.decision])
    elif found.decision:
        rows = [(getattr(event, "identifier", event.issue_id), *_words(event)) for event in found.decision]
        print_table(Columns(("issue", "decision", "because"), rows, cut=("because",)))
    else:
        click.echo("The tracker shows no active issue; nothing would start.")
    return DONE


def _plain(event: ev.AnyEvent) -> dict[str, Any]:
    """The decision as data; its name says what would be done, as `decided`."""
    import msgspec

    told: dict[str, Any] = msgspec.to_builtins(event)
    return {"do": _DECISIONS.get(told.pop("kind"), ""), **{key: told[key] for key in told if key != "at"}}


_DECISIONS = {"claim": "start", "skip": "skip", "stop": "stop", "park": "park", "unpark": "unpark", "drop": "drop"}


def _words(event: ev.AnyEvent) -> tuple[str, str]:
    """The decision, and the rule behind it."""
    from ..core import events as ev
    from ..core.narrate import CAUSES, RULES

    match event:
        case ev.Claimed():
            return "would start", f"{CAUSES.get(event.cause, event.cause)} (attempt {event.attempt})"
        case ev.Skipped():
            rule = RULES.get(event.rule, event.rule)
            return "held back", f"{rule}: {event.detail}" if event.detail else rule
        case ev.Stopping():
            return "would stop", event.detail
        case ev.Parked():
            return "would be parked", event.park.reason
        case ev.Unparked():
            return "no longer parked", event.why
        case ev.RetryDropped():
            return "not tried again", event.why
    return "", ""
