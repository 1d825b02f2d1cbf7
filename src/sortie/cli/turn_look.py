"""`sortie turn --next`, `--list`, `--why` and `--log`: whose turn it is, and what came of those that were taken."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from ..errors import SortieError
from .format import clean, duration, runnable, stamp
from .main import DONE, USAGE
from .printing import Columns, print_json, print_sentence, print_table

if TYPE_CHECKING:
    from ..peers.place import Place
    from ..peers.turn_register import Turn
    from ..peers.turns.next_turn import Proposed

_HEADERS = ("turn", "agent", "kind", "task", "began", "took", "outcome")


def show_next(place: Place, root: Path | None, *, as_json: bool, asked: bool) -> int:
    """Without being `asked`, as a hint to somebody who named no agent."""
    from ..peers.turn_register import TurnRegister
    from ..reports.peers import proposals

    turn = TurnRegister(place).open_turn()
    if turn is not None and _is_led(turn):
        sentence = f"Turn {turn.number} of {turn.agent} goes on since {stamp(turn.began)}; one at a time."
        if as_json:
            print_json({"proposed": [], "open_turn": msgspec.to_builtins(turn), "cut_short": None})
        else:
            print_sentence(sentence, "yellow")
        return DONE if asked else USAGE
    found = proposals(place)
    if as_json:
        print_json(
            {
                "proposed": [{**msgspec.to_builtins(one), "command": command_for(one, root)} for one in found],
                "open_turn": None,
                "cut_short": msgspec.to_builtins(turn),
            }
        )
        return DONE
    if not found:
        raise SortieError("Nobody takes part here.", fix="Name the agents in CHARTER.md; see `sortie charter`.")
    if turn is not None:
        print_sentence(cut_short(turn), "yellow")
    click.echo(clean(found[0].sentence))
    click.echo(clean(runnable(f"  `{command_for(found[0], root)}`")).replace("`", ""))
    for other in found[1:] if asked else ():
        if other.reason != "longest wait":
            click.echo(clean(f"Also: {other.sentence}"))
    return DONE if asked else USAGE


def command_for(proposed: Proposed, root: Path | None) -> str:
    kind = f" --kind {proposed.kind}" if proposed.kind != "work" else ""
    where = f" --root {shlex.quote(str(root))}" if root else ""
    return f"sortie turn {shlex.quote(proposed.agent)}{kind}{where}"


def show_turns(place: Place, *, as_json: bool) -> int:
    from ..peers.turn_register import TurnRegister

    turns = TurnRegister(place).turns()
    if as_json:
        print_json([msgspec.to_builtins(turn) for turn in turns])
    elif turns:
        rows = [_row(turn) for turn in reversed(turns)]
        print_table(Columns(_HEADERS, rows, right=("turn",), cut=("task",), spare=("took", "kind")))
        if turns[-1].is_open and not _is_led(turns[-1]):
            print_sentence(cut_short(turns[-1]), "yellow")
    else:
        print_sentence("No turn was taken yet; `sortie turn --next` says whose turn it is.")
    return DONE


def _row(turn: Turn) -> tuple[str, ...]:
    ended = turn.ended if turn.ended is not None else time.time()
    outcome = turn.outcome or ("goes on" if _is_led(turn) else "cut short")
    return (
        str(turn.number),
        turn.agent,
        turn.kind,
        turn.task,
        stamp(turn.began),
        duration(ended - turn.began),
        outcome,
    )


def show_why(place: Place, number: int, *, as_json: bool) -> int:
    """How it ended, what happened to its run, and what we put into the work log about it."""
    from .store_access import load_config
    from .why import look_up

    turn, store = _kept_of(place, number)
    _, story = look_up(load_config(store), _id_of(turn))
    recorded = _recorded(place, turn)
    if as_json:
        entries = [{"entry_id": name, "text": text} for name, text in recorded]
        print_json({"turn": msgspec.to_builtins(turn), "events": story, "recorded": entries})
        return DONE
    task = f": {turn.task}" if turn.task else ""
    how = f"{turn.outcome} after {duration((turn.ended or turn.began) - turn.began)}"
    if turn.is_open:
        how = f"goes on since {stamp(turn.began)}" if _is_led(turn) else "cut short"
    click.echo(clean(f"Turn {turn.number} of {turn.agent}, {turn.kind}{task}: {how}"))
    for entry in story:
        click.echo(f"{entry.time}  {clean(entry.text)}")
    for name, text in recorded:
        click.echo(f"\n{name} of the work log:")
        for line in text.split("\n"):
            click.echo(clean(f"  {line}".rstrip()))
    return DONE


def _recorded(place: Place, turn: Turn) -> list[tuple[str, str]]:
    """The entries that we wrote at its end, by their ids; also where somebody has thrown them out since."""
    from ..peers.turns.begin import key_of
    from ..peers.worklog.worklog_file import WorklogFile

    ours = key_of(turn, "")
    return [
        (name, record.text.strip())
        for name, record in WorklogFile(place.worklog).written_by().items()
        if record.key.startswith(ours) and record.key != f"{ours}claimed"
    ]


def show_log(ctx: click.Context, place: Place, number: int, *, follow: bool) -> int:
    from .logs import logs_command

    turn, store = _kept_of(place, number)
    answer: int = ctx.invoke(logs_command, issue=_id_of(turn), follow=follow, run_id=None, workflow=store)
    return answer


def _kept_of(place: Place, number: int) -> tuple[Turn, Path]:
    """The turn, and the store that has its run."""
    from ..peers.turn_register import TurnRegister
    from ..sources.peer_turns import STORE

    turn = next((one for one in TurnRegister(place).turns() if one.number == number), None)
    if turn is None:
        raise SortieError(f"There is no turn {number} here.", fix="`sortie turn --list` shows them.")
    store = place.state / STORE
    if not store.exists():
        raise SortieError(f"Nothing is kept of turn {number}.", fix="`sortie worklog show` has what was recorded.")
    return turn, store


def _id_of(turn: Turn) -> str:
    from ..sources.peer_turns import id_of

    return id_of(turn)


def cut_short(turn: Turn) -> str:
    """Of an open turn that nobody leads any more."""
    about = f"Turn {turn.number} of {turn.agent} was cut short"
    return f"{about}: its orchestrator is gone, and the next turn ends what is left of it."


def _is_led(turn: Turn) -> bool:
    from ..peers.turn_register import is_led

    return is_led(turn)
