"""Other people's code under a time limit: what does not come back is given up, in a thread that ends with us."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .cancellation import Cancellation


class GivenUp(Exception):
    """The code is still running, and nobody waits for it any more."""


def run_limited(work: Callable[[], Any], seconds: float, cancellation: Cancellation | None = None) -> Any:
    """What `work` returns or raises, `SystemExit` included; `GivenUp` when time is over or the call cancelled."""
    outcome = _Outcome(work)
    threading.Thread(target=outcome.produce, daemon=True).start()
    with (cancellation or Cancellation()).stopping(outcome.awaited.set):
        outcome.awaited.wait(seconds)
    return outcome.take()


class _Outcome:
    def __init__(self, work: Callable[[], Any]) -> None:
        self.awaited = threading.Event()
        self._work = work
        self._value: Any = None
        self._error: BaseException | None = GivenUp()

    def produce(self) -> None:
        try:
            value = self._work()
        except BaseException as error:  # it belongs to the caller, in whose thread it is raised again
            self._error = error
        else:
            self._value, self._error = value, None
        self.awaited.set()

    def take(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value
