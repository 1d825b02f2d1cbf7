"""`tracker_api` without an orchestrator at hand: the tracker is built here, from the workflow file.

Tracker and event loop are kept from call to call. A workflow file that changed is read again before the next call;
while it cannot be used, the last one that could is. Importing this loads all that a tracker needs: the server does
so when the tool is first called.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace

from ..core.narrate import clock as told_time
from ..errors import ConfigurationError, SortieError
from ..plugins import kinds, load_tracker
from ..trackers.rate_limits import SHARE_OF_TOOLS
from ..trackers.tracker import Tracker
from ..trackers.trust import judged_tracker
from ..workflow.config import OF_THE_SERVICE, Config
from ..workflow.loader import load
from . import envelope
from .calls import Cancellation
from .stdio import log_line
from .store_reading import rows_of
from .tracker_api import DEADLINE, Reach, handle, tracker_settings

# Longer than the limit of a call: only a tracker that blocks the loop takes so much.
BLOCKED_SECONDS = DEADLINE + 5.0

_HELD_UNTIL = "SELECT held_until FROM call_use WHERE held_until > ?"


class LocalTracker:
    """`issue_id` is that of the session, `database` the store of its service, if there is one. Calls come from any
    thread, several at once."""

    def __init__(self, workflow: str, issue_id: str = "", database: str = "") -> None:
        self._workflow = workflow
        self._issue_id = issue_id
        self._database = database
        self._lock = threading.Lock()
        self._config: Config | None = None
        self._identity: tuple[int, ...] = ()
        self._loop: _TrackerLoop | None = None

    def problem(self) -> str:
        """Why no tracker can be built from the file, or an empty string; nothing is contacted."""
        try:
            self._current_config()
        except SortieError as error:
            return str(error)
        return ""

    def transitions(self) -> str:
        """What the workflow, in which no problem was found, lets agents move."""
        return self._current_config().tools.transitions

    def call(self, arguments: object, cancellation: Cancellation, limit: float = BLOCKED_SECONDS) -> dict[str, Any]:
        """One call of the tool, in a thread that may block."""
        # Who goes on asking while a server wants no calls may be shut out, and the service with him.
        for (until,) in rows_of(self._database, _HELD_UNTIL, time.time())[0] if self._database else ():
            said = f"The tracker's rate limit is reached; ask again at {told_time(until)}."
            return envelope.failure(envelope.RATE_LIMITED, said)
        try:
            config = self._current_config()
            answer = self._answer(config, arguments, cancellation, limit)
        except SortieError as error:
            return envelope.failure(envelope.INTERNAL_ERROR, f"The workflow cannot be used: {error}")
        except Exception as error:
            return envelope.unexpected(error)
        redacted: dict[str, Any] = envelope.redacted(answer, config.secrets)
        return redacted

    def close(self, seconds: float) -> bool:
        """Give back what the tracker holds; whether that was done in time."""
        with self._lock:
            loop, self._loop = self._loop, None
        try:
            if loop is not None:
                loop.run(loop.close(), seconds)
        except TimeoutError:
            return False
        return True

    def _current_config(self) -> Config:
        with self._lock:
            identity = _identity_of(self._workflow)
            if self._config is None or identity != self._identity:
                try:
                    self._config = _load(self._workflow)
                except SortieError:
                    if self._config is None:
                        raise
                self._identity = identity
            return self._config

    def _answer(
        self, config: Config, arguments: object, cancellation: Cancellation, limit: float
    ) -> dict[str, Any]:
        with self._lock:
            loop = self._loop = self._loop or _TrackerLoop()
        reach = Reach(config.tools.transitions, self._issue_id)
        try:
            answer: dict[str, Any] = loop.run(loop.answer(config, reach, arguments, cancellation), limit)
        except TimeoutError:
            with self._lock:
                if self._loop is loop:
                    self._loop = None  # whoever comes next shall not wait behind what blocks this one
            problem = f"The tracker did not answer within {limit:g} s."
            return envelope.failure(envelope.TRANSPORT_ERROR, problem)
        return answer


class _TrackerLoop:
    """An event loop in a thread of its own, and the trackers that live in it: one for each reading of the workflow.

    A tracker that was replaced may still be in use, so it is closed with the last one.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._trackers: list[tuple[Config, Tracker]] = []
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, Any], seconds: float) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    async def answer(
        self, config: Config, reach: Reach, arguments: object, cancellation: Cancellation
    ) -> dict[str, Any]:
        settings = tracker_settings(config)
        # One of many beside the service, which count each for itself.
        settings = replace(settings, calls_per_minute=max(int(settings.calls_per_minute * SHARE_OF_TOOLS), 1))
        if not self._trackers or self._trackers[-1][0] is not config:
            self._trackers.append((config, judged_tracker(load_tracker(settings.kind), settings)))
        tracker = self._trackers[-1][1]
        answer = envelope.failure(envelope.TRANSPORT_ERROR, "The call was cancelled.")
        with anyio.CancelScope() as scope:
            with cancellation.stopping(lambda: self._loop.call_soon_threadsafe(scope.cancel)):
                answer = await handle(arguments, tracker, settings, reach, has_tracker_alone=True)
        return answer

    async def close(self) -> None:
        for _, tracker in self._trackers:
            try:
                await tracker.aclose()
            except Exception as error:  # no reason to keep the others open
                log_line(f"a tracker was not closed: {type(error).__name__}")


def _identity_of(workflow: str) -> tuple[int, ...]:
    """What a stat shows of the file; empty where there is none."""
    try:
        status = os.stat(workflow)  # noqa: PTH116 - each call asks for it
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _load(workflow: str) -> Config:
    try:
        path = Path(workflow).absolute()
    except OSError as error:
        fix = "Start it in a directory that exists, or with the absolute path of the workflow."
        raise ConfigurationError(f"The working directory is gone, so {workflow} leads nowhere.", fix=fix) from error
    # What only the service needs, its secrets among it, is not in our environment.
    found = load(path, environ=os.environ, kinds=kinds(), inspect=_findings, trial=False, without=OF_THE_SERVICE)
    return found.config


def _findings(config: Config) -> list[tuple[str, str]]:
    try:
        return load_tracker(config.tracker.kind).check(tracker_settings(config))
    except ConfigurationError as error:
        return [("tracker.kind", str(error))]
