"""`sortie worklog`: the commands for WORKLOG.md, each loaded when it is called; and how they find and open it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import SortieError
from .main import LazyGroup
from .peers_options import place_of, typed

if TYPE_CHECKING:
    from ..peers.place import Place
    from ..peers.worklog.worklog_file import WorklogFile

NAME = "WORKLOG.md"
_LARGEST_CHARTER = 1024 * 1024
FAMILIES = {
    ("init",): "make a work log to begin with",
    ("status",): "who works on what, what is open; set your own line",
    ("since",): "what happened since an agent's last turn",
    ("show",): "entries in full",
    ("events",): "everything as typed events; --json for programs",
    ("claim", "complete", "handoff"): "begin, end or pass on a task",
    ("append",): "record anything else",
    ("propose", "amend", "object"): "suggest something, or something else",
    ("decide",): "record a decision, in its entry and in the index",
    ("escalate",): "ask the maintainer to settle something",
    ("lint",): "what is wrong with the work log, with the fix",
    ("verify",): "what was edited or removed, and by whom",
}
_HOMES = {
    "init": "worklog_tasks",
    "append": "worklog_tasks",
    "claim": "worklog_tasks",
    "complete": "worklog_tasks",
    "handoff": "worklog_tasks",
    "propose": "worklog_opinions",
    "amend": "worklog_opinions",
    "object": "worklog_opinions",
    "decide": "worklog_opinions",
    "escalate": "worklog_opinions",
    "status": "worklog_status",
    "show": "worklog_look",
    "since": "worklog_look",
    "events": "worklog_look",
    "lint": "worklog_check",
    "verify": "worklog_check",
}
HOMES = {name: _HOMES[name] for names in FAMILIES for name in names}


class WorklogGroup(LazyGroup):
    families = FAMILIES
    homes = HOMES

    def is_shorthand(self, word: str) -> bool:  # noqa: ARG002
        return False


@click.group("worklog", cls=WorklogGroup, invoke_without_command=True)
@click.pass_context
def worklog_command(ctx: click.Context) -> None:
    """The log that agents share, WORKLOG.md: who works on what, what was decided, what happened. Entries are only
    ever added."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def place_with_log(root: Path | None) -> Place:
    """Where there is a work log, or at least something of that name."""
    fix = f"{typed('worklog init', root)} makes one; or name the checkout with --root."
    if root is None and not os.path.lexists(NAME):
        try:
            place = place_of(None)
        except SortieError:
            raise SortieError(f"There is no {NAME} here or in a directory above.", fix=fix) from None
    else:
        place = place_of(root or Path())
    if not os.path.lexists(place.worklog):
        raise SortieError(f"There is no {NAME} in {place.root}.", fix=fix)
    return place


def log_at(place: Place) -> WorklogFile:
    """With the id of the session, which the charter has."""
    from ..peers.worklog.worklog_file import WorklogFile

    return WorklogFile(place.worklog, session_id=session_id_of(place))


def session_id_of(place: Place) -> str:
    from ..protocol.safefiles import open_directory, read_bounded

    try:
        with open_directory(place.root) as directory:
            data = read_bounded(directory, place.charter.name, _LARGEST_CHARTER, linked=True)
    except OSError:
        return ""
    from ..peers.charter.charter import parse_charter

    return parse_charter(data).session_id
