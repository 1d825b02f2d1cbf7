"""Polls the source, and records in the ledger what changed. Decides nothing. A poll is called a look in the code.

A look is due when the poll interval is over, a watched file changed, or one is requested. If it fails it is retried
later; if the source names the end of a rate limit, not before that.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from msgspec.structs import replace

from ..core import events as ev
from ..core.observe import USABLE_AGAIN, Look, observe, outdates
from ..errors import SortieError, TrackerError, WorkspaceError
from ..sources.source import Source
from ..trackers.rate_limits import MINUTE
from ..trackers.tracker import CallUse
from .context import Context

# For all pages together: a server may need seconds for each. Every call has a shorter limit of its own.
LOOK_DEADLINE = 120.0
_TOO_SLOW = f"a poll of the tracker took longer than {LOOK_DEADLINE:g} s"
_NARROW = "Narrow the selection with tracker.query_filter."
# A file that changes all the time is not read all the time: looks take at most a twentieth of the time.
SHORTEST_PAUSE = 0.02
PAUSE_FOR_EACH_SECOND = 20
LONGEST_PAUSE = 1.0
PAUSE_AFTER_A_FAILURE = 1.0
# A busy tracker sends a webhook for every change, including our own writes. One look for each would use up the
# calls of a minute in seconds, and nothing would start for the rest of it. So requested looks are spread over the
# minute and take a fifth of its calls (servers allow fewer searches than other calls), and they wait while half of
# the calls are used. Regular looks are not delayed.
SHARE_OF_ASKED = 1 / 5
USED_ENOUGH = 1 / 2
# People are told of a failure that may pass by itself only after it has lasted this long.
TOLD_AFTER = 300.0
# Errors of a file that last until a person fixes them; network errors are never of this kind.
_IN_THE_WAY = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)


class Looker:
    """`known`: the last look succeeded. Otherwise nothing new starts, and `trouble` is why.

    `done` is the number of the last finished look, `failures` how many failed in a row; `asking` is the source that
    is being polled now.
    """

    def __init__(self, context: Context, verify: Callable[[], None]) -> None:
        """`verify` raises `WorkspaceError` if the directory of the workspaces cannot be used."""
        self._context = context
        self._verify = verify
        self._asked = anyio.Event()
        self._scope = anyio.CancelScope()
        self._outdated: set[str] = set()
        self._touched: set[str] | None = None
        self._problems: tuple[str, ...] = ()
        self._warned: set[str] | None = None
        self._has_seen_work = False
        self._last_source: Source | None = None
        self.asking: Source | None = None
        self.trouble: SortieError | None = None
        self._is_told = self._lasts = False
        self._complaint = ""
        self._failing_since = 0.0
        self._begun = self.done = self.failures = 0
        self._looked = anyio.Event()
        context.ledger.listen(self._heard)

    @property
    def known(self) -> bool:
        return self.done > 0 and self.trouble is None

    def ask(self) -> int:
        """Requests a look; returns the number of the first one that begins after this."""
        self._asked.set()
        return self._begun + 1

    def stop(self) -> None:
        """Ends the polling; a look in progress is cancelled."""
        self._scope.cancel()

    async def run_forever(self, *, hurried: bool = False) -> None:
        """`hurried` (for `--until-idle`): a failed look is soon retried, and a requested one is not delayed."""
        with self._scope:
            while True:
                self._asked = anyio.Event()
                began, before = anyio.current_time(), self._context.source.call_use()
                await self.look()
                self._context.wake.set()
                ended, after = anyio.current_time(), self._context.source.call_use()
                pause = (ended - began) * PAUSE_FOR_EACH_SECOND
                await anyio.sleep(min(max(SHORTEST_PAUSE, pause), LONGEST_PAUSE))
                with anyio.move_on_after(self._pause(hurried)):
                    await self._asked.wait()
                    if not hurried:
                        await self._until_affordable(ended + pause_for_calls(before, after))
                await self._context.limit.over()

    async def _until_affordable(self, earliest: float) -> None:
        await anyio.sleep_until(earliest)
        while True:
            use = self._context.source.call_use()
            if use is None or use.made < use.per_minute * USED_ENOUGH:
                return
            await anyio.sleep(LONGEST_PAUSE)

    def _pause(self, hurried: bool) -> float:
        return PAUSE_AFTER_A_FAILURE if hurried and self.trouble else self._context.source.poll_interval

    async def look(self) -> None:
        context, source = self._context, self._context.source
        self._touched = set()
        self.asking = source
        self._begun += 1
        began = anyio.current_time()
        try:
            self._verify()
            with anyio.fail_after(LOOK_DEADLINE):
                found = await source.look(context.schedule)
        except TimeoutError:
            self._failed(TrackerError(TrackerError.TRANSPORT, _TOO_SLOW, fix=_NARROW))
        except (TrackerError, WorkspaceError) as error:
            self._failed(error)
        else:
            self._worked(source, found)
        finally:
            self._touched = self.asking = None
        why = context.redactor.text(str(self.trouble)) if self.trouble else ""
        metrics, took = context.metrics, anyio.current_time() - began
        metrics.looked(context.clock.now(), took, why, failing_since=self._failing_since, needs_person=self._lasts)
        self.done = self._begun
        self._looked.set()
        self._looked = anyio.Event()

    async def looked(self, after: int) -> int:
        """Wait for the end of a look whose number is higher; the number of the last one."""
        while self.done <= after:
            await self._looked.wait()
        return self.done

    def _failed(self, error: SortieError) -> None:
        self.failures += 1
        # A passing rate limit does not mean that an earlier failure is over.
        if not self._context.limit.is_met(error) or _is_for_people(error):
            self._failing_since = self._failing_since or self._context.clock.now()
            self._lasts = _refuses(error) or (_is_for_people(error) and self.failures > 1)
            self._complain(error)
        self.trouble = error

    def _complain(self, error: SortieError) -> None:
        """Logs what is new about a failure, and once per outage in a way that notifies people."""
        for_long = self._context.clock.now() - self._failing_since >= TOLD_AFTER
        if not self._is_told and (self._lasts or for_long):
            self._is_told = True
            still = "still " if self.failures > 1 else ""
            self._context.note("error", f"{_what(error)} {still}cannot be used; nothing new starts", str(error))
        elif str(error) != self._complaint:
            self._context.note("warning", f"{_what(error)} cannot be used; nothing new starts", str(error))
        self._complaint = str(error)

    def _worked(self, source: Source, found: Look) -> None:
        context = self._context
        if self.trouble and self._complaint:
            context.note("info", f"{_what(self.trouble)}{USABLE_AGAIN}")
        self.trouble = None
        self._is_told = self._lasts = False
        self._complaint = ""
        self.failures = 0
        self._failing_since = 0.0
        if source is not self._last_source and self._last_source is not None:
            found = replace(found, changed=None)  # other rules make other views
        elif found.changed is not None:
            found = replace(found, changed=found.changed | self._outdated)
        self._last_source = source
        touched = self._touched or set()
        events = observe(context.schedule, found, context.clock.now(), touched)
        self._outdated = touched
        context.ledger.post(*events)
        if touched and observe(context.schedule, found, context.clock.now()):
            self.ask()  # it would be news, if it is not older than what we know
        self._tell_problems(found)
        self._warn(source, found, events)

    def _tell_problems(self, found: Look) -> None:
        if found.problems == self._problems:
            return
        known = {*self._problems}
        for problem in found.problems:
            if problem not in known:
                self._context.note("warning", "a record of the tracker is ignored", problem)
        if not found.problems:
            self._context.note("info", "every record of the tracker can be used again")
        self._problems = found.problems

    def _warn(self, source: Source, found: Look, events: list[ev.AnyEvent]) -> None:
        """What keeps issues from being worked on, once; that none is active is no surprise when all are done."""
        self._has_seen_work = self._has_seen_work or bool(found.issues)
        changed = any(isinstance(event, ev.IssueSeen) for event in events)
        if self._warned is not None and found.issues and not changed:
            return  # blockers are part of what is seen of an issue
        known = self._warned or set()
        warnings = {one.what: one for one in source.warnings(found) if one.about_issue or not self._has_seen_work}
        for what, warning in warnings.items():
            if what not in known:
                self._context.note("warning", what, warning.detail)
        self._warned = {*warnings}

    def _heard(self, event: ev.AnyEvent) -> None:
        """What the source is saying of an issue whose run ends meanwhile may be older than that end."""
        if outdates(event):
            self._outdated.add(event.issue_id)
            if self._touched is not None:
                self._touched.add(event.issue_id)


def pause_for_calls(before: CallUse | None, after: CallUse | None) -> float:
    """For how long after a look, before and after which so many calls were made, none is taken for the asking."""
    if before is None or after is None:
        return 0.0
    return max(after.made - before.made, 0) * MINUTE / (after.per_minute * SHARE_OF_ASKED)


def _what(trouble: SortieError) -> str:
    return "the place of the workspaces" if isinstance(trouble, WorkspaceError) else "the tracker"


def _refuses(error: SortieError) -> bool:
    return isinstance(error, TrackerError) and error.kind == TrackerError.AUTH


def _is_for_people(error: SortieError) -> bool:
    """Whether waiting will not help; a file may be invalid for one look, while somebody writes it."""
    return not isinstance(error, TrackerError) or not error.passing or isinstance(error.__cause__, _IN_THE_WAY)
