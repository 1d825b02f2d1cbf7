"""What the tool servers of one run recorded: read from where we stopped, believed only as far as it makes sense.

The servers run beside the agent and as its user, so the file may hold anything. Who runs the agent picks the lines
that are records of calls, so many and no more; who counts them reads these again: they come from afar.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ..protocol.safefiles import open_directory, open_regular
from ..tools.definitions import BROKERED, TRACKER_API
from ..tools.envelope import is_error
from ..tools.record import LONGEST_WORD, UNKNOWN, particulars
from .toolkit import tool_names

BYTES_AT_ONCE = 1024 * 1024
CALLS_OF_ONE_RUN = 100_000
BYTES_OF_ONE_RUN = 64 * BYTES_AT_ONCE
LONGEST_NAME = 64


class ToolCall(Struct, frozen=True):
    tool: str
    result: Literal["success", "error"]
    ms: float
    operation: str = ""
    target: str = ""
    state: str = ""
    error: str = ""

    @classmethod
    def recorded(cls, line: bytes, *, brokered: bool = False) -> ToolCall | None:
        """The call that a line tells of; None where it tells of none, or of one that is not believed.

        `brokered`: what the orchestrator does for the agent it knows itself, and believes itself alone.
        """
        try:
            call = msgspec.json.decode(line, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        words = (call.operation, call.target, call.state, call.error)
        sound = (
            0 <= call.ms < 1e9
            and call.tool.isprintable()
            and 0 < len(call.tool) <= LONGEST_NAME
            # Only this tool acts on issues.
            and (call.tool == TRACKER_API.name or not any(words))
            and all(len(word) <= LONGEST_WORD and word.isprintable() for word in words)
        )
        return call if sound and not (brokered and call.tool in BROKERED) else None

    @classmethod
    def made(cls, tool: str, arguments: object, answer: object, ms: float) -> ToolCall:
        """One that this process has made itself."""
        facts = {"tool": tool, "result": "error" if is_error(answer) else "success", "ms": ms}
        return msgspec.convert({**facts, **particulars(tool, arguments, answer)}, cls)

    @property
    def known_tool(self) -> str:
        """A name no session can have is not worth a counter of its own."""
        return self.tool if self.tool in tool_names() else UNKNOWN


class ToolLog:
    """The file of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._counted = 0

    def prepare(self) -> None:
        """Make the folder, which the servers do not; without it calls are not counted, and nothing else fails."""
        try:
            if not os.path.isdir(self.path.parent):  # noqa: PTH112 - once for every run
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            pass  # the log of the run, which stands in the same folder, reports it

    def lines(self) -> list[bytes]:
        """The records of calls since the last time; what is no record of a call is passed over."""
        found: list[bytes] = []
        if not os.path.lexists(self.path):
            return found  # most agents never make a call
        try:
            with open_directory(self.path.parent) as folder, open_regular(folder, self.path.name) as file:
                while self._counted + len(found) < CALLS_OF_ONE_RUN and (portion := self._portion(file)):
                    lines = portion[: portion.rfind(b"\n") + 1].splitlines()
                    found += [line for line in lines if ToolCall.recorded(line)]
        except OSError:
            pass  # no call was made yet, or the file is none of ours
        found = found[: CALLS_OF_ONE_RUN - self._counted]
        self._counted += len(found)
        return found

    def _portion(self, file: int) -> bytes:
        """What comes next; nothing at the end, and nothing beyond what is read of one run."""
        if self._offset >= BYTES_OF_ONE_RUN:
            return b""
        raw = os.pread(file, BYTES_AT_ONCE, self._offset)
        whole = raw[: raw.rfind(b"\n") + 1]
        # The last line may be half written; one that ends nowhere in sight is none of ours.
        portion = raw if len(raw) == BYTES_AT_ONCE and not whole else whole
        self._offset += len(portion)
        return portion

    def remove(self) -> None:
        try:
            self.path.unlink(missing_ok=True)
        except OSError:
            pass  # an agent put something else in its place; that must not cost the run its ending
