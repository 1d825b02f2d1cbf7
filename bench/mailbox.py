"""What a mailbox costs as it grows: to send, to answer, to see what waits; and the same for who opens it first."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from sortie.peers.author import Author
from sortie.peers.mailbox.draft import Draft
from sortie.peers.mailbox.mailbox_file import MailboxFile
from sortie.peers.mailbox.message import Message
from sortie.peers.mailbox.parse import parse
from sortie.peers.mailbox.read_card import remembered
from sortie.peers.mailbox.write_card import card_of
from sortie.peers.place import place_at
from sortie.peers.roster import Roster

from .bench import Bench
from .floor import side_by_side
from .table import Row

SIZES = (100, 1_000, 10_000)
ROSTER = Roster(agents=("Claude", "Codex", "Gemini"))
MAINTAINER = Author(name="Maintainer", role="maintainer")
CODEX = Author(name="Codex", role="agent")
BEGAN = 1_760_000_000.0
BODY = "The parser takes the second row for a header.\nPlease look at it before the next turn."


def mailbox(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    for size in SIZES:
        folder = bench.root / f"mailbox-{size}"
        folder.mkdir()
        box = MailboxFile(place_at(folder), roster=ROSTER)
        box.create(MAINTAINER, BEGAN)
        fill(box, size)
        for what, measured, floor, floor_is in _measured(box):
            ours, theirs = side_by_side(measured, floor, 5 if bench.quick else 25)
            note = f"{box.path.stat().st_size / 1e6:.1f} MB"
            rows.append(
                Row(f"mailbox of {size:,} open messages: {what}", ours * 1e3, "ms", theirs * 1e3, floor_is, note)
            )
    return rows


def fill(box: MailboxFile, size: int) -> None:
    """Open messages, a minute apart, the newest first; with tables that agree with them."""
    cards = "".join(card_of(_message(number)) for number in range(size, 0, -1))
    text = box.path.read_text().replace("## Closed", cards + "## Closed")
    box.path.write_text(text)
    box.rederive(MAINTAINER, BEGAN)


def _message(number: int) -> Message:
    sender, to = ("Claude", "Codex") if number % 2 else ("Codex", "Claude")
    return Message(
        id=f"MSG-20251009-{number:03}",
        date="2025-10-09T08:53:20Z",
        sender=sender,
        recipients=(to,),
        priority="P1",
        closure_owner="sender",
        subject=f"The parser and row {number}",
        body=BODY,
        status="new",
    )


def _measured(
    box: MailboxFile,
) -> list[tuple[str, Callable[[], object], Callable[[], object], str]]:
    """What is measured, and the least that anybody has to do for it."""
    at = (BEGAN + 86_400 + n for n in count())
    numbers = count(1, 2)  # those are to Codex
    beside = box.path.with_name("beside.md")
    replaced, read = partial(_replaced, box.path, beside), box.path.read_bytes

    def send() -> None:
        now = next(at)
        box.send(Draft(to=("Codex",), subject=f"Row {now:.0f}", body=BODY), MAINTAINER, at=now)

    def answer() -> None:
        box.move(f"MSG-20251009-{next(numbers):03}", "acknowledged", CODEX, at=next(at), said="on it")

    def first() -> None:
        remembered.cache_clear()
        parse(box.path.read_bytes())

    writing, reading = "read, write, `fsync`, rename", "reading the file"
    return [
        ("send", send, replaced, writing),
        ("answer", answer, replaced, writing),
        ("check", lambda: box.unread("Codex"), read, reading),
        ("first reading", first, read, reading),
    ]


def _replaced(path: Path, beside: Path) -> None:
    data = path.read_bytes()
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(beside.with_name("replaced.md"))
