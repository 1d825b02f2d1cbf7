"""A plan as facts: its tasks, what each is given, waits for and owes. Made by `load`, and never changed.

Every path in it is checked: `inbox/…` and `outbox/…` lead nowhere else, those of input files are absolute.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..core.model import Limits

OnFailure = Literal["block", "continue", "fail"]
WhenFailed = Literal["fail", "escalate"]

STORE = ".sortie.db"
LAST_RUN = ".plan.yaml"
MESSAGES = "messages"
FIXES = ".fixes"
ESCALATIONS = "ESCALATIONS.md"
CONSOLIDATED = "consolidated"
ARCHIVE = "_archive"
SUMMARY = "outbox/summary.md"

DEFAULT_INPUT_LIMIT = 10 * 1024 * 1024
DEFAULT_OUTBOX_BYTES = 1024 * 1024 * 1024
DEFAULT_OUTBOX_FILES = 10_000


class TaskInput(Struct, frozen=True, kw_only=True):
    """A file, or a directory, that is copied to `name` below the inbox; beyond the input limit, or if
    `by_reference`, only its path, size and hash are."""

    path: str
    name: str
    description: str = ""
    by_reference: bool = False


class TaskOutput(Struct, frozen=True, kw_only=True):
    """What a task owes: a file below `outbox/`, or a directory with at least one file, whose path ends in `/`."""

    path: str
    description: str = ""


class Dependency(Struct, frozen=True, kw_only=True):
    """What a task gets of another one: these of its outputs, copied to `copy_to`, which ends in `/`.

    `on_failure` is what becomes of the waiting task where the other one failed or was skipped: it does not start,
    it starts without, or it fails too.
    """

    task: str
    outputs: tuple[str, ...] = ()
    copy_to: str = ""
    on_failure: OnFailure = "block"


class WaitFor(Struct, frozen=True, kw_only=True):
    """A task that has to be over first, of which nothing is handed on."""

    task: str
    on_failure: OnFailure = "block"


class TaskAgent(Struct, frozen=True, kw_only=True):
    """`options` are those of the agent's kind, `env` names the variables that are passed on to it, `credential` the
    account that pays."""

    kind: str = "claude-code"
    command: str = ""
    model: str = ""
    credential: str = ""
    options: dict[str, Any] = {}
    env: tuple[str, ...] = ()
    read_timeout: float = 60.0

    @property
    def all_options(self) -> dict[str, Any]:
        """With the model, which every kind that has a choice takes as an option."""
        return {**self.options, **({"model": self.model} if self.model else {})}


class Task(Struct, frozen=True, kw_only=True, dict=True):
    """`skill` is the whole text that becomes SKILL.md. Times are seconds; `retries` is how often a task that failed
    is tried again by itself. `line` is where it begins in the plan file."""

    name: str
    objective: str
    skill: str = ""
    context: str = ""
    inputs: tuple[TaskInput, ...] = ()
    requirements: tuple[str, ...] = ()
    success_criteria: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    outputs: tuple[TaskOutput, ...] = ()
    depends_on: tuple[Dependency, ...] = ()
    wait_for: tuple[WaitFor, ...] = ()
    agent: TaskAgent = TaskAgent()
    retries: int = 2
    retry_delay: float = 10.0
    when_failed: WhenFailed = "fail"
    skip_unsafe: bool = False
    max_turns: int = 10
    turn_timeout: float = 3600.0
    stall_timeout: float = 300.0
    limits: Limits = Limits()
    input_limit: int = DEFAULT_INPUT_LIMIT
    outbox_bytes: int = DEFAULT_OUTBOX_BYTES
    outbox_files: int = DEFAULT_OUTBOX_FILES
    priority: int | None = None
    line: int = 0

    @property
    def title(self) -> str:
        return self.objective.strip().partition("\n")[0]

    @cached_property
    def waits_for(self) -> dict[str, OnFailure]:
        """Every task that has to be over first, each once, in the order of the plan file."""
        edges = {edge.task: edge.on_failure for edge in self.depends_on}
        return edges | {edge.task: edge.on_failure for edge in self.wait_for if edge.task not in edges}

    @cached_property
    def definition(self) -> str:
        """A digest of what the agent is given and asked for. How often it is tried, by which limits and in which
        line of the file it stands, is not part of it."""
        usual = replace(
            self,
            retries=0,
            retry_delay=0.0,
            when_failed="fail",
            skip_unsafe=False,
            max_turns=0,
            turn_timeout=0.0,
            stall_timeout=0.0,
            limits=Limits(),
            outbox_bytes=0,
            outbox_files=0,
            priority=None,
            line=0,
        )
        return hashlib.sha256(msgspec.json.encode(usual)).hexdigest()


class Plan(Struct, frozen=True, kw_only=True, dict=True):
    """`root` is the directory of all that belongs to a run of the plan; `budget` bounds all tasks together.
    `version` tells the file that was read from the one that stands there later: inode, size and time of change.
    `worklog` and `mailbox` are shared with others, where the plan is to be part of their story."""

    name: str
    path: Path
    root: Path
    tasks: tuple[Task, ...]
    goal: str = ""
    max_parallel: int = 4
    budget: Limits = Limits()
    worklog: Path | None = None
    mailbox: Path | None = None
    version: tuple[int, int, int] | None = None

    @property
    def store(self) -> Path:
        return self.root / STORE

    @property
    def messages(self) -> Path:
        return self.root / MESSAGES

    @cached_property
    def by_name(self) -> dict[str, Task]:
        return {task.name: task for task in self.tasks}

    @cached_property
    def edges(self) -> dict[str, dict[str, OnFailure]]:
        """By name of every task, those that it waits for."""
        return {task.name: task.waits_for for task in self.tasks}
