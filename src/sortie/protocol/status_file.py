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

    at `status.json`                                result of `read_signal`
    nothing                                         absent: all fields empty
    an object with the `state` `completed` or       `token`, and the message of `error` as `reason`;
    `failed` (or one of the two tokens above)       `recoverable` unless `error.recoverable` is false
    the `state` `pending` or `running`              absent: the agent has not come to an end
    any other text as `state`                       `unrecognised`
    no object, no `state`, one that is no text,
    no JSON, nothing, more than 64 KiB              `problem`
    whatever is a problem at `.sortie/status`       `problem`
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from .safefiles import UnsafeFile, open_directory, read_bounded

Token = Literal["blocked", "needs-human-review", "completed", "failed"]
SignalKind = Literal[".sortie/status", "status.json", "none"]

FIRST_LINE_LIMIT = 4096
REASON_LIMIT = 2000
UNRECOGNISED_LIMIT = 128
JSON_LIMIT = 64 * 1024

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
_STATUS_JSON: Final = "status.json"
_TOKENS: dict[bytes, Token] = {b"blocked": "blocked", b"needs-human-review": "needs-human-review"}
_STATES: dict[str, Token] = {token: token for token in get_args(Token)}
_UNFINISHED = ("pending", "running")
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
    # One byte more than there may be, so that whatever is longer shows itself.
    limit = 1 + (FIRST_LINE_LIMIT if kind == _STATUS else JSON_LIMIT)
    *above, name = kind.split("/")
    try:
        with open_directory(workspace) as place:
            try:
                with open_directory(place, *above) as directory:
                    raw = read_bounded(directory, name, limit)
            except FileNotFoundError:
                return Status()
    except OSError as error:
        return _unreadable(kind, _explain(error))
    return parse_status(raw) if kind == _STATUS else parse_status_json(raw)


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
        return f"{'skipped' if is_link else 'failed'}: {_explain(error)}"


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


def parse_status_json(raw: bytes) -> Status:
    """The verdict on the file's bytes. Keys that we do not know are the agent's own affair."""
    if len(raw) > JSON_LIMIT:
        return _unreadable(_STATUS_JSON, f"It is larger than {JSON_LIMIT // 1024} KiB")
    try:
        document = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return _unreadable(_STATUS_JSON, f"It is not JSON: {_escape(str(error))[:REASON_LIMIT]}")
    state = document.get("state") if isinstance(document, dict) else None
    if not isinstance(state, str):
        return _unreadable(_STATUS_JSON, "It must be an object whose `state` is a text")
    if state in _UNFINISHED:
        return Status()
    token = _STATES.get(state)
    if token is None:
        return Status(unrecognised=state.encode("utf-8", "replace")[:UNRECOGNISED_LIMIT])
    why = document.get("error")
    recoverable = not (isinstance(why, dict) and why.get("recoverable") is False)
    return Status(token=token, reason=_error_text(why), recoverable=recoverable)


def _unreadable(path: str, why: str) -> Status:
    return Status(problem=f"{path} cannot be read: {why}")


def _explain(error: OSError) -> str:
    return f"{error.strerror}: {error.filename}" if error.filename else f"{error.strerror}"


def _error_text(error: Any) -> str:
    """`type: message` of an error as `status.json` has it; agents that write a mere text are understood too."""
    if isinstance(error, dict):
        error = ": ".join(part for key in ("type", "message") if isinstance(part := error.get(key), str) and part)
    return _readable(error) if isinstance(error, str) else ""


def _readable(text: str) -> str:
    lines = (_escape(line.strip().removeprefix("reason:").strip()) for line in text.split("\n"))
    reason = "\n".join(line for line in lines if line)
    return reason if len(reason) <= REASON_LIMIT else reason[: REASON_LIMIT - 1] + "…"


def _escape(line: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)
