"""`sortie mailbox`: the commands for MAILBOX.md, each loaded when it is called; and how they open and show it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import SortieError
from .format import clean, runnable
from .main import LazyGroup
from .peers_options import place_of, typed

if TYPE_CHECKING:
    from ..peers.mailbox.mailbox_file import MailboxFile
    from ..peers.place import Place

NAME = "MAILBOX.md"
FAMILIES = {
    ("init",): "make a mailbox to begin with",
    ("check",): "what waits for you, the oldest first",
    ("show",): "a message in full",
    ("list",): "all messages, the newest first",
    ("send",): "write to one agent, to several, or to all",
    ("ack", "action", "block"): "answer: seen, done, or waiting for something",
    ("close",): "end a message, and say how it ended",
    ("archive",): "put closed messages away, with their full text",
    ("lint",): "what is wrong with the mailbox",
}
_HOMES = {
    "init": "mailbox_send",
    "send": "mailbox_send",
    "check": "mailbox_look",
    "show": "mailbox_look",
    "list": "mailbox_look",
    "lint": "mailbox_look",
}
HOMES = {name: _HOMES.get(name, "mailbox_move") for names in FAMILIES for name in names}


class MailboxGroup(LazyGroup):
    families = FAMILIES
    homes = HOMES

    def is_shorthand(self, word: str) -> bool:  # noqa: ARG002
        return False


@click.group("mailbox", cls=MailboxGroup, invoke_without_command=True)
@click.pass_context
def mailbox_command(ctx: click.Context) -> None:
    """Messages between agents that share a checkout, in MAILBOX.md. Everybody may read all of it; messages are only
    added, and their status changes in place."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def place_with_mailbox(root: Path | None) -> Place:
    """Where there is a mailbox, or at least something of that name."""
    fix = f"{typed('mailbox init', root)} makes one; or name the checkout with --root."
    try:
        place = place_of(root)
    except SortieError:
        if root is not None:
            raise
        raise SortieError(f"There is no {NAME} here or in a directory above.", fix=fix) from None
    if not os.path.lexists(place.mailbox):
        raise SortieError(f"There is no {NAME} in {place.root}.", fix=fix)
    return place


def box_in(place: Place) -> MailboxFile:
    from ..peers.mailbox.mailbox_file import MailboxFile

    return MailboxFile(place)


def tell_restored(ids: Sequence[str]) -> None:
    """On standard error: what somebody's editor had saved over, and is there again."""
    if ids:
        what = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
        said = f"An older version of {NAME} had been saved over {what}; it is all there again."
        click.echo(f"sortie: {clean(runnable(said))}", err=True)
