"""Messages that nobody answered in time go into the work log, each once, and their cards say so.

The log is written first. Whoever dies in between leaves a card that does not know it yet; the next one finds the
entry and writes no second one, even where our own state was lost. What an agent wrote of an escalation is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import SortieError
from ..author import Author
from .deadlines import Overdue, TurnsOf
from .mailbox_file import MailboxFile

if TYPE_CHECKING:
    from ..worklog.worklog_file import WorklogFile

_NOTED = "escalated"


def escalate(
    mailbox: MailboxFile, worklog: WorklogFile, author: Author, *, at: float, turns_of: TurnsOf
) -> list[Overdue]:
    """Those that were escalated now, the oldest first."""
    mailbox.restore(at)
    noted = noted_on_cards(mailbox)
    waiting = [late for late in mailbox.overdue(at, turns_of) if late.message.id not in noted]
    if not waiting:
        return []
    told = told_in_log(worklog)
    new = []
    for late in waiting:
        message = late.message
        if message.id not in told:
            new += [late] if _record(worklog, late, author, at) else []
        try:
            mailbox.remark(message.id, _NOTED, f"escalated to the work log: {_reason(late)}", author, at=at)
        except SortieError:
            # Closed, archived or doubled by somebody in this very moment: the log has it, and that is what counts.
            continue
    return new


def noted_on_cards(mailbox: MailboxFile) -> set[str]:
    """IDs of messages on whose cards we said it, by our own record: whoever receives a message writes on its card
    too."""
    found = set()
    for record in mailbox.document.records():
        message_id, _, word = record.subject.partition(" ")
        if word == _NOTED and record.role != "agent":
            found.add(message_id)
    return found


def told_in_log(worklog: WorklogFile) -> set[str]:
    """IDs of messages whose escalation is in the work log and was not written by an agent: what an agent writes by
    hand is on record as its own when its turn is over."""
    from ..worklog.events import events_of

    written_by = worklog.written_by()
    found: set[str] = set()
    for event in events_of(worklog.read()):
        if event.event_type == "escalation.requested":
            record = written_by.get(event.entry_id)
            if record is None or record.role != "agent":
                found.update(event.links)
    return found


def _record(worklog: WorklogFile, late: Overdue, author: Author, at: float) -> bool:
    from ..worklog.compose import Escalation

    what = Escalation(
        subject=late.message.subject or "(no subject)", reason=_reason(late), message_id=late.message.id
    )
    return not worklog.record(what, author, at=at, key=f"escalated:{late.message.id}").repeated


def _reason(late: Overdue) -> str:
    return f"receiver {late.window}"
