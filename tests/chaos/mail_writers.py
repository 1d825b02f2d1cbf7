"""Many processes that send and answer mail in one mailbox and are killed at any moment, and an editor beside them.

`python -m tests.chaos.mail_writers DIRECTORY SEED WRITERS MESSAGES EDITOR` forks the writers, kills some when a
message is acknowledged, starts them again until each has sent all of its messages, and prints what was acknowledged
as JSON. EDITOR is `none` or `saves`.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
import traceback
from pathlib import Path

from sortie.peers.author import Author
from sortie.peers.mailbox.draft import Draft
from sortie.peers.mailbox.mailbox_file import MailboxFile
from sortie.peers.place import place_at
from sortie.peers.roster import Roster

KILLS_PER_ACKNOWLEDGEMENT = 0.02
WRITTEN_PER_SAVE = 8 * 1024
PATIENCE = 120.0
MAINTAINER = Author(name="Maintainer", role="maintainer")


Sent = tuple[int, int, int, str]  # the writer, the number, the attempt, the ID


def roster(writers: int) -> Roster:
    return Roster(agents=tuple(f"w{number}" for number in range(writers)))


def body_of(name: str) -> str:
    """A text that says of itself where it ends."""
    return "".join(f"{name} line {line}\n" for line in range(3)) + f"{name} end"


def mailbox(directory: Path, writers: int) -> MailboxFile:
    return MailboxFile(place_at(directory), roster=roster(writers), patience=PATIENCE)


def write(box: MailboxFile, writers: int, writer: int, number: int, attempt: int) -> str:
    """Send one message to the next writer. Those with an even number say by a key that it must be sent once. Every
    tenth is answered by its receiver at once. The answer is the ID."""
    name = f"w{writer} n{number} a{attempt}"
    to = f"w{(writer + 1) % writers}"
    draft = Draft(to=(to,), subject=name, body=body_of(name), priority="P1")
    key = f"w{writer} n{number}" if writer % 2 == 0 else ""
    now = time.time()
    message = box.send(draft, Author(name=f"w{writer}", role="agent"), at=now, key=key).message
    if number % 10 == 5:
        box.move(message.id, "acknowledged", Author(name=to, role="agent"), at=now, said=name)
    return message.id


def _write_all(directory: Path, writers: int, writer: int, numbers: range, attempt: int, pipe: int) -> None:
    box = mailbox(directory, writers)
    for number in numbers:
        message_id = write(box, writers, writer, number, attempt)
        os.write(pipe, f"{number} {attempt} {message_id}\n".encode())
        attempt = 0


def edit(directory: Path, seed: int) -> None:
    """Read the file, take some time, save it with one line more; now by a rename, now in place; until the end.

    That is done once for so much that the others have written: as often on a fast machine as on a slow one."""
    chance = random.Random(seed)
    path = directory / "MAILBOX.md"
    number = 0
    enough = 0
    while not (directory / "stop").exists():
        opened = path.read_bytes()
        if len(opened) < enough:
            select.select([], [], [], 0.005)
            continue
        if not opened.rstrip().endswith(b"|"):
            continue  # another editor would say that the file is being written
        end = time.monotonic() + chance.uniform(0.0, 0.04)
        while time.monotonic() < end:
            select.select([], [], [], 0.005)
        new = opened.replace(b"## Inbox", f"editor line {number}\n\n## Inbox".encode(), 1)
        if number % 2:
            path.write_bytes(new)
        else:
            beside = path.with_name(".MAILBOX.md.swp")
            beside.write_bytes(new)
            beside.replace(path)
        number += 1
        (directory / "saved").write_text(str(number))
        enough = len(opened) + WRITTEN_PER_SAVE


class _Writer:
    """One of them: its process, what it has still to do, and what of it was acknowledged."""

    def __init__(self, directory: Path, writers: int, number: int, messages: int) -> None:
        self._directory, self._writers, self._number, self._messages = directory, writers, number, messages
        self._begun = 0
        self._unread = b""
        self.acknowledged: list[Sent] = []
        self.pid, self.pipe = 0, -1
        self.start()

    @property
    def is_done(self) -> bool:
        return len(self.acknowledged) == self._messages

    def start(self) -> None:
        numbers = range(len(self.acknowledged), self._messages)
        reading, writing = os.pipe()
        self._begun += 1
        self.pid = os.fork()
        if not self.pid:
            os.close(reading)
            code = 1
            try:
                _write_all(self._directory, self._writers, self._number, numbers, self._begun, writing)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(writing)
        self.pipe = reading

    def hear(self) -> int:
        """How many messages were acknowledged since; -1 at its end."""
        raw = os.read(self.pipe, 65536)
        if not raw:
            return -1
        lines = (self._unread + raw).split(b"\n")
        self._unread = lines.pop()
        for line in lines:
            number, attempt, message_id = line.decode().split()
            self.acknowledged.append((self._number, int(number), int(attempt), message_id))
        return len(lines)

    def end(self, *, kill: bool) -> None:
        if kill:
            os.kill(self.pid, signal.SIGKILL)
            while self.hear() >= 0:
                pass
        os.close(self.pipe)
        status = os.waitpid(self.pid, 0)[1]
        if not kill and status:
            raise SystemExit(f"writer {self._number} failed")


def _all_sent(writers: list[_Writer], chance: random.Random) -> tuple[list[Sent], int]:
    """What was acknowledged, and how often somebody was killed for it."""
    acknowledged: list[Sent] = []
    kills = 0
    while writers:
        ready = select.select([one.pipe for one in writers], [], [], 60.0)[0]
        if not ready:
            raise SystemExit("nobody has sent anything for a minute")
        for one in [one for one in writers if one.pipe in ready]:
            heard = one.hear()
            if heard > 0 and not one.is_done and chance.random() < KILLS_PER_ACKNOWLEDGEMENT * heard:
                one.end(kill=True)
                kills += 1
                one.start()
            elif heard < 0:
                one.end(kill=False)
                writers.remove(one)
                acknowledged += one.acknowledged
    return acknowledged, kills


def main() -> None:
    directory, seed, count, messages = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    chance = random.Random(seed)
    mailbox(directory, count).create(MAINTAINER, time.time())
    editor = 0
    if sys.argv[5] == "saves":
        editor = os.fork()
        if not editor:
            edit(directory, seed)
            os._exit(0)
    try:
        acknowledged, kills = _all_sent(
            [_Writer(directory, count, number, messages) for number in range(count)], chance
        )
    finally:
        (directory / "stop").touch()
        if editor:
            os.waitpid(editor, 0)
    saved = int((directory / "saved").read_text()) if editor else 0
    print(json.dumps({"acknowledged": acknowledged, "kills": kills, "saved": saved}))


if __name__ == "__main__":
    main()
