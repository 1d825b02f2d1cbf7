"""How far the tasks of a plan are: what each came to, who may start, and what a change touches. No I/O of its own.

A task that is over costs a look at those that wait for it, and no more: nothing here walks over all tasks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec import Struct

from .handover import landing
from .plan import Dependency, Plan, Task

PENDING, COMPLETED, FAILED, SKIPPED = "pending", "completed", "failed", "skipped"
ENDED_BADLY = (FAILED, SKIPPED)
DEPENDENCY_FAILED = "dependency_failed"
# Of those that a task waits for, so many are named.
NAMED = 10


class Memo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered of a task beside its state. `sessions` is how many it had used when it was last opened
    again. Of a task that is completed: what it was made from and what it delivered (each file as path, size and
    hash), by which attempt, and what was odd about it. Of one that is not: `why`, and the `kind` of its failure."""

    sessions: int = 0
    made_by: str = ""
    attempt: int = 0
    files: tuple[tuple[str, int, str], ...] = ()
    findings: tuple[str, ...] = ()
    helped: bool = False
    accepted: bool = False
    kind: str = ""
    why: str = ""

    def encode(self) -> str:
        text = msgspec.json.encode(self).decode()
        return "" if text == "{}" else text

    @classmethod
    def decode(cls, text: str) -> Memo:
        return msgspec.json.decode(text, type=cls) if text else cls()


class Handed(Struct, frozen=True):
    """A file that one task hands to another: its path there and here, its size and its hash."""

    path: str
    here: str
    size: int
    sha256: str


