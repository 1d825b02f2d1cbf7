"""The exit codes, which scripts rely on."""

from __future__ import annotations

DONE = 0
FAILED = 1
USAGE = 2
UNFINISHED = 3
