"""What a start would do now, without doing it: the same look at the tracker, the same decision, no trace."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from ..core.actions import Action
from ..core.budget import day_of
from ..core.decide import Tick, decide
from ..core.schedule import Schedule
from ..sources.remarks import Remark
from ..store.connect import connect_readonly
from ..store.load import load as load_rows
from . import adapters
from .clock import Clock
from .gather import look
from .memory import world_of
from .readiness import missing_agent
from .reload import load_workflow


async def preview(
    path: Path, *, environ: Mapping[str, str], env_file: Path | None = None
) -> tuple[list[Action], list[Remark], tuple[str, ...]]:
    """One decision on the tracker's present state and, where a store exists, on what it remembers.

    Beside it, what keeps issues from being worked on, and a sentence for each record that cannot be used.
    """
    config = load_workflow(path, environ, env_file).config
    now = Clock().now()
    schedule = Schedule(config.policy())
    if config.db_path.exists():
        with closing(connect_readonly(config.db_path)) as db:
            schedule = world_of(load_rows(db, day_of(now)), config.policy())
    tracker = adapters.build_tracker(config)
    try:
        found = await look(tracker, schedule, now, ())
    finally:
        await tracker.aclose()
    for event in (*found.events, *missing_agent(adapters.build_agent(config), config, environ, now)):
        schedule.apply(event)
    schedule.skips.clear()  # every reason is wanted, not only those that changed
    return decide(schedule, Tick(now=now, candidates_known=True)), found.remarks(), found.problems
