"""Who is told when something needs a person: the channels of `notifications:`, and what may be written there.

An address is a key to whatever it leads to, so it is a secret as a whole, and so are the parts that open something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from ..protocol.web_address import address_problem
from .fields import PlainText, Texts, Whole

# What people are told of: a question of an agent, a failure for good, a budget that is used up, work to review, and
# what stops more than one issue.
EVENT_KINDS = ("parked", "error", "budget", "review", "service")
# What is shorter can be guessed; in an address, it is an ordinary word too often to be hidden everywhere.
SHORTEST_KEY = 16
LONGEST_NAME = 40

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{LONGEST_NAME - 1}}}")
_EXAMPLE = "https://hooks.example.com/…"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_ADDRESS = PlainText(filled=True, expand="whole", secret=True)
_KEY = PlainText(filled=True, expand="whole", secret=True, shortest=SHORTEST_KEY)


class ChannelConfig(Struct, frozen=True, kw_only=True):
    """`url` is an address as apprise writes them; `webhook` one that gets JSON from us, or what Slack reads."""

    url: Annotated[str, _ADDRESS] = ""
    webhook: Annotated[str, _ADDRESS] = ""
    secret: Annotated[str, _KEY] = ""
    format: Literal["json", "slack"] = "json"
    on: Annotated[tuple[str, ...], Texts(options=EVENT_KINDS)] = EVENT_KINDS
    digest_seconds: Annotated[int, Whole(least=0, most=86400)] = 30

    def __repr__(self) -> str:
        return f"ChannelConfig({self.kind}, on={self.on})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("kind", self.kind), ("on", self.on)]

    @property
    def kind(self) -> str:
        """What people are shown in place of the address: how it is sent."""
        if self.webhook:
            return "slack" if self.format == "slack" else "webhook"
        found = _SCHEME.match(self.url)
        return found[0][:-3].lower() if found else ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown: the addresses, what in them opens something, and the key of signatures."""
        return (*_keys_in(self.url), *_keys_in(self.webhook), *([self.secret] if self.secret else []))


Channels = Mapping[str, ChannelConfig]


class NotifierOrders(Struct, frozen=True, kw_only=True):
    """What the process that sends is told by the service, at its start and whenever that changes.

    `since` is when each channel was first seen: of what happened before, one that is new is told nothing.
    `dashboard` is the address of the pages, empty where there are none; `secrets` are texts that no message may
    contain; `store_trouble` is why the service cannot write its store now, and since when."""

    channels: dict[str, ChannelConfig] = {}
    since: dict[str, float] = {}
    dashboard: str = ""
    secrets: tuple[str, ...] = ()
    keep_days: float = 14.0
    store_trouble: str = ""
    store_troubled_since: float = 0.0


def channel_problems(channels: Channels) -> Iterator[tuple[str, str]]:
    """What is wrong with them, as key and sentence, seen without asking anybody; no address is shown."""
    for name, channel in channels.items():
        key = f"notifications.{name}"
        if not _NAME.fullmatch(name):
            rule = f"must be named with at most {LONGEST_NAME} letters, digits, - and _"
            yield key, rule
        elif bool(channel.url) == bool(channel.webhook):
            yield key, "needs an address: write either url or webhook"
        elif channel.url:
            yield from _of_url(key, channel)
        elif problem := address_problem(channel.webhook, _EXAMPLE, may_have_query=True):
            yield f"{key}.webhook", problem
        if not channel.on:
            yield f"{key}.on", f"must name at least one of {', '.join(EVENT_KINDS)}"


def _of_url(key: str, channel: ChannelConfig) -> Iterator[tuple[str, str]]:
    if not _SCHEME.match(channel.url):
        yield f"{key}.url", "must be an address as apprise writes them, such as mailtos://… or ntfys://…"
    for field, is_given in {"secret": channel.secret, "format": channel.format != "json"}.items():
        if is_given:
            yield f"{key}.{field}", "goes with webhook; remove it, or write webhook in the place of url"


def _keys_in(address: str) -> Iterator[str]:
    if not address:
        return
    yield address
    try:
        parts = urlsplit(address)
        password = parts.password or ""
    except ValueError:
        return
    # In some addresses of apprise a key has the place of the host; the name of a server is no key.
    pieces = [piece.rpartition("=")[2] for piece in re.split("[/?&]", address.partition("://")[2])]
    keys = [piece for piece in pieces if len(piece) >= SHORTEST_KEY and "." not in piece]
    for key in (password, *keys):
        yield from {key, unquote(key)} - {""}
