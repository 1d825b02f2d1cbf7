"""What an agent did to the mailbox by hand that only others may do, between two versions of the file.

Messages are only added, and their status changes in place. Nobody is believed about who they are: `by` is who ran,
and `records` are the writes that went through our own commands meanwhile, each with its true author.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from ...errors import SortieError
from ..author import Author
from ..finding import Finding
from ..journal import Record
from ..roster import Roster
from .derive import rederived
from .message import EVERYBODY, Ack, Message, folded, has_several, receivers, state_of
from .parse import Card, Mailbox, parse
from .read_card import acks_in, read_card
from .transitions import People, check_move, least_far, legal_moves
from .write_card import card_around

EDITED = "edited"
REMOVED = "removed"
IMPERSONATED = "impersonated"
ANSWERED_AS = "answered as another"
ANSWER_REMOVED = "answer removed"
ILLEGAL_STATUS = "illegal status"
UNKNOWN_RECIPIENT = "unknown recipient"
TABLES = "tables"
DAMAGED = "damaged"

_NEVER_CHANGED = (
    *("date", "sender", "recipients", "type", "priority", "related", "context", "closure_owner"),
    *("review_scope", "response_needed_by", "subject", "body", "others"),
)


def compare(
    old: bytes, new: bytes, *, by: str, roster: Roster, archive: bytes = b"", records: Iterable[Record] = ()
) -> list[Finding]:
    """In the order of the lines of the new version."""
    if old == new:
        return []
    return sorted(_Comparison(old, new, by, roster, archive, records).findings(), key=lambda one: one.line)


class _Comparison:
    def __init__(
        self, old: bytes, new: bytes, by: str, roster: Roster, archive: bytes, records: Iterable[Record]
    ) -> None:
        self.old, self.new = parse(old), parse(new)
        self.by = by
        self.roster = roster
        self.people = People(roster.agents, roster.maintainer)
        self.archived = {card.message.id.casefold() for card in parse(archive).cards}
        self.records: dict[str, list[Record]] = {}
        for record in records:
            self.records.setdefault(record.subject.partition(" ")[0].casefold(), []).append(record)

    def findings(self) -> Iterator[Finding]:
        if self.new.damage:
            yield Finding(kind=DAMAGED, sentence=f"The mailbox {self.new.damage}.")
            return
        before, after = _by_id(self.old), _by_id(self.new)
        for key, card in before.items():
            if key not in after:
                yield from self._removed(key, card.message)
        for key, card in after.items():
            if key in before:
                yield from self._changed(before[key].message, card)
            else:
                yield from self._added(card)
        for key, count in Counter(card.message.id.casefold() for card in self.new.cards).items():
            if count > 1 and key in before:
                yield self._finding(IMPERSONATED, after[key], f"{after[key].message.id} is there {count} times")
        if rederived(self.new, self.roster.names) != self.new.data:
            said = "Snapshot, queue or summary of MAILBOX.md do not agree with its messages"
            fix = "the next `sortie mailbox` command that writes makes them right"
            yield Finding(kind=TABLES, sentence=f"{said}; {fix}.")

    def _removed(self, key: str, message: Message) -> Iterator[Finding]:
        if key not in self.archived:
            sentence = f"{message.id}, from {message.sender or 'nobody'}, was removed: messages are only added."
            yield Finding(kind=REMOVED, subject=message.id, owner=message.sender, sentence=sentence)

    def _added(self, card: Card) -> Iterator[Finding]:
        message = card.message
        sent = self._record(message, "sent")
        is_back = self._record(message, "restored") is not None
        if not is_back and folded(message.sender) != folded(sent.author if sent else self.by):
            who = message.sender or "nobody"
            what = f"{message.id} says that it is from {who}; {sent.author if sent else self.by} wrote it"
            yield self._finding(IMPERSONATED, card, what)
        elif sent and sent.text:
            yield from self._changed(read_card(card_around(message.id, "new", sent.text).encode()).message, card)
            return
        unknown = [name for name in message.recipients if not self.roster.find(name) and folded(name) != EVERYBODY]
        if not message.recipients or unknown:
            to = ", ".join(unknown) or "nobody"
            yield self._finding(UNKNOWN_RECIPIENT, card, f"{message.id} is to {to}, whom no document names")
        if is_back:
            return  # with what was on it before; who wrote that was looked at then
        yield from self._answers((), message.acks, card)
        if message.status not in ("new", "closed"):
            yield self._finding(ILLEGAL_STATUS, card, f"{message.id} was {message.status} when it was sent")

    def _changed(self, old: Message, after: Card) -> Iterator[Finding]:
        new = after.message
        parts = [part.replace("_", " ") for part in _NEVER_CHANGED if _said(old, part) != _said(new, part)]
        if parts:
            whose = "its own" if folded(old.sender) == folded(self.by) else f"{old.sender or 'nobody'}'s"
            what = f"{self.by or 'Somebody'} changed {', '.join(parts)} of {old.id}, {whose} message"
            yield self._finding(EDITED, after, what, owner=old.sender)
        yield from self._answers(old.acks, new.acks, after)
        if old.status != new.status and not self._follows(new):
            yield from self._moved(old, after)

    def _follows(self, message: Message) -> bool:
        """Whether a command of ours made this status, or the answers of several receivers together."""
        if self._record(message, message.status):
            return True
        fresh = replace(message, status="new")
        names = receivers(message, self.people.agents)
        return has_several(message) and message.status == least_far([state_of(fresh, name) for name in names])

    def _moved(self, old: Message, after: Card) -> Iterator[Finding]:
        new = after.message
        what = f"{self.by or 'Somebody'} moved {old.id} from {old.status} to {new.status}"
        if new.status == "new":
            yield self._finding(ILLEGAL_STATUS, after, f"{what}, and nothing becomes new again", owner=old.sender)
            return
        actor = Author(name=self.by, role="agent")
        try:
            check_move(old, new.status, actor, self.people, new.disposition or "resolved")
        except SortieError as error:
            legal = legal_moves(old, self.people) if old.status != "closed" else ""
            sentence = f"{what}. {error.message} {legal}".strip()
            yield Finding(
                kind=ILLEGAL_STATUS,
                subject=old.id,
                owner=old.sender,
                line=self.new.line_of(after.start),
                sentence=sentence,
            )

    def _answers(self, before: Collection[Ack], after: Collection[Ack], card: Card) -> Iterator[Finding]:
        known, there = Counter(before), Counter(after)
        for ack in known - there:
            whose = ack.actor or "somebody"
            yield self._finding(
                ANSWER_REMOVED, card, f"An answer of {whose} on {card.message.id} was changed or removed", ack.actor
            )
        for ack in there - known:
            if ack.actor and folded(ack.actor) != folded(self.by) and not self._is_recorded(card.message, ack):
                what = f"An answer on {card.message.id} says that it is of {ack.actor}; {self.by} wrote it"
                yield self._finding(ANSWERED_AS, card, what, ack.actor)

    def _record(self, message: Message, word: str) -> Record | None:
        wanted = f"{message.id} {word}".casefold()
        about = self.records.get(message.id.casefold(), ())
        return next((record for record in about if record.subject.casefold() == wanted), None)

    def _is_recorded(self, message: Message, ack: Ack) -> bool:
        """Whether one of our commands wrote it, in the name of whom it says."""
        return any(
            folded(record.author) == folded(ack.actor) and ack in acks_in(record.text)
            for record in self.records.get(message.id.casefold(), ())
        )

    def _finding(self, kind: str, card: Card, sentence: str, owner: str = "") -> Finding:
        line = self.new.line_of(card.start)
        return Finding(kind=kind, subject=card.message.id, line=line, sentence=f"{sentence}.", owner=owner)


def _said(message: Message, part: str) -> object:
    """A value for comparing: blank lines and spaces at the ends of lines are no difference."""
    value = getattr(message, part)
    return value.split() if isinstance(value, str) else value


def _by_id(mailbox: Mailbox) -> dict[str, Card]:
    """The first of each ID."""
    found: dict[str, Card] = {}
    for card in mailbox.cards:
        found.setdefault(card.message.id.casefold(), card)
    return found
