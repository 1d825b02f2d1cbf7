"""A person's commands: read from the store, answered in the log, carried out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from secrets import token_hex

import anyio
from msgspec.structs import replace

from ..core import events as ev
from ..core.observe import seen_now, view_of
from ..core.operator import VERBS, Reply, answer, find, move, obey
from ..core.schedule import Schedule
from ..errors import SortieError, StoreError, TrackerError
from ..sources.source import Source
from ..store.commands import CommandRow, pending_commands
from .active_run import ActiveRun
from .context import Context
from .effects import TRACKER_DEADLINE

ANSWER = "answer"
REFRESH = "refresh"


class OperatorCommands:
    """Commands come through the database, from other processes: its version shows whether there can be any.
    `look_now` makes somebody look at the source. An issue that no look has shown is looked up before it is started,
    which the others do not wait for."""

    def __init__(self, context: Context, look_now: Callable[[], object]) -> None:
        self._context = context
        self._look_now = look_now
        self._version = -1
        self._last_taken = 0
        self._waiting: list[CommandRow] = []
        self._unknown: deque[CommandRow] = deque()
        self._more = anyio.Event()

    @property
    def is_busy(self) -> bool:
        """Whether an issue is being looked up."""
        return bool(self._unknown)

    async def look(self) -> bool:
        """Whether there are commands to obey. Costs next to nothing while nobody writes."""
        store = self._context.ledger.store
        version = store.version()
        if not self._waiting and version != self._version:
            try:
                pending = await store.read(pending_commands)
                # Those that are being carried out wait for the tracker, or for the disk.
                self._waiting = [command for command in pending if command.id > self._last_taken]
                self._version = version
            except StoreError:
                pass  # asked again soon
        return bool(self._waiting)

    async def obey(self, runs: Mapping[str, ActiveRun]) -> None:
        """All that wait, but for what has to be looked up, in one transaction; runs are stopped once that is on
        disk."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        self._last_taken = waiting[-1].id
        ledger, stopping = self._context.ledger, []
        for command in waiting:
            if command.verb == "start" and not self._is_shown(command.issue):
                self._unknown.append(command)
                self._more.set()
                continue
            reply = await self._reply(command)
            ledger.post(self._done(command, reply), *reply.events)
            stopping += [event.issue_id for event in reply.events if isinstance(event, ev.Stopping)]
        await ledger.flushed()
        for issue_id in stopping:
            if run := runs.get(issue_id):
                run.stop()

    async def look_up_forever(self) -> None:
        """A tracker may take its time to tell of an issue, and meanwhile runs are started and stopped."""
        context = self._context
        while True:
            while self._unknown:
                command = self._unknown[0]
                reply = await self._reply(command)
                context.ledger.post(self._done(command, reply), *reply.events)
                self._unknown.popleft()
                context.wake.set()
            self._more = anyio.Event()
            await self._more.wait()

    async def turn_away(self) -> None:
        """While we are leaving nothing is looked at any more; everything else is left to the next start."""
        await self.look()
        waiting, self._waiting = self._waiting, []
        leaving = Reply(False, "The service is stopping; the next start polls by itself.")
        self._context.ledger.post(*(self._done(one, leaving) for one in waiting if one.verb == REFRESH))

    def _done(self, command: CommandRow, reply: Reply) -> ev.Commanded:
        return ev.Commanded(
            at=self._context.clock.now(),
            issue_id=reply.issue_id,
            command_id=command.id,
            verb=command.verb,
            outcome=reply.outcome,
            ok=reply.ok,
        )

    async def _reply(self, command: CommandRow) -> Reply:
        schedule, source, clock = self._context.schedule, self._context.source, self._context.clock
        if command.verb == REFRESH:
            self._look_now()
            return Reply(True, "The source is polled now.")
        if command.verb == ANSWER:
            text = self._context.redactor.text(command.text)
            comment = source.answer_comment(text)
            return answer(schedule, command.issue, text, clock.now(), answer_id=token_hex(8), comment=comment)
        problem = await self._fetch(command.issue) if command.verb == "start" else ""
        reply = await carry_out(schedule, source, command.verb, command.issue, clock.now())
        return replace(reply, outcome=problem) if problem and not reply.ok else reply

    def _is_shown(self, name: str) -> bool:
        schedule = self._context.schedule
        return find(schedule, name) in schedule.issues

    async def _fetch(self, name: str) -> str:
        """An issue that no look has shown is looked up, so that a run of it can be asked for; why that failed."""
        context = self._context
        if self._is_shown(name):
            return ""
        try:
            with anyio.fail_after(TRACKER_DEADLINE):
                issue = await context.source.find(name)
        except TrackerError as error:
            is_known = error.kind == TrackerError.NOT_FOUND
            return f"{name} {'was not found' if is_known else 'cannot be looked up'}: {error}"
        except TimeoutError:
            return f"{name} cannot be looked up: the tracker did not answer within {TRACKER_DEADLINE:g} s."
        view = view_of(issue, context.schedule.policy, parked=issue.id in context.schedule.parked)
        context.ledger.post(ev.IssueSeen(at=context.clock.now(), issue_id=issue.id, view=view))
        return ""


async def carry_out(schedule: Schedule, source: Source, verb: str, text: str, now: float) -> Reply:
    """What a command does and answers: one that every source has, or one that only this source knows."""
    if verb in VERBS:
        return obey(schedule, verb, text, now)
    issue_id = find(schedule, text)
    if issue_id is None or issue_id not in schedule.issues:
        return Reply(False, f"{text} is not known; `{source.command} status` lists what is.")
    running = Reply(False, f"{text} is running; `{source.command} stop {text}` ends it first.", issue_id=issue_id)
    if issue_id in schedule.running:
        return running
    try:
        left = await source.obey(verb, issue_id)
    except SortieError as error:
        return Reply(False, str(error), issue_id=issue_id)
    if issue_id in schedule.running:  # it began meanwhile
        return running
    events = (
        *move(schedule, issue_id, left, now),
        *seen_now(schedule, source.moved(issue_id, left.state, left.memo), now),
    )
    return Reply(True, left.why, events, issue_id)
