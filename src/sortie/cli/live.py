"""The live view on a terminal: what runs, what waits, what is parked, and the last sentences of the log."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from ..engine.report import MOST_LISTED, LiveReport, RunReport
from .format import amount, clean, duration, short
from .live_screen import LONGEST_LINE, SENTENCES, LiveScreen, one_line
from .printing import Columns


class LiveView(LiveScreen[LiveReport]):
    def body(self, seen: LiveReport) -> list[RenderableType]:
        return [self._headline(seen), *self._running(seen), *self._waiting_and_parked(seen)]

    def _headline(self, seen: LiveReport) -> Text:
        counts = [
            f"{len(seen.running)} of {seen.slots} running",
            f"{seen.ready} ready",
            f"{seen.waiting_count} waiting",
            f"{seen.parked_count} parked",
        ]
        spent = f"today {seen.today.sessions} sessions, {amount(seen.today.tokens)} tokens, ${seen.today.usd:.2f}"
        return one_line(Text(f"sortie  {' · '.join(counts)}  ({spent})", style="bold"))

    def _running(self, seen: LiveReport) -> list[RenderableType]:
        if not seen.running:
            return []
        room = max(self._console.height - SENTENCES - 2 * MOST_LISTED - 4, 3)
        table = Columns(
            ("issue", "title", "turn", "time", "tokens", "last line"),
            [self._cells(run) for run in seen.running[:room]],
            right=("turn", "time", "tokens"),
            cut=("title", "last line"),
            spare=("tokens", "title", "time", "turn"),
            header_style="dim",
        )
        return [table, *_more(len(seen.running) - room)]

    def _cells(self, run: RunReport) -> tuple[str, ...]:
        state = "ending" if run.ending else f"{run.turn}/{run.max_turns}"
        return (
            run.identifier,
            short(self._hide(run.title), 60),
            state,
            duration(run.seconds),
            amount(run.usage.total),
            short(self._hide(run.last_line[:LONGEST_LINE]), 200),
        )

    def _waiting_and_parked(self, seen: LiveReport) -> list[RenderableType]:
        lines: list[RenderableType] = []
        for item in seen.waiting:
            left = duration(item.retry.due_at - seen.now)
            text = f"waits {left:>6}  {item.identifier}  {item.retry.kind}  {self._hide(item.retry.error)}"
            lines.append(one_line(Text(clean(text), style="cyan")))
        lines += _more(seen.waiting_count - len(seen.waiting))
        for parked in seen.parked:
            text = f"parked        {parked.identifier}  {self._hide(parked.park.reason)}"
            lines.append(one_line(Text(clean(text), style="yellow")))
        return [*lines, *_more(seen.parked_count - len(seen.parked))]


def _more(count: int) -> list[RenderableType]:
    return [Text(f"… and {count} more", style="dim")] if count > 0 else []
