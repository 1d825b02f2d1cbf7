"""`sortie demo plan`: the plan of the examples, to the point where a person has to decide."""

from __future__ import annotations

import os
import shlex
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from ..core.events import Claimed, RunEnded
from ..plans.load import load_plan
from ..plans.picture import TaskLine
from ..plans.plan import ESCALATIONS, Plan
from ..protocol.safefiles import open_directory
from ..protocol.task_status import WRITER, read_task_status
from ..reports.plan_standing import task_lines
from ..sources.plan_tasks import PlanSource
from ..store.connect import connect_readonly
from ..store.queries import events
from .demo_show import DemoCheck, Played, Show, copy_templates
from .plan_run import serve_plan
from .plan_status import plain, print_standing

INTRODUCTION = """\
Nine tasks write release notes; each has an agent, an inbox and an outbox.
Three wait for one, one waits for those three, one is tried twice, one fails,
and one needs a decision of yours.
"""
FILE = "plan.yaml"
SECTIONS = ("features", "fixes", "credits")
CORRECTED = "corrected/benchmarks.csv"


def _prepare(directory: Path) -> None:
    copy_templates("plan", directory)


def _play(directory: Path) -> Played:
    plan = load_plan(directory / FILE)
    serve_plan(PlanSource(plan, os.environ))
    lines = task_lines(plan)
    place = shlex.quote(str(directory))
    corrected = shlex.quote(str(directory / CORRECTED))
    return Played(
        checks=tuple(_checks(plan, {line.name: line for line in lines})),
        print_table=lambda: print_standing(plan, lines),
        data=plain(plan, lines),
        advice=(
            ("why one failed", f"plan why benchmarks -p {place}"),
            ("who waits for whom", f"plan graph {place}"),
            ("correct its input", f"plan fix benchmarks --input {corrected} -p {place}"),
            ("decide the other", f"plan accept review -p {place}"),
            ("go on", f"plan run {place}"),
            ("all results", f"plan collect {place}"),
        ),
    )


class Attempt(Struct, frozen=True):
    """One run of a task: when it began and ended."""

    began: float
    ended: float


def _attempts(plan: Plan) -> dict[str, list[Attempt]]:
    """Of every task, what the store has of its runs."""
    found: dict[str, list[Attempt]] = {task.name: [] for task in plan.tasks}
    began: dict[str, float] = {}
    with closing(connect_readonly(plan.store)) as db:
        for logged in events(db, limit=10_000):
            match logged.event:
                case Claimed() as claimed:
                    began[claimed.run_id] = claimed.at
                case RunEnded() as ended:
                    found[ended.issue_id].append(Attempt(began[ended.run_id], ended.at))
                case _:
                    pass
    return found


def _checks(plan: Plan, line: dict[str, TaskLine]) -> list[DemoCheck]:
    runs = _attempts(plan)
    done = {name for name in line if line[name].state == "completed"}
    return [
        DemoCheck(
            "features, fixes and credits waited for collect, then ran at the same time.",
            {"collect", *SECTIONS} <= done and _ran_together(runs),
        ),
        DemoCheck(
            "credits failed at first, was tried again, and got through; attempts/001 has what it left.",
            "credits" in done
            and len(runs["credits"]) == 2
            and (plan.root / "credits" / "attempts" / "001" / "status.json").is_file(),
        ),
        DemoCheck(
            "notes waited for all three, and got what they delivered into its inbox.",
            "notes" in done
            and _was_handed_over(plan, "features/section.md", "fixes/section.md", "credits/credits.md"),
        ),
        DemoCheck(
            "features knows nothing of status.json; it was judged by what it delivered.",
            _is_written_for(plan, "features"),
        ),
        DemoCheck(
            "benchmarks failed; that blocks speed, which needs it, and no other task.",
            line["benchmarks"].state == "failed"
            and line["speed"].state == "blocked"
            and not any("benchmarks" in line[name].note for name in line if name not in ("benchmarks", "speed")),
        ),
        DemoCheck(
            f"review needs a decision: {ESCALATIONS} asks for it, and announce waits.",
            line["review"].state == "escalated"
            and line["announce"].state == "blocked"
            and "## review" in _text(plan.root / ESCALATIONS),
        ),
    ]


def _ran_together(runs: dict[str, list[Attempt]]) -> bool:
    if not all(runs[name] for name in ("collect", *SECTIONS)):
        return False
    after = runs["collect"][-1].ended
    first = [runs[name][0] for name in SECTIONS]
    begun_in_order = all(one.began >= after for one in first)
    return begun_in_order and max(one.began for one in first) < min(one.ended for one in first)


def _was_handed_over(plan: Plan, *paths: str) -> bool:
    """Whether each, as `TASK/FILE`, is in the inbox of notes as it is in the outbox of its task."""
    pairs = [
        (plan.root / task / "outbox" / file, plan.root / "notes" / "inbox" / task / file)
        for task, file in (path.split("/") for path in paths)
    ]
    return all(_text(there) and _text(there) == _text(here) for there, here in pairs)


def _is_written_for(plan: Plan, task: str) -> bool:
    """Whether its agent never said that it was done, and we did."""
    try:
        with open_directory(plan.root / task) as folder:
            status = read_task_status(folder).status
    except OSError:
        return False
    return status is not None and (status.state, status.written_by) == ("completed", WRITER)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""


SHOW = Show(introduction=INTRODUCTION, prepare=_prepare, play=_play)
