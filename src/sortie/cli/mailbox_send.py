"""`sortie mailbox init` and `send`: a mailbox to begin with, and a message on top of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from ..errors import SortieError
from .format import clean
from .mailbox import NAME, box_in, place_with_mailbox, tell_restored
from .main import DONE, decided
from .peers_options import ELSEWHERE, LONGEST_TEXT, as_option, place_of, root_option, text_from, typed, writer
from .printing import json_option, print_json

# As sortie.peers.mailbox has them; that is not loaded for a page of help.
TYPES = ("notify", "request", "decision-required", "approval-required", "objection", "handoff-ready")
PRIORITIES = ("P0", "P1", "P2")


@click.command("init")
@click.option(
    "--agent", "agents", multiple=True, metavar="NAME", help="Who takes part; default: as in the charter."
)
@root_option
@as_option
def init_command(agents: tuple[str, ...], root: Path | None, as_name: str) -> int:
    """Make a mailbox without messages, with a row for each agent and the maintainer."""
    from ..peers.mailbox.mailbox_file import MailboxFile
    from ..peers.place import place_at
    from ..peers.roster import Roster, problem_with_name, roster_of

    try:
        place = place_of(root)
    except SortieError:
        if root is not None:
            raise
        place = place_at(Path.cwd())
    if os.path.lexists(place.mailbox):
        fix = f"{typed('mailbox list', root)} shows it."
        raise SortieError(f"There is a {NAME} in {place.root} already.", fix=fix)
    roster = roster_of(place)
    for name in agents:
        if problem := problem_with_name(name):
            raise SortieError(f'The name "{name}" {problem}.', fix="Name each agent with --agent NAME.")
    names = agents or roster.agents
    if not names:
        raise SortieError("Nobody says who takes part.", fix="Name each agent with --agent NAME.")
    box = MailboxFile(place, roster=Roster(agents=tuple(names), maintainer=roster.maintainer))
    box.create(writer(place, as_name), time.time())
    decided(DONE)
    click.echo(clean(f"wrote {place.mailbox}"))
    return DONE


@click.command("send")
@click.argument("to", nargs=-1, required=True, metavar="TO...")
@click.option("-s", "--subject", required=True, metavar="TEXT", help="What it is about, in one line.")
@click.option("-b", "--body", default="", metavar="TEXT", help="What it says; `-` reads standard input.")
@click.option("--body-file", type=click.Path(path_type=Path), metavar="FILE", help="What it says, from a file.")
@click.option("--type", "kind", default="request", metavar="TYPE", help=f"Of {', '.join(TYPES)}; default: request.")
@click.option("-p", "--priority", default="P2", metavar="P0|P1|P2", help="P0 wants an answer in the next turn.")
@click.option(
    "--needed-by", default="", metavar="WHEN", help="A time with its zone, or `next turn`, `next session`."
)
@click.option("--related", default="", metavar="TEXT", help="What it belongs to: a message, an entry, a file.")
@click.option("--context", default="", metavar="TEXT", help="What the receiver has to know first, in one line.")
@click.option("--closure-owner", default="", metavar="NAME", help="Who closes it; default: you, the sender.")
@root_option
@as_option
@json_option
def send_command(
    to: tuple[str, ...],
    subject: str,
    body: str,
    body_file: Path | None,
    kind: str,
    priority: str,
    needed_by: str,
    related: str,
    context: str,
    closure_owner: str,
    root: Path | None,
    as_name: str,
    as_json: bool,
) -> int:
    """Send a message to one agent, to several, or to `all`; prints its ID.

    Names that no document knows are refused. The message is in the file when this ends, for everybody to read. A
    decision or a handoff belongs into the work log besides.
    """
    from ..peers.mailbox.draft import Draft

    if body and body_file is not None:
        raise click.UsageError("--body and --body-file both say what it says; one of them is enough.")
    place = place_with_mailbox(root)
    draft = Draft(
        to=tuple(name for word in to for name in word.split(",") if name.strip()),
        subject=subject,
        body=_content(body_file) if body_file is not None else text_from(body),
        type=kind,
        priority=priority,
        related=related,
        context=context,
        closure_owner=closure_owner,
        response_needed_by=needed_by,
    )
    done = box_in(place).send(draft, writer(place, as_name), at=time.time())
    code = decided(DONE)
    tell_restored(done.restored)
    if as_json:
        print_json(done.message.as_object())
    else:
        click.echo(clean(done.message.id))
    return code


def _content(path: Path) -> str:
    """Of a file that a person named: it may be a link, but has to be text, and not to be endless."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            raw = file.read(4 * LONGEST_TEXT + 1) or b""
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SortieError(f"{path} cannot be read: {reason}.", fix="Name another file.") from error
    if len(raw) > 4 * LONGEST_TEXT or b"\0" in raw:
        raise SortieError(f"{path} is too large for a message, or no text.", fix=ELSEWHERE)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SortieError(f"{path} is not UTF-8 text.", fix=ELSEWHERE) from None
