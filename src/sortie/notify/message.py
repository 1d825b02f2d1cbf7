"""A message: one notification, or a digest of many, as JSON, as plain text, and as text for Slack.

Text of agents and trackers is neutralised: no chat markup, no mention that notifies everybody, no mail header.
A message has the same id however often it is sent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from ..core.redact import Hide
from ..protocol.foreign_text import escape, shortened
from ..protocol.web_address import issue_path
from ..store.notifications import Notification

DIGEST = "digest"
# In a digest: how many notifications are listed as text and as JSON, and how long each may be.
MOST_LINES = 20
MOST_ITEMS = 200
LONGEST_SUBJECT = 150
LONGEST_REASON = 1500
LONGEST_LINE = 250
LONGEST_TITLE = 100

_HEADLINES = {
    "parked": "needs an answer",
    "error": "failed",
    "budget": "is out of budget",
    "review": "is ready for review",
    "service": "needs attention",
    "test": "is set up",
}
_DASHES = "\N{EM DASH}"
# An invisible zero-width space keeps what follows from being read as markup.
_BREAK = "\N{ZERO WIDTH SPACE}"
_CALLS = re.compile(r"(<|@)(?=[@!#&]|everyone\b|here\b|channel\b|all\b)|(\])(?=\()", re.IGNORECASE)


class Item(Struct, frozen=True, kw_only=True):
    """One notification as programs get it; `url` is its page of the dashboard, where there is one."""

    id: str
    event: str
    issue: str
    title: str
    reason: str
    url: str
    at: str


class Message(Struct, frozen=True, kw_only=True):
    """`items` are listed one by one; `more` is the number of the others."""

    id: str
    items: tuple[Item, ...]
    more: int = 0

    @property
    def count(self) -> int:
        return len(self.items) + self.more

    @property
    def subject(self) -> str:
        """One line, without control characters."""
        if self.count > 1:
            return f"[sortie] {self.count} things need you"
        return shortened(f"[sortie] {_headline(self.items[0])}", LONGEST_SUBJECT)

    def text(self) -> str:
        """For a person to read, without the subject."""
        if self.count == 1:
            item = self.items[0]
            return "\n".join(filter(None, [shortened(item.reason, LONGEST_REASON), item.url]))
        lines = [_line(item) for item in self.items[:MOST_LINES]]
        more = self.count - len(lines)
        return "\n".join([*lines, *([f"and {more} more"] if more else [])])

    def json(self) -> bytes:
        """One notification by itself; of several, `items` has each with an id of its own."""
        if self.count == 1:
            return msgspec.json.encode(self.items[0])
        return msgspec.json.encode(
            {
                "id": self.id,
                "event": DIGEST,
                "issue": "",
                "title": f"{self.count} things need you",
                "reason": self.text(),
                "url": "",
                "at": max(item.at for item in self.items),
                "items": self.items,
                "more": self.more,
            }
        )

    def slack(self) -> bytes:
        """In Slack only these three characters begin something; what takes the same form may look for names."""
        text = "\n".join(self.chat())
        for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
            text = text.replace(character, entity)
        plain = {"mrkdwn": False, "parse": "none", "link_names": False, "unfurl_links": False}
        return msgspec.json.encode({"text": text, **plain, "unfurl_media": False})

    def chat(self) -> tuple[str, str]:
        """Subject and text for services whose markup is unknown."""
        return without_calls(self.subject), without_calls(self.text())


def compose(whose: str, notifications: Sequence[Notification], dashboard: str) -> Message:
    """The message about these, the oldest first. `whose` names store and channel: ids begin with it."""
    items = tuple(_item(whose, notification, dashboard) for notification in notifications[:MOST_ITEMS])
    first, last = notifications[0].seq, notifications[-1].seq
    number = str(first) if len(notifications) == 1 else f"{first}-{last}"
    return Message(id=f"{whose}:{number}", items=items, more=len(notifications) - len(items))


def one_line(text: str, most: int, hide: Hide) -> str:
    """With nothing that a receiver could obey. Secrets go before anything is cut: no half of one stays."""
    return shortened(escape(" ".join(hide(text).split())), most)


def without_calls(text: str) -> str:
    """With nothing that calls people together or hides where a link leads, in any chat that we know of."""
    return _CALLS.sub(lambda found: found[0] + _BREAK, text)


def _item(whose: str, notification: Notification, dashboard: str) -> Item:
    path = issue_path(notification.identifier) if notification.issue_id else "/"
    return Item(
        id=f"{whose}:{notification.seq}",
        event=notification.kind,
        issue=notification.identifier,
        title=notification.title,
        reason=notification.text,
        url=f"{dashboard.rstrip('/')}{path}" if dashboard else "",
        at=datetime.fromtimestamp(notification.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def _headline(item: Item) -> str:
    title = f": {shortened(item.title, LONGEST_TITLE)}" if item.title else ""
    return f"{item.issue} {_HEADLINES[item.event]}{title}"


def _line(item: Item) -> str:
    reason = shortened(item.reason, LONGEST_LINE)
    return f" {_DASHES} ".join(filter(None, [_headline(item), reason, item.url]))
