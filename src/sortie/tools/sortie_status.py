"""`sortie_status`: how far the session is, from the file the worker keeps in the workspace.

The agent can write that file too, so it is read as hostile: no links, no pipes, 4 KiB at most, every field checked.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..protocol.safefiles import UnsafeFile, open_directory, read_bounded
from ..protocol.session_files import DIRECTORY, STATE

LIMIT = 4096

_PATH = f"{DIRECTORY}/{STATE}"
_TOKENS = ("input_tokens", "output_tokens", "total_tokens", "cache_read_tokens")


class _Unfit(Exception):
    """What is in the file is not a state."""


def session_status(workspace: str | Path, now: datetime | None = None) -> dict[str, Any]:
    """The answer of the tool."""
    try:
        with open_directory(Path(workspace), DIRECTORY) as directory:
            raw = read_bounded(directory, STATE, LIMIT + 1)
        return _answer(_state(raw), now or datetime.now(UTC))
    except OSError as error:
        text = error.strerror or os.strerror(error.errno or 0)
        place = _PATH if isinstance(error, UnsafeFile) else f"open {_PATH}"
        return {"error": f"state file unavailable: {place}: {text[:1].lower()}{text[1:]}"}
    except _Unfit as error:
        return {"error": f"state file unavailable: {_PATH}: {error}"}


def _state(raw: bytes) -> dict[str, Any]:
    if len(raw) > LIMIT:
        raise _Unfit(f"larger than {LIMIT} bytes")
    try:
        state = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        raise _Unfit("not valid JSON") from None
    if not isinstance(state, dict):
        raise _Unfit("not a JSON object")
    return state


def _answer(state: dict[str, Any], now: datetime) -> dict[str, Any]:
    turn, most = _count(state, "turn_number"), _count(state, "max_turns")
    return {
        "turn_number": turn,
        "max_turns": most,
        "turns_remaining": max(most - turn, 0),
        "attempt": None if state.get("attempt") is None else _count(state, "attempt"),
        "session_duration_seconds": _seconds_since(state, now),
        "tokens": {name: _count(state, name) for name in _TOKENS},
    }


def _count(state: dict[str, Any], name: str) -> int:
    value = state.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _Unfit(f"{name} is not a count")
    return value


def _seconds_since(state: dict[str, Any], now: datetime) -> float:
    try:
        started = datetime.fromisoformat(state["started_at"])
        passed = (now - started).total_seconds()
    except (KeyError, TypeError, ValueError):
        raise _Unfit("started_at is not a time with its zone") from None
    return round(max(passed, 0.0), 3)
