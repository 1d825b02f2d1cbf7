"""`sortie mailbox ack`, `action`, `block`, `close` and `archive`: answers to messages, and their end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .format import clean, count
from .mailbox import box_in, place_with_mailbox, tell_restored
from .main import DONE, decided
from .peers_options import as_option, root_option, text_from, writer
from .printing import json_option, print_json

if TYPE_CHECKING:
    from ..peers.mailbox.mailbox_file import Done
    from ..peers.mailbox.message import Status

DISPOSITIONS = ("resolved", "superseded", "withdrawn", "abandoned")

_ids = click.argument("ids", nargs=-1, required=True, metavar="ID...")
_note = click.option("-n", "--note", default="", metavar="TEXT", help="What you answer; `-` reads standard input.")


@click.command("ack")
@_ids
@_note
@root_option
@as_option
@json_option
def ack_command(ids: tuple[str, ...], note: str, root: Path | None, as_name: str, as_json: bool) -> int:
    """Say that you have seen messages to you, and what comes next. Reading alone does not."""
    return _move(ids, "acknowledged", text_from(note), root, as_name, as_json=as_json)


@click.command("action")
@_ids
@_note
@root_option
@as_option
@json_option
def action_command(ids: tuple[str, ...], note: str, root: Path | None, as_name: str, as_json: bool) -> int:
    """Say that you have done what messages to you ask for. Who sent them closes them."""
    return _move(ids, "actioned", text_from(note), root, as_name, as_json=as_json)


@click.command("block")
@_ids
@click.option(
    "--on", "dependency", required=True, metavar="WHAT", help="What it waits for: a message, a task, a person."
)
@root_option
@as_option
@json_option
def block_command(ids: tuple[str, ...], dependency: str, root: Path | None, as_name: str, as_json: bool) -> int:
    """Say that something has to happen before you can do what a message asks for. It is not overdue meanwhile."""
    waits_for = text_from(dependency).strip()
    if not waits_for:
        raise click.UsageError("--on has to say what it waits for.")
    return _move(ids, "blocked", waits_for, root, as_name, as_json=as_json)


@click.command("close")
@_ids
@click.option(
    "--disposition",
    default="resolved",
    metavar="WORD",
    help="resolved (default), superseded, withdrawn (by its sender), abandoned (by the maintainer).",
)
@_note
@root_option
@as_option
@json_option
def close_command(
    ids: tuple[str, ...], disposition: str, note: str, root: Path | None, as_name: str, as_json: bool
) -> int:
    """End messages. Nothing leaves that: what comes up again is a new message.

    Its closure owner closes a message, else its sender; the maintainer may always.
    """
    word = disposition.strip().casefold()
    return _move(ids, "closed", text_from(note), root, as_name, as_json=as_json, disposition=word)


@click.command("archive")
@root_option
@as_option
@json_option
def archive_command(root: Path | None, as_name: str, as_json: bool) -> int:
    """Move closed messages with their full text to MAILBOX_ARCHIVE.md. The closed summary keeps their rows."""
    from ..peers.mailbox.archive import archive

    place = place_with_mailbox(root)
    box = box_in(place)
    gone = archive(box, writer(place, as_name), time.time())
    code = decided(DONE)
    if as_json:
        print_json({"archived": gone, "file": str(box.archive_path)})
    else:
        click.echo(
            clean(f"{count(len(gone), 'message')} moved to {box.archive_path}" if gone else "nothing is closed")
        )
    return code


def _told(done: Done, to: Status, name: str, names: Sequence[str]) -> str:
    """A message to several is as far as the one who is least far, so that the answer of one may not show there."""
    from ..peers.mailbox.message import is_unread, receivers

    message, already = done.message, " already" if done.repeated else ""
    if message.status == to:
        return f"{message.id} is {to}{already}"
    said = f"{name} {to} {message.id}{already}"
    waiting = [other for other in receivers(message, names) if is_unread(message, other)]
    if not waiting:
        return f"{said}, which is {message.status} for all"
    have = "has" if len(waiting) == 1 else "have"
    return f"{said}; {', '.join(waiting)} {have} not answered yet"


def _move(
    ids: tuple[str, ...],
    to: Status,
    said: str,
    root: Path | None,
    as_name: str,
    *,
    as_json: bool,
    disposition: str = "",
) -> int:
    """One after the other; the first that is refused ends it, and those before it are told."""
    place = place_with_mailbox(root)
    box, author = box_in(place), writer(place, as_name)
    moved = []
    try:
        for message_id in dict.fromkeys(ids):
            done = box.move(message_id, to, author, at=time.time(), said=said, disposition=disposition)
            tell_restored(done.restored)
            moved.append(done)
    finally:
        if as_json:
            print_json([{**one.message.as_object(), "repeated": one.repeated} for one in moved])
        else:
            for one in moved:
                click.echo(clean(_told(one, to, author.name, box.roster.names)))
    return decided(DONE)
