"""A client's wish that a call in flight stop: told once, heard by whoever works for the call at that moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Cancellation:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop: Callable[[], object] | None = None
        self._requested = False

    @property
    def requested(self) -> bool:
        return self._requested

    def request(self) -> None:
        with self._lock:
            self._requested = True
            if self._stop is not None:
                self._stop()

    @contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """While the body runs, a request calls `stop`, which must not block; never afterwards."""
        with self._lock:
            self._stop = stop
            if self._requested:
                stop()
        try:
            yield
        finally:
            with self._lock:
                self._stop = None
