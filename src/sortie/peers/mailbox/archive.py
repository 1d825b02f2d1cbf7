"""Moves closed messages with their full text to MAILBOX_ARCHIVE.md; the mailbox keeps a row of each.

The text is on disk in the archive before it leaves the mailbox. Whoever dies in between leaves it in both places,
and the next one removes it from the mailbox and adds nothing to the archive.
"""

from __future__ import annotations

from ..author import Author, AuthorityError
from ..shared_document import Held, SharedDocument
from .derive import applied, closed_ids, without_closed_rows
from .edits import without_cards
from .mailbox_file import MailboxFile
from .message import is_open
from .parse import Card, Mailbox, parse
from .restore import record_of, restored

# Rows of archived messages that the closed summary keeps; the archive has them all.
MOST_ROWS = 200
_HEAD = """\
# Mailbox Archive

The full text of messages that were closed, as it left `MAILBOX.md`. Nothing here is ever changed.
"""


def archive(file: MailboxFile, author: Author, at: float) -> list[str]:
    """The IDs of the messages that left the mailbox, the oldest first."""
    if author.role == "agent":
        raise AuthorityError(
            f"Only {file.roster.maintainer} puts messages into the archive, and this is {author.name}.",
            fix="Leave closed messages where they are.",
        )
    with file.document.held() as held:
        restored(file, held, at)
        mailbox = file.settled(held.read)
        closed = [card for card in reversed(mailbox.newest_first) if not is_open(card.message)]
        gone = {card.reading for card in closed}
        archived = _archived(file, mailbox, closed, author, at)

        def edit(raw: bytes) -> bytes:
            return _shorter(without_cards(file.sound(raw), gone, file.roster.names), archived)

        if closed or edit(mailbox.data) != mailbox.data:
            held.rewrite(edit, record_of(author, at, "archive"))
    return [card.message.id for card in closed]


def _archived(file: MailboxFile, mailbox: Mailbox, closed: list[Card], author: Author, at: float) -> set[str]:
    """Put those into the archive that it does not have word for word; the IDs of all that it has then."""
    document = SharedDocument(file.archive_path)
    if not closed and not file.archive_path.exists():
        return set()
    with document.held() as held:
        if not file.archive_path.exists():
            held.create(_HEAD.encode(), record_of(author, at, "archive begun"))
        there = parse(held.read())
        known = {(card.message.id.casefold(), _plain(there, card)) for card in there.cards}
        missing = [card for card in closed if (card.message.id.casefold(), _plain(mailbox, card)) not in known]
        if missing:
            _append(held, mailbox, missing, author, at)
        return {card.message.id.casefold() for card in (*there.cards, *closed)}


def _append(held: Held, mailbox: Mailbox, cards: list[Card], author: Author, at: float) -> None:
    text = b"".join(b"\n" + _plain(mailbox, card) + b"\n" for card in cards)
    held.append(text, record_of(author, at, f"{len(cards)} archived"))


def _plain(mailbox: Mailbox, card: Card) -> bytes:
    return mailbox.data[card.start : card.end].replace(b"\r\n", b"\n").rstrip()


def _shorter(data: bytes, archived: set[str]) -> bytes:
    """No more rows of archived messages than a person looks through."""
    mailbox = parse(data)
    cards = {card.message.id.casefold() for card in mailbox.cards}
    rows = [key for key in closed_ids(mailbox) if key in archived and key not in cards]
    edit = without_closed_rows(mailbox, set(rows[MOST_ROWS:]))
    return applied(data, [edit]) if edit else data
