"""A plan as it is shown: its tasks with their states, and who waits for whom. Knows nothing of how it is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from msgspec import Struct

from .plan import OnFailure, Plan, Task

EdgeKind = Literal["data", "order"]

# Every state that is shown, the most urgent first: what is cut away for want of room is cut from the end.
STATES = (
    "running",
    "escalated",
    "failed",
    "incomplete",
    "blocked",
    "stale",
    "outdated",
    "ready",
    "waiting",
    "pending",
    "completed",
    "skipped",
)


class TaskLine(Struct, frozen=True, kw_only=True):
    """How a task stands at one moment. `note` is why, `progress` what its agent says (`step 3/5 analysing`); the
    others are what all its runs took. `layer` counts from 0."""

    name: str
    state: str
    note: str = ""
    progress: str = ""
    seconds: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0
    layer: int = 0


class Node(Struct, frozen=True):
    """A task; `note` is the reason for its state."""

    name: str
    title: str = ""
    state: str = "waiting"
    note: str = ""


class Edge(Struct, frozen=True):
    """`after` waits for `before`; `data` where something is handed on, `order` where it only has to be over."""

    before: str
    after: str
    kind: EdgeKind = "data"
    on_failure: OnFailure = "block"


class Picture(Struct, frozen=True, dict=True):
    """Each task once, and at most one edge between two of them, without a circle."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def waits_for(self) -> dict[str, list[str]]:
        """By name of every task, the names that it waits for."""
        before: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for edge in self.edges:
            before[edge.after].append(edge.before)
        return before


def picture_of(plan: Plan, states: Mapping[str, tuple[str, str]]) -> Picture:
    """`states` has the state and the reason for it by the name of the task; who is not in it waits."""
    return Picture(
        nodes=tuple(Node(task.name, task.title, *states.get(task.name, ("waiting", ""))) for task in plan.tasks),
        edges=tuple(edge for task in plan.tasks for edge in edges_of(task)),
    )


def edges_of(task: Task) -> list[Edge]:
    """Where a task is both given something and made to wait, what it is given counts."""
    handing_on = {dependency.task for dependency in task.depends_on}
    return [
        Edge(before, task.name, "data" if before in handing_on else "order", on_failure)
        for before, on_failure in task.waits_for.items()
    ]


def counted(states: Mapping[str, int]) -> str:
    """`4 running, 116 waiting`, the most urgent first."""
    known = [state for state in STATES if states.get(state)]
    others = sorted(state for state, count in states.items() if count and state not in STATES)
    return ", ".join(f"{states[state]:,} {state}" for state in (*known, *others))
