"""`sortie worklog events`, `since`, `show`: what happened, as a table, as envelopes for programs, and in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import SortieError
from .format import clean
from .main import DONE
from .peers_options import known_name, root_option
from .printing import Columns, json_option, print_json, print_table
from .worklog import log_at, place_with_log, session_id_of

if TYPE_CHECKING:
    from ..peers.journal import Record
    from ..peers.place import Place
    from ..peers.worklog.cursor import Cursor
    from ..peers.worklog.entry import Entry
    from ..peers.worklog.event import Event
    from ..peers.worklog.log import Worklog

# As sortie.peers.worklog.event has them; that is not loaded for a page of help.
TYPES = (
    *("task.claimed", "task.completed", "handoff.posted", "proposal.created", "proposal.amended"),
    *("objection.raised", "decision.recorded", "escalation.requested", "note"),
)
_LAST = 3


@click.command("events")
@click.option(
    "--type", "event_type", type=click.Choice(TYPES), metavar="TYPE", help=f"Only these: {', '.join(TYPES)}."
)
@click.option("--actor", default="", metavar="NAME", help="Only what this one says to have done.")
@root_option
@json_option
def events_command(event_type: str | None, actor: str, root: Path | None, as_json: bool) -> int:
    """Show everything that the work log tells, in its order.

    With --json each event is an envelope of eight keys. Its id stays the same, however often it is read and
    whatever is added later; where it is on record who wrote it, the payload has `written_by`.
    """
    from ..peers.roster import fold
    from ..peers.worklog.events import events_of

    place = place_with_log(root)
    log = log_at(place)
    read = log.read()
    events = [
        event
        for event in events_of(read, session_id_of(place))
        if event_type in (None, event.event_type) and (not actor or fold(event.actor) == fold(actor))
    ]
    if as_json:
        print_json(_envelopes(events, read, log.written_by()))
    else:
        _print_events(events)
    return DONE


@click.command("since")
@click.argument("agent", default="")
@click.option(
    "--cursor", "place_in_log", metavar="CURSOR", help="Since what an earlier --json answer gave as `cursor`."
)
@click.option("--turn", type=int, metavar="NUMBER", help="Since that turn began.")
@root_option
@json_option
def since_command(agent: str, place_in_log: str | None, turn: int | None, root: Path | None, as_json: bool) -> int:
    """Show what happened since an AGENT's last turn. Asking again gives the same.

    Without AGENT, in a turn, it is the one whose turn it is; an agent that had no turn yet is told everything.
    """
    place = place_with_log(root)
    if sum((bool(agent), place_in_log is not None, turn is not None)) > 1:
        raise click.UsageError("AGENT, --cursor and --turn each say since when; one of them is enough.")
    log = log_at(place)
    events, cursor = log.since(_cursor(place, agent, place_in_log, turn))
    if as_json:
        told = _envelopes(events, log.read(), log.written_by()) if events else []
        print_json({"events": told, "cursor": cursor.encode(), "remark": cursor.moved})
        return DONE
    if cursor.moved:
        click.echo(clean(f"sortie: {cursor.moved}"), err=True)
    _print_events(events)
    return DONE


def _cursor(place: Place, agent: str, encoded: str | None, number: int | None) -> Cursor | None:
    """None is the beginning."""
    from ..peers.turn_register import TurnRegister
    from ..peers.worklog.cursor import Cursor

    if encoded is not None:
        return Cursor.decode(encoded)
    turns = TurnRegister(place).turns()
    if number is not None:
        found = next((one for one in turns if one.number == number), None)
        if found is None:
            raise SortieError(f"There is no turn {number} here.", fix="`sortie turn --list` shows them.")
    else:
        from ..peers.author import AuthorityError, author_of_process
        from ..peers.roster import roster_of
        from ..peers.turns.briefing import last_heard

        roster = roster_of(place)
        try:
            name = known_name(agent, roster, "AGENT") or author_of_process(place, maintainer=roster.maintainer).name
        except AuthorityError as error:
            raise AuthorityError(error.message, fix="Say of which agent: `sortie worklog since NAME`.") from error
        found = last_heard(turns, name)
    return Cursor.decode(found.cursor) if found is not None and found.cursor else None


@click.command("show")
@click.argument("entry_id", default="")
@click.option("--last", type=click.IntRange(1), metavar="NUMBER", help="So many of the latest; default: 3.")
@root_option
@json_option
def show_command(entry_id: str, last: int | None, root: Path | None, as_json: bool) -> int:
    """Show an entry in full, by its id or the beginning of that; without one, the latest."""
    if entry_id and last:
        raise click.UsageError("Either an entry, or --last.")
    log = log_at(place_with_log(root))
    read = log.read()
    written_by = log.written_by()
    entries = _named(read, entry_id) if entry_id else read.entries[-(last or _LAST) :]
    if as_json:
        print_json([_as_json(read, entry, written_by) for entry in entries])
        return DONE
    for number, entry in enumerate(entries):
        if number:
            click.echo()
        author = _author(entry, written_by)
        who = f"written by {author}" if author else "who wrote it so is not on record"
        click.echo(clean(f"{entry.entry_id}  line {read.line_of(entry.start)}  {who}"))
        for line in entry.text.split("\n"):
            click.echo(clean(line))
    return DONE


def _named(log: Worklog, wanted: str) -> Sequence[Entry]:
    from ..peers.worklog.event import entry_id_of

    start = entry_id_of(wanted)
    found = [entry for entry in log.entries if entry.entry_id.startswith(start)]
    exact = [entry for entry in found if entry.entry_id == start]
    if not found:
        if row := next((row for row in log.index if row.row_id.startswith(start)), None):
            where = log.line_of(row.start)
            raise SortieError(
                f'{wanted} is the row "{row.decision}" of the decision index, at line {where}, and no entry.',
                fix="`sortie worklog status` shows the index.",
            )
        raise SortieError(f"There is no entry {wanted}.", fix="`sortie worklog events` shows the ids of all.")
    if len(found) > 1 and not exact:
        raise SortieError(f"{len(found)} entries begin with {wanted}.", fix="Give more of the id.")
    return exact or found


def _author(entry: Entry, written_by: Mapping[str, Record]) -> str:
    """Empty where that is not on record, or the text is not what was written then."""
    from ..peers.worklog.verify_journal import is_as_written

    record = written_by.get(entry.entry_id)
    return record.author if record and is_as_written(entry, record) else ""


def _as_json(log: Worklog, entry: Entry, written_by: Mapping[str, Record]) -> dict[str, Any]:
    return {
        "entry_id": entry.entry_id,
        "line": log.line_of(entry.start),
        "actor": entry.actor,
        "timestamp": entry.timestamp,
        "written_by": _author(entry, written_by) or None,
        "text": entry.text,
    }


def _envelopes(events: Sequence[Event], log: Worklog, written_by: Mapping[str, Record]) -> list[dict[str, Any]]:
    """As the document has them, each with who wrote it where that is on record."""
    told = {event.entry_id for event in events}
    authors = {name: record.author for name, record in written_by.items() if name.startswith("wd-")}
    for entry in log.entries if written_by else ():
        if (name := entry.entry_id) in told:
            authors[name] = _author(entry, written_by)
    found = []
    for event in events:
        envelope = event.envelope()
        if author := authors.get(event.entry_id):
            envelope["payload"] = {**event.payload, "written_by": author}
        found.append(envelope)
    return found


def _print_events(events: Sequence[Event]) -> None:
    if not events:
        click.echo("nothing")
        return
    rows = [[one.event_id, one.timestamp, one.actor, one.event_type, one.subject] for one in events]
    headers = ["id", "time", "actor", "event", "subject"]
    print_table(Columns(headers, rows, cut=["subject"], spare=["id", "time"]))
