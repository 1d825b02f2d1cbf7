"""What the tasks of a plan delivered, copied into one folder: exactly what is on record, or named as missing.

Of a task that is completed, the files that the store remembers; of any other, what it left for people to read:
`error_report.md` and `partial/`. Every outbox is walked through as it is when a task ends: what is no regular file
of its own is refused, and the collection with it, unless such entries are to be skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from msgspec import Struct
from msgspec.structs import replace

from ..errors import SortieError
from ..protocol.delivered_copy import ChangedSince, copy_out
from ..protocol.error_report import FILE as ERROR_REPORT
from ..protocol.foreign_text import escape
from ..protocol.outbox import Delivered, Stock, take_stock
from ..protocol.safefiles import open_directory, read_bounded
from ..protocol.task_status import last_attempt
from ..protocol.tree_walk import Check, go_on
from .collection import Account, CollectedFile, Collection, TaskResult
from .collection_page import LONGEST_SUMMARY
from .criteria import shown
from .flat_layout import FlatLayout, by_task
from .plan import SUMMARY, Plan, Task

_LEFT = f"outbox/{ERROR_REPORT}"
_PARTIAL = "outbox/partial/"
_NAMED = 10
_SUMMARY_READ = 1 << 18

Watch = Callable[[str], None]
Place = Callable[[str, Delivered], str]


class Unsafe(SortieError):
    """An outbox holds what no collection takes."""


class _Found(Struct, frozen=True, kw_only=True):
    """What is to be copied of a task, and what is not."""

    task: Task
    account: Account
    attempt: int = 0
    files: tuple[Delivered, ...] = ()
    added: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def collect(
    plan: Plan,
    accounts: Mapping[str, Account],
    target: int,
    *,
    flat: bool = False,
    skip_unsafe: bool = False,
    check: Check = go_on,
    watch: Watch = lambda _: None,
) -> Collection:
    """Copy everything into the empty directory that is open as `target`. `watch` is told what is being done.

    Raises `Unsafe` before anything is copied.
    """
    found = []
    for number, task in enumerate(plan.tasks, 1):
        watch(f"looking at {task.name}, {number:,} of {len(plan.tasks):,}")
        found.append(_look(plan, task, accounts[task.name], check))
    if not skip_unsafe:
        _refuse_unsafe(found)
    layout = FlatLayout([(one.task.name, file) for one in found for file in one.files]) if flat else None
    copying = _Copying(plan, target, layout.place if layout else by_task, check)
    results = []
    for number, one in enumerate(found, 1):
        watch(f"copying {one.task.name}, {number:,} of {len(found):,}")
        results.append(copying.result(one))
    return Collection(plan=plan, results=tuple(results), flat=flat, conflicts=layout.conflicts if layout else ())


def _look(plan: Plan, task: Task, account: Account, check: Check) -> _Found:
    attempt, stock = account.memo.attempt, Stock()
    try:
        with open_directory(plan.root / task.name) as folder:
            attempt = attempt or last_attempt(folder) + 1
            stock = take_stock(folder, most_files=task.outbox_files, most_bytes=task.outbox_bytes, check=check)
    except FileNotFoundError:
        pass  # it never began, or its folder is gone: then all that it delivered is missing
    except OSError as error:
        stock = Stock(problem=f"Its folder cannot be read: {error.strerror}.")
    refused = (*stock.refused, *([("outbox", stock.problem.rstrip("."))] if stock.problem else []))
    if account.is_completed:
        files = tuple(Delivered(*file) for file in account.memo.files)
        known = {file.path for file in files}
        added = tuple(file.path for file in stock.files if file.path not in known)
    else:
        files = tuple(file for file in stock.files if file.path == _LEFT or file.path.startswith(_PARTIAL))
        added = ()
    return _Found(task=task, account=account, attempt=attempt, files=files, added=added, refused=refused)


def _refuse_unsafe(found: list[_Found]) -> None:
    unsafe = [
        f"{one.task.name}/{escape(path)} ({why})"
        for one in found
        if not one.task.skip_unsafe
        for path, why in one.refused
    ]
    if unsafe:
        more = f" and {len(unsafe) - _NAMED:,} more" if len(unsafe) > _NAMED else ""
        raise Unsafe(
            f"Nothing was collected, because of what no collection takes: {', '.join(unsafe[:_NAMED])}{more}.",
            fix="Remove it, or leave it out with --skip-unsafe.",
        )


class _Copying:
    def __init__(self, plan: Plan, target: int, place: Place, check: Check) -> None:
        self._plan = plan
        self._target = target
        self._place = place
        self._check = check
        self._copied: set[str] = set()

    def result(self, found: _Found) -> TaskResult:
        task, account = found.task, found.account
        result = TaskResult(
            name=task.name, account=account, attempt=found.attempt, added=found.added, refused=found.refused
        )
        files, changed = self._copy(found)
        text = self._summary_of(files) if account.is_completed else ""
        return replace(
            result,
            files=files,
            changed=changed,
            criteria=tuple(shown(task.success_criteria, text)),
            summary=text if len(text) <= LONGEST_SUMMARY else text[:LONGEST_SUMMARY] + "…",
        )

    def _copy(self, found: _Found) -> tuple[tuple[CollectedFile, ...], tuple[tuple[str, str], ...]]:
        files: list[CollectedFile] = []
        changed: list[tuple[str, str]] = []
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(open_directory(self._plan.root / found.task.name))
            except OSError as error:
                why = f"its folder cannot be read: {error.strerror}"
                return (), tuple((file.path, why) for file in found.files)
            for file in found.files:
                place = self._place(found.task.name, file)
                try:
                    if place not in self._copied:
                        copy_out(folder, file, self._target, place, self._check)
                except ChangedSince as error:
                    changed.append((file.path, str(error).partition(": ")[2].rstrip(".") or str(error)))
                    continue
                self._copied.add(place)
                files.append(
                    CollectedFile(place, found.task.name, found.attempt, file.size, file.sha256, file.path)
                )
        return tuple(files), tuple(changed)

    def _summary_of(self, files: tuple[CollectedFile, ...]) -> str:
        """As it was collected: the file in the outbox may be another one by now."""
        for file in files:
            if file.source == SUMMARY:
                *above, name = file.path.split("/")
                with open_directory(self._target, *above) as directory:
                    return read_bounded(directory, name, _SUMMARY_READ).decode("utf-8-sig", "replace")
        return ""
