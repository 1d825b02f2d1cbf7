"""What one run says, numbered without a gap, until somebody has dealt with it; and the answers that it gets.

Nothing that a run says is lost except lines: of these a bounded number waits, and what is too much is counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable

from ..errors import SortieError
from .messages import AnyAnswer, AnyMessage, Ended, Heard, Line, Numbered, Remark

MOST_LINES = 10_000
MOST_CHARACTERS = 16 * 1024 * 1024


class Channel:
    """One run writes, one reader reads. `on_read` is called when somebody has dealt with the last message."""

    def __init__(self, on_read: Callable[[], None] = lambda: None) -> None:
        self._on_read = on_read
        self._waiting: deque[Numbered] = deque()
        self._last = 0
        self._ended = False
        self._reader: asyncio.Future[None] | None = None
        self._questions: dict[int, asyncio.Future[AnyAnswer]] = {}
        self._lines = self._characters = 0
        self._dropping = False
        self._dropped = self._dropped_here = 0

    @property
    def ended(self) -> bool:
        return self._ended

    def tell(self, message: AnyMessage) -> None:
        """Never blocks. After `Ended` nothing more is heard."""
        if self._ended or (isinstance(message, Line) and not self._has_room(message)):
            return
        if isinstance(message, Heard) and self._waiting and isinstance(self._waiting[-1].message, Heard):
            return
        if isinstance(message, Ended):
            self._own_up()
            self._ended = True
        self._append(message)

    async def ask(self, question: AnyMessage) -> AnyAnswer:
        """Wait for the answer; whoever is cancelled meanwhile gets none."""
        number = self._append(question)
        answer: asyncio.Future[AnyAnswer] = asyncio.get_running_loop().create_future()
        self._questions[number] = answer
        try:
            return await answer
        finally:
            del self._questions[number]

    def answer(self, number: int, answer: AnyAnswer) -> None:
        """An answer for which nobody waits any more is passed over."""
        question = self._questions.get(number)
        if question is not None and not question.done():
            question.set_result(answer)

    async def messages(self, after: int = 0) -> AsyncGenerator[Numbered]:
        """Those after that number that are still there. Who asks for the next has dealt with the one before."""
        if after > self._last:
            raise SortieError(f"This run has said {self._last} messages; there is none after {after}.")
        self._forget(after)
        while not self._ended or self._waiting:
            while self._waiting:
                numbered = self._waiting[0]
                yield numbered
                self._forget(numbered.number)
            if not self._ended:
                self._reader = asyncio.get_running_loop().create_future()
                await self._reader
        self._on_read()

    def _append(self, message: AnyMessage) -> int:
        self._last += 1
        self._waiting.append(Numbered(self._last, message))
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
        return self._last

    def _forget(self, number: int) -> None:
        while self._waiting and self._waiting[0].number <= number:
            message = self._waiting.popleft().message
            if isinstance(message, Line):
                self._lines -= 1
                self._characters -= len(message.text)

    def _has_room(self, line: Line) -> bool:
        """Once there was too much, half of it must be gone: else every other line would be missing."""
        share = 2 if self._dropping else 1
        self._dropping = self._lines * share >= MOST_LINES or self._characters * share >= MOST_CHARACTERS
        if self._dropping:
            self._dropped_here += 1
            return False
        if self._dropped_here:
            self._mark_gap()
        self._lines += 1
        self._characters += len(line.text)
        return True

    def _mark_gap(self) -> None:
        text = f"{self._dropped_here} lines are missing here: they came faster than they could be written down"
        self._dropped += self._dropped_here
        self._dropped_here = 0
        self._lines += 1
        self._characters += len(text)
        self._append(Line(source="note", text=text))

    def _own_up(self) -> None:
        if self._dropped_here:
            self._mark_gap()
        if self._dropped:
            message = f"{self._dropped} lines of this run are missing from its log: they came too fast"
            self._append(Remark(level="warning", message=message))
