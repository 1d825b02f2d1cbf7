"""One line for each call, for the service that counts them: which tool, how it ended, how long it took.

Never what was asked or answered.
"""

from __future__ import annotations

import json
import os
import time

from .wire import say

# Names are the client's to choose; a counter must not grow by each of them.
UNKNOWN = "unknown"

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Record:
    """`path` may be empty: then there is only the line on standard error."""

    def __init__(self, path: str, run_id: str) -> None:
        self._path = path
        self._run_id = run_id

    def add(self, tool: str, *, ok: bool, started: float) -> None:
        """`started` is what `time.perf_counter` showed when the call began."""
        result = "success" if ok else "error"
        milliseconds = round((time.perf_counter() - started) * 1000, 3)
        say(f"tool={tool} result={result} ms={milliseconds}")
        if self._path:
            entry = {
                "at": time.time(),
                "run_id": self._run_id,
                "tool": tool,
                "result": result,
                "ms": milliseconds,
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
            say(f"the call is not counted: {self._path}: {error.strerror}")
