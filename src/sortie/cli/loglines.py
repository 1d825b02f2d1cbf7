"""Log lines on standard error, as text or JSON: one line for each event, which no reader can hold up.

A pipe nobody reads from, or a terminal that somebody stopped with Ctrl-S, must not stop the service: lines are
written by a thread of their own, and the ones that do not fit into its queue are counted and left out.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from typing import IO, Any

from ..core import events as ev
from ..core.narrate import narrate
from .format import clean, runnable, stamp

LEVELS = {"debug": 10, "info": 20, "warn": 30, "warning": 30, "error": 40}
STOPPING = "stopping, once more to force"
_QUEUED_LINES = 10_000
_FLUSH_WITHIN = 2.0


class LineWriter:
    """A stream that never blocks and never raises."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.lost = 0
        self._thread = threading.Thread(target=self._write, name="sortie-log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        if self._lines.qsize() >= _QUEUED_LINES:
            self.lost += 1
            return
        if self.lost:
            self._lines.put(f"({self.lost} lines were lost because nobody read them)")
            self.lost = 0
        self._lines.put(line)

    def close(self) -> None:
        """Write what waits; give up where the reader does not take it."""
        self._lines.put(None)
        self._thread.join(_FLUSH_WITHIN)

    def _write(self) -> None:
        while lines := self._waiting():
            try:
                print("\n".join(lines), file=self._stream, flush=True)
            except (OSError, ValueError):
                return  # nobody is there any more: the queue fills, and lines are lost as announced

    def _waiting(self) -> list[str]:
        """At least one line, and all others that wait; none at the end."""
        lines: list[str] = []
        line = self._lines.get()
        while line is not None:
            lines.append(line)
            if self._lines.empty():
                return lines
            line = self._lines.get()
        if lines:
            self._lines.put(None)  # the end comes after these
        return lines


class LogLines:
    """Writes events and sentences. `names` maps issue ids to the identifiers people know."""

    def __init__(self, level: str, *, as_json: bool, names: dict[str, str], stream: IO[str] | None = None) -> None:
        self._names = dict(names)
        self._trouble = ""
        self._writer = LineWriter(stream or sys.stderr)
        self._least = LEVELS[level]
        self._as_json = as_json

    def open(self) -> None:
        """Lines need no preparation."""

    def close(self) -> None:
        self._writer.close()

    def on_event(self, event: ev.AnyEvent) -> None:
        """A listener of the service."""
        learn_name(self._names, event)
        sentence = narrate(event)
        if LEVELS[sentence.level] < self._least:
            return
        issue = self._names.get(event.issue_id, event.issue_id)
        about = {"issue": issue, "issue_id": event.issue_id, "run_id": event.run_id}
        facts = {**_scalars(event), **about} if self._as_json else about
        self._write_line(event.at, sentence.level, ev.kind_of(event), sentence.text, facts)

    def log(self, level: str, sentence: str) -> None:
        """Something that is not an event."""
        if LEVELS[level] >= self._least:
            self._write_line(time.time(), level, "service", sentence, {})

    def on_trouble(self, sentence: str) -> None:
        """The store cannot be written; empty when it can again. Written once, however often it is tried."""
        if sentence != self._trouble:
            self._trouble = sentence
            self.log("error" if sentence else "info", sentence or "the store can be written again")

    def on_drain(self) -> None:
        """The service was asked to stop, and could be asked again."""
        self.log("info", STOPPING)

    def _write_line(self, at: float, level: str, kind: str, sentence: str, about: dict[str, Any]) -> None:
        if self._as_json:
            said = {"time": stamp(at), "level": level, "message": sentence, **about, "event": kind}
            self._writer.write(json.dumps({key: value for key, value in said.items() if value != ""}))
        else:
            self._writer.write(_as_text(stamp(at), level, about.get("issue", ""), sentence))


def learn_name(names: dict[str, str], event: ev.AnyEvent) -> None:
    identifier = event.view.identifier if isinstance(event, ev.IssueSeen) else getattr(event, "identifier", "")
    if identifier:
        names[event.issue_id] = identifier


def _scalars(event: ev.AnyEvent) -> dict[str, Any]:
    """What the event says beyond its sentence: numbers and words, no structures."""
    left_out = {"at", "issue_id", "run_id", "identifier", "level", "message"}
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in left_out}
    return {name: value for name, value in fields.items() if isinstance(value, str | int | float)}


def _as_text(time: str, level: str, issue: str, sentence: str) -> str:
    """`2026-11-15T22:10:11Z info  PROJ-1 started run …`."""
    level = "warn" if level == "warning" else level
    about = f"{issue} " if issue else ""
    return clean(runnable(f"{time} {level:<5} {about}{sentence}"))
