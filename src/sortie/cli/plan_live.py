"""The live view of a plan: how far it is, its tasks with who waits for whom, and the last sentences of the log.

It is drawn four times a second, so of a big plan only what fits is looked at closely; the rest is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import IO

from rich.console import RenderableType
from rich.text import Text

from ..plans.picture import TaskLine, counted
from ..plans.plan import Plan
from .format import amount, duration, short
from .live_screen import LONGEST_LINE, LiveScreen, one_line
from .plan_drawing import MOST_DRAWN, Line, after, as_graph, as_list

LEAST_ROWS = 3
LONGEST_NOTE = 200
# What its agent says must not push out what it takes.
LONGEST_PROGRESS = 32


class PlanView(LiveScreen[Sequence[TaskLine]]):
    """`look_at_plan` tells how every task stands; None before that is known."""

    def __init__(
        self,
        plan: Plan,
        look_at_plan: Callable[[], Sequence[TaskLine] | None],
        hide: Callable[[str], str],
        names: dict[str, str],
        stream: IO[str] | None = None,
    ) -> None:
        super().__init__(look_at_plan, hide, names, stream)
        self._plan = plan.name
        self._waits_for = {task.name: list(task.waits_for) for task in plan.tasks}

    def body(self, seen: Sequence[TaskLine]) -> list[RenderableType]:
        tasks = self._tasks(seen, max(self.room() - 1, LEAST_ROWS))
        return [self._headline(seen), *(one_line(Text.assemble(*line)) for line in tasks)]

    def _headline(self, seen: Sequence[TaskLine]) -> Text:
        states = Counter(line.state for line in seen)
        done = f"{states.pop('completed', 0):,} of {len(seen):,} completed"
        counts = [done, *filter(None, [counted(states)])]
        spent = f"{amount(sum(line.tokens for line in seen))} tokens, ${sum(line.cost_usd for line in seen):.2f}"
        return one_line(Text(f"{self._plan}  {', '.join(counts)}  ({spent})", style="bold"))

    def _tasks(self, seen: Sequence[TaskLine], rows: int) -> list[Line]:
        """Lanes where they fit, else the most urgent tasks by layer."""
        by_name = {line.name: line for line in seen}
        states = {line.name: line.state for line in seen}
        width = self._console.width

        def about(name: str) -> str:
            return self._about(by_name[name])

        def about_and_after(name: str) -> str:
            return about(name) or after(self._waits_for.get(name, ()))

        if len(by_name) <= min(rows, MOST_DRAWN):
            # A plan that changed meanwhile may have tasks that this view knows nothing of, or have lost some.
            edges = {name: [one for one in self._waits_for.get(name, ()) if one in by_name] for name in by_name}
            if (lines := as_graph(edges, states, about, width, rows)) is not None:
                return lines
        columns: list[list[str]] = [[] for _ in range(max((line.layer for line in seen), default=-1) + 1)]
        for line in seen:
            columns[line.layer].append(line.name)
        return as_list(columns, states, about_and_after, width, rows)

    def _about(self, line: TaskLine) -> str:
        """What a running task does, or why another one stands as it does; then what it took."""
        doing = line.state == "running" and line.progress
        said, most = (line.progress, LONGEST_PROGRESS) if doing else (line.note, LONGEST_NOTE)
        parts = [short(self._hide(said[:LONGEST_LINE]), most)] if said else []
        parts += [duration(line.seconds)] if line.seconds else []
        parts += [f"{amount(line.tokens)} tokens"] if line.tokens else []
        parts += [f"${line.cost_usd:.2f}"] if line.cost_usd else []
        return " · ".join(parts)
