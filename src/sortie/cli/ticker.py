"""What a command is doing, said on standard error once it takes long enough for a person to wonder."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

import click

from .format import clean

QUIET_SECONDS = 2.0
# Between two words of progress: on a terminal they take each other's place, elsewhere they are lines of a log.
TERMINAL_SECONDS, LOG_SECONDS = 0.2, 10.0


class Ticker:
    """`check` is called at every step, `watch` at those that have a name. Its line is gone from a terminal at the
    end."""

    def __init__(self, quiet_seconds: float = QUIET_SECONDS) -> None:
        self._doing = ""
        self._on_terminal = sys.stderr.isatty()
        self._due = time.monotonic() + quiet_seconds
        self._has_spoken = False

    def watch(self, doing: str) -> None:
        self._doing = doing
        self.check()

    def check(self) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + (TERMINAL_SECONDS if self._on_terminal else LOG_SECONDS)
        line = clean(f"{self._doing} …")
        click.echo(f"\r\x1b[K{line}" if self._on_terminal else line, err=True, nl=not self._on_terminal)
        self._has_spoken = True

    def __enter__(self) -> Ticker:
        return self

    def __exit__(self, *error: object) -> None:
        if self._has_spoken and self._on_terminal:
            click.echo("\r\x1b[K", err=True, nl=False)


@contextmanager
def told_when_slow(doing: str) -> Iterator[None]:
    """For a single long wait, which has no steps."""
    timer = Timer(QUIET_SECONDS, click.echo, (clean(f"{doing} …"),), {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
