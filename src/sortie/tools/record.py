"""One line for each call, for the service that counts them: which tool, what it acted on, how it ended, how long.

Never what was answered, and of what was asked only the operation, the issue and the state it was to have.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

from .definitions import TRACKER_API, TRANSITION
from .stdio import log_line

# Names are the client's to choose; a counter must not grow by each of them.
UNKNOWN = "unknown"

# Longer names of issues and states than any tracker has are cut.
LONGEST_WORD = 200

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def particulars(tool: str, arguments: object, answer: object) -> dict[str, str]:
    """`operation`, `target`, `state` and the kind of `error` of a call, as far as it has them."""
    if tool != TRACKER_API.name:
        return {}
    asked = arguments if isinstance(arguments, dict) else {}
    error = answer.get("error") if isinstance(answer, dict) else None
    operation = asked.get("operation")
    found = {
        "operation": operation,
        "target": asked.get("issue_id"),
        "state": asked.get("target_state") if operation == TRANSITION else None,
        "error": error.get("kind") if isinstance(error, dict) else None,
    }
    return {name: _plain(value) for name, value in found.items() if value and isinstance(value, str)}


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:LONGEST_WORD])


class CallRecord:
    """`path` may be empty: then there is only the line on standard error."""

    def __init__(self, path: str, run_id: str) -> None:
        self._path = path
        self._run_id = run_id

    def add(self, tool: str, *, ok: bool, started: float, about: Mapping[str, str] | None = None) -> None:
        """`started` is what `time.perf_counter` showed when the call began; `about` are its particulars."""
        result = "success" if ok else "error"
        milliseconds = round((time.perf_counter() - started) * 1000, 3)
        log_line(f"tool={tool} result={result} ms={milliseconds}")
        if self._path:
            entry = {
                "at": time.time(),
                "run_id": self._run_id,
                "tool": tool,
                "result": result,
                "ms": milliseconds,
                **(about or {}),
            }
            self._append(json.dumps(entry).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        try:
            descriptor = os.open(self._path, _APPEND, 0o600)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
        except OSError as error:
            log_line(f"the call is not counted: {self._path}: {error.strerror}")
