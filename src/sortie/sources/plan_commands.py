"""What a person decides about a task of a plan: do it again, do without it, or take what is there."""

from __future__ import annotations

from collections.abc import Collection

from anyio import from_thread, to_thread

from ..core.conclude import Next
from ..errors import SortieError
from ..plans.plan import Plan, Task
from ..plans.progress import COMPLETED, PENDING, SKIPPED, Memo, Progress
from ..protocol.outbox import Stock, is_deliverable, take_stock
from ..protocol.safefiles import open_directory
from ..protocol.task_status import last_attempt

VERBS = ("reopen", "skip", "accept")


async def obey(verb: str, name: str, plan: Plan, progress: Progress, begun: Collection[str], sessions: int) -> Next:
    """Where the command leaves the task. `begun` are those that wait for their next attempt or for a person,
    or are done again for a change; `sessions` is how many this one has used."""
    match verb:
        case "reopen":
            return _reopen(name, progress, begun, sessions)
        case "skip":
            return _skip(name, progress)
        case "accept":
            return await _accept(plan.by_name[name], plan, progress, sessions)
    raise SortieError(f"{verb} is not a command for a task; use one of {', '.join(VERBS)}.")


def _reopen(name: str, progress: Progress, begun: Collection[str], sessions: int) -> Next:
    if progress.states[name] == PENDING and name not in begun:
        blockers = progress.blockers(name)
        why = f"it waits for {', '.join(blockers)}" if blockers else "it is waiting for its turn"
        raise SortieError(f"{name} has not been tried yet: {why}.")
    if cause := progress.cause_of_failure(name):
        raise SortieError(
            f"{name} cannot be tried again by itself: {cause}.", fix="Retry that one, or change the plan."
        )
    return Next(then="again", why=f"{name} is tried again.", state=PENDING, memo=Memo(sessions=sessions).encode())


def _skip(name: str, progress: Progress) -> Next:
    if progress.states[name] == COMPLETED:
        raise SortieError(f"{name} is completed; there is nothing to skip.")
    memo = Memo(sessions=progress.memos[name].sessions, why="skipped by hand")
    others = progress.dependants[name]
    decide = "decides by its" if len(others) == 1 else "decide by their"
    who = f"; {', '.join(others)} {decide} on_failure" if others else ""
    return Next(then="released", why=f"{name} is skipped{who}.", state=SKIPPED, memo=memo.encode())


async def _accept(task: Task, plan: Plan, progress: Progress, sessions: int) -> Next:
    if blockers := progress.blockers(task.name):
        raise SortieError(f"{task.name} cannot be accepted before {', '.join(blockers)} is completed or skipped.")
    stock, attempt = await to_thread.run_sync(_look, task, plan)
    if stock.problem or (stock.refused and not task.skip_unsafe):
        why = stock.problem or "; ".join(f"{path}: {reason}" for path, reason in stock.refused[:5])
        raise SortieError(f"What {task.name} delivered cannot be taken: {why}.", fix="Mend it, then try again.")
    if not any(is_deliverable(file.path) and file.size for file in stock.files):
        raise SortieError(
            f"The outbox of {task.name} holds nothing to take.",
            fix=f"Put in {plan.root / task.name / 'outbox'} what it owes.",
        )
    memo = Memo(
        sessions=sessions,
        made_by=progress.made_by(task),
        attempt=attempt,
        files=tuple((file.path, file.size, file.sha256) for file in stock.files),
        accepted=True,
        why="accepted by hand",
    )
    count = f"{len(stock.files)} file{'' if len(stock.files) == 1 else 's'}"
    return Next(then="released", why=f"{task.name} is completed with {count}.", state=COMPLETED, memo=memo.encode())


def _look(task: Task, plan: Plan) -> tuple[Stock, int]:
    """What is in its outbox, and the number of the attempt that it is of."""
    try:
        with open_directory(plan.root / task.name) as folder:
            stock = take_stock(
                folder,
                most_files=task.outbox_files,
                most_bytes=task.outbox_bytes,
                check=from_thread.check_cancelled,
            )
            return stock, last_attempt(folder) + 1
    except FileNotFoundError:
        raise SortieError(f"{task.name} has no folder yet.", fix="`sortie plan run` makes it.") from None
