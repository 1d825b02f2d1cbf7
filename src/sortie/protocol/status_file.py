"""`.sortie/status`: an agent's one word to the orchestrator, read so that no content can harm or mislead.

Works on its own, with the standard library. Whatever is at the path, reading it never raises, never blocks,
never follows a link and costs a few KiB at most.

    at the path                                     result of `read_status`
    nothing, or no `.sortie`                        absent: all fields empty
    `blocked` or `needs-human-review` as line 1     `token`, and lines 2..n as `reason`
    any other first line, also an empty one         `unrecognised`
    a first line of more than 4096 bytes            `unrecognised`, never cut into a match
    a link at any component, a hard link, a FIFO,
    a socket, a device, a directory, no permission  `problem`
    no workspace                                    `problem`
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .safefiles import UnsafeFile, open_directory, read_bounded

Token = Literal["blocked", "needs-human-review"]

FIRST_LINE_LIMIT = 4096
REASON_LIMIT = 2000
UNRECOGNISED_LIMIT = 128

_TOKENS: dict[bytes, Token] = {b"blocked": "blocked", b"needs-human-review": "needs-human-review"}
_WHITESPACE = b"\t\n\r "
_DIRECTORY = ".sortie"
_FILE = "status"


@dataclass(frozen=True, slots=True)
class Status:
    """What the file said. Only `token` may change what happens; everything else is for people to read.

    `unrecognised` is the beginning of a first line that is no token, `reason` is untrusted text with control
    characters escaped, `problem` says why the file could not be read and therefore counts as absent.
    """

    token: Token | None = None
    unrecognised: bytes | None = None
    reason: str = ""
    problem: str = ""

    @property
    def present(self) -> bool:
        """Whether there was a file that could be read."""
        return self.token is not None or self.unrecognised is not None


def parse_status(raw: bytes) -> Status:
    """The verdict on the file's bytes. The first line decides; nothing is decoded and no case is folded."""
    line, _, rest = raw.partition(b"\n")
    if len(line) > FIRST_LINE_LIMIT:
        return Status(unrecognised=line[:UNRECOGNISED_LIMIT])
    word = line.strip(_WHITESPACE)
    token = _TOKENS.get(word)
    if token is None:
        return Status(unrecognised=word[:UNRECOGNISED_LIMIT])
    return Status(token=token, reason=_readable(rest))


def read_status(workspace: Path | int) -> Status:
    """What the agent says now. `workspace` is its path, or an open descriptor of its directory."""
    try:
        with open_directory(workspace) as place:
            raw = _read(place)
    except OSError as error:
        return Status(problem=f"{_DIRECTORY}/{_FILE} cannot be read: {_explain(error)}")
    return Status() if raw is None else parse_status(raw)


def delete_status(workspace: Path | int) -> str:
    """Remove what an earlier run left, and nothing else.

    Answers `deleted`, `absent`, `skipped: …` for a link, which is left in place and deserves a warning, or
    `failed: …`, which is of interest when debugging.
    """
    try:
        with open_directory(workspace) as place:
            return _delete(place)
    except UnsafeFile as error:
        return f"{'skipped' if error.is_link else 'failed'}: {_explain(error)}"
    except OSError as error:
        return f"failed: {_explain(error)}"


def _read(place: int) -> bytes | None:
    try:
        with open_directory(place, _DIRECTORY) as directory:
            # One byte more than a first line may have, so that a longer one shows itself.
            return read_bounded(directory, _FILE, FIRST_LINE_LIMIT + 1)
    except FileNotFoundError:
        return None


def _delete(place: int) -> str:
    try:
        with open_directory(place, _DIRECTORY) as directory:
            found = os.stat(_FILE, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                return f"skipped: Symbolic link refused: {_FILE}"
            # A link swapped in just now would be removed itself: unlink never touches what a link leads to.
            os.unlink(_FILE, dir_fd=directory)
    except FileNotFoundError:
        return "absent"
    return "deleted"


def _explain(error: OSError) -> str:
    return f"{error.strerror}: {error.filename}" if error.filename else f"{error.strerror}"


def _readable(rest: bytes) -> str:
    text = rest[:FIRST_LINE_LIMIT].decode("utf-8", "replace")
    lines = (_escape(line.strip().removeprefix("reason:").strip()) for line in text.split("\n"))
    reason = "\n".join(line for line in lines if line)
    return reason if len(reason) <= REASON_LIMIT else reason[: REASON_LIMIT - 1] + "…"


def _escape(line: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)
