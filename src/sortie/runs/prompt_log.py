"""The prompts of a run, as its agent got them: kept beside its log, for whoever wants to know what it was told.

A line of JSON for each turn. Nobody decides by it, so what the disk refuses is missing and nothing else; it is
bounded, and deleted together with the log.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..core.redact import Hide
from .messages import encode
from .run_log import logs_directory, opened_to_append

LONGEST_PROMPT = 256 * 1024
MOST_BYTES = 8 * 1024 * 1024


class Prompt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the agent was told at the beginning of a turn; `is_cut` where it was told more."""

    turn: int
    at: float
    text: str
    is_cut: bool = False


def prompts_path(db_path: Path, run_id: str) -> Path:
    return logs_directory(db_path) / f"{run_id}.prompts"


def keep_prompt(path: Path, turn: int, at: float, text: str) -> None:
    """`text` is without secrets. Raises `OSError` where it cannot be kept."""
    prompt = Prompt(turn=turn, at=at, text=text[:LONGEST_PROMPT], is_cut=len(text) > LONGEST_PROMPT)
    line = encode(prompt) + b"\n"
    file = opened_to_append(path, 0o600)
    try:
        if os.fstat(file).st_size + len(line) <= MOST_BYTES:
            os.write(file, line)
    finally:
        os.close(file)


def kept_prompts(path: Path, hide: Hide) -> list[Prompt]:
    """In the order of the turns. What cannot be read is left out; `hide` knows secrets that came later."""
    try:
        with path.open("rb") as file:
            lines = file.read(MOST_BYTES).split(b"\n")
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            prompt = msgspec.json.decode(line, type=Prompt)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue  # torn by a crash, or of another version
        found.append(replace(prompt, text=hide(prompt.text)))
    return found
