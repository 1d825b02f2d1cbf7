"""MAILBOX.md of a checkout: every operation on it, under its lock, with who did it on record.

A message is sent when `send` returns: whatever happens after, it is in the file once. Where somebody's editor saved
an older version over messages or answers, whoever writes next puts them back, and says so on their cards.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from ...errors import SortieError
from ...protocol.changing_places import wait_for_writers
from ...workflow.problems import did_you_mean, listed
from ..author import Author
from ..journal import Record
from ..place import Place
from ..roster import Roster, roster_of
from ..shared_document import Held, SharedDocument
from .deadlines import Overdue, TurnsOf, overdue
from .derive import closed_ids, rederived
from .draft import Draft, message_of
from .edits import answered, day_of, new_mailbox, next_id, one_card, with_answer, with_message
from .message import EVERYBODY, NONE, Message, Status, folded, unread_by
from .parse import Card, Mailbox, parse
from .read_card import read_card
from .restore import record_of, restored
from .transitions import People, check_move, is_there_already, status_after
from .write_card import LONGEST_ANSWER, new_answer, one_line, piece_of

ARCHIVE = "MAILBOX_ARCHIVE.md"
_TRIES = 20
_TRIES_TO_READ = 3
_SAVE = 2.0  # seconds that an editor needs at most


class _Changed(Exception):
    """Somebody who knows nothing of our lock saved the file meanwhile: an ID is taken now, or a message is gone.
    `trouble` is what to say if it stays like that."""

    def __init__(self, trouble: SortieError | None = None) -> None:
        self.trouble = trouble


class Done(Struct, frozen=True, kw_only=True):
    """What a write did. `repeated`: it had been done before, and nothing was written. `restored` are messages that
    had been saved over and are there again."""

    message: Message
    repeated: bool = False
    restored: tuple[str, ...] = ()


class MailboxFile:
    def __init__(self, place: Place, *, roster: Roster | None = None, patience: float = 30.0) -> None:
        self.path = place.mailbox
        self.archive_path = place.mailbox.with_name(ARCHIVE)
        self.roster = roster or roster_of(place)
        self.document = SharedDocument(self.path, patience=patience)

    @property
    def people(self) -> People:
        return People(self.roster.agents, self.roster.maintainer)

    def create(self, author: Author, at: float) -> None:
        """A mailbox without messages, where there is none."""
        with self.document.held() as held:
            held.create(new_mailbox(self.roster.names, at), record_of(author, at, "mailbox begun"))

    def read(self) -> Mailbox:
        """As it is; raises where it is damaged, because an empty mailbox would say that there is no mail."""
        return self.settled(self.document.read)

    def unread(self, agent: str) -> list[Message]:
        """What this agent has not answered in any way, the oldest first."""
        return unread_by(self.read().messages[::-1], [agent])[folded(agent)]

    def overdue(self, now: float, turns_of: TurnsOf) -> list[Overdue]:
        """The oldest first."""
        sent: dict[str, float] = {}
        for record in self.document.records():
            message_id, _, word = record.subject.partition(" ")
            if word == "sent":
                sent.setdefault(message_id, record.at)
        return overdue(self.read().messages[::-1], now, turns_of, self.roster.agents, sent)

    def send(self, draft: Draft, author: Author, *, at: float, key: str = "") -> Done:
        """Put a message on top. With a key it happens once, however often it is asked for."""
        recipients = tuple(dict.fromkeys(self._recipient(name) for name in draft.to))
        if not recipients:
            raise SortieError("A message without a receiver reaches nobody.", fix=f"Name {self._who()}.")
        if folded(draft.closure_owner) not in ("", NONE, "sender", "maintainer"):
            draft = replace(draft, closure_owner=self._known(draft.closure_owner))

        def write(held: Held, back: tuple[str, ...]) -> Done:
            if key and held.done(key):
                return Done(message=self._sent_with(key), repeated=True, restored=back)
            mailbox = self.settled(held.read)
            new_id = self._free_id(held, mailbox, at)
            message = message_of(draft, new_id, author, recipients, at)
            if key:
                held.note(record_of(author, at, "", key=_taken(new_id)))
            record = record_of(author, at, f"{new_id} sent", text=piece_of(message), key=key or _taken(new_id))

            def edit(now: Mailbox) -> bytes:
                if now is not mailbox and now.find(new_id):
                    raise _Changed
                return with_message(now, message, self.roster.names)

            self._rewrite(held, mailbox, edit, record)
            return Done(message=message, restored=back)

        return self._written(write, at)

    def move(
        self, message_id: str, to: Status, author: Author, *, at: float, said: str = "", disposition: str = ""
    ) -> Done:
        """Change the status of a message in place, with a line on the card that says who, when and why."""
        said = one_line(said, LONGEST_ANSWER, "This answer")
        words = said if to == "closed" else f"{to}: {said}" if said else to

        def write(held: Held, back: tuple[str, ...]) -> Done:
            mailbox = self.settled(held.read)
            message = self._message(held, mailbox, message_id)
            if is_there_already(message, to, author):
                return Done(message=message, repeated=True, restored=back)
            line = new_answer(mailbox.data, author.name, at, words, form=message.form, closed=disposition)
            after: list[bytes] = []

            def edit(now: Mailbox) -> bytes:
                card = _still_there(now, message_id)
                check_move(card.message, to, author, self.people, disposition)
                answers = [(status_after(card.message, to, author, self.people), line)]
                after.append(answered(now, card, answers))
                return with_answer(now, card, answers, self.roster.names)

            self._rewrite(held, mailbox, edit, record_of(author, at, f"{message.id} {to}", text=line))
            return Done(message=read_card(after[-1]).message, restored=back)

        return self._written(write, at)

    def remark(self, message_id: str, subject: str, said: str, author: Author, *, at: float) -> Done:
        """Add a line to a card and leave its status alone; `subject` is one word for what happened."""
        words = one_line(said, LONGEST_ANSWER, "This remark")

        def write(held: Held, back: tuple[str, ...]) -> Done:
            mailbox = self.settled(held.read)
            message = self._message(held, mailbox, message_id)
            line = new_answer(mailbox.data, author.name, at, words, form=message.form)

            def edit(now: Mailbox) -> bytes:
                return with_answer(now, _still_there(now, message_id), [("", line)], self.roster.names)

            self._rewrite(held, mailbox, edit, record_of(author, at, f"{message.id} {subject}", text=line))
            return Done(message=message, restored=back)

        return self._written(write, at)

    def restore(self, at: float) -> tuple[str, ...]:
        """Put back everything that was sent or answered and is gone, whether anybody was told of it or not."""
        lost = self.document.missing()
        if not lost:
            return ()
        with self.document.held() as held:
            return restored(self, held, at, lost)

    def rederive(self, author: Author, at: float) -> bool:
        """Make snapshot, queue and summary right again; whether anything was wrong."""
        with self.document.held() as held:
            restored(self, held, at)
            mailbox = self.settled(held.read)
            if rederived(mailbox, self.roster.names) == mailbox.data:
                return False
            self._rewrite(
                held, mailbox, lambda now: rederived(now, self.roster.names), record_of(author, at, "tables")
            )
            return True

    def find(self, message_id: str) -> tuple[Mailbox, Card]:
        """In the mailbox, or where it is not there any more in the archive."""
        mailbox = self.read()
        if not mailbox.find(message_id) and self.archive_path.exists():
            archive = parse(SharedDocument(self.archive_path).read())
            if archive.find(message_id):
                return archive, archive.find(message_id)[-1]
        return mailbox, one_card(mailbox, message_id)

    def _written(self, write: Callable[[Held, tuple[str, ...]], Done], at: float) -> Done:
        """Under the lock, and after what others saved over is back; once more where they just did it again."""
        for tries in range(_TRIES):
            with self.document.held() as held:
                try:
                    return write(held, restored(self, held, at))
                except _Changed as changed:
                    trouble = changed.trouble
            if not self.restore(at) and trouble and tries:
                raise trouble
        raise SortieError(
            f"{self.path} was saved by another program {_TRIES} times while it was being written.",
            fix="Close the editor that has it open.",
        )

    def _rewrite(self, held: Held, mailbox: Mailbox, edit: Callable[[Mailbox], bytes], record: Record) -> None:
        def change(raw: bytes) -> bytes:
            if raw == mailbox.data:
                return edit(mailbox)
            if parse(raw).damage:
                # Perhaps in the middle of a save that takes long; with another content we are asked again.
                wait_for_writers(self.path, _SAVE)
            return edit(self.sound(raw))

        held.rewrite(change, record)

    def _message(self, held: Held, mailbox: Mailbox, message_id: str) -> Message:
        """Raises where there is none of this ID; but one that was sent and went away just now may come back."""
        try:
            return one_card(mailbox, message_id).message
        except SortieError as error:
            if held.done(_taken(message_id.upper())) and not self._is_archived(message_id):
                raise _Changed(error) from None
            raise

    def _is_archived(self, message_id: str) -> bool:
        return self.archive_path.exists() and bool(parse(SharedDocument(self.archive_path).read()).find(message_id))

    def _free_id(self, held: Held, mailbox: Mailbox, at: float) -> str:
        """The next one; none that was ever given, also where the file is an older one just now."""
        others = self._other_ids(mailbox, at)
        while held.done(_taken(new_id := next_id(mailbox, at, others))):
            others.append(new_id)
        return new_id

    def settled(self, read: Callable[[], bytes]) -> Mailbox:
        """The mailbox when nobody is in the middle of a save. One that is empty for a moment is not damaged."""
        for _ in range(_TRIES_TO_READ):
            wait_for_writers(self.path, _SAVE)
            mailbox = parse(read())
            if not mailbox.damage:
                return mailbox
        return self.sound(mailbox.data)

    def sound(self, data: bytes) -> Mailbox:
        mailbox = parse(data)
        if damage := mailbox.damage:
            raise SortieError(
                f"{self.path} {damage}, so nothing can be said of its messages and nothing is written to it.",
                fix="Mend it, or bring back a version from git; `sortie mailbox lint` says where.",
            )
        return mailbox

    def _other_ids(self, mailbox: Mailbox, at: float) -> list[str]:
        """IDs in use that have no card here: of the closed summary, and of the archive for this day."""
        ids = [one.upper() for one in closed_ids(mailbox)]
        if not self.archive_path.exists():
            return ids
        return ids + _headings(SharedDocument(self.archive_path).read(), f"MSG-{day_of(at)}-".encode())

    def _recipient(self, name: str) -> str:
        return EVERYBODY if folded(name) in (EVERYBODY, "everyone", "everybody") else self._known(name)

    def _known(self, name: str) -> str:
        """As the roster spells it."""
        if not self.roster.agents:
            raise SortieError(
                "Nobody is known here who could get a message.",
                fix="Name the agents in CHARTER.md or peers.yaml; `sortie peers init` sets both up.",
            )
        if found := self.roster.find(name):
            return found
        meant = did_you_mean(name, self.roster.names) or "."
        raise SortieError(f'Nobody here is called "{name[:80]}"{meant}', fix=f"Messages go to {self._who()}.")

    def _who(self) -> str:
        return listed([*self.roster.names, EVERYBODY])

    def _sent_with(self, key: str) -> Message:
        """The message that was sent with this key, as it is now; only its ID where it is gone."""
        record = next(record for record in self.document.records() if record.key == key)
        message_id = record.subject.partition(" ")[0]
        try:
            return self.find(message_id)[1].message
        except SortieError:
            return Message(id=message_id)


def _still_there(mailbox: Mailbox, message_id: str) -> Card:
    if not mailbox.find(message_id):
        raise _Changed
    return one_card(mailbox, message_id)


def _taken(message_id: str) -> str:
    """The key under which it is on record that an ID was given."""
    return f"given:{message_id}"


def _headings(data: bytes, beginning: bytes) -> list[str]:
    """The IDs of cards that begin so, without reading all the others."""
    found, token = [], b"\n### " + beginning
    at = data.find(token)
    while at >= 0:
        found.append(data[at + 5 : at + 65].split(maxsplit=1)[0].decode("ascii", "replace"))
        at = data.find(token, at + 1)
    return found
