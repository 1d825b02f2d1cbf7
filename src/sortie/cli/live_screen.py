"""What every live view has: a terminal that is drawn anew all the time, and the last sentences of the log."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import IO, Generic, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ..core import events as ev
from ..core.narrate import narrate
from .format import clean
from .loglines import STOPPING, learn_name

Seen = TypeVar("Seen")

SENTENCES = 8
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


class LiveScreen(ABC, Generic[Seen]):
    """Draws from a thread of its own; the service only leaves sentences here, which cannot hold it up.

    `look` gives what there is to see at present; `hide` takes secrets out of what agents and trackers said.
    """

    def __init__(
        self,
        look: Callable[[], Seen | None],
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
        self._last: Seen | None = None
        self._console = _Terminal(stream or sys.stderr)
        self._live: Live | None = None

    @abstractmethod
    def body(self, seen: Seen) -> list[RenderableType]:
        """All that stands above the sentences."""

    def room(self) -> int:
        """How many rows the body may take, with a blank one behind it and one for the cursor."""
        return self._console.height - SENTENCES - 2 - self._stopping - bool(self._trouble)

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

    def picture(self) -> RenderableType:
        seen = self._present()
        if seen is None:
            return Text("starting …", style="dim")
        parts = [*self.body(seen), Text("")]
        if self._stopping:
            parts.append(one_line(Text(STOPPING, style="bold yellow")))
        if self._trouble:
            parts.append(one_line(Text(clean(self._trouble), style="bold red")))
        parts += [one_line(sentence) for sentence in list(self._sentences)]
        return Group(*parts)

    def _present(self) -> Seen | None:
        try:
            self._last = self._look()
        except (RuntimeError, KeyError):
            pass  # the service changed something while we looked; the next look is a quarter of a second away
        return self._last


def one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
