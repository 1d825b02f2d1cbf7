"""The moment and the secret of all these tests, the work that a report is, and what hides the secret."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection

from sortie.core import events as ev
from sortie.store.connect import connect_readonly

NOW = 1_790_000_000.0
SECRET = "hunter2-hunter2"
WORKFLOW = """---
tracker: {kind: file, active_states: [To Do], terminal_states: [Done], handoff_state: In Review, api_key: %s}
file: {path: issues.json}
agent: {kind: mock}
mock: {api_token: %s, turns: 3}
budget: {per_day: {usd: 50}}
---
Do it.
"""

Fill = Callable[[Iterable[ev.AnyEvent]], Connection]


def hidden(text: str) -> str:
    return text.replace(SECRET, "[redacted]")


def steps(path: Path, report: Callable[[Connection], object]) -> int:
    """How much work a report is for the database, whatever the machine does besides."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    with closing(connect_readonly(path)) as db:
        db.set_progress_handler(count, 10)
        report(db)
    return counted
