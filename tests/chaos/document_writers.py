"""Many processes that write one document and are killed at any moment, and a person's editor beside them.

`python -m tests.chaos.document_writers DIRECTORY SEED WRITERS ENTRIES EDITOR` forks the writers, kills some when an
entry is acknowledged, starts them again until each has written all its entries, and prints what was acknowledged as
JSON. EDITOR is `none`, `in-place` or `by-rename`.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import traceback
from pathlib import Path

from sortie.peers.journal import Record
from sortie.peers.shared_document import SharedDocument

# Of an entry: its writer, its number, and the attempt of that writer.
Name = tuple[int, int, int]

NAME = "WORKLOG.md"
HEADER = "# Work log\n\n"
KILLS_PER_ACKNOWLEDGEMENT = 0.035
PATIENCE = 60.0


def entry(writer: int, number: int, attempt: int) -> str:
    """A text that says of itself where it ends. Some are so long that they are not written in one go."""
    name = f"w{writer} n{number} a{attempt}"
    lines = 400 if number % 25 == 3 else 3
    return f"### {name}\n\n" + "".join(f"- {name} line {line} of {lines}\n" for line in range(lines)) + "\n"


def status_line(writer: int, number: int) -> bytes:
    return f"Now Working (w{writer}): n{number}\n".encode()


def editors_line(number: int) -> str:
    return f"editor line {number}\n"


def is_rewrite(number: int) -> bool:
    return number % 20 == 19


def write(path: Path, writer: int, number: int, attempt: int) -> None:
    """One operation of a writer. Those with an even number say by a key that it must happen once."""
    key = f"w{writer} n{number}" if writer % 2 == 0 else ""
    record = Record(at=1.0, author=f"w{writer}", role="agent", key=key)
    with SharedDocument(path, patience=PATIENCE).held() as held:
        if key and held.done(key):
            return
        if is_rewrite(number):
            held.rewrite(lambda before: _with_status(before, writer, number), record)
        else:
            held.append(entry(writer, number, attempt).encode(), record)


def _with_status(before: bytes, writer: int, number: int) -> bytes:
    lines = before.splitlines(keepends=True)
    mine = f"Now Working (w{writer}): ".encode()
    for index, line in enumerate(lines):
        if line.startswith(mine):
            lines[index] = status_line(writer, number)
            return b"".join(lines)
    return b"".join([*lines[:2], status_line(writer, number), *lines[2:]])


class Editor:
    """A person who reads the file, thinks for a while, and saves what was read with a line more."""

    def __init__(self, path: Path, way: str, chance: random.Random) -> None:
        self._path, self._way, self._chance = path, way, chance
        self._read = b""
        self.saved = 0

    def act(self) -> None:
        if not self._read:
            self._read = self._path.read_bytes()
        elif self._chance.random() < 0.5:
            content = self._read + editors_line(self.saved).encode()
            if self._way == "in-place":
                self._path.write_bytes(content)
            else:
                other = self._path.with_name("editors-own-name")
                other.write_bytes(content)
                other.rename(self._path)
            self._read = b""
            self.saved += 1


class Crowd:
    """The writers, of which one is forked again when it was killed."""

    def __init__(self, path: Path, writers: int, entries: int) -> None:
        self._path, self._entries = path, entries
        self._next = dict.fromkeys(range(writers), 0)
        self._attempts = dict.fromkeys(range(writers), 0)
        self._writer_of: dict[int, int] = {}
        self._read_end, self._write_end = os.pipe()
        self._heard: list[Name] = []
        self.kills = 0
        for writer in range(writers):
            self._start(writer)

    def acknowledged(self) -> list[Name]:
        """The next acknowledgements; none when all writers are done."""
        while self._writer_of and not self._heard:
            self._listen(0.02)
            self.restart_the_dead()
        self._listen(0)
        heard, self._heard = self._heard, []
        return heard

    def kill_one(self, chance: random.Random) -> None:
        """Anybody, or whoever says to hold the lock now."""
        if not self._writer_of:
            return
        holder = self._holder() if chance.random() < 0.6 else 0
        victim = holder if holder in self._writer_of else chance.choice(list(self._writer_of))
        os.kill(victim, signal.SIGKILL)
        self.kills += 1

    def _holder(self) -> int:
        try:
            return int(json.loads((self._path.parent / ".git" / "sortie" / f"{NAME}.lock").read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return 0

    def restart_the_dead(self) -> None:
        dead = [found for pid in self._writer_of if (found := os.waitpid(pid, os.WNOHANG))[0]]
        # What they have acknowledged is to be known before anybody takes up their work.
        self._listen(0)
        for pid, code in dead:
            writer = self._writer_of.pop(pid)
            if os.WIFEXITED(code):
                assert os.WEXITSTATUS(code) == 0, "a writer failed"
            else:
                self._start(writer)

    def _listen(self, patience: float) -> None:
        """Each acknowledgement was written at once, so there are whole lines only."""
        while select.select([self._read_end], [], [], patience)[0]:
            for line in os.read(self._read_end, 1 << 16).splitlines():
                writer, number, attempt = map(int, line.split())
                self._heard.append((writer, number, attempt))
                self._next[writer] = number + 1
            patience = 0

    def _start(self, writer: int) -> None:
        self._attempts[writer] += 1
        pid = os.fork()
        if pid:
            self._writer_of[pid] = writer
            return
        code = 1
        try:
            attempt = self._attempts[writer]
            for number in range(self._next[writer], self._entries):
                write(self._path, writer, number, attempt)
                os.write(self._write_end, f"{writer} {number} {attempt}\n".encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)


def main() -> None:
    directory, seed, writers, entries, way = sys.argv[1:]
    path = Path(directory) / NAME
    path.write_text(HEADER)
    chance = random.Random(int(seed))
    editor = None if way == "none" else Editor(path, way, chance)
    crowd = Crowd(path, int(writers), int(entries))
    acknowledged: list[Name] = []
    while found := crowd.acknowledged():
        acknowledged += found
        for _ in found:
            if chance.random() < KILLS_PER_ACKNOWLEDGEMENT:
                crowd.kill_one(chance)
            if editor is not None:
                editor.act()
        crowd.restart_the_dead()
    print(json.dumps({"acknowledged": acknowledged, "kills": crowd.kills, "saved": editor.saved if editor else 0}))


if __name__ == "__main__":
    main()
