"""Where in a journal a key may be found, in constant time: a hash table on disk, made from the journal.

A slot holds the position of a line, plus one; 0 is an empty slot. It is written before the line is, so that no line
with a key is ever without a slot. A slot may point to nothing, or to something else: whoever asks looks there.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

from ..protocol.changing_places import sync_directory
from .state_file import open_careful, write_all

_SLOT = 8
_FEWEST = 1 << 12
# A key is in one of these slots, counted from that of its digest; when all are taken, the table grows.
_WINDOW = 64


class KeyTable:
    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        try:
            return self.path.lstat().st_size >= _FEWEST * _SLOT
        except FileNotFoundError:
            return False

    def places(self, key: str) -> list[int]:
        """The positions at which a line with this key may begin."""
        descriptor, status = open_careful(self.path, os.O_RDONLY)
        try:
            return [slot - 1 for slot in _window(descriptor, status, key)[1] if slot]
        finally:
            os.close(descriptor)

    def add(self, key: str, position: int) -> bool:
        """Remember a place, on disk; False where the table is too full."""
        descriptor, status = open_careful(self.path, os.O_RDWR)
        try:
            start, slots = _window(descriptor, status, key)
            if position + 1 in slots:
                return True
            if 0 not in slots:
                return False
            os.pwrite(descriptor, (position + 1).to_bytes(_SLOT, sys.byteorder), (start + slots.index(0)) * _SLOT)
            os.fdatasync(descriptor)
            return True
        finally:
            os.close(descriptor)

    def make(self, entries: Iterable[tuple[str, int]]) -> None:
        """A new table that holds the last place of each key and has room for more."""
        places = dict(entries)
        count = _FEWEST
        while (table := _filled(places, count)) is None:
            count *= 4
        new = self.path.with_name(f"{self.path.name}.new")
        new.unlink(missing_ok=True)
        descriptor, _ = open_careful(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            write_all(descriptor, table)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        new.replace(self.path)
        sync_directory(self.path.parent)


def _window(descriptor: int, status: os.stat_result, key: str) -> tuple[int, list[int]]:
    """The first slot that the key may be in, and what is in all of them."""
    start = _first_slot(key, status.st_size // _SLOT)
    raw = os.pread(descriptor, _WINDOW * _SLOT, start * _SLOT)
    return start, array("Q", raw[: len(raw) // _SLOT * _SLOT]).tolist()


def _first_slot(key: str, count: int) -> int:
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % max(1, count - _WINDOW)


def _filled(places: dict[str, int], count: int) -> bytes | None:
    """The table with half of its slots free at least; None if it must be larger."""
    if len(places) * 2 > count:
        return None
    slots = array("Q", bytes(count * _SLOT))
    for key, position in places.items():
        start = _first_slot(key, count)
        free = next((slot for slot in range(start, start + _WINDOW) if not slots[slot]), None)
        if free is None:
            return None
        slots[free] = position + 1
    return slots.tobytes()
