"""What others sent to a task: each message once, the oldest first; what is none is set aside and holds up nothing.

What cannot be understood, or says something else than its name, is moved to `messages/unreadable/` and told. One
that was written a moment ago may not be written to its end yet: it waits for the next look, and later ones of its
sender with it.

A reader goes by the highest number it has seen of each sender, and keeps that itself. No number is there before the
one below it, but a listing made while files are added may show only the later one of two; so where a number is
missing the directory is listed once more.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path

from .foreign_text import Malformed, escape
from .safefiles import UnsafeFile, open_directory, read_bounded
from .task_messages import SIZE_LIMIT, Address, Message, addresses, parse_address, parse_message

UNREADABLE = "unreadable"
MOST_MESSAGES = 100
SETTLED_AFTER = 2.0
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers of a sender that are not there: the first and the last of them."""

    sender: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Inbox:
    """`set_aside` has names that can be shown, with the reason; `seen` is where to go on after, for each sender."""

    messages: tuple[Message, ...] = ()
    gaps: tuple[Gap, ...] = ()
    set_aside: tuple[tuple[str, str], ...] = ()
    seen: Mapping[str, int] = field(default_factory=dict)


def list_for(
    messages: Path, recipient: str, after: Mapping[str, int], *, now: float, most: int = MOST_MESSAGES
) -> Inbox:
    """What is new for this task in the directory `messages`, at most so many; OSError where there is none."""
    with open_directory(messages) as directory:
        look = _Look(directory, recipient, after, now)
        look.set_misnamed_aside(most)
        for sender, numbers in look.new_numbers(most).items():
            look.take(sender, numbers)
    return Inbox(
        messages=tuple(sorted(look.messages, key=lambda message: (message.sent, message.sender, message.seq))),
        gaps=tuple(look.gaps),
        set_aside=tuple(look.set_aside),
        seen=look.seen,
    )


class _Look:
    def __init__(self, directory: int, recipient: str, after: Mapping[str, int], now: float) -> None:
        self.messages: list[Message] = []
        self.gaps: list[Gap] = []
        self.set_aside: list[tuple[str, str]] = []
        self.seen = dict(after)
        self._directory = directory
        self._recipient = recipient
        self._after = after
        self._now = now

    def new_numbers(self, most: int) -> dict[str, list[int]]:
        """The lowest that were not seen yet, in order, by sender."""
        found = set(heapq.nsmallest(most, self._unseen()))
        listed = _by_sender(found)
        if any(_gaps(sender, self._after.get(sender, 0), numbers) for sender, numbers in listed.items()):
            below = ((seq, who) for seq, who in self._unseen() if who in listed and seq < listed[who][-1])
            found.update(heapq.nsmallest(most, below))
        return _by_sender(found)

    def take(self, sender: str, numbers: list[int]) -> None:
        done = []
        for seq in numbers:
            address = Address(sender, self._recipient, seq)
            try:
                self.messages.append(parse_message(self._content(address.file), address))
                self.seen[sender] = seq
            except FileNotFoundError:  # another reader has set it aside
                continue
            except (Malformed, UnsafeFile, PermissionError) as error:
                if isinstance(error, Malformed) and self._is_fresh(address.file):
                    break
                if not self._move_aside(address.file, _reason(error)):
                    self.seen[sender] = seq
            done.append(seq)
        self.gaps.extend(_gaps(sender, self._after.get(sender, 0), done))

    def set_misnamed_aside(self, most: int) -> None:
        """What seems to be for this task, but under a name by which it would never be found."""
        with os.scandir(self._directory) as entries:
            found = (entry.name for entry in entries if self._is_misnamed(entry.name))
            misnamed = list(islice(found, most))
        for name in misnamed:
            self._move_aside(name, "Its name must be like a_to_b_001.json")

    def _is_misnamed(self, name: str) -> bool:
        is_meant = name.endswith(".json") and f"_to_{self._recipient}_" in name and not name.startswith(".")
        return is_meant and not parse_address(name)

    def _unseen(self) -> Iterator[tuple[int, str]]:
        for address in addresses(self._directory):
            if address.recipient == self._recipient and address.seq > self._after.get(address.sender, 0):
                yield address.seq, address.sender

    def _content(self, file: str) -> bytes:
        # Its sender may not have removed the other name yet. What a hard link leads to is not shown unless it is a
        # message of this very name.
        return read_bounded(self._directory, file, SIZE_LIMIT + 1, linked=True)

    def _is_fresh(self, file: str) -> bool:
        with suppress(FileNotFoundError):
            changed = os.stat(file, dir_fd=self._directory, follow_symlinks=False).st_ctime
            return 0 <= self._now - changed < SETTLED_AFTER
        return False

    def _move_aside(self, name: str, why: str) -> bool:
        """Whether it is gone from here. The new name has something random in it, so nothing is ever overwritten."""
        self.set_aside.append((escape(name), why))
        plain = name.encode("ascii", "backslashreplace").decode()[:_LONGEST]
        try:
            with suppress(FileExistsError):
                os.mkdir(UNREADABLE, 0o755, dir_fd=self._directory)
            with open_directory(self._directory, UNREADABLE) as aside:
                os.rename(name, f"{plain}.{os.urandom(8).hex()}", src_dir_fd=self._directory, dst_dir_fd=aside)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def _by_sender(found: Iterable[tuple[int, str]]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for seq, sender in sorted(found):
        numbers.setdefault(sender, []).append(seq)
    return numbers


def _gaps(sender: str, after: int, numbers: list[int]) -> list[Gap]:
    """What is missing between `after` and the last of these."""
    known = [after, *numbers]
    return [Gap(sender, low + 1, high - 1) for low, high in pairwise(known) if high - low > 1]


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
