"""The results of a plan as facts: what each task delivered, how it stands, and what a person should know of it.

A manifest is sealed: whoever reads it again knows whether it is what we wrote, whenever that was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ..protocol.foreign_text import escape, time_text
from .criteria import Criterion
from .plan import Plan
from .progress import Memo

MANIFEST = "manifest.json"
SUMMARY_PAGE = "summary.md"
# Of a flat collection: where each task has what is not merged. No task has such a name.
APART = "_tasks"
FORMAT = "sortie collection 1"
_SEAL, _TIME = "seal", "collected"


class Account(Struct, frozen=True, kw_only=True):
    """What is known of a task: `state` and `note` for people, `is_completed` by the store, what its runs used."""

    state: str
    note: str = ""
    is_completed: bool = False
    memo: Memo = Memo()
    seconds: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0


class CollectedFile(Struct, frozen=True):
    """`path` is that in the collection, `source` the one in the task's folder."""

    path: str
    agent: str
    attempt: int
    size: int
    sha256: str
    source: str


class TaskResult(Struct, frozen=True, kw_only=True):
    """`changed` is what is not as it was delivered any more, `added` what came later, `refused` what is no regular
    file of its own: none of it is collected. Each has paths with reasons, or paths."""

    name: str
    account: Account
    attempt: int = 0
    files: tuple[CollectedFile, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    summary: str = ""
    changed: tuple[tuple[str, str], ...] = ()
    added: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


class Collection(Struct, frozen=True, kw_only=True):
    """`conflicts` has the paths of a flat collection that several tasks delivered differently, and those tasks."""

    plan: Plan
    results: tuple[TaskResult, ...]
    flat: bool = False
    conflicts: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing that a person might expect."""
        return not self.conflicts and all(
            result.account.state == "completed" and not (result.changed or result.added or result.refused)
            for result in self.results
        )


def manifest_of(collection: Collection, at: float, summary: bytes) -> dict[str, Any]:
    """Everything for programs. Apart from the time, the same for the same results."""
    document = {
        "format": FORMAT,
        "plan": collection.plan.name,
        "plan_file": str(collection.plan.path),
        _TIME: time_text(at),
        "layout": "flat" if collection.flat else "by task",
        "tasks": [_task(result) for result in collection.results],
        "files": [
            {name: getattr(file, name) for name in file.__struct_fields__}
            for result in collection.results
            for file in result.files
        ],
        "conflicts": [{"path": path, "agents": list(agents)} for path, agents in collection.conflicts],
        "summary": {"path": SUMMARY_PAGE, "size": len(summary), "sha256": hashlib.sha256(summary).hexdigest()},
    }
    return {**document, _SEAL: _seal(document)}


def is_as_written(document: Mapping[str, Any]) -> bool:
    return document.get(_SEAL) == _seal(document)


def _seal(document: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in document.items() if key not in (_SEAL, _TIME)}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _task(result: TaskResult) -> dict[str, Any]:
    account = result.account
    return {
        "agent": result.name,
        "state": account.state,
        "note": account.note,
        "attempt": result.attempt,
        "accepted": account.memo.accepted,
        "helped": account.memo.helped,
        "seconds": round(account.seconds, 3),
        "tokens": account.tokens,
        "cost_usd": account.cost_usd,
        "success_criteria": [{"text": one.text, "met": one.met} for one in result.criteria],
        "findings": list(account.memo.findings),
        "changed": [{"path": path, "why": why} for path, why in result.changed],
        "added": list(result.added),
        "refused": [{"path": escape(path), "why": why} for path, why in result.refused],
    }
