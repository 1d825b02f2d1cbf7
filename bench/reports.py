"""What each report costs on a store of 100,000 runs and a million events; the floor is to open the store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection

from sortie.core.policy import day_of
from sortie.reports.health import health_report
from sortie.reports.run_detail import run_detail
from sortie.reports.runs import runs_page
from sortie.reports.status import status_report
from sortie.reports.timeline import timeline
from sortie.reports.usage import usage_report
from sortie.store.connect import connect_readonly
from sortie.workflow.config import Config
from sortie.workflow.loader import examine

from .bench import Bench
from .floor import side_by_side
from .large_store import FULL_RUNS, Large, make_large_store
from .table import Row

WORKFLOW = """---
tracker: {kind: file, active_states: [To Do, In Progress], terminal_states: [Done], handoff_state: In Review}
agent: {kind: mock}
---
Do it.
"""


def reports(bench: Bench) -> list[Row]:
    """Each opens the store anew, as a request does."""
    large = Large(runs=FULL_RUNS // 10 if bench.quick else FULL_RUNS)
    path = bench.root / "large.db"
    make_large_store(path, large)
    workflow = bench.root / "WORKFLOW.md"
    workflow.write_text(WORKFLOW)
    config = examine(workflow, environ={}, trial=False).config
    rows = []
    for name, report in _reports(path, config, large).items():
        ours, floor = side_by_side(_asked(path, report), _asked(path, _nothing), 2 * bench.rounds + 3)
        rows.append(Row(f"{large.runs:,} runs: {name}", ours * 1e3, "ms", floor * 1e3, "opening the store"))
    return rows


def _reports(path: Path, config: Config, large: Large) -> dict[str, Callable[[Connection], object]]:
    now, a_run, an_issue = large.now, f"20260101T000000-{large.runs // 2:06x}", "10500"

    def hide(text: str) -> str:
        return text

    def health(db: Connection) -> object:
        return health_report(db, database=path, config=config, broken=False, service=None, now=now, hide=hide)

    return {
        "status": lambda db: status_report(db, config=config, broken=False, service=None, now=now, hide=hide),
        "an issue's story": lambda db: timeline(
            db, an_issue, now=now, served=False, hide=hide, policy=config.policy()
        ),
        "the newest runs": lambda db: runs_page(db, hide=hide),
        "runs that failed": lambda db: runs_page(db, hide=hide, status="failed"),
        "runs by cost": lambda db: runs_page(db, hide=hide, sort="cost"),
        "runs by seconds, page 1,000": lambda db: runs_page(db, hide=hide, sort="seconds", page=1000),
        "runs with a text that none has": lambda db: runs_page(db, hide=hide, text="nowhere"),
        "one run": lambda db: run_detail(db, a_run, hide=hide),
        "usage of 30 days": lambda db: usage_report(db, today=day_of(now), days=30),
        "usage of a year": lambda db: usage_report(db, today=day_of(now), days=366),
        "health": health,
    }


def _asked(path: Path, report: Callable[[Connection], object]) -> Callable[[], None]:
    def ask() -> None:
        with closing(connect_readonly(path)) as db:
            report(db)

    return ask


def _nothing(db: Connection) -> None:
    db.execute("SELECT 1").fetchone()
