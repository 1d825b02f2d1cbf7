"""A mark that a process keeps whatever becomes of its environment, directory, session and files.

Limits are inherited by birth and survive `exec`. The one on real-time computing concerns hardly anybody, and one of
146,000 years concerns nobody, so its digits can say whose a process is.
"""

from __future__ import annotations

import hashlib
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LIMIT = resource.RLIMIT_RTTIME
_LINE = b"Max realtime timeout"
_LEAST = 1 << 62
_STORE_BITS = 36
_RUN_BITS = 26


def brand(store_id: str, run_id: str) -> int:
    return _LEAST | _digest(store_id, _STORE_BITS) << _RUN_BITS | _digest(run_id, _RUN_BITS)


def is_of_store(number: int, store_id: str) -> bool:
    return number >> _RUN_BITS == brand(store_id, "") >> _RUN_BITS


@contextmanager
def branding(number: int) -> Iterator[None]:
    """Whatever this process starts meanwhile carries the brand, in whichever thread: it must start nothing else."""
    before = resource.getrlimit(_LIMIT)
    _set(number, before[1])
    try:
        yield
    finally:
        _set(*before)


def brand_of(pid: int) -> int:
    """The brand of a process; 0 if it has none, or if that is not to be had."""
    try:
        raw = Path(f"/proc/{pid}/limits").read_bytes()
    except OSError:
        return 0
    soft = raw.partition(_LINE)[2].split(maxsplit=1)[:1]
    number = int(soft[0]) if soft and soft[0].isdigit() else 0
    return number if number >= _LEAST else 0


def _digest(text: str, bits: int) -> int:
    found = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(found) % (1 << bits)


def _set(soft: int, hard: int) -> None:
    try:
        resource.setrlimit(_LIMIT, (soft, hard))
    except (ValueError, OSError):
        pass  # somebody has limited us: what we start is recognised by its other marks
