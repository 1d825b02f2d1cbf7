"""What is recorded of runs in the work log that people and agents share, and how it gets there, once.

The argument of a planned entry holds all that it takes, the path included: after a crash it is written where it was
going to be written, whatever the settings say by then. Its texts are of strangers: bounded here, because the store
keeps them, and made harmless by whoever composes the entry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from anyio import to_thread
from msgspec import Struct

from ..core.conclude import Outcome, Settlement
from ..core.events import EffectPlanned
from ..core.model import Issue, Park
from ..core.narrate import CAUSES
from ..core.records import Claim
from ..errors import SortieError, TrackerError
from ..protocol.foreign_text import readable, shortened
from .source import Write

if TYPE_CHECKING:
    from ..peers.worklog.compose import AnyRecordable

OURSELVES = "sortie"
LOCK_PATIENCE = 5.0
LONGEST_TITLE = 200
LONGEST_REASON = 2_000
LONGEST_NAME = 40
MOST_FILES = 50

_NOT_TOLD = "not told"


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The argument of a planned entry. Stores of earlier versions hold such, so a name here keeps its meaning.

    `by` is who it is about, `reason` what that one said, or why it ended; `files` is what was delivered.
    """

    kind: Literal["claimed", "completed", "handoff", "escalated", "ended"]
    task: str
    by: str
    reason: str = ""
    note: str = ""
    files: tuple[str, ...] = ()
    worklog: str = ""
    mailbox: str = ""


class WorkLog:
    """The entries of one source. Without a path it has nothing to say, and costs nothing. `hide` takes secrets out
    of titles; whatever an agent said is without them already."""

    def __init__(
        self, path: Path | None, mailbox: Path | None = None, hide: Callable[[str], str] = lambda text: text
    ) -> None:
        self._path = path
        self._mailbox = mailbox
        self._hide = hide
        self._is_ready = path is None and mailbox is None

    def claimed(self, issue: Issue, claim: Claim) -> Sequence[Write]:
        why = CAUSES.get(claim.cause, claim.cause)
        note = f"Run {claim.run_id}, attempt {claim.attempt}, because {why}."
        return self._writes("claimed", issue, _agent(claim), note=note)

    def settled(
        self, issue: Issue, claim: Claim, outcome: Outcome, then: Settlement, files: Sequence[str] = ()
    ) -> Sequence[Write]:
        """Nothing of a run that goes on or is tried again: the next claim says so."""
        if then.retry:
            return ()
        note, agent = f"Run {claim.run_id}, attempt {claim.attempt}.", _agent(claim)
        if outcome.soft_stop == "needs-human-review":
            return self._writes("handoff", issue, agent, outcome.reason, note, files)
        if then.park and then.park.kind != "operator":
            by = agent if outcome.soft_stop else OURSELVES
            return self._writes("escalated", issue, by, then.park.reason, note)
        if outcome.status == "succeeded" and not outcome.stop:
            return self._writes("completed", issue, agent, outcome.reason, note, files)
        return self._writes("ended", issue, OURSELVES, then.why, note)

    def parked(self, issue: Issue, park: Park) -> Sequence[Write]:
        """Of an item that was put aside without a run."""
        return self._writes("escalated", issue, OURSELVES, park.reason)

    def _writes(
        self,
        kind: Literal["claimed", "completed", "handoff", "escalated", "ended"],
        issue: Issue,
        by: str,
        reason: str = "",
        note: str = "",
        files: Sequence[str] = (),
    ) -> Sequence[Write]:
        mailbox = self._mailbox if kind == "escalated" else None
        if self._path is None and mailbox is None:
            return ()
        title = readable(self._hide(issue.title), LONGEST_TITLE).replace("\n", " ")
        named = (*files[:MOST_FILES], f"and {len(files) - MOST_FILES} more") if len(files) > MOST_FILES else files
        entry = Entry(
            kind=kind,
            task=shortened(f"{issue.identifier}: {title}" if title else issue.identifier, LONGEST_TITLE),
            by=by,
            reason=readable(reason, LONGEST_REASON),
            note=note,
            files=tuple(named),
            worklog=str(self._path or ""),
            mailbox=str(mailbox or ""),
        )
        argument = msgspec.json.encode(entry).decode()
        return (Write(name=f"log-{kind}", verb="record", argument=argument),)

    async def prepare(self) -> None:
        """Make the documents where they are missing. That it failed is told by the first entry that fails."""
        if not self._is_ready:
            self._is_ready = await to_thread.run_sync(_made, self._path, self._mailbox, abandon_on_cancel=True)


