"""Sends one message: to a webhook in our own format or Slack's, or with apprise for everything else.

Nothing is retried here. An error is one sentence without the address, and the time for a retry if the receiver
names one. Redirects are not followed: they could lead the message, and its signature, anywhere.
"""

from __future__ import annotations

import html
import logging
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from .. import __version__
from ..core.redact import Hide, Redactor
from ..errors import SortieError
from ..protocol.signature import signature
from ..workflow.channels import ChannelConfig
from .addresses import DESKTOPS
from .message import Message, one_line

if TYPE_CHECKING:
    from httpx2 import Response

CONNECTING = 8.0
ONE_TRY = 20.0
LONGEST_ERROR = 300
LONGEST_ANSWER = 4096
MOVED = frozenset({301, 302, 303, 307, 308})
SIGNATURE = "X-Sortie-Signature"
# By which a receiver tells a message from one that it has got before.
MESSAGE_ID = "Idempotency-Key"
MAIL_ID = "X-Sortie-Id"


class NotSent(SortieError):
    """It was not accepted, or that is unknown. `after`: the receiver wants a retry in so many seconds."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


async def send(channel: ChannelConfig, message: Message) -> None:
    """Raises `NotSent`, with no secret of the channel in it."""
    hide = Redactor(channel.secrets).text
    try:
        with anyio.fail_after(ONE_TRY):
            if channel.webhook:
                await _post(channel, message, hide)
            else:
                await _by_apprise(channel.url, message, hide)
    except TimeoutError:
        raise NotSent(f"there was no answer within {ONE_TRY:g} s") from None


async def _post(channel: ChannelConfig, message: Message, hide: Hide) -> None:
    import httpx2

    body = message.slack() if channel.format == "slack" else message.json()
    headers = {
        "User-Agent": f"sortie/{__version__}",
        "Content-Type": "application/json",
        MESSAGE_ID: message.id,
    }
    if channel.secret:
        headers[SIGNATURE] = signature(channel.secret, body)
    is_local = channel.webhook.lower().startswith("http:")  # no proxy may see what is said in plain text
    try:
        async with (
            httpx2.AsyncClient(
                timeout=httpx2.Timeout(ONE_TRY, connect=CONNECTING), follow_redirects=False, trust_env=not is_local
            ) as client,
            client.stream("POST", channel.webhook, content=body, headers=headers) as response,
        ):
            if not response.is_success:
                raise _refusal(response, await _beginning(response), hide)
    except (httpx2.HTTPError, httpx2.InvalidURL, ImportError, ValueError, OSError) as error:
        reason = f"it cannot be reached: {str(error) or type(error).__name__}"
        raise NotSent(one_line(reason, LONGEST_ERROR, hide)) from None


async def _beginning(response: Response) -> str:
    """What a refusal says, as far as it is worth reading."""
    said = bytearray()
    async for chunk in response.aiter_raw():
        said += chunk
        if len(said) >= LONGEST_ANSWER:
            break
    return said[:LONGEST_ANSWER].decode("utf-8", "replace")


def _refusal(response: Response, said: str, hide: Hide) -> NotSent:
    status = response.status_code
    if status in MOVED:
        return NotSent(f"it answered {status}: it has moved; set its new address")
    after = _seconds_until(response.headers.get("retry-after", "")) if status in (429, 503) else None
    answered = f"it answered {status}{': ' if said.strip() else ''}{said}"
    return NotSent(one_line(answered, LONGEST_ERROR, hide), after)


def _seconds_until(told: str) -> float | None:
    told = told.strip()[:100]
    if told.isdecimal() and told.isascii():
        return float(told)
    try:
        return max(parsedate_to_datetime(told).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


async def _by_apprise(address: str, message: Message, hide: Hide) -> None:
    # Apprise sends in threads of its own; one that hangs is left behind, and ends with this process.
    try:
        complaint = await anyio.to_thread.run_sync(_notify, address, message, abandon_on_cancel=True)
    except Exception as error:
        complaint = f"apprise failed: {error!r}"
    if complaint is not None:
        raise NotSent(one_line(complaint or "apprise could not send it", LONGEST_ERROR, hide))


def _notify(address: str, message: Message) -> str | None:
    """Why it was not sent, None where it was."""
    import apprise

    logging.getLogger("apprise").propagate = False  # there are addresses in what it says
    service: Any = apprise.Apprise.instantiate(address)
    if service is None:
        return "apprise cannot use its address"
    if isinstance(headers := getattr(service, "headers", None), dict):  # those of a mail, or of an HTTP call
        headers[MAIL_ID] = message.id
    everything = apprise.Apprise()
    everything.add(service)
    subject, text = message.chat()
    if address.partition("://")[0].lower() in DESKTOPS:
        text = html.escape(text, quote=False)  # desktops take tags in a text, but not in its subject
    result = everything.notify(
        title=subject, body=text or subject, body_format=apprise.NotifyFormat.TEXT, timeout=ONE_TRY
    )
    if result:
        return None
    return "; ".join(dict.fromkeys(str(entry.message) for entry in result.logs()))
