"""`sortie why`: where an issue stands, then everything that happened to it, in order, as sentences."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import click
import msgspec

from ..core.budget import day_of
from ..core.events import kind_of
from ..core.narrate import narrate
from ..core.redact import Redactor
from ..errors import SortieError
from ..store.load import look
from ..store.lock import holder_of
from ..store.queries import LoggedEvent, find_issue, last_events
from ..workflow.config import Config
from .exit_codes import DONE, FAILED
from .format import clean, runnable, stamp
from .printing import print_json
from .situation import Situation, ask_tracker, situation_of
from .store_access import complain, json_option, load_config, looking_at, workflow_option

EVENTS_SHOWN = 1000


@click.command("why")
@click.argument("issue")
@click.option("--all", "everything", is_flag=True, help="Show the small steps too.")
@workflow_option
@json_option
def why_command(issue: str, everything: bool, workflow: Path, as_json: bool) -> int:
    """Explain an issue: where it stands now, and every start, stop, skip and retry that led there."""
    config = load_config(workflow)
    situation, events = look_up(config, issue)
    if not everything:
        events = [entry for entry in events if narrate(entry.event).level != "debug"]
    hide = Redactor(config.secrets).text
    if as_json:
        told = {"state": situation.state, "text": hide(situation.sentence)}
        print_json({"issue": issue, "situation": told, "events": [_plain(entry, hide) for entry in events]})
    else:
        click.echo(clean(runnable(hide(situation.sentence))))
        for entry in events:
            click.echo(f"{stamp(entry.event.at)}  {clean(hide(narrate(entry.event).text))}")
    return FAILED if situation.state == "unknown" else DONE


def look_up(config: Config, issue: str) -> tuple[Situation, list[LoggedEvent]]:
    """Where the issue stands, and its story; what the store has let go is where the tracker says."""
    situation, events = _look_up(config, issue)
    if situation.state == "released":
        with suppress(SortieError):
            told = anyio.run(ask_tracker, config, issue)
            if told.state != "unknown":
                situation = Situation("released", told.sentence)
    return situation, events


def _look_up(config: Config, issue: str) -> tuple[Situation, list[LoggedEvent]]:
    if config.db_path.exists():
        served = holder_of(config.db_path) is not None
        now = time.time()
        with looking_at(config) as db:
            if issue_id := find_issue(db, issue):
                known = look(db, day_of(now), issue_id)
                for sentence in known.unreadable:
                    complain(sentence)
                situation = situation_of(issue_id, known, now, served=served)
                return situation, last_events(db, issue_id=issue_id, limit=EVENTS_SHOWN)
    return anyio.run(ask_tracker, config, issue), []


def _plain(entry: LoggedEvent, hide: Callable[[str], str]) -> dict[str, Any]:
    sentence = narrate(entry.event)
    return {
        "seq": entry.seq,
        "time": stamp(entry.event.at),
        "kind": kind_of(entry.event),
        "level": sentence.level,
        "text": hide(sentence.text),
        "run_id": entry.event.run_id,
        "event": msgspec.to_builtins(entry.event),
    }
