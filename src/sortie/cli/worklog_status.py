"""`sortie worklog status`: who works on what, what was decided, what is open; and setting one's own line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .main import DONE
from .peers_options import as_option, root_option, writer
from .printing import Columns, json_option, print_json, print_table
from .worklog import log_at, place_with_log

if TYPE_CHECKING:
    from ..peers.place import Place
    from ..peers.worklog.event import Event
    from ..peers.worklog.log import Worklog
    from ..peers.worklog.open_items import OpenItems

_LATEST = 5


@click.command("status")
@click.option("--set", "text", metavar="TEXT", help="Set your own status line.")
@click.option("--focus", metavar="TEXT", help="Set the maintainer's focus; the maintainer only.")
@click.option("--checkpoint", metavar="TEXT", help="Set the next review; the maintainer only.")
@root_option
@as_option
@json_option
def status_command(
    text: str | None, focus: str | None, checkpoint: str | None, root: Path | None, as_name: str, as_json: bool
) -> int:
    """Show who works on what, the latest decisions, and what is open; or set your own status line."""
    place = place_with_log(root)
    if text is not None or focus is not None or checkpoint is not None:
        _set(place, text, focus, checkpoint, as_name)
    elif as_name:
        raise click.UsageError("--as is for --set, --focus and --checkpoint.")
    _show(place, as_json=as_json)
    return DONE


def _set(place: Place, text: str | None, focus: str | None, checkpoint: str | None, as_name: str) -> None:
    from ..peers.author import AuthorityError
    from ..peers.worklog.pinned_lines import CHECKPOINT, FOCUS, set_pinned

    author, now = writer(place, as_name), time.time()
    for label, said in ((FOCUS, focus), (CHECKPOINT, checkpoint)):
        if said is not None:
            set_pinned(place.worklog, label, said, author, now)
    if text is None:
        return
    if author.role == "maintainer":
        raise AuthorityError(
            f"{author.name} has no status line; the maintainer's are set with --focus and --checkpoint.",
            fix="For that of an agent, say which: --as NAME.",
        )
    log_at(place).set_status(author.name, text, author, now)


def _show(place: Place, *, as_json: bool) -> None:
    from ..peers.worklog.events import events_of
    from ..peers.worklog.open_items import open_items

    log = log_at(place).read()
    items = open_items(events_of(log))
    if as_json:
        print_json(_as_json(log, items))
        return
    _show_block(log)
    _section("Decisions", ["time", "owner", "decision"], _decisions(log), cut=["decision"])
    _section("Open handoffs", ["id", "from", "to", "task"], [_handoff(one) for one in items.handoffs], cut=["task"])
    _section("Open proposals", ["id", "by", "title"], [_proposal(one) for one in items.proposals], cut=["title"])
    objections = [[one.event_id, one.actor, one.subject] for one in items.objections]
    _section("Open objections", ["id", "by", "about"], objections, cut=["about"])


def _show_block(log: Worklog) -> None:
    working = [[line.agent, line.text] for line in log.now_working().values()]
    rows = [*working, *([label, text] for label, text in log.pinned().items())]
    if rows:
        print_table(Columns(["who", "now"], rows, cut=["now"]))
    else:
        click.echo("no status block")


def _section(title: str, headers: list[str], rows: Sequence[Sequence[str]], *, cut: list[str]) -> None:
    if not rows:
        return
    left_out = f", the latest {_LATEST} of {len(rows):,}" if len(rows) > _LATEST else ""
    click.echo(f"\n{title}{left_out}")
    print_table(Columns(headers, rows[-_LATEST:], cut=cut))


def _decisions(log: Worklog) -> list[list[str]]:
    """The latest last, whichever way round the index is kept."""
    rows = [[row.timestamp, row.owner, row.decision] for row in log.index]
    return rows[::-1] if len(rows) > 1 and rows[0][0] > rows[-1][0] else rows


def _handoff(event: Event) -> list[str]:
    payload = event.payload
    task = payload.get("next_task") or event.subject
    return [event.event_id, event.actor, str(payload.get("next_owner", "")), str(task)]


def _proposal(event: Event) -> list[str]:
    return [str(event.payload.get("id") or event.event_id), event.actor, event.subject]


def _as_json(log: Worklog, items: OpenItems) -> dict[str, Any]:
    keys = ("decision", "owner", "timestamp", "section")
    return {
        "now_working": {agent: line.text for agent, line in log.now_working().items()},
        "pinned": log.pinned(),
        "decisions": [{key: getattr(row, key) for key in keys} for row in log.index],
        "open": {
            "handoffs": [one.envelope() for one in items.handoffs],
            "proposals": [one.envelope() for one in items.proposals],
            "objections": [one.envelope() for one in items.objections],
        },
    }
