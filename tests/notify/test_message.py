"""What a message says: bounded, on as many lines as it should have, and never obeyed by whoever shows it."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.core import events as ev
from sortie.core.redact import Redactor
from sortie.notify.message import MOST_ITEMS, Message, compose, without_calls
from sortie.notify.notifiable_events import find_notifications
from sortie.store.notifications import Notification

from .scene import parked, seen

DASHBOARD = "http://127.0.0.1:7678"
HOSTILE = [
    "<!channel> <!here> <@U012ABC> <https://evil.example.com|your bank>",
    "@everyone @here @channel @all",
    "[Approve](https://evil.example.com)",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "\x1b[31mred\x1b[0m \x07 \u202egnp.exe \u2066x\u2069",
    "Subject: x\r\nBcc: everybody@example.com\r\n\r\nbody",
    "half \ud800 a pair",
    "a" * 1_000_000,
]


def notification(number: int = 1, **more: str) -> Notification:
    fields = {"kind": "parked", "issue_id": str(number), "identifier": f"T-{number}", "title": "A", "text": "why?"}
    return Notification(seq=number, at=1_700_000_000.0, **{**fields, **more})


def of(text: str, scene) -> Message:
    """What becomes of a text that is everything in an issue that strangers can write."""
    view = ev.View(id="1", identifier=text[:300], title=text, state="To Do")
    asked = ev.Parked(at=time.time(), issue_id="1", identifier=text[:300], park=parked(1, text).park)
    scene.happens(ev.IssueSeen(at=time.time(), issue_id="1", view=view), asked)
    found = find_notifications(scene.db, 0, Redactor(["a-secret-of-ours"]).text)
    return compose("store:ops", found.notifications, DASHBOARD)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_one_bounded_line_without_controls(scene, text):
    message = of(text, scene)
    for part in (message.subject, *message.text().splitlines(), *message.chat()[0].splitlines()):
        assert all(character.isprintable() or character == "\N{ZERO WIDTH SPACE}" for character in part)
    assert "\n" not in message.subject
    assert len(message.subject) <= 150
    assert len(message.text().splitlines()) == 2
    assert len(message.json()) < 6000
    assert len(message.slack()) < 4000
    json.loads(message.json())


def test_no_chat_is_called_together_and_no_link_is_disguised(scene):
    text = " ".join(HOSTILE[:3])
    message = of(text, scene)
    slack = json.loads(message.slack())
    assert "<" not in slack["text"]
    assert slack["link_names"] is slack["mrkdwn"] is False
    for words in (*message.chat(), slack["text"]):
        for call in ("@everyone", "@here", "@channel", "@all", "<!", "<@", "]("):
            assert call not in words
    assert json.loads(message.json())["title"].startswith(text[:100]), "for programs text is data, as it is"


def test_secrets_are_not_told(scene):
    assert "a-secret-of-ours" not in of(f"{'x' * 190}a-secret-of-ours", scene).json().decode()


def test_one_notification_is_told_with_its_reason_and_its_page():
    message = compose("store:ops", [notification(title="Paint it", text="Which colour?")], DASHBOARD)
    assert message.subject == "[sortie] T-1 needs an answer: Paint it"
    assert message.text() == f"Which colour?\n{DASHBOARD}/issues/T-1"
    assert json.loads(message.json()) == {
        "id": "store:ops:1",
        "event": "parked",
        "issue": "T-1",
        "title": "Paint it",
        "reason": "Which colour?",
        "url": f"{DASHBOARD}/issues/T-1",
        "at": "2023-11-14T22:13:20Z",
    }


def test_an_identifier_does_not_lead_the_link_astray():
    message = compose("store:ops", [notification(identifier="../../x?y#z")], DASHBOARD)
    assert message.text().splitlines()[1] == f"{DASHBOARD}/issues/..%2F..%2Fx%3Fy%23z"


@pytest.mark.parametrize("name", [".", "..", "", "two\nlines"])
def test_a_name_that_no_path_can_hold_is_linked_as_the_dashboard_links_it(name):
    """A browser takes dots for a way up, and no route has a line end in it."""
    message = compose("store:ops", [notification(identifier=name)], DASHBOARD)
    assert message.items[0].url == f"{DASHBOARD}/issues/?named={quote(name)}"


def test_without_a_dashboard_there_is_no_link():
    assert compose("store:ops", [notification()], "").text() == "why?"


def test_a_digest_has_an_id_of_its_own_and_each_item_its_own():
    message = compose("store:ops", [notification(number) for number in (3, 4, 7)], "")
    told = json.loads(message.json())
    assert (told["id"], told["event"], told["more"]) == ("store:ops:3-7", "digest", 0)
    assert [item["id"] for item in told["items"]] == ["store:ops:3", "store:ops:4", "store:ops:7"]


def test_a_digest_is_bounded_whatever_it_is_about():
    message = compose("s:c", [notification(n, title="t" * 300, text="x" * 2000) for n in range(1000)], DASHBOARD)
    assert message.count == 1000
    assert message.text().endswith("\nand 980 more")
    assert len(message.text()) < 12_000
    assert len(json.loads(message.json())["items"]) == MOST_ITEMS


@given(st.text())
def test_to_break_calls_adds_nothing_that_is_seen(text):
    broken = without_calls(text)
    assert broken.replace("\u200b", "") == text.replace("\u200b", "")
    assert without_calls(broken) == broken


def test_an_event_that_cannot_be_read_hides_no_other(scene):
    scene.happens(seen(1))
    scene.execute("INSERT INTO events (at, kind, data) VALUES (1, 'settle', '{')")
    scene.parks(2)
    assert [found.identifier for found in find_notifications(scene.db, 0, str).notifications] == ["T-2"]
