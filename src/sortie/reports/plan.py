"""A plan for display: its graph with the state of every task, and all details of one task."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ..plans.layout import Point, lay_out
from ..plans.load import SUFFIX, examine
from ..plans.picture import EdgeKind, edges_of
from ..plans.plan import LAST_RUN, OnFailure, Plan
from ..plans.progress import Memo
from .plan_standing import Known, hider_of, known_of, task_lines

# A letter of a box, and what is left free at its sides, as the drawing of `sortie plan graph` has it.
LETTER = 7.9
PADDING = 14.0
NARROWEST = 96.0


class TaskNode(Struct, frozen=True, kw_only=True):
    """`layer` counts from 0; the box is where it stands in the drawing."""

    name: str
    title: str
    state: str
    note: str
    progress: str
    layer: int
    x: float
    y: float
    width: float
    height: float
    seconds: float
    tokens: int
    cost_usd: float


class TaskEdge(Struct, frozen=True, kw_only=True):
    """`after` waits for `before`; `points` is the way of the line."""

    before: str
    after: str
    kind: EdgeKind
    on_failure: OnFailure
    points: tuple[Point, ...]


class PlanReport(Struct, frozen=True, kw_only=True):
    name: str
    goal: str
    path: str
    folder: str
    served: bool
    now: float
    counts: dict[str, int]
    width: float
    height: float
    nodes: list[TaskNode]
    edges: list[TaskEdge]


class TaskFileRow(Struct, frozen=True, kw_only=True):
    path: str
    description: str


class TaskDetail(Struct, frozen=True, kw_only=True):
    """Its story is the timeline of the issue of the same name."""

    node: TaskNode
    objective: str
    context: str
    requirements: tuple[str, ...]
    success_criteria: tuple[str, ...]
    constraints: tuple[str, ...]
    inputs: list[TaskFileRow]
    outputs: list[TaskFileRow]
    waits_for: dict[str, str]
    waited_for_by: dict[str, str]
    agent: str
    model: str
    retries: int
    max_turns: int
    folder: str
    memo: dict[str, Any]


def plan_report(plan: Plan, known: Known | None = None) -> PlanReport:
    """As it stands now, or as it is `known` to stand; of a plan that was never run, that nothing began."""
    known, hide = known or known_of(plan), hider_of(plan)
    lines = task_lines(plan, known)
    widths = {task.name: max(len(task.name) * LETTER + 2 * PADDING, NARROWEST) for task in plan.tasks}
    layout = lay_out(plan.edges, widths)
    boxes = {box.name: box for box in layout.boxes}
    edges = {(edge.before, edge.after): edge for task in plan.tasks for edge in edges_of(task)}
    return PlanReport(
        name=plan.name,
        goal=hide(plan.goal),
        path=str(plan.path),
        folder=str(plan.root),
        served=known.served,
        now=time.time(),
        counts=dict(Counter(line.state for line in lines)),
        width=layout.width,
        height=layout.height,
        nodes=[
            TaskNode(
                name=line.name,
                title=hide(plan.by_name[line.name].title),
                state=line.state,
                note=hide(line.note),
                progress=line.progress,
                layer=line.layer,
                x=boxes[line.name].x,
                y=boxes[line.name].y,
                width=boxes[line.name].width,
                height=boxes[line.name].height,
                seconds=line.seconds,
                tokens=line.tokens,
                cost_usd=line.cost_usd,
            )
            for line in lines
        ],
        edges=[
            TaskEdge(
                before=route.before,
                after=route.after,
                kind=edges[route.before, route.after].kind,
                on_failure=edges[route.before, route.after].on_failure,
                points=route.points,
            )
            for route in layout.routes
        ],
    )


def task_detail(plan: Plan, name: str) -> TaskDetail | None:
    """None where the plan has no such task."""
    task = plan.by_name.get(name)
    if task is None:
        return None
    known, hide = known_of(plan), hider_of(plan)
    report = plan_report(plan, known)
    states = {node.name: node.state for node in report.nodes}
    view = known.schedule.issues.get(name)
    memo = Memo.decode(view.memo) if view else Memo()
    return TaskDetail(
        node=next(node for node in report.nodes if node.name == name),
        objective=hide(task.objective),
        context=hide(task.context),
        requirements=tuple(map(hide, task.requirements)),
        success_criteria=tuple(map(hide, task.success_criteria)),
        constraints=tuple(map(hide, task.constraints)),
        inputs=[TaskFileRow(path=one.name, description=hide(one.description)) for one in task.inputs],
        outputs=[TaskFileRow(path=one.path, description=hide(one.description)) for one in task.outputs],
        waits_for={other: states[other] for other in task.waits_for},
        waited_for_by={other.name: states[other.name] for other in plan.tasks if name in other.waits_for},
        agent=task.agent.kind,
        model=task.agent.model,
        retries=task.retries,
        max_turns=task.max_turns,
        folder=str(plan.root / name),
        memo=msgspec.to_builtins(memo),
    )


def load_to_look(path: Path) -> tuple[Plan | None, str]:
    """The plan for those who run nothing, and a sentence where it is not that of the file: inputs may be gone, and
    of a file that is broken or gone by now the plan stands that ran last."""
    plan, _ = examine(path, to_run=False)
    copy = path.absolute().with_name(path.stem + SUFFIX) / LAST_RUN
    if plan is None and copy.is_file():
        plan, _ = examine(path, copy.read_bytes(), to_run=False)
        if plan:
            what = "is broken (`sortie plan check` says how)" if path.exists() else "is gone"
            return plan, f"{path} {what}; this is the plan as it last ran."
    return plan, ""
