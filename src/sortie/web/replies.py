"""Replies to commands, kept until the page to which the browser is redirected has shown them.

The address of that page has a random key of ours, not the text of the reply.
"""

from __future__ import annotations

import secrets
import threading
import time

from msgspec import Struct

MOST = 500
KEPT_FOR = 600.0


class Shown(Struct, frozen=True):
    ok: bool
    text: str


class Replies:
    """Safe to use from several threads; of many, the newest are kept."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, Shown]] = {}
        self._lock = threading.Lock()

    def keep(self, reply: Shown) -> str:
        name = secrets.token_urlsafe(12)
        with self._lock:
            self._kept[name] = (time.monotonic(), reply)
            while len(self._kept) > MOST:
                self._kept.pop(next(iter(self._kept)))
        return name

    def shown(self, name: str) -> Shown | None:
        """It stays for who loads the page again, for a while."""
        with self._lock:
            kept_at, reply = self._kept.get(name, (0.0, None))
        return reply if reply is not None and time.monotonic() - kept_at < KEPT_FOR else None
