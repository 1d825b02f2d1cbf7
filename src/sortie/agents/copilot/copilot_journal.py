"""The journal that Copilot keeps of a session, for what its output leaves out: which model calls there were.

`session-state/<id>/events.jsonl` below Copilot's directory grows by whole lines, some 0.1 s behind the output, and
holds everything before Copilot prints `result`. Agents can write there: it is read without following links or
waiting for anybody, in bounded steps, and what is no record of a call is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from ...core.model import Usage
from ...protocol.safefiles import open_directory, open_regular
from ..turn_reader import decode

_RECORD = "session.usage_record"
_STEP = 1024 * 1024
_STEPS = 16


class ModelCall(Struct, frozen=True):
    """One answer of a model, and how it ended: `stop`, `tool_calls`, `length`, `content_filter`."""

    usage: Usage
    finish: str = ""
    by_subagent: bool = False


class _Counts(Struct, frozen=True, rename="camel"):
    """`input_tokens` has the cached tokens in it, `output_tokens` those of reasoning, whatever the provider."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    finish_reason: str = ""


class _Data(Struct, frozen=True):
    usage: _Counts


class _UsageRecord(Struct, frozen=True, rename="camel"):
    type: str
    data: _Data
    agent_id: str | None = None


def copilot_home(environment: Mapping[str, str]) -> Path:
    chosen = environment.get("COPILOT_HOME")
    return Path(chosen) if chosen else Path(environment.get("HOME", "/")) / ".copilot"


class Journal:
    """The calls of one session from now on: what the journal holds already belongs to earlier turns."""

    def __init__(self, home: Path, session_id: str) -> None:
        self._home = home
        self._session_id = session_id
        self._offset = 0
        try:
            with self._open() as file:
                self._offset = os.fstat(file).st_size
        except OSError:
            pass  # a fresh session has none yet

    def fresh_calls(self) -> list[ModelCall]:
        """The calls recorded since the last look; none where the journal cannot be read."""
        calls: list[ModelCall] = []
        try:
            with self._open() as file:
                for _ in range(_STEPS):
                    lines = self._next_lines(file)
                    calls += [call for line in lines if (call := _call_in(line))]
                    if not lines:
                        break
        except OSError:
            pass  # the reader tells when a turn ends without any count
        return calls

    def _next_lines(self, file: int) -> list[bytes]:
        """The whole lines of the next step; of a line longer than that, a part."""
        data = os.pread(file, _STEP, self._offset)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == _STEP:
            end = _STEP
        self._offset += end
        return data[:end].splitlines()

    @contextmanager
    def _open(self) -> Iterator[int]:
        home = Path(os.path.realpath(self._home))  # the directory itself may well be a link of the user's
        with (
            open_directory(home, "session-state", self._session_id) as directory,
            open_regular(directory, "events.jsonl") as file,
        ):
            yield file


def _call_in(line: bytes) -> ModelCall | None:
    if _RECORD.encode() not in line:
        return None
    try:
        record = decode(line, _UsageRecord)
    except (msgspec.DecodeError, RecursionError):
        return None
    if record.type != _RECORD:
        return None
    counts = record.data.usage
    used = (counts.input_tokens, counts.output_tokens, counts.cache_read_tokens)
    usage = Usage(*(max(count, 0) for count in used))
    return ModelCall(usage, counts.finish_reason, by_subagent=record.agent_id is not None)
