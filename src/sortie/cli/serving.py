"""Runs the service with somebody to tell about it: the live view on a terminal, log lines everywhere else."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import click

from ..core.redact import Redactor
from ..engine.orchestrator import Orchestrator
from ..engine.report import Glance, Summary
from ..engine.service import serve
from ..errors import StoreError
from ..store.connect import connect_readonly
from ..store.load import Loaded, load
from ..workflow.config import Config
from .format import runnable
from .live import LiveView, fits
from .loglines import LogLines

Voice = LiveView | LogLines


def serve_aloud(
    build: Callable[[Voice], Orchestrator],
    config: Config,
    names: dict[str, str],
    *,
    log_format: str | None = None,
    log_level: str | None = None,
    until_idle: bool = False,
) -> Summary:
    """Build the orchestrator around a voice that hears it, and run it to its end.

    `names` are the identifiers, by issue id, of the issues that are known before.
    """

    def look() -> Glance | None:
        return orchestrator.glance()

    chosen = log_format or config.logging.format
    voice: Voice
    if fits(sys.stderr) and chosen != "json":
        voice = LiveView(look, Redactor(config.secrets).text, names)
    else:
        voice = LogLines(log_level or config.logging.level, as_json=chosen == "json", names=names)
    orchestrator = build(voice)

    def fall_silent() -> None:
        voice.close()
        click.echo(runnable("Ended at once. The next `sortie run` resumes what was running."), err=True)

    with closing(voice), _records_forwarded(voice.say):
        voice.open()
        return serve(orchestrator, until_idle=until_idle, on_drain=voice.stopping, before_exit=fall_silent)


def remembered(config: Config) -> Loaded | None:
    """What an earlier run left in the store; None where there is none that can be read."""
    if not config.db_path.exists():
        return None
    try:
        with closing(connect_readonly(config.db_path)) as db:
            return load(db, "")
    except StoreError:
        return None  # the service itself is about to say what is wrong with it


class _Forwarder(logging.Handler):
    def __init__(self, say: Callable[[str, str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say("error" if record.levelno >= logging.ERROR else "warning", self.format(record))


@contextmanager
def _records_forwarded(say: Callable[[str, str], None]) -> Iterator[None]:
    """What libraries and the service itself say through `logging` is said where everything else is said."""
    forwarder = _Forwarder(say)
    logging.getLogger().addHandler(forwarder)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(forwarder)
