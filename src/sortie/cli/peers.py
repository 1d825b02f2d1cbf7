"""`sortie peers`: set a repository up for agents that take turns in it, and see how they stand."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from ..errors import SortieError
from .format import clean, duration
from .main import DONE, LazyGroup
from .peers_options import place_of, root_option
from .printing import Columns, json_option, print_json, print_sentence, print_table

if TYPE_CHECKING:
    from ..peers.place import Place
    from ..peers.turn_register import Turn

FAMILIES: dict[tuple[str, ...], str] = {
    ("init",): "write charter, work log, mailbox and settings",
    ("status",): "who takes part, whose turn it is, what waits",
}
HOMES = {"init": "peers_init", "status": "peers"}


class PeersGroup(LazyGroup):
    families = FAMILIES
    homes = HOMES

    def is_shorthand(self, word: str) -> bool:  # noqa: ARG002
        return False


@click.group("peers", cls=PeersGroup, invoke_without_command=True)
@click.pass_context
def peers_command(ctx: click.Context) -> None:
    """Agents that take turns in one checkout, under a charter, each turn started by a person."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


class Peer(Struct, frozen=True, kw_only=True):
    """`unread` is None where the mailbox cannot be read; `working` is the agent's own status line."""

    name: str
    is_maintainer: bool
    lanes: tuple[str, ...]
    unread: int | None
    working: str
    turns: int
    last_turn: float | None


class Overview(Struct, frozen=True, kw_only=True):
    """`cut_short`: the orchestrator of the open turn is gone. `problems` are documents that could not be read, and
    what is wrong with the charter."""

    peers: list[Peer]
    open_turn: Turn | None
    cut_short: bool
    charter: str
    problems: list[str]


@click.command("status")
@root_option
@json_option
def status_command(root: Path | None, as_json: bool) -> int:
    """Show who takes part, whose turn it is, and what waits for whom."""
    found = _overview(place_of(root))
    if as_json:
        print_json(found)
        return DONE
    now = time.time()
    if (turn := found.open_turn) is not None and found.cut_short:
        from .turn_look import cut_short

        print_sentence(cut_short(turn), "yellow")
    elif turn is not None:
        task = f": {turn.task}" if turn.task else ""
        click.echo(clean(f"turn {turn.number} of {turn.agent} since {duration(now - turn.began)}{task}"))
    else:
        click.echo("no turn is open")
    rows = [
        (
            f"{peer.name} (maintainer)" if peer.is_maintainer else peer.name,
            "?" if peer.unread is None else str(peer.unread),
            str(peer.turns) if not peer.is_maintainer else "",
            f"{duration(now - peer.last_turn)} ago" if peer.last_turn else "",
            ", ".join(peer.lanes),
            peer.working,
        )
        for peer in found.peers
    ]
    headers = ("name", "unread", "turns", "last", "lanes", "now working on")
    print_table(Columns(headers, rows, right=("unread", "turns"), cut=("lanes", "now working on"), spare=("last",)))
    for problem in found.problems:
        print_sentence(problem, "yellow")
    return DONE


def _overview(place: Place) -> Overview:
    from ..peers.charter.charter_file import CharterFile
    from ..peers.mailbox.mailbox_file import MailboxFile
    from ..peers.roster import fold, roster_of
    from ..peers.turn_register import TurnRegister, is_led
    from ..peers.worklog.worklog_file import WorklogFile

    roster = roster_of(place)
    problems = [f"{roster.problem}."] if roster.problem else []
    try:
        in_force = CharterFile(place).in_force()
    except SortieError:
        in_force = None  # the roster has said it
    if in_force is not None and in_force.standing.problem:
        problems.append(f"{place.charter.name}: {in_force.standing.problem}")
    unread: dict[str, int] = {}
    try:
        mailbox = MailboxFile(place, roster=roster)
        unread = {name: len(mailbox.unread(name)) for name in roster.names}
    except SortieError as error:
        problems.append(str(error))
    working: dict[str, str] = {}
    try:
        lines = WorklogFile(place.worklog).read().now_working()
        working = {fold(name): line.text for name, line in lines.items()}
    except SortieError as error:
        problems.append(str(error))
    turns = TurnRegister(place).turns()
    open_turn = next((turn for turn in reversed(turns) if turn.is_open), None)
    peers = []
    for name in roster.names:
        own = [turn for turn in turns if fold(turn.agent) == fold(name)]
        lanes = in_force.charter.lanes_of(name) if in_force is not None else ()
        peers.append(
            Peer(
                name=name,
                is_maintainer=name == roster.maintainer,
                lanes=tuple(lane.name for lane in lanes),
                unread=unread.get(name),
                working=working.get(fold(name), ""),
                turns=len(own),
                last_turn=own[-1].began if own else None,
            )
        )
    return Overview(
        peers=peers,
        open_turn=open_turn,
        cut_short=open_turn is not None and not is_led(open_turn),
        charter=in_force.standing.state if in_force is not None else "missing",
        problems=problems,
    )
