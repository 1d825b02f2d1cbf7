"""Commands over HTTP: they reach the service as rows, and its reply comes back with the answer or is asked for."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import get_args

import pytest

from sortie.core import events as ev
from sortie.core import operator
from sortie.core.operator import LONGEST_ANSWER
from sortie.engine.operator_commands import ANSWER, REFRESH
from sortie.sources import plan_commands
from sortie.store.commands import CommandRow, pending_commands
from sortie.store.connect import connect_existing
from sortie.web.api_v2_commands import Verb
from sortie.web.pages.commands import ISSUE_VERBS, TASK_VERBS
from sortie.web.tokens import new_token

from .api_scene import busy_server
from .live_server import DEADLINE, Answer, LiveServer, append

ROOT = "/api/v2"


@pytest.fixture
def server(tmp_path) -> Iterator[LiveServer]:
    with busy_server(tmp_path) as started:
        yield started


def command(server: LiveServer, body: str, *, wait: float = 0.0) -> Answer:
    token = new_token(server.site.database, "operate")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return server.request("POST", f"{ROOT}/commands?wait={wait}", headers, body)


def next_command(server: LiveServer) -> CommandRow:
    """What a service would find, once it is there."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        with server.site.looking() as db:
            if waiting := pending_commands(db):
                return waiting[0]
        time.sleep(0.005)
    raise AssertionError("no command came")


def test_a_command_reaches_the_service_as_it_was_said(server):
    given = command(server, '{"verb": "answer", "issue": "D-4", "text": "use <b>this</b> key"}')
    assert given.status == 202
    assert (given.json["done"], given.json["ok"], given.json["outcome"]) == (False, None, "")
    left = next_command(server)
    assert (left.verb, left.issue, left.text) == ("answer", "D-4", "use <b>this</b> key")


def test_what_can_be_asked_for_is_what_the_service_knows():
    known = {ANSWER, REFRESH, *operator.VERBS, *plan_commands.VERBS}
    assert {*get_args(Verb)} == known
    assert {*ISSUE_VERBS, *TASK_VERBS} == known - {REFRESH}


@pytest.mark.parametrize("verb", plan_commands.VERBS)
def test_what_a_person_decides_about_a_task_reaches_the_service(server, verb):
    assert command(server, json.dumps({"verb": verb, "issue": "one"})).status == 202
    assert next_command(server).verb == verb


@pytest.mark.parametrize("character", ["x", "é", "\N{GRINNING FACE}"])
def test_an_answer_is_as_long_as_the_service_takes_and_no_longer(server, character):
    text = character * (LONGEST_ANSWER // len(character.encode()))
    assert command(server, json.dumps({"verb": "answer", "issue": "D-4", "text": text})).status == 202
    assert next_command(server).text == text
    refused = command(server, json.dumps({"verb": "answer", "issue": "D-4", "text": text + character}))
    assert (refused.status, refused.code) == (422, "invalid_body")
    assert "longer than 64 KiB" in refused.json["error"]["message"]


def test_the_reply_comes_with_the_answer_where_it_comes_in_time(server):
    def reply() -> None:
        waiting = next_command(server)
        append(
            server.site.database,
            ev.Commanded(at=1.0, issue_id="1", command_id=waiting.id, verb="stop", outcome="It stops.", ok=True),
        )

    service = threading.Thread(target=reply)
    service.start()
    given = command(server, '{"verb": "stop", "issue": "D-1"}', wait=5)
    service.join(DEADLINE)
    assert (given.status, given.json["done"], given.json["ok"]) == (202, True, True)
    assert given.json["outcome"] == "It stops."


def test_a_reply_that_comes_later_is_asked_for(server):
    number = command(server, '{"verb": "retry", "issue": "nobody"}').json["id"]
    assert server.get(f"{ROOT}/commands/{number}").json["done"] is False
    refused = ev.Commanded(at=1.0, command_id=number, verb="retry", outcome="nobody is not known", ok=False)
    append(server.site.database, refused)
    state = server.get(f"{ROOT}/commands/{number}").json
    assert (state["done"], state["ok"], state["outcome"]) == (True, False, "nobody is not known")


def test_a_reply_is_not_forgotten_because_somebody_else_wants_the_same(server):
    """Webhooks ask for looks all the time, and what they asked for is not kept for ever."""
    number = command(server, '{"verb": "refresh"}').json["id"]
    done = ev.Commanded(at=time.time(), command_id=number, verb="refresh", outcome="It looks.", ok=True)
    append(server.site.database, done)
    assert server.request("POST", "/api/v1/refresh").status == 202
    assert server.get(f"{ROOT}/commands/{number}").json["outcome"] == "It looks."


def test_nothing_is_asked_of_the_service_without_a_token(server):
    headers = {"Content-Type": "application/json"}
    refused = server.request("POST", f"{ROOT}/commands", headers, '{"verb": "stop", "issue": "D-1"}')
    assert refused.status == 401
    with server.site.looking() as db:
        assert pending_commands(db) == []


def test_a_store_that_takes_no_command_is_said_to_be_what_it_is(server):
    headers = {"Authorization": server.bearer(), "Content-Type": "application/json"}
    with closing(connect_existing(server.site.database)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = server.request("POST", f"{ROOT}/commands", headers, '{"verb": "refresh"}')
        assert server.get(f"{ROOT}/inbox").status == 200, "reading goes on meanwhile"
    assert (refused.status, refused.code) == (503, "store_unavailable")
    assert refused.json["error"]["message"].startswith("The store cannot be used: ")
    assert "is kept busy by another program" in refused.json["error"]["message"]


def test_a_site_that_only_looks_takes_no_commands(tmp_path):
    with busy_server(tmp_path, read_only=True) as server:
        refused = command(server, '{"verb": "stop", "issue": "D-1"}')
        assert (refused.status, refused.json["error"]["code"]) == (403, "read_only")