class Progress:
    """`states` and `memos` have every task of the plan. `inputs` gives a digest of the files that a task is given,
    `sessions` how many it has used."""

    def __init__(
        self,
        plan: Plan,
        inputs: Callable[[Task], str] = lambda _: "",
        sessions: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self.plan = plan
        self._inputs = inputs
        self._sessions = sessions
        self.states: dict[str, str] = {task.name: PENDING for task in plan.tasks}
        self.memos: dict[str, Memo] = {task.name: Memo() for task in plan.tasks}
        self._edges = plan.edges
        self._order = {name: tuple(edges) for name, edges in self._edges.items()}
        self.dependants: dict[str, list[str]] = {task.name: [] for task in plan.tasks}
        for name, edges in self._edges.items():
            for other in edges:
                self.dependants[other].append(name)
        # Everything that a task waits for before this place is over: a further look begins there.
        self._first_open: dict[str, int] = {}
        self._blockers = {name: self._look_for_blockers(name) for name in self.states}

    # -- what each waits for ----------------------------------------------------------------------------------

    def blockers(self, name: str) -> tuple[str, ...]:
        """The first few tasks that keep this one from starting, in the order of the plan file."""
        return self._blockers[name]

    def _look_for_blockers(self, name: str) -> tuple[str, ...]:
        found: list[str] = []
        others = self._order[name]
        for place in range(self._first_open.get(name, 0), len(others)):
            if not self._is_over_for(name, others[place]):
                found.append(others[place])
                if len(found) == NAMED:
                    break
            elif not found:
                self._first_open[name] = place + 1
        return tuple(found)

    def _is_over_for(self, name: str, other: str) -> bool:
        state = self.states[other]
        return state == COMPLETED or (state in ENDED_BADLY and self._edges[name][other] == "continue")

    # -- what becomes of others -------------------------------------------------------------------------------

    def put(self, name: str, state: str, memo: Memo) -> list[str]:
        """A task is in this state now; the answer is which others are different for it: freed or blocked by it,
        failed with it, or to be done again."""
        changed: dict[str, None] = {}
        todo = [(name, state, memo)]
        while todo:
            name, state, memo = todo.pop()
            was_over = self.states[name] != PENDING
            self.states[name], self.memos[name] = state, memo
            for other in self.dependants[name]:
                if self._is_different(other, name, was_over=was_over):
                    changed[other] = None
                if follows := self._what_follows(other, name, was_over=was_over):
                    changed[other] = None
                    todo.append((other, *follows))
        return list(changed)

    def _is_different(self, name: str, other: str, *, was_over: bool) -> bool:
        """Whether something else keeps this task from starting, now that the other one changed."""
        before = self._blockers[name]
        if other not in before and not was_over:
            return False  # it is one of those that are not named
        if was_over:
            self._first_open.pop(name, None)
        self._blockers[name] = self._look_for_blockers(name)
        return self._blockers[name] != before

    def _what_follows(self, name: str, other: str, *, was_over: bool) -> tuple[str, Memo] | None:
        """What this task is by itself, now that the other one changed; None where it stays what it is."""
        state, memo = self.states[name], self.memos[name]
        if state == PENDING and (cause := self._fails_with(name, other)):
            return FAILED, Memo(sessions=memo.sessions, kind=DEPENDENCY_FAILED, why=cause)
        if state == FAILED and memo.kind == DEPENDENCY_FAILED:
            # With one that was not over before, nobody failed.
            failed_for_others = not was_over or self.cause_of_failure(name)
            return None if failed_for_others else (PENDING, Memo(sessions=memo.sessions))
        if self.is_outdated(name):
            return PENDING, Memo(sessions=self._sessions(name), why=f"what it gets of {other} changed")
        return None

    def _fails_with(self, name: str, other: str) -> str:
        if self._edges[name][other] != "fail" or self.states[other] not in ENDED_BADLY:
            return ""
        what = "failed" if self.states[other] == FAILED else "was skipped"
        return f"{other} {what}, and this task fails with it"

    def cause_of_failure(self, name: str) -> str:
        """The task with which this one fails, in a sentence; empty where there is none."""
        return next(filter(None, (self._fails_with(name, other) for other in self._edges[name])), "")

    # -- what a change touches --------------------------------------------------------------------------------

    def made_by(self, task: Task) -> str:
        """A digest of all that the task is asked for and given, as it is now."""
        digest = hashlib.sha256(task.definition.encode())
        digest.update(self._inputs(task).encode())
        for dependency in task.depends_on:
            for file in self.handed(dependency):
                digest.update(f"\0{dependency.task}\0{file.path}\0{file.here}\0{file.sha256}".encode())
        return digest.hexdigest()

    def is_outdated(self, name: str) -> bool:
        """Whether a task that is over would be given something else now. While one that it waits for is not over,
        nobody knows: then it stays as it is."""
        memo = self.memos[name]
        if self.states[name] not in (COMPLETED, FAILED) or not memo.made_by or self._blockers[name]:
            return False
        return self.made_by(self.plan.by_name[name]) != memo.made_by

    def handed(self, dependency: Dependency) -> list[Handed]:
        """What the task of this dependency hands over: nothing where it is not completed."""
        if self.states[dependency.task] != COMPLETED:
            return []
        return [
            Handed(path, landing(dependency, path), size, sha256)
            for path, size, sha256 in self.memos[dependency.task].files
            if any(path == one or (one.endswith("/") and path.startswith(one)) for one in dependency.outputs)
        ]

    def take_over(self, remembered: Mapping[str, tuple[str, str]], order: Iterable[str]) -> dict[str, str]:
        """Go on from the state and the memo of each task that is remembered; the answer is what has to be done
        again, and why. `order` has every task of the plan after all that it waits for."""
        order, again = list(order), dict[str, str]()
        for name in order:
            if name in remembered:
                state, memo = remembered[name]
                self.states[name], self.memos[name] = state, Memo.decode(memo)
        for name in order:
            self._blockers[name] = self._look_for_blockers(name)
            if self.is_outdated(name):
                self.states[name], self.memos[name] = PENDING, Memo(sessions=self._sessions(name))
                again[name] = "what it is asked for, or given, changed"
            elif self.states[name] == PENDING and (cause := self.cause_of_failure(name)):
                self.states[name], self.memos[name] = FAILED, Memo(kind=DEPENDENCY_FAILED, why=cause)
        return again
