"""What a task came to: the agent's word in `status.json`, against its process, its deliverables and its inbox.

After a completed turn:

| status.json says                 | deliverables | verdict                                                       |
|----------------------------------|--------------|---------------------------------------------------------------|
| completed                        | all there    | completed                                                     |
| completed                        | some missing | failed: incomplete                                            |
| failed                           | not looked at| failed, as the agent says; tried again if it is recoverable   |
| running                          | not looked at| goes on, and after the last turn failed: unfinished           |
| pending, as we wrote it: the     | all there    | completed; that is written on the agent's behalf              |
| agent does not know the protocol | some missing | goes on, and after the last turn failed: incomplete           |

What cannot be read, goes backwards or comes from another attempt is not believed; the last good status stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal

import anyio
import msgspec
from anyio import from_thread, to_thread
from msgspec import Struct

from ..core.conclude import Outcome
from ..core.events import Level
from ..protocol.foreign_text import readable, shortened
from ..protocol.outbox import Stock, missing, take_stock
from ..protocol.safefiles import open_directory, read_bounded
from ..protocol.seals import added_since, broken_seals
from ..protocol.status_history import StatusHistory
from ..protocol.task_status import TaskStatus, read_task_status, write_on_behalf
from ..protocol.tree_walk import Check, go_on
from ..workspace.directory import INBOX, OUTBOX, Workspace
from .spec import RunSpec, TaskSpec
from .task_folder import lay_out, seal_of

# A status that is being written when it is read is whole a moment later.
_LOOKS, _BETWEEN_LOOKS = 5, 0.05
_NAMED = 10
_LONGEST = 300
_FEW_FILES, _FEW_BYTES = 32, 1 << 18
_SUMMARY_SHOWN = 2_000

Verdict = Literal["completed", "failed", "incomplete", "unfinished", "goes on"]


class Product(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a task delivered: each file as path, size and hash. `made_by` is what it was made from, `attempt` the
    number of its folder; `helped`: the agent did not say itself that it was done."""

    made_by: str
    attempt: int
    files: tuple[tuple[str, int, str], ...] = ()
    findings: tuple[str, ...] = ()
    helped: bool = False


def judge(state: str, lacking: Sequence[str], *, knows_protocol: bool, is_last: bool) -> Verdict:
    """The table above; `state` is what is believed of the agent's status."""
    if state == "failed":
        return "failed"
    if state == "completed":
        return "incomplete" if lacking else "completed"
    if state == "pending" and not knows_protocol and not lacking:
        return "completed"
    if not is_last:
        return "goes on"
    return "unfinished" if knows_protocol else "incomplete"


