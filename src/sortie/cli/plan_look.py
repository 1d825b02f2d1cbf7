"""How a plan that runs in this process stands now, for the live view: cheap enough for four times a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from ..engine.report import LiveReport, RunReport
from ..plans.graph import depths
from ..plans.picture import TaskLine
from ..plans.standing import Standing, standings
from ..reports.plan_standing import progress_of
from ..sources.plan_tasks import PlanSource

# Of a plan with many tasks, all of them are looked at less often.
_SECONDS_PER_TASK = 1 / 2_000


class PlanLook:
    """Called from the thread that draws."""

    def __init__(self, source: PlanSource, report: Callable[[], LiveReport | None]) -> None:
        self._source = source
        self._report = report
        self._layer = depths(source.plan.edges)
        self._standings: dict[str, Standing] = {}
        self._looked = 0.0

    def __call__(self) -> Sequence[TaskLine] | None:
        report = self._report()
        if report is None:
            return None
        if self._source is not self._source.latest:
            self._source = self._source.latest
            self._layer, self._looked = depths(self._source.plan.edges), 0.0
        plan = self._source.plan
        if time.monotonic() - self._looked > len(plan.tasks) * _SECONDS_PER_TASK:
            self._standings = standings(plan, self._source.schedule, report.now)
            self._looked = time.monotonic()
        running = {run.issue_id: run for run in report.running}
        return [self._line(name, standing, running.get(name)) for name, standing in self._standings.items()]

    def _line(self, name: str, standing: Standing, run: RunReport | None) -> TaskLine:
        spent = self._source.schedule.spent_on(name)
        line = TaskLine(
            name=name,
            state=standing.state,
            note=standing.note,
            tokens=spent.tokens,
            cost_usd=spent.usd,
            layer=self._layer[name],
        )
        if run is None:
            return line
        return replace(line, state="running", progress=progress_of(self._source.plan, name), seconds=run.seconds)
