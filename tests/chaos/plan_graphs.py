"""Random plans: who waits for whom, and how the agent of each task behaves. What must come of one follows from it.

The same seed gives the same plan. `smaller` has those that are tried where one fails, to find the least that does.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

MOST_TASKS = 12
AGENT_KILLS = 2  # so many agents of a plan are killed from outside; each task has as many retries for that
MISDEEDS = ("fails", "dies", "lies", "breaks-off", "never-ends", "says-failed", "links-out")
LAST_MISDEEDS = (*MISDEEDS, "gives-up")
COMPLETED, FAILED, ESCALATED, BLOCKED = "completed", "failed", "escalated", "blocked"


@dataclass(frozen=True)
class Edge:
    to: int
    kind: str  # depends_on or wait_for
    on_failure: str = "block"
    outputs: tuple[str, ...] = ()
    copy_to: str = ""


@dataclass(frozen=True)
class Task:
    """`misdeeds` are done one after the other; then it behaves, or does `at_last` for ever."""

    number: int
    edges: tuple[Edge, ...] = ()
    misdeeds: tuple[str, ...] = ()
    at_last: str = ""
    slow_ms: int = 0
    daemon: bool = False
    tampers: bool = False
    tells: str = "full"
    turns: int = 1
    escalates: bool = False

    @property
    def name(self) -> str:
        return f"t{self.number:02}"

    @property
    def conduct(self) -> str:
        """As the agent reads it."""
        yes_or_no = {True: "yes", False: "no"}
        return (
            f"tells={self.tells} slow_ms={self.slow_ms} daemon={yes_or_no[self.daemon]} "
            f"tampers={yes_or_no[self.tampers]} turns={self.turns} at_last={self.at_last or 'behaves'} "
            f"misdeeds={' '.join(self.misdeeds) or 'none'}\n"
        )

    @property
    def retries(self) -> int:
        return 1 if self.at_last else len(self.misdeeds) + AGENT_KILLS

    def document(self) -> dict[str, Any]:
        """As it stands in the plan file."""
        return {
            "name": self.name,
            "objective": f"Do what {self.name} is for.",
            "success_criteria": ["It is done."],
            "outputs": ["data.txt", "parts/"],
            "retries": self.retries,
            "max_turns": self.turns,
            "when_failed": "escalate" if self.escalates else "fail",
            "depends_on": [_document(edge) for edge in self.edges if edge.kind == "depends_on"],
            "wait_for": [_document(edge) for edge in self.edges if edge.kind == "wait_for"],
        }


@dataclass(frozen=True)
class Graph:
    tasks: tuple[Task, ...]
    parallel: int

    def document(self, command: str) -> dict[str, Any]:
        agent = {"kind": "command", "command": command, "env": ["CHAOS_DIARY"]}
        return {
            "name": "chaos",
            "max_parallel": self.parallel,
            "defaults": {"agent": agent, "skill": "code", "retry_delay_ms": 0},
            "tasks": [task.document() for task in self.tasks],
        }

    def ends(self) -> dict[str, str]:
        """What must come of each task, however often anybody is killed."""
        ends: dict[int, str] = {}
        for task in self.tasks:
            ends[task.number] = _end(task, ends)
        return {task.name: ends[task.number] for task in self.tasks}

    def waits(self) -> Iterator[tuple[str, str]]:
        """Each task with each that it waits for."""
        names = {task.number: task.name for task in self.tasks}
        for task in self.tasks:
            for edge in task.edges:
                yield task.name, names[edge.to]


def _document(edge: Edge) -> dict[str, Any]:
    document: dict[str, Any] = {"task": f"t{edge.to:02}", "on_failure": edge.on_failure}
    if edge.outputs:
        document["outputs"] = list(edge.outputs)
    if edge.copy_to:
        document["copy_to"] = edge.copy_to
    return document


def _end(task: Task, ends: dict[int, str]) -> str:
    others = [(edge.on_failure, ends[edge.to]) for edge in task.edges]
    if any(policy == "fail" and end == FAILED for policy, end in others):
        return FAILED
    if any(end in (ESCALATED, BLOCKED) or (policy == "block" and end == FAILED) for policy, end in others):
        return BLOCKED
    if not task.at_last:
        return COMPLETED
    return ESCALATED if task.escalates else FAILED


def draw(chance: random.Random) -> Graph:
    count = chance.choice((1, 2, 3, 4, 5, 6, 8, MOST_TASKS))
    density = chance.choice((0.1, 0.3, 0.6))
    return Graph(tuple(_draw_task(chance, number, density) for number in range(count)), chance.randint(1, 4))


def _draw_task(chance: random.Random, number: int, density: float) -> Task:
    edges = tuple(_draw_edge(chance, number, other) for other in range(number) if chance.random() < density)
    misdeeds = tuple(chance.choices(MISDEEDS, k=chance.choice((0, 0, 0, 1, 1, 2))))
    return Task(
        number=number,
        edges=edges,
        misdeeds=misdeeds,
        at_last=chance.choice(LAST_MISDEEDS) if chance.random() < 0.15 else "",
        slow_ms=chance.choice((0, 0, 5, 40)),
        daemon=chance.random() < 0.2,
        tampers=chance.random() < 0.1,
        tells=chance.choice(("full", "plainly", "nothing")),
        turns=chance.choice((1, 1, 2)),
        escalates=chance.random() < 0.5,
    )


def _draw_edge(chance: random.Random, number: int, other: int) -> Edge:
    on_failure = chance.choice(("block", "continue", "continue", "fail"))
    if chance.random() < 0.3:
        return Edge(other, "wait_for", on_failure)
    outputs = chance.choice(((), ("data.txt",), ("parts/",), ("parts/one", "summary.md")))
    copy_to = chance.choice(("", f"inbox/of/{other}/"))
    return Edge(other, "depends_on", on_failure, outputs, copy_to)


def smaller(graph: Graph) -> Iterator[Graph]:
    """Plans with one thing less, the greatest steps first."""
    for gone in reversed(graph.tasks):
        left = tuple(
            replace(task, edges=tuple(edge for edge in task.edges if edge.to != gone.number))
            for task in graph.tasks
            if task is not gone
        )
        if left:
            yield replace(graph, tasks=left)
    for task in graph.tasks:
        plain = Task(number=task.number, edges=task.edges)
        fewer = [replace(task, edges=task.edges[:at] + task.edges[at + 1 :]) for at in range(len(task.edges))]
        for other in (plain, *fewer, replace(task, misdeeds=task.misdeeds[1:]), replace(task, at_last="")):
            if other != task:
                yield replace(graph, tasks=tuple(other if one is task else one for one in graph.tasks))
