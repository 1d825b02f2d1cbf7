"""Sending to real receivers: an HTTP server, Slack as somebody else wrote it, a mail server; and to none."""

from __future__ import annotations

import email
import email.policy
import hashlib
import hmac
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from sortie.notify.message import compose
from sortie.notify.send import NotSent, send
from sortie.store.notifications import Notification
from sortie.workflow.channels import ChannelConfig

from .. import npm
from ..servers.scripted import Answer
from .slack_server import SlackServer

# Of what apprise loads, some has been told that it will go.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SECRET = "a-key-that-both-know"
HOSTILE = "<b>bold</b> & <script>alert(1)</script> <!channel> @everyone"


def message(reason: str = "Which colour?", title: str = "Paint it") -> Any:
    asked = Notification(
        seq=7, kind="parked", issue_id="1", identifier="T-1", title=title, text=reason, at=1_700_000_000.0
    )
    return compose("5f3a:ops", [asked], "http://127.0.0.1:7678")


class MailServer:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - its own name
        found = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(found, EmailMessage)
        self.mails.append(found)
        return "250 OK"


@pytest.fixture
def mail() -> Iterator[tuple[MailServer, str]]:
    server = MailServer()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    controller = Controller(server, hostname="127.0.0.1", port=port)
    controller.start()
    yield server, f"mailto://127.0.0.1:{port}?from=sortie@example.com&to=ann@example.com&mode=insecure"
    controller.stop()


@pytest.fixture(scope="module")
def slack() -> Iterator[SlackServer]:
    try:
        server = SlackServer()
    except npm.NotInstalled as problem:
        npm.not_tested(problem)
    with closing(server):
        yield server


async def test_a_webhook_gets_json_that_is_signed_over_every_byte(sink):
    await send(ChannelConfig(webhook=f"{sink.url}/hook?team=a", secret=SECRET), message())
    (asked,) = sink.asked
    proof = hmac.new(SECRET.encode(), asked.body, hashlib.sha256).hexdigest()
    assert (asked.method, asked.path) == ("POST", "/hook?team=a")
    assert asked.headers["X-Sortie-Signature"] == f"sha256={proof}"
    assert asked.headers["Content-Type"] == "application/json"
    assert json.loads(asked.body)["id"] == asked.headers["Idempotency-Key"] == "5f3a:ops:7"


async def test_without_a_secret_nothing_is_signed(sink):
    await send(ChannelConfig(webhook=sink.url), message())
    assert "X-Sortie-Signature" not in sink.asked[0].headers


@npm.TIME_TO_INSTALL
async def test_slack_shows_hostile_text_as_text(slack):
    await send(ChannelConfig(webhook=slack.webhook, format="slack"), message(HOSTILE))
    (shown,) = slack.messages()
    assert shown["text"].splitlines()[0] == "[sortie] T-1 needs an answer: Paint it"
    assert "&lt;!channel&gt;" in shown["text"].replace("\u200b", "")
    assert "<" not in shown["text"]
    assert "@everyone" not in shown["text"]


async def test_a_mail_has_one_subject_and_its_text_is_text(mail):
    server, address = mail
    title = "Paint it\r\nBcc: everybody@example.com"
    await send(ChannelConfig(url=address), message(HOSTILE, title))
    (got,) = server.mails
    assert got["Subject"] == "[sortie] T-1 needs an answer: Paint it Bcc: everybody@example.com"
    assert got["Bcc"] is None
    assert got["To"] == "ann@example.com"
    assert got["X-Sortie-Id"] == "5f3a:ops:7"
    assert got.get_content_type() == "text/plain"
    assert HOSTILE.replace("@", "@\u200b").replace("<!", "<\u200b!") in got.get_content()


async def test_a_mail_that_is_asked_for_as_html_shows_hostile_text_as_text(mail):
    server, address = mail
    await send(ChannelConfig(url=f"{address}&format=html"), message(HOSTILE))
    (got,) = server.mails
    html = got.get_body(("html",))
    assert html is not None
    assert "<script>" not in html.get_content()
    assert "&lt;script&gt;" in html.get_content()


async def test_apprise_sends_what_no_webhook_of_ours_does(sink):
    await send(ChannelConfig(url=sink.url.replace("http://", "json://")), message())
    told = json.loads(sink.asked[0].body)
    assert told["title"] == "[sortie] T-1 needs an answer: Paint it"
    assert sink.asked[0].headers["X-Sortie-Id"] == "5f3a:ops:7"


@pytest.mark.parametrize(
    ("answer", "words", "after"),
    [
        (Answer(500, b"<h1>Sorry</h1>\x1b[31m"), "it answered 500: <h1>Sorry</h1>\\x1b[31m", None),
        (Answer(404, b""), "it answered 404", None),
        (Answer(429, b"", {"Retry-After": "17"}), "it answered 429", 17.0),
        (Answer(429, b"", {"Retry-After": "soon"}), "it answered 429", None),
        (Answer(500, b"x" * 1_000_000), "it answered 500: x", None),
    ],
    ids=["500", "404", "429", "429 without a time", "endless"],
)
async def test_an_answer_is_told_in_one_short_sentence(sink, answer, words, after):
    sink.usual = answer
    channel = ChannelConfig(webhook=sink.url)
    with pytest.raises(NotSent) as failure:
        await send(channel, message())
    assert str(failure.value).startswith(words)
    assert len(str(failure.value)) <= 300
    assert failure.value.after == after


async def test_a_date_says_when_to_try_again(sink):
    in_an_hour = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    sink.usual = Answer(503, b"", {"Retry-After": in_an_hour})
    with pytest.raises(NotSent) as failure:
        await send(ChannelConfig(webhook=sink.url), message())
    assert failure.value.after is not None
    assert 3500 < failure.value.after <= 3600


async def test_a_redirect_takes_nothing_elsewhere(sink):
    sink.script.append(Answer(307, b"", {"Location": f"{sink.url}/elsewhere"}))
    with pytest.raises(NotSent, match="it has moved; set its new address"):
        await send(ChannelConfig(webhook=sink.url, secret=SECRET), message())
    assert len(sink.asked) == 1


@pytest.mark.parametrize(
    "channel",
    [
        ChannelConfig(webhook="http://127.0.0.1:1/services/T0/B0/oneverysecretpart"),
        ChannelConfig(url="json://somebody:oneverysecretpart@127.0.0.1:1/oneverysecretpart"),
        ChannelConfig(url="mailto://somebody:oneverysecretpart@127.0.0.1:1?from=a@example.com&mode=insecure"),
    ],
    ids=lambda channel: channel.kind,
)
async def test_nobody_there_is_an_error_without_the_address(channel, capfd):
    with pytest.raises(NotSent) as failure:
        await send(channel, message())
    out, err = capfd.readouterr()
    assert str(failure.value)
    assert "oneverysecretpart" not in str(failure.value) + out + err + repr(channel)


def test_who_sends_by_webhook_never_loads_apprise():
    program = """if True:
        import sys, anyio
        from sortie.notify import notifier, send, message
        from sortie.store.notifications import Notification
        from sortie.workflow.channels import ChannelConfig
        one = Notification(seq=1, kind="test", issue_id="", identifier="x", title="", text="", at=1.0)
        try:
            anyio.run(send.send, ChannelConfig(webhook="http://127.0.0.1:1/"), message.compose("s:c", [one], ""))
        except send.NotSent:
            print(*sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert "httpx2" in done.stdout.split()
    assert "apprise" not in done.stdout.split()
