"""`sortie mailbox check`, `list`, `show` and `lint`: what waits for whom, what there is, what is wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import SortieError
from .format import clean, count
from .mailbox import NAME, box_in, place_with_mailbox, tell_restored
from .main import DONE, UNFINISHED, decided
from .peers_options import as_option, known_name, root_option, writer
from .printing import Columns, json_option, print_json, print_sentence, print_table

if TYPE_CHECKING:
    from ..peers.author import Author
    from ..peers.mailbox.deadlines import Overdue
    from ..peers.mailbox.mailbox_file import MailboxFile
    from ..peers.mailbox.message import Message
    from ..peers.place import Place

MOST_SHOWN = 20
MOST_LISTED = 50


@click.command("check")
@click.argument("agent", default="")
@click.option("--full", is_flag=True, help="With what the messages say.")
@click.option("--all", "everything", is_flag=True, help=f"All that wait, and not only the first {MOST_SHOWN}.")
@root_option
@as_option
@json_option
def check_command(agent: str, full: bool, everything: bool, root: Path | None, as_name: str, as_json: bool) -> int:
    """Show what waits for you, the oldest first; or what waits for AGENT.

    What was not shown before is marked with *. It changes no status: to be shown a message is no answer to it.
    Messages whose time is over are written to the work log, each once. Exit code 0 where nothing waits, 3 where a
    message waits that was not answered.
    """
    place = place_with_mailbox(root)
    author = writer(place, as_name)
    box = box_in(place)
    name = known_name(agent, box.roster, "AGENT") or author.name
    tell_restored(box.restore(time.time()))
    mailbox = box.read()
    late, escalated = _escalated(place, box, author)
    waiting = _waiting(mailbox.messages, name)
    shown = waiting if everything else waiting[:MOST_SHOWN]
    seen = _shown(place, name, shown, author, waiting)
    unread = _unread(waiting, name)
    code = decided(UNFINISHED if unread else DONE)
    if as_json:
        print_json(
            {
                "agent": name,
                "unread": unread,
                "waiting": len(waiting),
                "messages": [{**one.as_object(), "shown_before": one.id in seen} for one in shown],
                "overdue": [{"id": one.message.id, "late": one.late, "reason": one.window} for one in late],
                "escalated": escalated,
                "inboxes": _inboxes(box, mailbox.messages),
            }
        )
        return code
    _print_waiting(name, shown, seen, len(waiting))
    for one in late:
        print_sentence(f"overdue: {one.message.id}, {', '.join(one.late)} {one.window}", "red")
    for message_id in escalated:
        print_sentence(f"escalated to the work log: {message_id}")
    if full:
        for message in shown:
            click.echo()
            _print_message(message)
    if author.role == "maintainer" and name == author.name:
        for other, number in _inboxes(box, mailbox.messages).items():
            if other != name and number:
                print_sentence(f"{other} has {count(number, 'unread message')}")
    return code


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Closed ones too, however many there are.")
@click.option("--to", "to_name", default="", metavar="NAME", help="Only those for this one.")
@click.option("--from", "from_name", default="", metavar="NAME", help="Only those that this one sent.")
@root_option
@json_option
def list_command(everything: bool, to_name: str, from_name: str, root: Path | None, as_json: bool) -> int:
    """Show all open messages, the newest first."""
    from ..peers.mailbox.message import is_for, is_from, is_open

    box = box_in(place_with_mailbox(root))
    to_name, from_name = known_name(to_name, box.roster, "--to"), known_name(from_name, box.roster, "--from")
    found = [
        message
        for message in box.read().messages
        if (everything or is_open(message))
        and (not to_name or is_for(message, to_name))
        and (not from_name or is_from(message, from_name))
    ]
    if as_json:
        print_json([message.as_object() for message in found])
        return DONE
    shown = found if everything else found[:MOST_LISTED]
    if not found:
        click.echo("no messages" if everything else "no open messages")
        return DONE
    _print_table(shown)
    if len(shown) < len(found):
        print_sentence(f"{len(found) - len(shown):,} older ones are not shown; --all shows them.", "dim")
    return DONE


@click.command("show")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@root_option
@json_option
def show_command(ids: tuple[str, ...], root: Path | None, as_json: bool) -> int:
    """Show messages in full, with every answer; also those in the archive."""
    box = box_in(place_with_mailbox(root))
    found = [box.find(message_id) for message_id in ids]
    if as_json:
        print_json([card.message.as_object() for _, card in found])
        return DONE
    for number, (mailbox, card) in enumerate(found):
        if number:
            click.echo()
        text = mailbox.data[card.start : card.end].decode("utf-8", "replace")
        for line in text.strip().split("\n"):
            click.echo(clean(line.rstrip("\r")))
    return DONE


@click.command("lint")
@root_option
@json_option
def lint_command(root: Path | None, as_json: bool) -> int:
    """Show what is wrong with the mailbox, with its line, and decisions that stand only in it.

    Tables that do not agree with the messages are made right by the next command that writes. Exit code 0 where
    nothing is wrong, 3 where something is.
    """
    from ..peers.mailbox.decisions import decisions_only_in_mail
    from ..peers.mailbox.lint import MILD, lint
    from ..peers.mailbox.parse import parse
    from ..peers.shared_document import SharedDocument
    from ..peers.worklog.parse import parse as parse_log

    place = place_with_mailbox(root)
    box = box_in(place)
    mailbox = parse(box.document.read())
    findings = lint(mailbox, roster=box.roster, now=time.time())
    if os.path.lexists(place.worklog):
        log = parse_log(SharedDocument(place.worklog).read())
        findings += decisions_only_in_mail(mailbox, log)
    code = decided(UNFINISHED if any(finding.kind not in MILD for finding in findings) else DONE)
    if as_json:
        print_json(findings)
        return code
    for finding in sorted(findings, key=lambda finding: finding.line):
        where = f"{NAME}:{finding.line}" if finding.line else NAME
        click.echo(clean(f"{where}: {finding.sentence}"))
    if not findings:
        click.echo(f"{NAME}: {count(len(mailbox.cards), 'message')}, nothing is wrong")
    return code


def _escalated(place: Place, box: MailboxFile, author: Author) -> tuple[list[Overdue], list[str]]:
    """What is overdue, and what of it was written to the work log now."""
    from ..peers.mailbox.escalate import escalate
    from ..peers.mailbox.restore import ORCHESTRATOR
    from ..peers.turn_register import TurnRegister
    from ..peers.worklog.worklog_file import WorklogFile

    now, turns_of = time.time(), TurnRegister(place).turns_of
    late = box.overdue(now, turns_of)
    if not late or author.run_id:
        return late, []  # in a turn nobody is told on: whoever concludes it does that
    # That time is over is no opinion of the agent who happens to look.
    by = author if author.role == "maintainer" else ORCHESTRATOR
    try:
        told = escalate(box, WorklogFile(place.worklog), by, at=now, turns_of=turns_of)
    except SortieError as error:
        click.echo(f"sortie: {clean(f'What is overdue cannot be told in the work log: {error}')}", err=True)
        return late, []
    return late, [one.message.id for one in told]


def _waiting(messages: Sequence[Message], name: str) -> list[Message]:
    """What this one has not done yet, the oldest first."""
    from ..peers.mailbox.message import is_for, is_open, state_of

    return [
        message
        for message in reversed(messages)
        if is_open(message) and is_for(message, name) and state_of(message, name) != "actioned"
    ]


def _unread(messages: Sequence[Message], name: str) -> int:
    from ..peers.mailbox.message import is_unread

    return sum(is_unread(message, name) for message in messages)


def _inboxes(box: MailboxFile, messages: Sequence[Message]) -> dict[str, int]:
    """How much is unread, for everybody."""
    from ..peers.mailbox.message import folded, unread_by

    unread = unread_by(messages, box.roster.names)
    return {name: len(unread[folded(name)]) for name in box.roster.names}


def _shown(
    place: Place, name: str, messages: Sequence[Message], author: Author, waiting: Sequence[Message]
) -> set[str]:
    """Which of them this one was shown before. Whoever looks into another's mail has not shown it to them."""
    from ..peers.mailbox.message import folded
    from ..peers.mailbox.shown import note_shown, shown_before

    before = shown_before(place, name)
    if folded(author.name) == folded(name):
        try:
            note_shown(place, name, {one.id for one in messages}, {one.id for one in waiting})
        except (OSError, SortieError):
            pass  # they are told as new once more, which does no harm
    return before


