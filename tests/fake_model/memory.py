"""What a fake model knows beyond the request at hand: its key, the faults spent and all that was asked of it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

from .script import Place, next_step
from .steps import Say, Script, Step
from .wire import Asked


@dataclass(frozen=True)
class Request:
    """One request. `key` is a fingerprint of what was presented, never the key itself.

    `did` is the kind of the step that answers, or "ok" (no tools, so no script), "exhausted" (past the last step),
    "count", "models", "head", "unauthorised" or "bad". `step` is its place in the script, -1 without one. `told` is
    the text of all prompts of the conversation.
    """

    method: str
    path: str
    key: str
    authorised: bool
    did: str
    wire: str = ""
    model: str = ""
    stream: bool = False
    tools: int = 0
    step: int = -1
    prompts: int = 0
    last_result: str | None = None
    told: str = ""


@dataclass(frozen=True)
class Decision:
    did: str
    step: Step
    index: int = -1


class Memory:
    """`fallbacks` has a script for each wire that has one of its own, and "" for all others."""

    def __init__(self, key: str | None, fallbacks: Mapping[str, Script], log: TextIO | None) -> None:
        self.stopping = threading.Event()
        self._key = key
        self._fallbacks = fallbacks
        self._log = log
        self._lock = threading.Lock()
        self._spent: Counter[tuple[str, int]] = Counter()
        self._requests: list[Request] = []

    def authorises(self, keys: Sequence[str]) -> bool:
        """A request that shows several keys must have them all right."""
        return self._key is None or (bool(keys) and all(key == self._key for key in keys))

    def decide(self, asked: Asked, place: Place, wire: str) -> Decision:
        """Titles, quota probes and summaries are asked for without tools; they are no step of a script."""
        if not asked.tools:
            return Decision("ok", Step("text", Say("ok")))
        script = place.script(self._fallbacks.get(wire) or self._fallbacks[""])
        index = next_step(script, place.results, lambda index: self._spend(script, index))
        if index is None:
            return Decision("exhausted", Step("text", Say("script exhausted")))
        return Decision(script.steps[index].kind, script.steps[index], index)

    def note(self, request: Request) -> None:
        with self._lock:
            self._requests.append(request)
            if self._log:
                self._log.write(json.dumps(asdict(request)) + "\n")
                self._log.flush()

    @property
    def requests(self) -> list[Request]:
        with self._lock:
            return list(self._requests)

    def _spend(self, script: Script, index: int) -> bool:
        times = script.steps[index].times
        with self._lock:
            if times is not None and self._spent[script.text, index] >= times:
                return False
            self._spent[script.text, index] += 1
            return True


def fingerprint(keys: Sequence[str]) -> str:
    return hashlib.sha256(keys[0].encode()).hexdigest()[:12] if keys else ""