async def record(effect: EffectPlanned) -> None:
    """Write the entry that was planned, once however often it is asked for; raises `TrackerError`.

    What is wrong with a document may be mended at any moment, so every failure is one that passes.
    """
    try:
        entry = msgspec.json.decode(effect.argument, type=Entry)
        await to_thread.run_sync(_write, entry, effect, abandon_on_cancel=True)
    except msgspec.MsgspecError as error:
        raise TrackerError(TrackerError.PAYLOAD, f"The entry cannot be read: {error}.") from error
    except SortieError as error:
        raise TrackerError(TrackerError.TRANSPORT, error.message, fix=error.fix) from error
    except OSError as error:
        raise TrackerError(TrackerError.TRANSPORT, f"{error.filename}: {error.strerror}.") from error


def _agent(claim: Claim) -> str:
    """The kind of the agent, by which people know it; other people's packages may name theirs as they like."""
    name = shortened(" ".join(claim.agent.replace(":", " ").lstrip("#").split()), LONGEST_NAME)
    return name if name.isprintable() and name else OURSELVES


def _made(path: Path | None, mailbox: Path | None) -> bool:
    from ..peers.author import Author
    from ..peers.place import place_at
    from ..peers.roster import roster_of
    from ..peers.worklog.worklog_file import WorklogFile

    author = Author(name=OURSELVES, role="orchestrator")
    try:
        if path is not None and not path.exists():
            roster = roster_of(place_at(path.parent))
            WorklogFile(path, patience=LOCK_PATIENCE).create(roster.agents, roster.maintainer, author, time.time())
    except (SortieError, OSError):
        return path is not None and path.exists()  # another one may have made it meanwhile
    return True


def _write(entry: Entry, effect: EffectPlanned) -> None:
    """In a thread: locking and syncing may take a while."""
    from ..peers.author import Author
    from ..peers.worklog.worklog_file import WorklogFile

    author = Author(name=OURSELVES, role="orchestrator", run_id=effect.run_id)
    if entry.worklog:
        path = Path(entry.worklog)
        WorklogFile(path, patience=LOCK_PATIENCE).record(
            _recordable(entry, path.parent),
            author,
            at=effect.at,
            key=effect.effect_id,
            actor=entry.by,
            set_status=False,
        )


def _recordable(entry: Entry, root: Path, message_id: str = "") -> AnyRecordable:
    from ..peers.place import place_at
    from ..peers.roster import roster_of
    from ..peers.worklog import compose as forms

    said = "\n\n".join(filter(None, (entry.reason, entry.note)))
    match entry.kind:
        case "claimed":
            return forms.Claim(task=entry.task, note=said)
        case "completed":
            return forms.Completion(
                task=entry.task, status="Complete", changed_files=entry.files, tests=_NOT_TOLD, note=said
            )
        case "handoff":
            maintainer = roster_of(place_at(root)).maintainer
            return forms.Handoff(
                task=entry.task, next_owner=maintainer, changed_files=entry.files, tests=_NOT_TOLD, note=said
            )
        case "escalated":
            return forms.Escalation(subject=entry.task, reason=said, message_id=message_id)
        case "ended":
            return forms.Note(title=f"Ended without success: {entry.task}", text=said)
