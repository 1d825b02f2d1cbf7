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
from msgspec.structs import replace

from ..core.conclude import Outcome, Settlement
from ..core.events import EffectPlanned
from ..core.model import Issue, Park
from ..core.narrate import CAUSES
from ..core.records import Claim
from ..errors import SortieError, TrackerError
from ..protocol.foreign_text import escape, readable, shortened
from .source import Write

if TYPE_CHECKING:
    from ..peers.author import Author
    from ..peers.journal import Record
    from ..peers.mailbox.mailbox_file import MailboxFile
    from ..peers.place import Place
    from ..peers.worklog.compose import AnyRecordable

OURSELVES = "sortie"
LOCK_PATIENCE = 5.0
LONGEST_TITLE = 200
LONGEST_REASON = 2_000
LONGEST_NAME = 40
MOST_FILES = 50
MOST_NAMED = 5

_NOT_TOLD = "not told"
_HOW_TO_DECIDE = (
    "`sortie plan why` tells the whole story of a task; `sortie plan retry`, `fix`, `skip` and `accept` decide "
    "what becomes of it."
)


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
    of titles; whatever an agent said is without them already. `judges`: titles are told of those issues alone whose
    authors are trusted, because agents read the log."""

    def __init__(
        self,
        path: Path | None,
        mailbox: Path | None = None,
        hide: Callable[[str], str] = lambda text: text,
        *,
        judges: bool = False,
    ) -> None:
        self._path = path
        self._mailbox = mailbox
        self._hide = hide
        self._judges = judges
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
        title = issue.title if issue.trusted or not self._judges else ""
        task = f"{issue.identifier}: {title}" if title else issue.identifier
        named = [escape(self._hide(file)) for file in files[:MOST_FILES]]
        if len(files) > MOST_FILES:
            named.append(f"and {len(files) - MOST_FILES} more")
        entry = Entry(
            kind=kind,
            task=readable(self._hide(task), LONGEST_TITLE).replace("\n", " "),
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


async def record(effect: EffectPlanned) -> str:
    """Write the entry that was planned, once however often it is asked for; raises `TrackerError`. The answer is
    which other entries somebody has thrown out of the log; each is told once.

    What is wrong with a document may be mended at any moment, so every failure is one that passes.
    """
    try:
        entry = msgspec.json.decode(effect.argument, type=Entry)
        return await to_thread.run_sync(_write, entry, effect, abandon_on_cancel=True)
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


def _made(worklog: Path | None, mailbox: Path | None) -> bool:
    from ..peers.author import Author
    from ..peers.roster import roster_of
    from ..peers.worklog.worklog_file import WorklogFile

    author, now = Author(name=OURSELVES, role="orchestrator"), time.time()
    try:
        if worklog is not None and not worklog.exists():
            roster = roster_of(_place(worklog))
            WorklogFile(worklog, patience=LOCK_PATIENCE).create(roster.agents, roster.maintainer, author, now)
        if mailbox is not None and not mailbox.exists():
            _open_mailbox(mailbox).create(author, now)
    except (SortieError, OSError):
        return all(path is None or path.exists() for path in (worklog, mailbox))  # made by another one meanwhile
    return True


def _write(entry: Entry, effect: EffectPlanned) -> str:
    """In a thread: locking and syncing may take a while. A mailbox that cannot be used costs the log nothing."""
    from ..peers.author import Author
    from ..peers.worklog.worklog_file import WorklogFile

    author = Author(name=OURSELVES, role="orchestrator", run_id=effect.run_id)
    message_id, lost, trouble = "", "", None
    if entry.mailbox:
        try:
            message_id = _sent(entry, effect, author)
        except (SortieError, OSError) as error:
            trouble = error
    if entry.worklog:
        path = Path(entry.worklog)
        recorded = WorklogFile(path, patience=LOCK_PATIENCE).record(
            _recordable(entry, path, message_id),
            author,
            at=effect.at,
            key=effect.effect_id,
            actor=entry.by,
            set_status=False,
            tell_lost=True,
        )
        lost = _told_of_lost(path, recorded.lost)
    if trouble is not None:
        raise trouble
    return lost


def _told_of_lost(path: Path, lost: Sequence[Record]) -> str:
    if not lost:
        return ""
    titles = [one.text.strip().partition("\n")[0].lstrip("# ") for one in lost[:MOST_NAMED]]
    more = f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
    named = readable("; ".join(titles), LONGEST_REASON)
    return f"somebody saved an older {path}, and what had been recorded is gone from it: {named}{more}"


def _sent(entry: Entry, effect: EffectPlanned, author: Author) -> str:
    """The ID of the message to the maintainer, which is sent once."""
    from ..peers.mailbox.draft import Draft

    mailbox = _open_mailbox(Path(entry.mailbox))
    draft = Draft(
        to=(mailbox.roster.maintainer,),
        subject=shortened(f"Escalated: {entry.task}", LONGEST_TITLE),
        body="\n\n".join(filter(None, (entry.reason, entry.note, _HOW_TO_DECIDE))),
        priority="P1",
        closure_owner="maintainer",
    )
    return mailbox.send(draft, author, at=effect.at, key=effect.effect_id).message.id


def _open_mailbox(path: Path) -> MailboxFile:
    """A plan may be all that there is: where nobody takes part, it is we who write to the maintainer."""
    from ..peers.mailbox.mailbox_file import MailboxFile
    from ..peers.roster import roster_of

    place = replace(_place(path), mailbox=path)
    roster = roster_of(place)
    roster = roster if roster.agents else replace(roster, agents=(OURSELVES,))
    return MailboxFile(place, roster=roster, patience=LOCK_PATIENCE)


def _place(document: Path) -> Place:
    from ..peers.place import place_at

    return place_at(document.parent)


def _recordable(entry: Entry, worklog: Path, message_id: str) -> AnyRecordable:
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
            return forms.Handoff(
                task=entry.task,
                next_owner=roster_of(_place(worklog)).maintainer,
                changed_files=entry.files,
                tests=_NOT_TOLD,
                note=said,
            )
        case "escalated":
            return forms.Escalation(subject=entry.task, reason=said, message_id=message_id)
        case "ended":
            return forms.Note(
                title=f"{shortened(entry.task, LONGEST_TITLE - 30)} (ended without success)", text=said
            )
