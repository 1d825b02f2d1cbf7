"""Workspaces of finished issues: hook, archive, remove. Never one of a run, never without a copy.

A removal takes its time, and people change their minds: it gives way to a run that wants the workspace, and the
source is asked again after the hook and before anything is removed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from random import choice

import anyio
from anyio import to_thread

from ..core import events as ev
from ..core.records import WorkspaceRecord
from ..errors import SortieError, TrackerError
from ..hosts.host import RemovalRefused
from ..runs.run_log import logs_directory, prune_logs
from ..store.queries import history
from .context import Context
from .effects import TRACKER_DEADLINE

CHECK_EVERY = 600.0
# A server may have to be asked for each state by itself: so many at once are no burden.
ASKED_AT_ONCE = 50
# Of the calls that a source may make in a minute, looks and runs come first: no slice takes more than this share of
# them, and there is no further one in a sweep once so much of them is used.
SHARE_OF_A_SLICE = 1 / 6
USED_ENOUGH = 1 / 4


class Cleanup:
    """Looks at all workspaces at start and every ten minutes, and at that of each issue that stops being active.

    `busy` says that there is something to look at.
    """

    def __init__(self, context: Context, check_every: float = CHECK_EVERY) -> None:
        self._context = context
        self._check_every = check_every
        self._said: dict[str, str] = {}
        self._left: set[str] = set()
        self._swept_to = ""
        self._most_at_once = ASKED_AT_ONCE
        self._asked = anyio.Event()
        self.busy = True
        context.ledger.listen(self._heard)

    def _heard(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.WorkspaceGone():
                self._said.pop(event.key, None)
            case ev.IssueLeft() | ev.Settled() | ev.Unparked() | ev.RetryDropped():
                self._look_at(event.issue_id, event.identifier)
            case ev.IssueSeen(view=view) if event.issue_id in self._context.schedule.inactive:
                self._look_at(event.issue_id, view.identifier)
            case _:
                pass

    def _look_at(self, issue_id: str, identifier: str) -> None:
        """Soon, where it may be over: gone, or in a terminal state, without a run."""
        schedule = self._context.schedule
        if self._context.source.keeps_workspaces:
            return
        view = schedule.issues.get(issue_id)
        if issue_id in schedule.running or (view and not schedule.policy.is_terminal(view.state)):
            return
        key = self._context.source.workspace_key(identifier)
        if key in schedule.workspaces:
            self._left.add(key)
            self.busy = True
            self._asked.set()

    async def run_forever(self) -> None:
        while True:
            await self._sweep()
            await self._look_at_the_left()
            next_sweep = anyio.current_time() + self._check_every
            while await self._is_asked_before(next_sweep):
                await self._look_at_the_left()

    async def _is_asked_before(self, moment: float) -> bool:
        """Only this wait has an end: a removal that has begun is not given up for the next sweep."""
        with anyio.CancelScope(deadline=moment):
            await self._asked.wait()
            return True
        return False

    async def _sweep(self) -> None:
        """Whatever goes wrong here is a note, said once: agents at work do not depend on it."""
        self.busy = True
        await self._safely("tidy", self._tidy())
        if not self._context.source.keeps_workspaces:
            await self._safely("remove", self._sweep_workspaces())

    async def _sweep_workspaces(self) -> None:
        """All of them, in slices. Where the source does not answer any more, or has been asked for enough, the next
        sweep goes on from there: what was handed over is followed by looks anyway. Where it does not answer at all,
        one of the first may be why: fewer are asked for then, and one that is alone is passed over."""
        source, workspaces = self._context.source, self._context.schedule.workspaces
        use, size = source.call_use(), self._most_at_once
        if use is not None:
            size = min(max(int(use.per_minute * SHARE_OF_A_SLICE), 1), size)
            # Anywhere at first: starts that are followed by no second sweep come to all of them too.
            self._swept_to = self._swept_to or choice([*workspaces, ""])  # noqa: S311 - no secret
        rows = sorted(workspaces.values(), key=lambda row: (row.key <= self._swept_to, row.key))
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            if not await self._remove_done(some):
                if start == 0:
                    self._most_at_once = max(len(some) // 2, 1)
                    self._swept_to = some[0].key if len(some) == 1 else self._swept_to
                return
            self._swept_to = some[-1].key
            use = source.call_use()
            if use is not None and use.made >= use.per_minute * USED_ENOUGH:
                break
        self._most_at_once = min(2 * self._most_at_once, ASKED_AT_ONCE)

    async def _look_at_the_left(self) -> None:
        while self._left:
            left, self._left = self._left, set()
            workspaces = self._context.schedule.workspaces
            rows = [workspaces[key] for key in sorted(left) if key in workspaces]
            await self._safely("remove", self._remove_done(rows))
        self._asked = anyio.Event()
        self.busy = False
        self._context.wake.set()

    async def _safely(self, what: str, step: Awaitable[object]) -> None:
        try:
            await step
        except Exception as error:
            self._say_once(what, "clean-up failed", str(error) or repr(error))

    async def _tidy(self) -> None:
        """Archives and logs that are old, and what is left of removals that were interrupted."""
        context, source = self._context, self._context.source
        now = context.clock.on_calendar(context.clock.now())  # as the times of files are
        logs, running = logs_directory(context.ledger.store.path), context.schedule.running.values()
        going_on = frozenset(claim.run_id for claim in running)
        await to_thread.run_sync(prune_logs, logs, source.keep_days, now, going_on)
        for host in context.hosts.all() if not source.works_in_root else ():
            self._say_leftovers(await host.tidy(source.workspace_root, source.keep_days))

    async def _remove_done(self, rows: list[WorkspaceRecord]) -> bool:
        """Whether the source said how these stand."""
        idle = [row for row in rows if row.issue_id not in self._context.schedule.running]
        states = await self._states(idle)
        if states is None:
            return False
        self._unpark_done(idle, states)
        for row in idle:
            if self._is_over(row, states.get(row.issue_id, "")):
                await self._remove(row, states[row.issue_id])
        return True

    def _is_over(self, row: WorkspaceRecord, state: str) -> bool:
        schedule = self._context.schedule
        # A person may have wanted it in spite of its state.
        wanted = any(row.issue_id in held for held in (schedule.running, schedule.waiting, schedule.parked))
        return schedule.policy.is_terminal(state) and not wanted

    async def _states(self, rows: list[WorkspaceRecord]) -> Mapping[str, str] | None:
        """None where the source does not answer, which a look reports: nothing is removed on a guess."""
        if not rows:
            return {}
        try:
            with anyio.fail_after(TRACKER_DEADLINE):
                return await self._context.source.fetch_states([row.issue_id for row in rows])
        except (TrackerError, TimeoutError):
            return None

    def _unpark_done(self, rows: list[WorkspaceRecord], states: Mapping[str, str]) -> None:
        """A parked issue that vanished and came back as done is no longer a candidate; only this notices it."""
        context, now = self._context, self._context.clock.now()
        for row in rows:
            state = states.get(row.issue_id, "")
            parked = context.schedule.parked.get(row.issue_id)
            if parked and parked.park.state != state and context.schedule.policy.is_terminal(state):
                why = f"the issue moved to {state}"
                freed = ev.Unparked(at=now, issue_id=row.issue_id, identifier=row.identifier, why=why)
                context.ledger.post(freed)

    async def _remove(self, row: WorkspaceRecord, state: str) -> None:
        context = self._context
        attempt = await self._last_attempt(row.issue_id)
        removal = context.source.removal_of(row, state, attempt, context.store_id)
        if removal is None:
            return
        try:
            removed = await context.hosts.of(row.host).remove_workspace(removal, partial(self._confirm, row))
        except RemovalRefused:
            return
        except (SortieError, OSError) as error:
            self._say_once(row.key, "the workspace was kept", str(error), row)
            return
        for problem in removed.problems:
            context.note("warning", problem, issue_id=row.issue_id)
        self._say_leftovers(removed.leftovers)
        with anyio.CancelScope(shield=True):  # a run that waits for us must find what is true
            gone = ev.WorkspaceGone(
                at=context.clock.now(), issue_id=row.issue_id, key=row.key, archive=removed.archive
            )
            await context.ledger.record(gone)

    async def _confirm(self, row: WorkspaceRecord) -> bool:
        return self._is_over(row, (await self._states([row]) or {}).get(row.issue_id, ""))

    async def _last_attempt(self, issue_id: str) -> int:
        """The number of the issue's last run: what is removed is what that one left."""
        runs = await self._context.ledger.store.read(partial(history, issue_id=issue_id, limit=1))
        return runs[0].attempt if runs else 0

    def _say_leftovers(self, leftovers: Sequence[str]) -> None:
        for sentence in leftovers:
            self._say_once(sentence, "what is left of a workspace was kept", sentence)

    def _say_once(self, what: str, message: str, detail: str, row: WorkspaceRecord | None = None) -> None:
        """Not with every try."""
        if self._said.get(what) != detail:
            self._context.note("warning", message, detail, issue_id=row.issue_id if row else "")
        self._said[what] = detail
