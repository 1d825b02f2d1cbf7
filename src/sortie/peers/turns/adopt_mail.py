"""Messages that stand in the mailbox and that no command of ours sent: whoever ran wrote them, which is recorded.

With who wrote it goes by what the message is known again if somebody changes it. Whom it says it is from is its own
claim.
"""

from __future__ import annotations

import hashlib
import json

from ..author import Author
from ..journal import Record
from ..mailbox.mailbox_file import MailboxFile
from ..mailbox.message import Message, folded
from ..mailbox.parse import parse
from ..mailbox.read_card import read_card
from ..mailbox.write_card import card_around

_SENT = " sent"


def adopt_mail(mailbox: MailboxFile, before: bytes, author: Author, at: float) -> None:
    """`before` is the mailbox as it was when the author began."""
    known = {message.id for message in parse(before).messages}
    with mailbox.document.held() as held:
        known |= sent_by(mailbox).keys()
        for message in parse(held.read()).messages:
            if message.id not in known:
                known.add(message.id)
                record = Record(
                    at=at,
                    author=author.name,
                    role=author.role,
                    run_id=author.run_id,
                    subject=f"{message.id}{_SENT}",
                    digest=digest_of(message),
                )
                held.note(record)


def sent_by(mailbox: MailboxFile) -> dict[str, Record]:
    """Who sent each message, as far as we know, by its ID."""
    found: dict[str, Record] = {}
    for record in mailbox.document.records():
        if record.subject.endswith(_SENT):
            found.setdefault(record.subject.removesuffix(_SENT), record)
    return found


def true_sender(message: Message, record: Record | None) -> str:
    """Who wrote it; empty where nobody knows, where it says that it is from another, and where it is no more the
    message that was sent."""
    if record is None or folded(record.author) != folded(message.sender):
        return ""
    then = record.digest
    if record.text:
        then = digest_of(read_card(card_around(message.id, "new", record.text).encode()).message)
    return record.author if then == digest_of(message) else ""


def digest_of(message: Message) -> str:
    """Of what never changes on a card."""
    parts = [message.subject, message.body, list(message.recipients), message.priority, message.type]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
