"""An agent's word to the orchestrator, `.sortie/status` or `status.json`: no content can harm or mislead.

Works on its own, with the standard library. Whatever is at the path, reading it never raises, never blocks,
never follows a link and costs a few KiB at most.

    at `.sortie/status`                             result of `read_signal`
    nothing, or no `.sortie`                        absent: all fields empty
    `blocked` or `needs-human-review` as line 1     `token`, and lines 2..n as `reason`
    any other first line, also an empty one         `unrecognised`
    a first line of more than 4096 bytes            `unrecognised`, never cut into a match
    a link at any component, a hard link, a FIFO,
    a socket, a device, a directory, no permission  `problem`
    no workspace                                    `problem`

    at `status.json` (see `task_status`)            result of `read_signal`
    nothing                                         absent: all fields empty
    the `state` `completed` or `failed`             `token`, and the message of `error` as `reason`;
                                                    `recoverable` unless `error.recoverable` is false
    the `state` `pending` or `running`              absent: the agent has not come to an end
    whatever is a problem there                     `problem`
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from .foreign_text import escape, shortened
from .safefiles import UnsafeFile, explain, open_directory, read_bounded
from .task_status import Reading, read_task_status

Token = Literal["blocked", "needs-human-review", "completed", "failed"]
SignalKind = Literal[".sortie/status", "status.json", "none"]

FIRST_LINE_LIMIT = 4096
REASON_LIMIT = 2000
UNRECOGNISED_LIMIT = 128

# Fixed text: nothing that an issue says can change what agents are told about the status file.
STATUS_INSTRUCTIONS = """\
If you determine that you cannot make further progress on this task without human
intervention, or if your work is complete and requires human review, signal the
orchestrator by running:

    mkdir -p .sortie && echo "blocked" > .sortie/status

Use "blocked" when you cannot proceed. Use "needs-human-review" when your work is
complete and awaiting review. Do not write this file during normal productive work.
"""

_STATUS: Final = ".sortie/status"
_TOKENS: dict[bytes, Token] = {b"blocked": "blocked", b"needs-human-review": "needs-human-review"}
_WHITESPACE = b"\t\n\r "


@dataclass(frozen=True, slots=True)
class Status:
    """What the file said. Only `token` and `recoverable` may change what happens; the rest is for people to read.

    `completed`: the task is done, says the agent. `failed`: it could not be done; another attempt makes sense only
    if that is `recoverable`. `blocked`: it cannot go on without a person. `needs-human-review`: done, and a person
    has to look at it. Only `status.json` can say the first two.

    `unrecognised` is the beginning of a word that is no token, `reason` is untrusted text with control
    characters escaped, `problem` says why the file could not be read and therefore counts as absent.
    """

    token: Token | None = None
    unrecognised: bytes | None = None
    reason: str = ""
    problem: str = ""
    recoverable: bool = True

    @property
    def present(self) -> bool:
        """Whether there was a file that could be read."""
        return self.token is not None or self.unrecognised is not None


def compose_first_prompt(rendered: str, tools: str = "", signal: SignalKind = ".sortie/status") -> str:
    """The rendered template, then the tools, then what is to be written where: the last only for `.sortie/status`,
    because other runs say it in their own words. Later turns get none of this."""
    parts = [part.rstrip() for part in (rendered, tools)]
    return "\n\n".join([*filter(None, parts), *([STATUS_INSTRUCTIONS] if signal == _STATUS else [])])


def read_signal(workspace: Path | int, kind: SignalKind) -> Status:
    """What the agent says now, in the way that this kind of run has for it.

    `workspace` is its path, or an open descriptor of its directory.
    """
    if kind == "none":
        return Status()
    try:
        with open_directory(workspace) as place:
            if kind == "status.json":
                return _of_task(read_task_status(place))
            try:
                with open_directory(place, ".sortie") as directory:
                    # One byte more than there may be, so that whatever is longer shows itself.
                    raw = read_bounded(directory, "status", FIRST_LINE_LIMIT + 1)
            except FileNotFoundError:
                return Status()
    except OSError as error:
        return Status(problem=f"{kind} cannot be read: {explain(error)}")
    return parse_status(raw)


def delete_signal(workspace: Path | int, kind: SignalKind) -> str:
    """Remove what an earlier run left, and nothing else.

    Answers `deleted`, `absent`, `skipped: …` for a link, which is left in place and deserves a warning, or
    `failed: …`, which is of interest when debugging.
    """
    if kind == "none":
        return "absent"
    *above, name = kind.split("/")
    try:
        with open_directory(workspace) as place:
            try:
                with open_directory(place, *above) as directory:
                    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
                    if stat.S_ISLNK(found.st_mode):
                        return f"skipped: Symbolic link refused: {name}"
                    # A link swapped in just now would be removed itself: unlink never touches what a link leads to.
                    os.unlink(name, dir_fd=directory)
                    return "deleted"
            except FileNotFoundError:
                return "absent"
    except OSError as error:
        is_link = isinstance(error, UnsafeFile) and error.is_link
        return f"{'skipped' if is_link else 'failed'}: {explain(error)}"


def parse_status(raw: bytes) -> Status:
    """The verdict on the file's bytes. The first line decides; nothing is decoded and no case is folded."""
    line, _, rest = raw.partition(b"\n")
    if len(line) > FIRST_LINE_LIMIT:
        return Status(unrecognised=line[:UNRECOGNISED_LIMIT])
    word = line.strip(_WHITESPACE)
    token = _TOKENS.get(word)
    if token is None:
        return Status(unrecognised=word[:UNRECOGNISED_LIMIT])
    return Status(token=token, reason=_readable(rest[:FIRST_LINE_LIMIT].decode("utf-8", "replace")))


def read_status(workspace: Path | int) -> Status:
    return read_signal(workspace, _STATUS)


def delete_status(workspace: Path | int) -> str:
    """The answers are those of `delete_signal`."""
    return delete_signal(workspace, _STATUS)


def _of_task(reading: Reading) -> Status:
    status = reading.status
    if status is None or status.state == "pending" or status.state == "running":
        return Status(problem=reading.problem)
    error = status.error
    return Status(
        token=status.state,
        reason=_readable(error.text) if error else "",
        recoverable=error.recoverable if error else True,
    )


def _readable(text: str) -> str:
    lines = (escape(line.strip().removeprefix("reason:").strip()) for line in text.split("\n"))
    reason = "\n".join(line for line in lines if line)
    return shortened(reason, REASON_LIMIT)
