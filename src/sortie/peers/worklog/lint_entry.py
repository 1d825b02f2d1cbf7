"""What is wrong with one entry of a work log, or with the few around it: author, form, size, words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ...protocol.foreign_text import shortened
from ..finding import Finding
from ..roster import Roster, fold
from .entry import Entry
from .event import Event
from .fields import Fields
from .heading import names_in

NO_AUTHOR = "no-author"
UNKNOWN_ACTOR = "unknown-actor"
HANDOFF_KEYS = "handoff-keys"
NO_NEXT_OWNER = "no-next-owner"
UNKNOWN_NEXT_OWNER = "unknown-next-owner"
TOO_LONG = "too-long"
ENCODED = "encoded"
CONTROL_CHARACTERS = "control-characters"
ASSUMES_READ = "assumes-read"
CHAT_ROOM = "chat-room"

MOST_LINES = 120
MOST_CHARACTERS = 10_000
MOST_QUICK_LINES = 3
# From the third of such entries on it is a conversation.
_CHAT = 3
_CHAT_CHARACTERS = 400
_SHOWN = 60
_KEYS = {
    "handoff": "Handoff",
    "owner": "Owner",
    "status": "Status",
    "changed_files": "Changed files",
    "tests": "Tests run",
    "risks": "Risks/assumptions",
    "blocking": "Blocking items",
    "next_owner": "Next owner",
}

_LONG_RUN = re.compile(r"[A-Za-z0-9+/_-]{200}")
_DATA = re.compile(r"\bdata:[a-z]{1,20}/[a-z0-9.+-]{1,40};base64,", re.IGNORECASE)
_ENCODED_LINE = re.compile(r"[A-Za-z0-9+/]{56,100}={0,2}")
_ENCODED_LINES = 4
_ESCAPE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_READ_BEFORE = re.compile(
    r"\b(?:as you (?:know|saw|read|have (?:seen|read))|you(?:['\u2019]ve| have) (?:already )?(?:seen|read)"
    r"|you already (?:know|saw|read)|since you (?:read|saw)|as we (?:discussed|agreed)|as discussed)\b",
    re.IGNORECASE,
)
_TALKS = re.compile(
    r"(?:hi|hey|hello|thanks|thank you|ok|okay|sure|yes|no|agreed|sounds good|lol|great)\b|@\w", re.IGNORECASE
)


class Read(Struct, frozen=True, kw_only=True):
    """An entry with what was made out of it, once for all checks."""

    entry: Entry
    line: int
    title: str
    actor: str
    body: str
    fields: Fields
    events: tuple[Event, ...]

    @property
    def is_note(self) -> bool:
        return all(event.event_type == "note" for event in self.events)

    def finding(self, kind: str, sentence: str) -> Finding:
        return Finding(kind=kind, subject=self.entry.entry_id, line=self.line, sentence=sentence, owner=self.actor)

    @property
    def called(self) -> str:
        return f'"{shortened(self.title or self.entry.heading, _SHOWN)}"'


def check_entry(read: Read, roster: Roster, *, is_known: bool) -> Iterator[Finding]:
    """`is_known`: it is on record who wrote it, and that it was not an agent."""
    yield from _author(read, roster, is_known=is_known)
    yield from _handoff(read, roster)
    yield from _size(read)
    yield from _words(read)


def _author(read: Read, roster: Roster, *, is_known: bool) -> Iterator[Finding]:
    if not read.actor:
        yield read.finding(
            NO_AUTHOR,
            f"The entry {read.called} does not say whose it is; begin it with `### TIME — NAME: title`, "
            "as `sortie worklog append` does.",
        )
    elif roster.agents and not is_known and not any(roster.find(name) for name in names_in(read.actor)):
        yield read.finding(
            UNKNOWN_ACTOR,
            f"The entry {read.called} is of {read.actor}, who is none of those who take part: "
            f"{', '.join(roster.names)}.",
        )


def _handoff(read: Read, roster: Roster) -> Iterator[Finding]:
    fields = read.fields
    if "handoff" not in fields or not {"owner", "status", "next_owner"} & fields.keys():
        return
    if missing := [word for key, word in _KEYS.items() if key not in fields]:
        yield read.finding(
            HANDOFF_KEYS,
            f"The handoff {read.called} has no {', '.join(missing)}; write each of the eight keys, with `none` "
            "where there is nothing to say.",
        )
    following = names_in(fields.get("next_owner", ""))
    if not following and fold(read.title).startswith("handoff"):
        yield read.finding(
            NO_NEXT_OWNER,
            f"The handoff {read.called} does not say who is next; name the next owner, or record it as completed.",
        )
    for name in following:
        if roster.agents and roster.find(name) is None:
            yield read.finding(
                UNKNOWN_NEXT_OWNER,
                f"{read.called} is handed to {name}, who is none of those who take part: "
                f"{', '.join(roster.names)}.",
            )


def _size(read: Read) -> Iterator[Finding]:
    lines = read.body.count("\n") + 1
    if read.entry.form == "line" and not read.is_note and "handoff" not in read.fields and lines > MOST_QUICK_LINES:
        yield read.finding(
            TOO_LONG,
            f"The quick handoff {read.called} has {lines} lines; one has at most {MOST_QUICK_LINES}, and "
            "`sortie worklog handoff` writes a full one.",
        )
    elif lines > MOST_LINES or len(read.body) > MOST_CHARACTERS:
        yield read.finding(
            TOO_LONG,
            f"The entry {read.called} has {lines:,} lines with {len(read.body):,} characters; keep what others "
            "need, and put the rest into a file that the entry names.",
        )


def _words(read: Read) -> Iterator[Finding]:
    text = f"{read.title}\n{read.body}"
    if _is_encoded(text):
        yield read.finding(
            ENCODED,
            f"The entry {read.called} holds encoded data, which no person can read; put it into a file and "
            "name that.",
        )
    if found := _ESCAPE.search(text):
        yield read.finding(
            CONTROL_CHARACTERS,
            f"The entry {read.called} holds the control character U+{ord(found[0]):04X}, which can change what a "
            "terminal shows; write plain text.",
        )
    if found := _READ_BEFORE.search(text):
        yield read.finding(
            ASSUMES_READ,
            f'The entry {read.called} says "{found[0]}", but nobody reads an entry before their next turn; say it '
            "again in short, or name the entry.",
        )


def _is_encoded(text: str) -> bool:
    if _DATA.search(text):
        return True
    if any(not found[0].isdigit() and len(set(found[0])) > 8 for found in _LONG_RUN.finditer(text)):
        return True
    run = 0
    for line in text.split("\n"):
        is_encoded = _ENCODED_LINE.fullmatch(line.strip()) is not None and len(set(line)) > 8
        run = run + 1 if is_encoded else 0
        if run == _ENCODED_LINES:
            return True
    return False


def conversations(entries: Sequence[Read], roster: Roster) -> Iterator[Finding]:
    """Freeform entries that answer each other, or speak to somebody."""
    run: list[Read] = []
    for read in (*entries, None):
        if read is not None and _may_be_talk(read) and (not run or fold(run[-1].actor) != fold(read.actor)):
            run.append(read)
            continue
        if len(run) >= _CHAT:
            yield run[0].finding(
                CHAT_ROOM,
                f"{len(run)} short entries from line {run[0].line} to {run[-1].line} answer each other without any "
                "structure; record the outcome as a proposal, objection or decision, and ask in the mailbox.",
            )
        elif run:
            yield from _spoken(run, roster)
        run = [read] if read is not None and _may_be_talk(read) else []


def _spoken(run: Sequence[Read], roster: Roster) -> Iterator[Finding]:
    for read in run:
        said = read.body if read.entry.form == "line" or not read.title else read.title
        words = re.split(r"[\s,:;]+", said.strip(), maxsplit=1)[0].lstrip("@")
        is_called = said.lstrip().startswith("@") or (
            said.strip()[len(words) : len(words) + 1] == ","
            and roster.find(words) is not None
            and fold(words) != fold(read.actor)
        )
        if is_called or _TALKS.match(said.strip()):
            yield read.finding(
                CHAT_ROOM,
                f"The entry {read.called} speaks to somebody instead of recording something; "
                "`sortie mailbox send` is for that.",
            )


def _may_be_talk(read: Read) -> bool:
    is_structured = "\n- " in f"\n{read.body}" or "\n|" in f"\n{read.body}" or "```" in read.body
    return read.is_note and bool(read.actor) and not is_structured and len(read.body) <= _CHAT_CHARACTERS
