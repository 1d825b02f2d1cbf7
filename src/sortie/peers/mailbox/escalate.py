"""Messages that nobody answered in time go into the work log, each once, and their cards say so.

The log is written first. Whoever dies in between leaves a card that does not know it yet; the next one finds the
line in the log and writes no second one, even where our own state was lost.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...errors import SortieError
from ..author import Author
from .deadlines import Overdue, TurnsOf
from .mailbox_file import MailboxFile
from .message import Message

if TYPE_CHECKING:
    from ..worklog.worklog_file import WorklogFile

_ESCALATED = re.compile(rb"Escalated:[* \t]{1,8}((?:MSG|OLD)-[\w.-]{1,120})")
_SAID = "escalated to the work log: "


def escalate(
    mailbox: MailboxFile, worklog: WorklogFile, author: Author, *, at: float, turns_of: TurnsOf
) -> list[Overdue]:
    """Those that were escalated now, the oldest first."""
    mailbox.restore(at)
    waiting = [late for late in mailbox.overdue(at, turns_of) if not is_escalated(late.message)]
    if not waiting:
        return []
    logged = escalations_in(worklog.read().data)
    new = []
    for late in waiting:
        message = late.message
        if message.id not in logged:
            new += [late] if _record(worklog, late, author, at) else []
        try:
            mailbox.remark(message.id, "escalated", f"{_SAID}{_reason(late)}", author, at=at)
        except SortieError:
            # Closed, archived or doubled by somebody in this very moment: the log has it, and that is what counts.
            continue
    return new


def is_escalated(message: Message) -> bool:
    return any(ack.text.startswith(_SAID) for ack in message.acks)


def escalations_in(log: bytes) -> set[str]:
    """IDs of messages that a work log says were escalated."""
    return {found.decode("utf-8", "replace") for found in _ESCALATED.findall(log)}


def _record(worklog: WorklogFile, late: Overdue, author: Author, at: float) -> bool:
    from ..worklog.compose import Escalation

    what = Escalation(
        subject=late.message.subject or "(no subject)", reason=_reason(late), message_id=late.message.id
    )
    return not worklog.record(what, author, at=at, key=f"escalated:{late.message.id}").repeated


def _reason(late: Overdue) -> str:
    return f"receiver {late.window}"
