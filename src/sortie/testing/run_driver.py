"""Small runs for tests of hosts: their specifications, how they are followed and answered, what to wait for."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio

from ..core.model import Issue
from ..hosts.host import Host
from ..runs import messages as say
from ..runs.spec import AgentSpec, PromptSpec, RunLimits, RunSpec, WorkspaceSpec

# Of this process alone: a sweep ends what bears the mark of its store, wherever else it was started.
STORE = f"contract-{uuid.uuid4().hex}"

Answers = Mapping[type[say.RunMessage], Callable[[Any], say.AnyAnswer]]


def issue(name: str = "T-1", **fields: Any) -> Issue:
    return Issue(**{"id": name, "identifier": name, "title": "The title", "state": "todo", **fields})


def spec_for(directory: Path, script: str, name: str = "T-1", **changes: Any) -> RunSpec:
    """A run of one turn whose agent is this script."""
    fields: dict[str, Any] = {
        "store_id": STORE,
        "run_id": uuid.uuid4().hex,
        "attempt": 1,
        "issue": issue(name),
        "agent": AgentSpec(kind="command", command=script, base=str(directory)),
        "prompt": PromptSpec(text="Work on {{ issue.title }}, turn {{ run.turn_number }}"),
        "workspace": WorkspaceSpec(root=str(directory / "workspaces"), key=name),
        "limits": RunLimits(max_turns=1),
    }
    return RunSpec(**{**fields, **changes})


def answer_to(message: say.RunMessage, answers: Answers) -> say.AnyAnswer | None:
    usual: dict[type[say.RunMessage], say.AnyAnswer] = {
        say.ProcessSpawned: say.Recorded(),
        say.TurnAsked: say.Proceed(),
        say.TurnCompleted: say.Proceed(),
        say.ToolAsked: say.ToolAnswered(answer={}),
    }
    make = answers.get(type(message))
    return make(message) if make else usual.get(type(message))


async def follow(host: Host, run_id: str, after: int = 0, answers: Answers | None = None) -> list[say.Numbered]:
    """Read to the end, and answer what is asked."""
    heard = []
    async with aclosing(host.events(run_id, after)) as messages:
        async for numbered in messages:
            heard.append(numbered)
            if answer := answer_to(numbered.message, answers or {}):
                await host.answer(run_id, numbered.number, answer)
    return heard


async def until(
    host: Host, run_id: str, kind: type[say.RunMessage], after: int = 0, answers: Answers | None = None
) -> say.Numbered:
    """Read up to the first message of this kind, which stays unanswered and not dealt with."""
    async with aclosing(host.events(run_id, after)) as messages:
        async for numbered in messages:
            if isinstance(numbered.message, kind):
                return numbered
            if answer := answer_to(numbered.message, answers or {}):
                await host.answer(run_id, numbered.number, answer)
    raise AssertionError(f"the run ended without {kind.__name__}")


def end_of(heard: list[say.Numbered]) -> say.Ended:
    last = heard[-1].message
    assert isinstance(last, say.Ended)
    return last


def of_kind(heard: list[say.Numbered], kind: type[say.RunMessage]) -> list[Any]:
    return [numbered.message for numbered in heard if isinstance(numbered.message, kind)]


async def ends(pid: int) -> None:
    """Wait until a process is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await anyio.wait_readable(handle)
    finally:
        os.close(handle)


async def written(path: Path, lines: int = 1) -> list[int]:
    """The numbers in a file, once there are so many of them."""
    while True:
        found = path.read_text().split() if path.exists() else []
        if len(found) >= lines:
            return [int(word) for word in found]
        await anyio.sleep(0.02)
