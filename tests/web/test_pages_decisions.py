"""Buttons of the pages: a row for the service, its reply on the page one comes back to, and nothing done twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from sortie.store.commands import pending_commands
from sortie.store.connect import connect_existing
from sortie.store.lock import held
from sortie.web.pages.commands import SentForms
from sortie.web.replies import MOST, Replies, Shown
from sortie.web.tokens import new_token

from .busy_store import busy_events
from .live_server import Answer, LiveServer, new_store, served
from .page_text import Page


@pytest.fixture
def server(tmp_path):
    with served(new_store(tmp_path / "sortie.db", *busy_events(time.time()))) as server:
        yield server


def press(server: LiveServer, issue: str, verb: str, scope: str = "operate", **fields: str) -> Answer:
    headers = {"origin": server.url, "content-type": "application/x-www-form-urlencoded", "accept": "text/html"}
    if scope:
        headers["authorization"] = f"Bearer {new_token(server.site.database, scope)}"  # type: ignore[arg-type]
    return server.request("POST", f"/issues/{issue}/{verb}", headers, urlencode(fields))


def commands(server: LiveServer) -> list[tuple[str, str, str]]:
    with server.site.looking() as db:
        return [(row.verb, row.issue, row.text) for row in pending_commands(db)]


def reply(server: LiveServer, answer: Answer) -> str:
    assert answer.status == 303, answer.text
    page = Page(server.get(answer.headers["location"]).text)
    assert [one for one in page.named("p") if "reply" in one.get("class", "").split()]
    return page.text


@contextmanager
def answering(store: Path, ok: bool, outcome: str) -> Iterator[None]:
    """A service that does nothing but answer."""
    over = threading.Event()

    def answer() -> None:
        with closing(connect_existing(store)) as db:
            while not over.wait(0.01):
                said = (time.time(), outcome, int(ok))
                db.execute("UPDATE commands SET done_at = ?, outcome = ?, ok = ? WHERE done_at IS NULL", said)

    thread = threading.Thread(target=answer)
    with held(store, {"pid": 1}):
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize("verb", ["stop", "retry", "unpark", "start"])
def test_a_button_leaves_a_command_and_leads_back_to_the_issue(server, verb):
    answer = press(server, "SHOP-20", verb)
    assert answer.headers["location"].startswith("/issues/SHOP-20?reply=")
    assert "the command is carried out when sortie run starts it" in reply(server, answer)
    assert commands(server) == [(verb, "SHOP-20", "")]


def test_the_reply_of_the_service_is_shown_where_the_button_was(server):
    with answering(server.site.database, True, "SHOP-20 is free to start again.\x1b[2J<b>"):
        answer = press(server, "SHOP-20", "unpark", back="/")
        assert answer.headers["location"].startswith("/?reply=")
        assert "SHOP-20 is free to start again.<b>" in reply(server, answer)


def test_a_refusal_of_the_service_is_shown_as_one(server):
    with answering(server.site.database, False, "SHOP-1 is not parked."):
        page = Page(server.get(press(server, "SHOP-1", "unpark").headers["location"]).text)
    assert [one["data-ok"] for one in page.named("p") if "data-ok" in one] == ["false"]
    assert "SHOP-1 is not parked." in page.text


def test_an_answer_reaches_the_service_as_it_was_written(server):
    text = "Take the first.\n\n<b>& keep\tthe column</b> ☃"
    press(server, "SHOP-20", "answer", text=text.replace("\n", "\r\n"))
    assert commands(server) == [("answer", "SHOP-20", text)]


@pytest.mark.parametrize(("text", "words"), [("  \n", "is empty"), ("x" * 70_000, "longer than 64 KiB")])
def test_what_is_no_answer_is_refused_and_leaves_nothing(server, text, words):
    assert words in reply(server, press(server, "SHOP-20", "answer", text=text))
    assert commands(server) == []


def test_clicking_twice_is_the_same_as_once(server):
    for _ in range(3):
        press(server, "SHOP-20", "answer", text="The first.", once="form-1")
        press(server, "SHOP-1", "stop", once="form-2")
    assert commands(server) == [("answer", "SHOP-20", "The first."), ("stop", "SHOP-1", "")]
    press(server, "SHOP-20", "answer", text="No, the second.", once="form-1")
    assert len(commands(server)) == 3, "who went back to the same form and wrote something else means it"


@pytest.mark.parametrize("forms", [("form-1", "form-2", "form-3"), ("", "", "")], ids=["other forms", "a script"])
def test_what_is_decided_once_more_is_done_once_more(server, forms):
    for verb, form in zip(("stop", "unpark", "stop"), forms, strict=True):
        press(server, "SHOP-20", verb, **({"once": form} if form else {}))
    assert [verb for verb, _, _ in commands(server)] == ["stop", "unpark", "stop"]


def test_a_click_on_two_threads_is_one_command(server):
    with server.site.looking() as db, ThreadPoolExecutor(8) as threads:
        db.execute("SELECT count(*) FROM commands")  # as with a service, the store stays open
        list(threads.map(lambda _: press(server, "SHOP-20", "stop", once="form-1"), range(8)))
    assert commands(server) == [("stop", "SHOP-20", "")]


def test_every_form_of_a_page_is_sent_once(server):
    operator = {"authorization": server.bearer()}
    given: list[str] = []
    for path in ("/", "/", "/issues/SHOP-20", "/issues/SHOP-1"):
        page = Page(server.get(path, **operator).text)
        forms = [
            one for one in page.named("form") if one.get("action", "").startswith("/issues/") and "method" in one
        ]
        onces = [one["value"] for one in page.named("input") if one.get("name") == "once"]
        assert len(onces) == len([one for one in forms if one["method"] == "post"]) > 0
        given += onces
    assert len({*given}) == len(given)


def test_of_many_forms_the_newest_are_remembered(server):
    sent = SentForms(most=2)
    for number in (1, 2, 3, 3, 1):
        sent.command(server.site, f"form-{number}", "stop", f"SHOP-{number}", "")
    assert [issue for _, issue, _ in commands(server)] == ["SHOP-1", "SHOP-2", "SHOP-3", "SHOP-1"]


@pytest.mark.parametrize(
    "back",
    [
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
        "/runs",
        "javascript:1",
        "/issues/a\r\nSet-Cookie: x",
    ],
)
def test_a_button_leads_back_to_pages_of_ours_alone(server, back):
    answer = press(server, "SHOP-20", "unpark", back=back)
    assert answer.headers["location"].startswith("/issues/SHOP-20?reply=")
    assert "set-cookie" not in answer.headers


def test_a_button_leads_back_to_where_one_was_in_a_list(server):
    answer = press(server, "SHOP-20", "unpark", back="/?needs=2&ready=3")
    assert answer.headers["location"].startswith("/?needs=2&ready=3&reply=")


@pytest.mark.parametrize("scope", ["", "read", "metrics"])
def test_who_may_not_operate_changes_nothing(server, scope):
    assert press(server, "SHOP-20", "unpark", scope).status in (401, 403)
    assert commands(server) == []


def test_a_command_that_nobody_knows_and_an_issue_that_nobody_knows(server):
    assert press(server, "SHOP-20", "explode").status == 404
    assert (
        "NOPE is not known here." in Page(server.get(press(server, "NOPE", "stop").headers["location"]).text).text
    )
    assert commands(server) == []


def test_a_body_that_is_no_form_is_an_empty_one(server):
    headers = {"origin": server.url, "authorization": f"Bearer {new_token(server.site.database, 'operate')}"}
    answer = server.request("POST", "/issues/SHOP-20/answer", headers, b"\xff\xfe\x00{" * 1000)
    assert "is empty" in reply(server, answer)
    many = "&".join(f"a{number}=1" for number in range(1000))
    assert "is empty" in reply(server, server.request("POST", "/issues/SHOP-20/answer", headers, many))


def test_a_store_that_is_only_looked_at_takes_no_commands(tmp_path):
    with served(new_store(tmp_path / "sortie.db", *busy_events(time.time())), read_only=True) as server:
        assert press(server, "SHOP-20", "unpark").status == 403
        assert commands(server) == []
        assert Page(server.get("/issues/SHOP-20").text).named("textarea") == []


def test_of_many_replies_the_newest_are_kept():
    replies = Replies()
    names = [replies.keep(Shown(True, str(number))) for number in range(MOST + 5)]
    assert replies.shown(names[0]) is None
    assert replies.shown(names[-1]) == Shown(True, str(MOST + 4))
    assert replies.shown("") is None