class TaskRun:
    """The folder of one run from its preparation to the verdict. `shortfall` is what a further turn is told."""

    def __init__(self, spec: RunSpec, directory: Workspace, remark: Callable[[Level, str, str], None]) -> None:
        assert spec.task
        self._spec = spec
        self._task = spec.task
        self._directory = directory
        self._remark = remark
        self._history = StatusHistory()
        self._attempt = 0
        self._began_at = time.time()
        self._sealed: dict[str, str] = {}
        self._findings: list[str] = []
        self._unreadable = ""
        self.shortfall = ""

    async def prepare(self) -> Outcome | None:
        """The outcome of a run that has nothing left to do: what was cut short had come to its end already."""
        if self._directory.created and _is_small(self._task):
            # A thread would take longer than the work, which is little and bounded here.
            self._lay_out(False, go_on)
            return None
        if not await to_thread.run_sync(self._prepare):
            return None
        outcome = await self.judge(is_last=False)
        if outcome and outcome.status == "succeeded":
            return outcome
        # What it said last was not so. It may say something else now; who remembers nothing of it begins anew.
        self._history, self._findings, self.shortfall = StatusHistory(), [], ""
        if not self._spec.resume.session_id:
            await to_thread.run_sync(self._lay_out, False, from_thread.check_cancelled)
        return None

    def _prepare(self) -> bool:
        claims = read_task_status(self._directory.fd).status
        is_claimed = claims is not None and claims.state == "completed" and claims.attempt is not None
        may_go_on = is_claimed or bool(self._spec.resume.session_id)
        return self._lay_out(may_go_on, from_thread.check_cancelled)

    def _lay_out(self, may_go_on: bool, check: Check) -> bool:
        folder = self._directory.fd
        laid_out = lay_out(folder, self._task, check, may_go_on=may_go_on)
        self._attempt, self._sealed = laid_out.attempt, laid_out.given
        # The agent of the run before may be the one that goes on.
        self._began_at = 0.0 if laid_out.goes_on else time.time()
        if not laid_out.goes_on:
            self._history.take(read_task_status(folder), self._began_at, self._attempt, self._began_at)
        return laid_out.goes_on

    async def judge(self, *, is_last: bool) -> Outcome | None:
        """After a completed turn; None where another one is to follow."""
        knows_protocol = await self._hear()
        believed = self._history.believed
        stock, lacking = Stock(), list[str]()
        if believed.state == "completed" or not knows_protocol:
            in_haste = _is_small(self._task)
            stock, odd, lacking = self._look(go_on, in_haste=True) if in_haste else (Stock(), [], [])
            if not in_haste or stock.problem:  # more than can be looked at while everybody waits
                stock, odd, lacking = await to_thread.run_sync(self._look, from_thread.check_cancelled)
            for finding in odd:
                self._found(finding)
        verdict = judge(believed.state, lacking, knows_protocol=knows_protocol, is_last=is_last)
        if verdict == "completed":
            return self._completed(stock, helped=not knows_protocol)
        if verdict == "goes on":
            self.shortfall = _shortfall(believed, lacking)
            return None
        return self._failed(verdict, believed, lacking)

    async def _hear(self) -> bool:
        """Learn what the agent says; the answer is whether it knows that it should say something."""
        for _ in range(_LOOKS):
            reading = read_task_status(self._directory.fd)
            if not reading.problem:
                break
            await anyio.sleep(_BETWEEN_LOOKS)
        for finding in self._history.take(reading, time.time(), self._attempt, self._began_at):
            self._found(finding)
        self._unreadable = reading.problem
        return bool(reading.problem) or self._history.believed.state != "pending"

    def _look(self, check: Check, *, in_haste: bool = False) -> tuple[Stock, list[str], list[str]]:
        """What is in the outbox, what is odd about what was given, and what is missing or must not be there.
        `in_haste` a problem may only be that there is too much to look at."""
        task, folder = self._task, self._directory.fd
        most = {"most_files": task.outbox_files, "most_bytes": task.outbox_bytes}
        if in_haste:
            most = {
                "most_files": min(_FEW_FILES, task.outbox_files),
                "most_bytes": min(_FEW_BYTES, task.outbox_bytes),
            }
        stock = take_stock(folder, OUTBOX, **most, check=check)
        now = seal_of(folder, task, check, *(_FEW_FILES, _FEW_BYTES) if in_haste else ())
        if in_haste and INBOX in now:
            stock = Stock(problem=now[INBOX])
        owed = missing(stock, task.outputs)
        refused = [f"{path} is refused: {why}." for path, why in stock.refused if not task.skip_unsafe]
        odd = [*broken_seals(self._sealed, now), *added_since(self._sealed, now)]
        return stock, odd, list(dict.fromkeys((*owed, *refused)))

    def _completed(self, stock: Stock, *, helped: bool) -> Outcome:
        if helped:
            now = time.time()
            write_on_behalf(
                self._directory.fd,
                "completed",
                believed=self._history.believed,
                started=self._began_at,
                completed=now,
            )
        product = Product(
            made_by=self._task.made_by,
            attempt=self._attempt,
            files=tuple((file.path, file.size, file.sha256) for file in stock.files),
            findings=tuple(self._findings),
            helped=helped,
        )
        return Outcome(
            status="succeeded",
            turns=0,
            soft_stop="completed",
            reason=self._first_line_of_summary(),
            product=msgspec.json.encode(product).decode(),
        )

    def _failed(self, verdict: Verdict, believed: TaskStatus, lacking: Sequence[str]) -> Outcome:
        retryable, kind = True, verdict
        if verdict == "failed":
            error = believed.error.text if believed.error else ""
            retryable, text = (
                believed.error is None or believed.error.recoverable,
                error or "the agent says that it failed",
            )
            details = believed.error.details if believed.error else ""
            text = " ".join((f"{text} ({details})" if details else text).split())
        elif verdict == "incomplete":
            claim = "it is completed, says its agent, but " if believed.state == "completed" else ""
            text = claim + _listed(lacking)
        else:
            said = self._unreadable or f"status.json says {believed.state}"
            text = f"its agent ended without a final state: {said}"
        return Outcome(status="failed", turns=0, error=text, error_kind=f"task_{kind}", retryable=retryable)

    def _first_line_of_summary(self) -> str:
        try:
            with open_directory(self._directory.fd, OUTBOX) as outbox:
                text = read_bounded(outbox, "summary.md", _SUMMARY_SHOWN).decode("utf-8", "replace")
        except OSError:
            return ""
        lines = (line.strip(" \t#") for line in text.splitlines())
        return readable(next(filter(None, lines), ""), 200)

    def _found(self, finding: str) -> None:
        if len(self._findings) < 2 * _NAMED:
            self._findings.append(finding)
            self._remark("warning", "something is odd about what the agent did", finding)


def _is_small(task: TaskSpec) -> bool:
    """Whether all that it is given can be copied while everybody waits."""
    sizes = [file.size for file in task.inputs if not file.by_reference]
    sizes += [size for received in task.received for _, _, size, _ in received.files]
    return len(sizes) <= _FEW_FILES and sum(sizes) <= _FEW_BYTES


def decode_product(text: str) -> Product:
    return msgspec.json.decode(text, type=Product)


def _shortfall(believed: TaskStatus, lacking: Sequence[str]) -> str:
    if believed.state == "running":
        return "status.json still says `running`."
    return f"{_listed(lacking)}." if lacking else ""


def _listed(sentences: Sequence[str]) -> str:
    more = len(sentences) - _NAMED
    named = [shortened(sentence.rstrip("."), _LONGEST) for sentence in sentences[:_NAMED]]
    return "; ".join([*named, *([f"and {more} more"] if more > 0 else [])])
