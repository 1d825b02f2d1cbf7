"""The outbox of notifications: what is to be sent on which channel, and whether it was; and how far the log was
read.

Written only by the process that sends, in short transactions; the service writes nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sqlite3 import Connection

from msgspec import Struct

# The most that one message tells of; what waits beyond it goes with the next.
MOST_AT_ONCE = 1000
# What waits.
UNSENT = "sent_at IS NULL AND dropped = ''"


class Notification(Struct, frozen=True, kw_only=True):
    """Something that needs a person. `seq` is the number of the event; `identifier` names the issue, or else whom
    it concerns; `kind` is one of `workflow.channels.EVENT_KINDS`."""

    seq: int
    kind: str
    issue_id: str
    identifier: str
    title: str
    text: str
    at: float


class Unsent(Notification, frozen=True, kw_only=True):
    """One that is still to be sent, not before `next_try_at`."""

    id: int
    tries: int
    next_try_at: float


class ChannelStanding(Struct, frozen=True, kw_only=True):
    """How a channel is doing. `error` is that of the last failure of those that wait, or else of the last that was
    given up."""

    waiting: int
    sent: int
    given_up: int
    next_try_at: float | None
    last_sent_at: float | None
    error: str


def cursors(db: Connection) -> dict[str, int]:
    """By channel: the number of the last event that was looked at for it."""
    return dict(db.execute("SELECT channel, seq FROM notification_cursors"))


def begin(db: Connection, channel: str, since: float) -> None:
    """A channel that is new begins with what happens from this time on; another one goes on where it was."""
    before = "SELECT coalesce((SELECT seq FROM events WHERE at < ? ORDER BY seq DESC LIMIT 1), 0)"
    db.execute(f"INSERT OR IGNORE INTO notification_cursors VALUES (?, ({before}))", (channel, since))


def put(db: Connection, notifications: Iterable[tuple[str, Notification]], looked_at: Mapping[str, int]) -> None:
    """Add what channels are to be told, and note how far was looked for each; an event is there once."""
    columns = Notification.__struct_fields__
    marks = ", ".join("?" * (len(columns) + 1))
    db.executemany(
        f"INSERT OR IGNORE INTO notifications (channel, {', '.join(columns)}) VALUES ({marks})",
        [
            (channel, *(getattr(notification, column) for column in columns))
            for channel, notification in notifications
        ],
    )
    db.executemany(
        "UPDATE notification_cursors SET seq = max(seq, ?) WHERE channel = ?",
        [(seq, channel) for channel, seq in looked_at.items()],
    )


def waiting(db: Connection, channel: str) -> list[Unsent]:
    """What this channel is to be told, the oldest first."""
    columns = Unsent.__struct_fields__
    rows = db.execute(
        f"SELECT {', '.join(columns)} FROM notifications WHERE channel = ? AND {UNSENT} ORDER BY seq LIMIT ?",
        (channel, MOST_AT_ONCE),
    )
    return [Unsent(**dict(zip(columns, row, strict=True))) for row in rows]


def mark_sent(db: Connection, ids: Iterable[int], at: float) -> None:
    db.executemany("UPDATE notifications SET sent_at = ?, error = '' WHERE id = ?", [(at, one) for one in ids])


def mark_failed(db: Connection, ids: Iterable[int], error: str, next_try_at: float) -> None:
    db.executemany(
        "UPDATE notifications SET tries = tries + 1, error = ?, next_try_at = ? WHERE id = ?",
        [(error, next_try_at, one) for one in ids],
    )


def drop(db: Connection, ids: Iterable[int], why: str) -> None:
    """It is not told any more: because it was `settled` before, or is `given up`."""
    db.executemany("UPDATE notifications SET dropped = ? WHERE id = ?", [(why, one) for one in ids])


def prune(db: Connection, before: float) -> None:
    """Forget what happened before this time. Of what waits, only a channel that is gone has anything so old."""
    db.execute("DELETE FROM notifications WHERE at < ?", (before,))


def is_known(db: Connection, channel: str, kind: str, identifier: str) -> bool:
    """Whether the channel is, or was, to be told of such a notification."""
    found = db.execute(
        "SELECT 1 FROM notifications WHERE channel = ? AND kind = ? AND identifier = ? LIMIT 1",
        (channel, kind, identifier),
    )
    return found.fetchone() is not None


def standing(db: Connection, channel: str) -> ChannelStanding:
    waits, next_try = db.execute(
        f"SELECT count(*), max(next_try_at) FROM notifications WHERE channel = ? AND {UNSENT}", (channel,)
    ).fetchone()
    sent, given_up, last_sent = db.execute(
        "SELECT count(sent_at), total(dropped = 'given up'), max(sent_at) FROM notifications WHERE channel = ?",
        (channel,),
    ).fetchone()
    failed = db.execute(
        """SELECT error FROM notifications WHERE channel = ? AND error <> ''
           ORDER BY sent_at IS NULL AND dropped = '' DESC, seq DESC LIMIT 1""",
        (channel,),
    ).fetchone()
    return ChannelStanding(
        waiting=waits,
        sent=sent,
        given_up=int(given_up),
        next_try_at=next_try or None,
        last_sent_at=last_sent,
        error=failed[0] if failed else "",
    )
