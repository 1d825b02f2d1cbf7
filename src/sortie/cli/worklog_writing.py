"""How `sortie worklog` writes, and what it says then: the ids of the events, and what was lost earlier."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import SortieError
from .format import clean, runnable, stamp
from .main import DONE, decided
from .peers_options import place_of, typed, writer
from .printing import print_json
from .worklog import NAME, session_id_of

if TYPE_CHECKING:
    from ..peers.author import Author
    from ..peers.journal import Record
    from ..peers.place import Place
    from ..peers.worklog.compose import AnyRecordable

Command = TypeVar("Command", bound=Callable[..., Any])

_MOST_NAMED = 5

note_option = click.option("--note", default="", metavar="TEXT", help="Anything else; `-` reads standard input.")


def record(place: Place, what: AnyRecordable, author: Author, *, root: Path | None, as_json: bool) -> int:
    """Write it, and print the ids of events and proposal. It is written whether anybody reads that or not."""
    from ..peers.worklog.worklog_file import WorklogFile

    recorded = WorklogFile(place.worklog).record(what, author, at=time.time(), tell_lost=True)
    code = decided(DONE)
    tell_lost(recorded.lost, root)
    if as_json:
        lost = [one.subject for one in recorded.lost]
        called = {"proposal_id": recorded.proposal_id} if recorded.proposal_id else {}
        print_json({"event_ids": recorded.event_ids, **called, "written_by": author.name, "lost": lost})
    else:
        click.echo("\n".join(filter(None, (*recorded.event_ids, recorded.proposal_id))))
    return code


def tell_lost(lost: Sequence[Record], root: Path | None) -> None:
    """On standard error: what was recorded earlier and went since, and how to get it back."""
    if not lost:
        return
    what, them = ("One entry", "it") if len(lost) == 1 else (f"{len(lost):,} entries", "them")
    restore = typed("worklog verify --restore", root)
    said = f"{what} recorded earlier went from {NAME}: somebody saved an older version. {restore} puts {them} back."
    click.echo(f"sortie: {clean(runnable(said))}", err=True)
    for one in lost[:_MOST_NAMED]:
        title = one.text.strip().partition("\n")[0].lstrip("# ")
        click.echo(clean(f"  {one.subject}: {title} ({one.author}, {stamp(one.at)})"), err=True)
    if len(lost) > _MOST_NAMED:
        click.echo(f"  and {len(lost) - _MOST_NAMED:,} more", err=True)


def create(root: Path | None, agents: Sequence[str], as_name: str) -> Path:
    """The new work log."""
    from ..peers.place import place_at
    from ..peers.roster import roster_of
    from ..peers.worklog.worklog_file import WorklogFile

    try:
        place = place_of(root)
    except SortieError:
        if root is not None:
            raise
        place = place_at(Path.cwd())
    if os.path.lexists(place.worklog):
        raise SortieError(
            f"There is a {NAME} in {place.root} already.", fix=f"{typed('worklog status', root)} shows it."
        )
    roster = roster_of(place)
    names = tuple(agents) or roster.agents
    if not names:
        raise SortieError("Nobody says who takes part.", fix="Name each agent with --agent NAME.")
    log = WorklogFile(place.worklog, session_id=session_id_of(place))
    log.create(names, roster.maintainer, writer(place, as_name), time.time())
    return place.worklog
