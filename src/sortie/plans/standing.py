"""How every task of a plan stands, in the words people use: derived from the store and the plan, never kept.

| state      | means                                                                                            |
|------------|--------------------------------------------------------------------------------------------------|
| ready      | all that it waits for is over; it starts when there is a slot                                     |
| waiting    | another task has to be over first, or its next attempt has a time                                 |
| blocked    | what it waits for failed, was skipped or needs a person: by itself it never starts                |
| running    | its agent works                                                                                   |
| stale      | it was running when the orchestrator died                                                         |
| completed  | its agent said so, and all that it owes is there                                                  |
| incomplete | it failed because something that it owes is missing                                               |
| failed     | all attempts are used up                                                                          |
| skipped    | a person decided to do without it                                                                 |
| escalated  | a person has to look at it                                                                        |
| outdated   | completed, but something that it was made from is being done again, or was changed since          |
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ..core.records import Waiting
from ..core.schedule import Schedule
from .graph import order
from .plan import Plan, Task
from .progress import COMPLETED, FAILED, PENDING, SKIPPED, Memo

NAMED = 3


class Standing(Struct, frozen=True):
    """The state of a task, and the reason for it."""

    state: str
    note: str = ""


def standings(plan: Plan, schedule: Schedule, now: float, *, served: bool = True) -> dict[str, Standing]:
    """Of every task, in the order of the plan file. `served`: an orchestrator works on the plan now."""
    derived = _Derived(plan, schedule, now, served=served)
    for name in order(plan.edges):
        derived.add(plan.by_name[name])
    return {task.name: derived.found[task.name] for task in plan.tasks}


def left_to_people(plan: Plan, states: Mapping[str, str]) -> list[str]:
    """The tasks that a person has to decide about before their plan can go on, in its order; those that failed with
    another one have nothing to be decided. `states` is how each stands."""
    bad = {name for name, state in states.items() if state in ("failed", "incomplete", "skipped")}
    return [
        task.name
        for task in plan.tasks
        if states[task.name] in ("escalated", "failed", "incomplete")
        and not any(policy == "fail" and other in bad for other, policy in task.waits_for.items())
    ]


class _Derived:
    def __init__(self, plan: Plan, schedule: Schedule, now: float, *, served: bool) -> None:
        self._plan = plan
        self._schedule = schedule
        self._now = now
        self._served = served
        self.found: dict[str, Standing] = {}

    def add(self, task: Task) -> None:
        """Every task that it waits for is there already."""
        self.found[task.name] = self._standing(task)

    def _standing(self, task: Task) -> Standing:
        schedule, name = self._schedule, task.name
        view = schedule.issues.get(name)
        state, memo = (view.state, Memo.decode(view.memo)) if view else (PENDING, Memo())
        if claim := schedule.running.get(name):
            what = f"attempt {claim.attempt}, turn {claim.turn}"
            if self._served:
                return Standing("running", what)
            return Standing("stale", f"{what}, when the orchestrator died; `sortie plan run` resumes it")
        if state == COMPLETED:
            return self._completed(task, memo)
        if state == FAILED:
            return Standing("incomplete" if memo.kind == "task_incomplete" else "failed", memo.why)
        if state == SKIPPED:
            return Standing("skipped", memo.why)
        if parked := schedule.parked.get(name):
            return Standing("escalated", parked.park.reason)
        return self._pending(task, schedule.waiting.get(name))

    def _completed(self, task: Task, memo: Memo) -> Standing:
        undone = [
            name for name in task.waits_for if self.found[name].state in ("ready", "waiting", "running", "outdated")
        ]
        if undone:
            return Standing("outdated", f"{_some(undone)} {'is' if len(undone) == 1 else 'are'} done again")
        odd = f" ({len(memo.findings)} odd: {memo.findings[0]})" if memo.findings else ""
        return Standing("completed", memo.why + odd)

    def _pending(self, task: Task, waiting: Waiting | None) -> Standing:
        undone = []
        for name, on_failure in task.waits_for.items():
            other = self.found[name]
            if other.state in ("blocked", "escalated") or (
                on_failure != "continue" and other.state in ("failed", "incomplete", "skipped")
            ):
                return Standing("blocked", self._root_of(name, other))
            if other.state not in ("completed", "outdated", "failed", "incomplete", "skipped"):
                undone.append(name)
        if undone:
            return Standing("waiting", f"after {_some(undone)}")
        if waiting and waiting.retry.due_at > self._now:
            left = waiting.retry.due_at - self._now
            return Standing("waiting", f"tried again in {left:.0f} s: {waiting.retry.error}")
        rule, detail = self._schedule.skips.get(task.name, ("", ""))
        return Standing("ready", detail if rule not in ("", "no-slot", "blocked-by") else "")

    def _root_of(self, name: str, other: Standing) -> str:
        """Why a task cannot start: the first cause, not what lies between."""
        return other.note if other.state == "blocked" else f"{name} {_verb(other.state)}: {other.note}".rstrip(": ")


def _verb(state: str) -> str:
    return {"escalated": "needs a person", "skipped": "was skipped", "incomplete": "is incomplete"}.get(
        state, state
    )


def _some(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