def _print_waiting(name: str, shown: Sequence[Message], seen: set[str], total: int) -> None:
    if not shown:
        click.echo(clean(f"nothing waits for {name}"))
        return
    _print_table(shown, name, seen)
    if len(shown) < total:
        print_sentence(f"{total - len(shown):,} more wait; --all shows them.", "dim")


def _print_table(messages: Sequence[Message], name: str = "", seen: Collection[str] = ()) -> None:
    """With a name, how far they are for that one; a star is for those that it is shown for the first time."""
    from ..peers.mailbox.message import from_to, state_of

    rows = [
        (
            message.id,
            state_of(message, name) if name else message.disposition or message.status,
            message.priority,
            message.response_needed_by if message.response_needed_by.casefold() != "none" else "",
            message.sender if name else from_to(message),
            ("* " if name and message.id not in seen else "") + message.subject,
        )
        for message in messages
    ]
    people = "from" if name else "from -> to"
    headers = ("id", "status", "pri", "needed by", people, "subject")
    print_table(Columns(headers, rows, cut=(people, "subject"), spare=("needed by", "pri", "status")))
    if name and any(message.id not in seen for message in messages):
        print_sentence("* was not shown before", "dim")


def _print_message(message: Message) -> None:
    from ..peers.mailbox.message import from_to

    click.echo(clean(f"{message.id}  {from_to(message)}  {message.date}  {message.subject}"))
    for line in message.body.split("\n") if message.body else ():
        click.echo(clean(f"  {line}"))
    for ack in message.acks:
        click.echo(clean(f"  - {ack.actor}: {ack.text}"))
