"""Turns events that need a person into notifications, and checks whether one is still current before it is sent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from sqlite3 import Connection

import msgspec
from msgspec import Struct

from ..core import events as ev
from ..core.hand_off import HANDED_OVER
from ..core.observe import USABLE_AGAIN
from ..core.policy import day_of
from ..core.redact import Hide
from ..store.notifications import Notification
from ..store.queries import last_seq
from .message import one_line

MOST_EVENTS = 500
LONGEST_NAME = 200
LONGEST_TITLE = 300
LONGEST_TEXT = 2000

_KINDS = ("settle", "park", "pause", "note", "skip")
_OF_PARKS = {"signal": "parked", "error": "error", "budget": "budget"}  # nothing is sent about `sortie stop`
_OF_A_PROVIDER, _OF_A_DAY = "agent", "day"


class Found(Struct, frozen=True):
    """The notifications from the events up to `looked_at`; `is_all`: there was no later event."""

    notifications: list[Notification]
    looked_at: int
    is_all: bool


def find_notifications(db: Connection, after: int, hide: Hide) -> Found:
    """The notifications from the next events after this one; `hide` removes secrets."""
    end = last_seq(db)
    rows = db.execute(
        f"""SELECT seq, data FROM events WHERE seq > ? AND seq <= ? AND kind IN ({", ".join("?" * len(_KINDS))})
            ORDER BY seq LIMIT ?""",
        (after, end, *_KINDS, MOST_EVENTS),
    ).fetchall()
    is_all = len(rows) < MOST_EVENTS
    found: list[Notification] = []
    for seq, data in rows:
        try:
            event = ev.decode(data)
        except msgspec.MsgspecError:
            continue  # one bad event, or one of a later version, must not hide all others
        found += (_clean(notification, hide) for notification in _of(db, seq, event))
    return Found(found, end if is_all else rows[-1][0], is_all)


def _of(db: Connection, seq: int, event: ev.AnyEvent) -> Iterator[Notification]:
    def told(kind: str, identifier: str, text: str, issue_id: str = event.issue_id) -> Notification:
        return Notification(
            seq=seq,
            kind=kind,
            issue_id=issue_id,
            identifier=identifier,
            title=_title_of(db, issue_id),
            text=text,
            at=event.at,
        )

    match event:
        case ev.Settled(park=ev.Park() as park) | ev.Parked(park=park):
            if kind := _OF_PARKS.get(park.kind):
                is_review = park.kind == "signal" and _word_of(db, event.run_id)[0] == "needs-human-review"
                yield told("review" if is_review else kind, event.identifier, park.reason)
        case ev.Settled(retry=None) if event.why.startswith(HANDED_OVER):
            yield told("review", event.identifier, _word_of(db, event.run_id)[1] or event.why)
        case ev.ProviderPaused(tries=0 | 1) if event.error_kind != "rate_limited":  # later tries are no news
            text = f"The {event.provider} agent cannot run, so nothing starts: {event.detail}"
            yield told("service", f"{_OF_A_PROVIDER} {event.provider}", text, "")
        case ev.Noted(level="error"):
            text = f"{event.message}: {event.detail}" if event.detail else event.message
            yield told("service", "service", text, "")
        case ev.Skipped(rule="day-budget"):
            day = f"{_OF_A_DAY} {day_of(event.at)}"
            yield told("budget", day, f"The budget of the day is used up; nothing more starts: {event.detail}", "")
        case _:
            pass


def is_once_only(notification: Notification) -> bool:
    """Whether many events mean the same notification: the daily budget holds back every issue."""
    return notification.kind == "budget" and not notification.issue_id


def is_open(db: Connection, notification: Notification) -> bool:
    """Whether it still needs a person: what was settled before it could be sent is not sent."""
    if notification.issue_id:
        return _is_open_issue(db, notification)
    whose, _, name = notification.identifier.partition(" ")
    if whose == _OF_A_DAY:
        return name == day_of(time.time())
    if whose == _OF_A_PROVIDER:
        fault = "SELECT 1 FROM pauses WHERE provider = ? AND error_kind <> 'rate_limited'"
        return db.execute(fault, (name,)).fetchone() is not None
    return not _is_over(db, notification)


def _is_over(db: Connection, notification: Notification) -> bool:
    """Whether the service noted since that it can use again what it could not."""
    rows = db.execute(
        "SELECT data FROM events WHERE seq > ? AND kind = 'note' AND data LIKE ?",
        (notification.seq, f'%{USABLE_AGAIN}"%'),
    )
    for (data,) in rows:
        try:
            noted = ev.decode(data)
        except msgspec.MsgspecError:
            continue
        if isinstance(noted, ev.Noted) and noted.message.endswith(USABLE_AGAIN):
            what = noted.message.removesuffix(USABLE_AGAIN)
            if notification.text.startswith(f"{what} "):
                return True
    return False


def _is_open_issue(db: Connection, notification: Notification) -> bool:
    if notification.kind != "review":
        parked = "SELECT 1 FROM parked WHERE issue_id = ? AND since = ?"
        return db.execute(parked, (notification.issue_id, notification.at)).fetchone() is not None
    # After the hand-over we know nothing more of it, unless a person sent it back to work, over by now or not.
    again = "SELECT 1 FROM events WHERE issue_id = ? AND seq > ? AND kind IN ('unpark', 'request', 'claim') LIMIT 1"
    return db.execute(again, (notification.issue_id, notification.seq)).fetchone() is None


def _title_of(db: Connection, issue_id: str) -> str:
    row = db.execute(
        "SELECT json_extract(data, '$.title') FROM issues WHERE issue_id = ? AND json_valid(data)", (issue_id,)
    ).fetchone()
    return str(row[0] or "") if row else ""


def _word_of(db: Connection, run_id: str) -> tuple[str, str]:
    """How the agent of a run signalled, and its reason."""
    row = db.execute("SELECT soft_stop, reason FROM run_history WHERE run_id = ?", (run_id,)).fetchone()
    return (str(row[0]), str(row[1])) if row else ("", "")


def _clean(notification: Notification, hide: Hide) -> Notification:
    return msgspec.structs.replace(
        notification,
        identifier=one_line(notification.identifier, LONGEST_NAME, hide),
        title=one_line(notification.title, LONGEST_TITLE, hide),
        text=one_line(notification.text, LONGEST_TEXT, hide),
    )
