"""`tracker_api` without an orchestrator at hand: the tracker is built here, from the workflow file.

Importing this loads all that a tracker needs; the server does so when the tool is first called.
"""

from __future__ import annotations

import asyncio
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio

from ..errors import ConfigurationError, SortieError
from ..plugins import agent_kinds, load_tracker, tracker_kinds
from ..trackers.tracker import TrackerSettings
from ..workflow.config import Config
from ..workflow.loader import load
from . import envelope
from .cancellation import Cancellation
from .redaction import Veil
from .tracker_api import Reach, handle

_CLOSING_SECONDS = 5.0


def problem_with(workflow: str) -> str:
    """Why no tracker can be built from this file, or an empty string; nothing is contacted."""
    try:
        _load(workflow)
    except SortieError as error:
        return str(error)
    return ""


def transitions_in(workflow: str) -> str:
    """What the workflow, which `problem_with` found to be sound, lets agents move."""
    return _load(workflow).tools.transitions


def call(workflow: str, issue_id: str, arguments: object, cancellation: Cancellation) -> dict[str, Any]:
    """One call of the tool, in a thread that may block; `issue_id` is that of the session."""
    try:
        config = _load(workflow)
        reach = Reach(config.tools.transitions, issue_id)
        answer = anyio.run(_answer, arguments, tracker_settings(config), reach, cancellation)
    except SortieError as error:
        return envelope.failure(envelope.INTERNAL_ERROR, f"The workflow cannot be used: {error}")
    except Exception as error:
        return envelope.unexpected(error)
    veiled: dict[str, Any] = Veil(config.secrets).value(answer)
    return veiled


@lru_cache(maxsize=1)
def _load(workflow: str) -> Config:
    kinds = {"tracker": tracker_kinds(), "agent": agent_kinds()}
    try:
        path = Path(workflow).absolute()
    except OSError as error:
        fix = "Start it in a directory that exists, or with the absolute path of the workflow."
        raise ConfigurationError(f"The working directory is gone, so {workflow} leads nowhere.", fix=fix) from error
    return load(path, environ=os.environ, kinds=kinds, inspect=_findings, trial=False).config


def _findings(config: Config) -> list[tuple[str, str]]:
    try:
        return load_tracker(config.tracker.kind).check(tracker_settings(config))
    except ConfigurationError as error:
        return [("tracker.kind", str(error))]


def tracker_settings(config: Config) -> TrackerSettings:
    """What the workflow says about its tracker, in the tracker's own words."""
    tracker = config.tracker
    return TrackerSettings(
        kind=tracker.kind,
        active_states=tracker.active_states,
        terminal_states=tracker.terminal_states,
        handoff_state=tracker.handoff_state,
        in_progress_state=tracker.in_progress_state,
        endpoint=tracker.endpoint,
        api_key=tracker.api_key,
        project=tracker.project,
        query_filter=tracker.query_filter,
        options=config.options.get(tracker.kind, {}),
        base=config.base,
    )


async def _answer(
    arguments: object, settings: TrackerSettings, reach: Reach, cancellation: Cancellation
) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    tracker = load_tracker(settings.kind).from_settings(settings)
    answer = envelope.failure(envelope.TRANSPORT_ERROR, "The call was cancelled.")
    with anyio.CancelScope() as scope, cancellation.stopping(lambda: loop.call_soon_threadsafe(scope.cancel)):
        answer = await handle(arguments, tracker, settings, reach)
    with anyio.move_on_after(_CLOSING_SECONDS):
        await tracker.aclose()
    return answer
