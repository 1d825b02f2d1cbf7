"""What a start would do now, without doing it: the same look at the source, the same decision, no trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from ..core import events as ev
from ..core.decide import Tick, decide
from ..core.observe import observe
from ..core.schedule import Schedule
from ..sources.issues import IssueSource
from ..sources.warnings import Warning
from ..store.connect import connect_readonly
from ..store.load import load
from ..store.sqlite_errors import explained
from .clock import Clock
from .readiness import missing_agent


class Preview(Struct, frozen=True, kw_only=True):
    """The decision as the events that it would be recorded by; what keeps issues from being worked on by mistake; a
    sentence for each record that cannot be used."""

    decision: Sequence[ev.AnyEvent]
    warnings: Sequence[Warning]
    problems: Sequence[str]


async def preview(path: Path, *, environ: Mapping[str, str], env_file: Path | None = None) -> Preview:
    """One decision on the source's present state and, where a store exists, on what it remembers."""
    source = IssueSource.open(path, environ, env_file)
    now = Clock().now()
    schedule = Schedule()
    if source.config.db_path.exists():
        path = source.config.db_path
        with closing(connect_readonly(path)) as db, explained(path):
            schedule = load(db).schedule
    schedule.policy = source.policy
    try:
        if refusal := source.refusal(schedule):
            raise refusal
        look = await source.look(schedule)
    finally:
        await source.aclose()
    for event in (*observe(schedule, look, now), *missing_agent(source, now)):
        schedule.apply(event)
    schedule.skips.clear()  # every reason is wanted, not only those that changed
    decision = decide(schedule, Tick(now=now, candidates_known=True))
    return Preview(decision=decision, warnings=source.warnings(look), problems=look.problems)
