"""Puts back what somebody's editor has saved over: messages whole, and answers with the status that they made.

The document knows which texts were acknowledged and are gone. What is back says so in a line on its card, which is
on record like every other: if it is saved over again, it comes back again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..author import Author
from ..journal import Record
from ..shared_document import Held
from .edits import with_answer, with_card
from .message import STATUSES, folded, has_several, receivers, state_of
from .parse import Card, parse
from .read_card import acks_in, read_card
from .transitions import least_far
from .write_card import card_around, new_answer

if TYPE_CHECKING:
    from .mailbox_file import MailboxFile

ORCHESTRATOR = Author(name="sortie", role="orchestrator")


def record_of(author: Author, at: float, subject: str, *, text: str = "", key: str = "") -> Record:
    return Record(
        at=at, author=author.name, role=author.role, run_id=author.run_id, key=key, subject=subject, text=text
    )


def restored(file: MailboxFile, held: Held, at: float, lost: Sequence[Record] = ()) -> tuple[str, ...]:
    """The IDs of the messages that were put back, or of which answers were. `lost` is what is gone besides that
    which nobody was told of yet."""
    if not held.lost and not lost:
        return ()
    wanted = dict.fromkeys(_id_in(record) for record in (*held.lost, *lost) if _id_in(record))
    by_id: dict[str, list[Record]] = {message_id: [] for message_id in wanted}
    for record in file.document.records():
        if record.text and (message_id := _id_in(record)) in by_id:
            by_id[message_id].append(record)
    # The oldest first, so that the newest comes to stand on top.
    return tuple(
        message_id for message_id in sorted(by_id) if _put_back(file, held, message_id, by_id[message_id], at)
    )


def _put_back(file: MailboxFile, held: Held, message_id: str, records: Sequence[Record], at: float) -> bool:
    mailbox = file.settled(held.read)
    before, found = mailbox.data, mailbox.find(message_id)
    times = 1 + sum(record.subject.endswith(" restored") for record in records)
    said = f"restored: an older version of this file had been saved over {message_id}"
    said += f" ({times} times by now)" if times > 1 else ""
    line = new_answer(before, ORCHESTRATOR.name, at, said, form=found[0].message.form if found else "table")

    def edit(raw: bytes) -> bytes:
        return _whole_again(raw, message_id, records, line, file)

    if edit(before) == before:
        return False  # it is there, written in another way; or nobody has it any more
    held.rewrite(edit, record_of(ORCHESTRATOR, at, f"{message_id} restored", text=line))
    return True


def _whole_again(raw: bytes, message_id: str, records: Sequence[Record], line: str, file: MailboxFile) -> bytes:
    mailbox, agents = parse(raw), file.roster.names
    sent = next((record for record in records if record.subject.endswith(" sent")), None)
    found = [card for card in mailbox.find(message_id) if not sent or _is_the_same(card, sent)]
    if mailbox.damage or len(found) > 1 or not (found or sent):
        return raw
    if sent and not found:
        mailbox = parse(with_card(mailbox, card_around(message_id, "new", sent.text), agents))
    card = found[0] if found else mailbox.find(message_id)[0]
    answers = [(_status_in(record), record.text) for record in records if _is_lacking(card, record)]
    if not answers and found:
        return raw
    if not has_several(card.message):
        return with_answer(mailbox, card, [*answers, ("", line)], agents)
    # The status of a message to several follows from all of its answers together.
    closing = ["closed" for status, _ in answers if status == "closed"][:1]
    mailbox = parse(with_answer(mailbox, card, [("", text) for _, text in answers], agents)) if answers else mailbox
    card = mailbox.find(message_id)[0]
    states = [state_of(card.message, name) for name in receivers(card.message, file.roster.agents)]
    return with_answer(mailbox, card, [(closing[0] if closing else least_far(states), line)], agents)


def _is_the_same(card: Card, sent: Record) -> bool:
    """Whether it is the message that was sent, and not another one to which somebody gave its ID."""
    message = read_card(card_around(card.message.id, "new", sent.text).encode()).message
    return (message.date, folded(message.sender)) == (card.message.date, folded(card.message.sender))


def _is_lacking(card: Card, record: Record) -> bool:
    """An answer that the card does not have, in whichever form."""
    if record.subject.endswith((" sent", " restored")):
        return False
    wanted = acks_in(record.text)
    there = {(folded(ack.actor), ack.date, ack.text) for ack in card.message.acks}
    return any((folded(ack.actor), ack.date, ack.text) not in there for ack in wanted)


def _id_in(record: Record) -> str:
    return record.subject.partition(" ")[0] if record.subject.count(" ") == 1 else ""


def _status_in(record: Record) -> str:
    word = record.subject.partition(" ")[2]
    return word if word in STATUSES else ""
