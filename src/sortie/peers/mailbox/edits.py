"""What becomes of a mailbox, as pure functions: a message more, an answer more, cards less. Bytes in, bytes out.

The tables are derived from the messages as they are afterwards; everything else stays byte for byte.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from ...errors import SortieError
from .derive import Edit, applied, derived_edits, rederived
from .message import Message, number_on
from .parse import Card, Mailbox, parse
from .read_card import Reading, read_card
from .write_card import card_of, changed_card

_HEAD = """\
# Mailbox

Date initialized: {day}
Full history: `MAILBOX_ARCHIVE.md`

## Quick Reply

1. `sortie mailbox check` shows what waits for you.
2. `sortie mailbox ack ID`, then `action ID`, or `block ID --on WHAT`; whoever asked closes.
3. By hand: change the `Status` of the card, and add one line below `**Ack**`: who, when, what next.
4. Decisions and handoffs belong into the work log.

"""


def new_mailbox(agents: Sequence[str], at: float) -> bytes:
    day = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
    head = _HEAD.format(day=day)
    sections = "## Inbox Snapshot\n\n## Open Queue (Newest First)\n\n## Active Messages (Newest First)\n\n"
    return rederived(parse((head + sections + "## Closed Summary (Newest First)\n").encode()), agents)


def next_id(mailbox: Mailbox, at: float, others: Collection[str] = ()) -> str:
    """The number after the last one of this day, in the file and among `others`: rows and cards of the archive."""
    day = day_of(at)
    last = max((number_on(day, one) for one in others), default=0)
    for card in mailbox.newest_first:
        if card.reading.order < day:
            break
        last = max(last, number_on(day, card.message.id))
        if last and card.reading.order.startswith(day):
            break  # the others of this day have lower numbers
    return f"MSG-{day}-{last + 1:03}"


def day_of(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y%m%d")


def with_message(mailbox: Mailbox, message: Message, agents: Sequence[str]) -> bytes:
    """On top of the others."""
    return with_card(mailbox, card_of(message), agents)


def with_card(mailbox: Mailbox, card: str, agents: Sequence[str]) -> bytes:
    raw = card.encode()
    reading = read_card(raw)
    readings = [reading, *(card.reading for card in mailbox.newest_first)]
    return applied(mailbox.data, derived_edits(mailbox, _sorted(readings), agents, raw))


def answered(mailbox: Mailbox, card: Card, answers: Sequence[tuple[str, str]]) -> bytes:
    raw = mailbox.data[card.start : card.end]
    for status, line in answers:
        raw = changed_card(raw, status=status, answer=line, eol=mailbox.eol)
    return raw


def with_answer(mailbox: Mailbox, card: Card, answers: Sequence[tuple[str, str]], agents: Sequence[str]) -> bytes:
    """One card changed in its place, by pairs of the status that it is to have, or none, and the line to add."""
    raw = answered(mailbox, card, answers)
    readings = [read_card(raw) if one is card else one.reading for one in mailbox.newest_first]
    edits = [Edit(card.start, card.end, raw), *derived_edits(mailbox, readings, agents)]
    return applied(mailbox.data, edits)


def without_cards(mailbox: Mailbox, gone: Collection[Reading], agents: Sequence[str]) -> bytes:
    """The closed summary keeps a row of each: it is made while the cards are still there."""
    summed = parse(rederived(mailbox, agents))
    edits = [Edit(card.start, card.end, b"") for card in summed.cards if card.reading in gone]
    return rederived(parse(applied(summed.data, edits)), agents)


def one_card(mailbox: Mailbox, message_id: str) -> Card:
    """Raises where there is none of this ID, or more than one."""
    found = mailbox.find(message_id)
    if len(found) == 1:
        return found[0]
    if found:
        lines = ", ".join(str(mailbox.line_of(card.start)) for card in found)
        raise SortieError(
            f"There are {len(found)} messages {message_id}, in lines {lines}.",
            fix="Give all but one of them another ID.",
        )
    from ...workflow.problems import did_you_mean

    close = did_you_mean(message_id, [card.message.id for card in mailbox.cards])
    raise SortieError(
        f"There is no message {message_id[:60]}{close or '.'}",
        fix="`sortie mailbox list --all` shows them; closed ones may be in MAILBOX_ARCHIVE.md.",
    )


def _sorted(readings: list[Reading]) -> list[Reading]:
    if len(readings) > 1 and readings[0].order < readings[1].order:
        return sorted(readings, key=lambda reading: reading.order, reverse=True)
    return readings
