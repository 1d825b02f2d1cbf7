"""`sortie notify`: shows the notification channels of a workflow, and sends test messages."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigurationError, SortieError
from .format import clean, duration, stamp
from .main import DONE, FAILED
from .printing import Columns, json_option, print_json, print_table
from .store_access import env_file_option, load_checked, load_config, looking_at, workflow_option
from .ticker import told_when_slow

if TYPE_CHECKING:
    from ..store.notifications import ChannelStanding
    from ..workflow.config import Config


@click.group("notify")
def notify_command() -> None:
    """Messages when something needs a person, to the channels of `notifications:` in the workflow."""


@notify_command.command("list")
@workflow_option
@json_option
def list_command(workflow: Path, as_json: bool) -> int:
    """Show the channels, what is queued for each, and the last error. Addresses are never shown."""
    config = load_config(workflow)
    standings = _standings(config)
    if as_json:
        print_json([_plain(config, name, standing) for name, standing in standings.items()])
    elif not standings:
        click.echo("There are no channels; see notifications in the workflow.")
    else:
        rows = [_row(config, name, standing) for name, standing in standings.items()]
        headers = ("channel", "kind", "on", "waiting", "last sent", "last error")
        print_table(Columns(headers, rows, cut=("on", "last error"), spare=("kind", "last sent")))
    return DONE


def _standings(config: Config) -> dict[str, ChannelStanding | None]:
    """None if there is no store yet."""
    from ..store.notifications import standing

    with ExitStack() as open_store:
        db = open_store.enter_context(looking_at(config)) if config.db_path.exists() else None
        return {name: standing(db, name) if db else None for name in config.notifications}


def _plain(config: Config, name: str, standing: ChannelStanding | None) -> dict[str, Any]:
    channel = config.notifications[name]

    def moment(at: float | None) -> str | None:
        return None if at is None else stamp(at)

    return {
        "channel": name,
        "kind": channel.kind,
        "on": channel.on,
        "waiting": standing.waiting if standing else 0,
        "sent": standing.sent if standing else 0,
        "given_up": standing.given_up if standing else 0,
        "next_try_at": moment(standing.next_try_at if standing else None),
        "last_sent_at": moment(standing.last_sent_at if standing else None),
        "error": standing.error if standing else "",
    }


def _row(config: Config, name: str, standing: ChannelStanding | None) -> tuple[str, ...]:
    channel = config.notifications[name]
    waiting = str(standing.waiting) if standing else "0"
    if standing and standing.next_try_at and (left := standing.next_try_at - time.time()) > 0:
        waiting += f" (tried in {duration(left)})"
    sent = stamp(standing.last_sent_at) if standing and standing.last_sent_at else "never"
    return name, channel.kind, ", ".join(channel.on), waiting, sent, standing.error if standing else ""


@notify_command.command("test")
@click.argument("names", nargs=-1, metavar="[CHANNEL]...")
@workflow_option
@env_file_option
@json_option
def test_command(names: tuple[str, ...], workflow: Path, env_file: Path | None, as_json: bool) -> int:
    """Send a test message to the channels, or to those named, and say what happened.

    Exit code 0 if all were sent, else 1.
    """
    import anyio

    config = load_checked(workflow, env_file).config
    if unknown := [name for name in names if name not in config.notifications]:
        known = ", ".join(config.notifications) or "none"
        raise ConfigurationError(
            f"There is no channel {unknown[0]} in {workflow}.", fix=f"Those there are: {known}."
        )
    if not config.notifications:
        fix = "Add one to notifications: in the workflow; docs/notifications.md shows how."
        raise SortieError(f"{workflow} has no channels.", fix=fix)
    chosen = names or tuple(config.notifications)
    with told_when_slow("sending"):
        outcomes = {name: anyio.run(_try_out, config, name) for name in chosen}
    if as_json:
        print_json([{"channel": name, "sent": not error, "error": error} for name, error in outcomes.items()])
    else:
        for name, error in outcomes.items():
            click.echo(clean(f"{name}: {f'not sent: {error}' if error else 'sent'}"))
    return FAILED if any(outcomes.values()) else DONE


async def _try_out(config: Config, name: str) -> str:
    """Why it was not sent, empty if it was."""
    from ..notify.message import compose
    from ..notify.send import NotSent, send
    from ..store.notifications import Notification

    now = time.time()
    words = f"This is a test of the channel {name}, sent by hand from process {os.getpid()}."
    test = Notification(seq=int(now), kind="test", issue_id="", identifier=name, title="", text=words, at=now)
    try:
        await send(config.notifications[name], compose(f"test:{name}", [test], ""))
    except NotSent as error:
        return str(error)
    return ""
