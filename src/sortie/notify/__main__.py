"""`python -m sortie.notify STORE PARENT`: started by a service, which sends it the channels on standard input."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

import anyio

from ..errors import SortieError
from ..process.parent import end_with
from .notifier import run

# What goes wrong with the store does so at each look, several times in a second.
SAID_AGAIN = 600.0
MOST_KEPT = 100


class _NotAgain(logging.Filter):
    """Drops a repetition of the last message."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text, now = record.getMessage(), time.monotonic()
        if now - self._said.get(text, -SAID_AGAIN) < SAID_AGAIN:
            return False
        self._said[text] = now
        while len(self._said) > MOST_KEPT:
            del self._said[next(iter(self._said))]
        return True


def main() -> int:
    store, parent = Path(sys.argv[1]), int(sys.argv[2])
    end_with(parent)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    logging.getLogger().handlers[0].addFilter(_NotAgain())
    try:
        anyio.run(run, store)
    except SortieError as error:
        logging.getLogger(__name__).warning("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread in which apprise hangs must not keep us
