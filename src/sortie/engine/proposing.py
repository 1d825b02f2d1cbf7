"""One run in which an agent proposes a plan: in a directory of its own that is removed again, told its mistakes.

It goes the way of every run (same host, same environment), without hooks, tools, store or source. Nothing of what
it leaves is believed: the proposal is read through a descriptor that was opened before the agent began.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import anyio
from anyio.abc import TaskStatus
from msgspec import Struct

from ..core.model import Issue, Usage
from ..hosts.local_host import LocalHost
from ..hosts.run_once import Finished, run_once
from ..plans.load import SUFFIX
from ..plans.plan import Plan, TaskAgent
from ..plans.proposal import examine_proposal, read_proposal
from ..plans.proposal_prompt import CORRECT, FILES, GOAL, SCHEMA, mistakes, proposal_prompt
from ..plans.schema import plan_schema
from ..process.orphans import orphan_tracker
from ..process.spawn import prepare
from ..protocol.safefiles import open_directory
from ..runs.spec import AgentSpec, PromptSpec, RunLimits, RunSpec, WorkspaceSpec
from ..workflow.problems import Problem
from .service import ASKED_BY

ROUNDS = 3
# For each round. An agent that thinks for longer than this does not come to an end.
ROUND_SECONDS = 1800.0
MOST_LISTED = 1_000

# Told after each round: its number, and what is wrong with the proposal.
OnRound = Callable[[int, Sequence[Problem]], None]


class Proposal(Struct, kw_only=True):
    """What came of it: a plan, or what is wrong. `content` is what the agent wrote last, `failure` why it could not
    go on where that is so."""

    content: bytes = b""
    plan: Plan | None = None
    problems: Sequence[Problem] = ()
    rounds: int = 0
    usage: Usage = Usage()
    failure: str = ""


def ask_for_proposal(ask: Callable[[], Awaitable[Proposal]]) -> Proposal | None:
    """`propose`, in a process that is its alone: no child outlives it. None where a signal ended it."""
    with orphan_tracker.sole_parent():
        return anyio.run(_until_signalled, ask)


async def _until_signalled(ask: Callable[[], Awaitable[Proposal]]) -> Proposal | None:
    proposal: Proposal | None = None
    async with anyio.create_task_group() as tasks:
        await tasks.start(_cancel_on_signal, tasks.cancel_scope)
        try:
            proposal = await ask()
        finally:
            with anyio.CancelScope(shield=True):
                await orphan_tracker.end_all()
        tasks.cancel_scope.cancel()
    return proposal


async def _cancel_on_signal(
    scope: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    heard = [one for one in ASKED_BY if signal.getsignal(one) is not signal.SIG_IGN]
    with anyio.open_signal_receiver(*heard) as signals:
        task_status.started()
        await anext(signals)
        scope.cancel()


async def propose(
    goal: bytes,
    path: Path,
    agents: Sequence[TaskAgent],
    environ: Mapping[str, str],
    *,
    rounds: int = ROUNDS,
    round_seconds: float = ROUND_SECONDS,
    on_round: OnRound,
) -> Proposal:
    """Ask the first of the `agents` for a plan to be written to `path`, in which all of them may work."""
    prepare()
    proposal = Proposal()
    with tempfile.TemporaryDirectory(prefix="sortie-plan-", ignore_cleanup_errors=True) as scratch:
        place = Path(scratch, "work")
        _lay_out(place, goal, path.parent)
        with open_directory(place) as directory:

            async def judge(turn: int) -> str:
                proposal.rounds = turn
                _look_at(proposal, directory, path, agents)
                on_round(turn, proposal.problems)
                return mistakes(proposal.problems) if proposal.plan is None else ""

            host = LocalHost(Path(scratch, "proposal.db"), environ)
            finished: Finished | None = None
            try:
                with anyio.move_on_after(rounds * round_seconds):
                    finished = await run_once(host, _spec(place, path, agents, rounds), judge=judge)
            finally:
                with anyio.CancelScope(shield=True):
                    await host.aclose()
            proposal.failure = _failure(finished, rounds * round_seconds)
            if proposal.failure:
                _look_at(proposal, directory, path, agents)
                proposal.plan = None
    proposal.usage = finished.usage if finished else Usage()
    return proposal


def _look_at(proposal: Proposal, directory: int, path: Path, agents: Sequence[TaskAgent]) -> None:
    proposal.content, complaint = read_proposal(directory)
    if complaint:
        problem = Problem(file=str(path), line=0, key="", message=complaint, severity="error")
        proposal.plan, proposal.problems = None, [problem]
    else:
        proposal.plan, proposal.problems = examine_proposal(proposal.content, path, agents)


def _failure(finished: Finished | None, seconds: float) -> str:
    if finished is None:
        return f"it took longer than {seconds / 60:g} minutes"
    outcome = finished.outcome
    if outcome.status == "succeeded":
        return ""
    return ": ".join(filter(None, (outcome.error_kind or outcome.status, outcome.error)))


def _spec(place: Path, path: Path, agents: Sequence[TaskAgent], rounds: int) -> RunSpec:
    agent = agents[0]
    return RunSpec(
        store_id=uuid.uuid4().hex,
        run_id=uuid.uuid4().hex,
        attempt=1,
        issue=Issue(id="proposal", identifier="PROPOSAL-1", title="Propose a plan", state="active"),
        agent=AgentSpec(
            kind=agent.kind,
            command=agent.command,
            options=agent.all_options,
            base=str(path.parent),
            read_timeout=agent.read_timeout,
        ),
        prompt=PromptSpec(text=proposal_prompt(agents), later=CORRECT, is_template=False),
        workspace=WorkspaceSpec(kind="shared checkout", root=str(place)),
        signal="none",
        limits=RunLimits(max_turns=rounds),
    )


def _lay_out(place: Path, goal: bytes, home: Path) -> None:
    place.mkdir()
    (place / GOAL).write_bytes(goal)
    (place / SCHEMA).write_text(json.dumps(plan_schema(), indent=2), "utf-8")
    listed = "".join(f"{name}\n" for name in _files_below(home))
    (place / FILES).write_text(listed, "utf-8", "backslashreplace")


def _files_below(home: Path) -> Iterator[str]:
    """Those that may be inputs, the nearest first, and a word where there are too many. Directories are counted
    too: a tree of empty ones must not be walked to its end."""
    pending, seen = deque([""]), 0
    while pending:
        above = pending.popleft()
        try:
            with os.scandir(home / above) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            if entry.name.startswith(".") or entry.is_symlink() or not entry.name.isprintable():
                continue
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.endswith(SUFFIX):  # what runs of plans left
                    pending.append(f"{above}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                yield f"{above}{entry.name}"
            else:
                continue
            seen += 1
            if seen == MOST_LISTED:
                yield "... and more"
                return
