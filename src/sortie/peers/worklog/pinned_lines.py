"""The two lines of the status block that belong to the maintainer, set in place."""

from __future__ import annotations

from pathlib import Path

from ...errors import SortieError
from ..author import Author, AuthorityError
from ..journal import Record
from ..roster import fold
from ..shared_document import SharedDocument
from .body import one_line
from .parse import Reading
from .worklog_file import MOST_STATUS

FOCUS = "Maintainer Focus"
CHECKPOINT = "Next Review Checkpoint"


def set_pinned(path: Path, label: str, text: str, author: Author, at: float) -> None:
    if author.role != "maintainer":
        raise AuthorityError(
            f'{author.name} cannot change "{label}", which is the maintainer\'s.',
            fix="Say what is wanted in an entry: `sortie worklog append`.",
        )
    said = one_line(text, MOST_STATUS) or "none"
    record = Record(at=at, author=author.name, role=author.role, subject=f"{label}: {said}")
    with SharedDocument(path).held() as held:
        held.rewrite(lambda data: with_pinned(data, label, said), record)


def with_pinned(data: bytes, label: str, text: str) -> bytes:
    """The line with that label says this; where there is none, it follows the last line of the block."""
    pinned = [line for line in Reading(data).head().status if line.pinned]
    if not pinned:
        raise SortieError(
            "The work log has no status block.", fix="`sortie worklog status --set idle --as NAME` makes one."
        )
    own = next((line for line in reversed(pinned) if not line.agent and fold(line.label) == fold(label)), None)
    if own is not None:
        old = data[own.start : own.end]
        kept = old[: old.index(b":") + 1]
        kept += b"**" if old[len(kept) :].startswith(b"**") else b""
        return data[: own.start] + kept + b" " + text.encode() + _return(old) + data[own.end :]
    last = pinned[-1]
    line = f"\n{label}: {text}".encode() + _return(data[last.start : last.end])
    return data[: last.end] + line + data[last.end :]


def _return(line: bytes) -> bytes:
    return b"\r" if line.endswith(b"\r") else b""
