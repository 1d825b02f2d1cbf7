"""The live view on a terminal: what runs, what waits, what is parked, and the last sentences of the log."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ..core import events as ev
from ..core.narrate import narrate
from ..engine.report import LiveReport, RunReport
from .format import amount, clean, duration, short
from .loglines import STOPPING, learn_name
from .printing import Columns

SENTENCES = 8
MOST_LISTED = 5
# Much more than is shown, so that no secret is cut in two and shown by half.
LONGEST_LINE = 10_000
REFRESHES_PER_SECOND = 4
COLOURS = {"debug": "dim", "info": "", "warning": "yellow", "error": "red"}


class _Terminal(Console):
    """Prints text as it is: no markup, no highlighting, no emoji codes in what strangers wrote."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(file=stream, markup=False, highlight=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """It means the same for all commands, however they print."""
        raise BrokenPipeError


class LiveView:
    """Draws from a thread of its own; the service only leaves sentences here, which cannot hold it up.

    `look` gives the present picture; `hide` takes secrets out of what agents and trackers said.
    """

    def __init__(
        self,
        look: Callable[[], LiveReport | None],
        hide: Callable[[str], str],
        names: dict[str, str],
        stream: IO[str] | None = None,
    ) -> None:
        self._look = look
        self._hide = hide
        self._names = dict(names)
        self._sentences: deque[Text] = deque(maxlen=SENTENCES)
        self._trouble = ""
        self._stopping = False
        self._last: LiveReport | None = None
        self._console = _Terminal(stream or sys.stderr)
        self._live: Live | None = None

    def open(self) -> None:
        self._live = Live(
            get_renderable=self.picture,
            console=self._console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        )
        self._live.start()

    def close(self) -> None:
        """Give the terminal back. May be called twice."""
        if self._live:
            self._live.stop()

    def on_event(self, event: ev.AnyEvent) -> None:
        """A listener of the service."""
        learn_name(self._names, event)
        sentence = narrate(event)
        if sentence.level != "debug":
            issue = self._names.get(event.issue_id, event.issue_id)
            self._add(event.at, sentence.level, f"{issue} {sentence.text}" if issue else sentence.text)

    def log(self, level: str, sentence: str) -> None:
        self._add(time.time(), level, sentence)

    def on_trouble(self, sentence: str) -> None:
        """The store cannot be written; an empty sentence when it can again."""
        self._trouble = sentence

    def on_drain(self) -> None:
        """The service was asked to stop, and could be asked again."""
        self._stopping = True

    def _add(self, at: float, level: str, sentence: str) -> None:
        clock = time.strftime("%H:%M:%S", time.localtime(at))
        self._sentences.append(Text(f"{clock}  {clean(self._hide(sentence))}", style=COLOURS[level]))

    # -- drawing ----------------------------------------------------------------------------------------------

    def picture(self) -> RenderableType:
        seen = self._present()
        if seen is None:
            return Text("starting …", style="dim")
        parts: list[RenderableType] = [self._headline(seen), *self._running(seen)]
        parts += [*self._waiting_and_parked(seen), Text("")]
        if self._stopping:
            parts.append(_one_line(Text(STOPPING, style="bold yellow")))
        if self._trouble:
            parts.append(_one_line(Text(clean(self._trouble), style="bold red")))
        parts += [_one_line(sentence) for sentence in list(self._sentences)]
        return Group(*parts)

    def _present(self) -> LiveReport | None:
        try:
            self._last = self._look()
        except (RuntimeError, KeyError):
            pass  # the service changed something while we looked; the next look is a quarter of a second away
        return self._last

    def _headline(self, seen: LiveReport) -> Text:
        counts = [
            f"{len(seen.running)} of {seen.slots} running",
            f"{seen.ready} ready",
            f"{len(seen.waiting)} waiting",
            f"{len(seen.parked)} parked",
        ]
        spent = f"today {seen.today.sessions} sessions, {amount(seen.today.tokens)} tokens, ${seen.today.usd:.2f}"
        return _one_line(Text(f"sortie  {' · '.join(counts)}  ({spent})", style="bold"))

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
        for item in seen.waiting[:MOST_LISTED]:
            left = duration(item.retry.due_at - seen.now)
            text = f"waits {left:>6}  {item.identifier}  {item.retry.kind}  {self._hide(item.retry.error)}"
            lines.append(_one_line(Text(clean(text), style="cyan")))
        lines += _more(len(seen.waiting) - MOST_LISTED)
        for parked in seen.parked[:MOST_LISTED]:
            text = f"parked        {parked.identifier}  {self._hide(parked.park.reason)}"
            lines.append(_one_line(Text(clean(text), style="yellow")))
        return [*lines, *_more(len(seen.parked) - MOST_LISTED)]


def _one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _more(count: int) -> list[RenderableType]:
    return [Text(f"… and {count} more", style="dim")] if count > 0 else []
