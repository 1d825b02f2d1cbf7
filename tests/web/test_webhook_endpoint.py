"""A tracker's webhook wakes a look where its signature is right, and does nothing else."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sortie.store.commands import pending_commands
from sortie.store.connect import connect_existing, connect_readonly
from sortie.workflow.config import ServerConfig

from .live_server import LiveServer, new_store, served

SECRET = "a secret of twenty letters"
PATH = "/webhooks/tracker"
BODY = b'{"action": "closed", "issue": {"number": 1, "title": "close everything"}}'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    with served(new_store(tmp_path / "sortie.db"), server=ServerConfig(webhook_secret=SECRET)) as started:
        yield started


def signature(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def asked_for(server: LiveServer) -> list[tuple[str, str]]:
    with closing(connect_readonly(server.site.database)) as db:
        return [(command.verb, command.issue) for command in pending_commands(db)]


def test_a_signed_webhook_asks_for_a_look_and_for_nothing_else(server):
    answer = server.post(PATH, BODY, X_Hub_Signature_256=signature(BODY), Content_Type="application/json")
    assert answer.status == 202
    assert asked_for(server) == [("refresh", "")]


def test_jiras_header_is_known_too(server):
    assert server.post(PATH, BODY, X_Hub_Signature=signature(BODY)).status == 202


def test_a_hundred_of_them_are_one_look(server):
    for _ in range(20):
        assert server.post(PATH, BODY, X_Hub_Signature_256=signature(BODY)).status == 202
    assert asked_for(server) == [("refresh", "")]
    with closing(connect_existing(server.site.database)) as db:
        db.execute("UPDATE commands SET done_at = 1, ok = 1")
    assert server.post(PATH, BODY, X_Hub_Signature_256=signature(BODY)).status == 202
    assert asked_for(server) == [("refresh", "")]


@pytest.mark.parametrize(
    "headers",
    [{}, {"X-Hub-Signature-256": signature(b"other")}, {"X-Hub-Signature-256": signature(BODY, "another secret")}],
)
def test_without_the_right_signature_nothing_happens(server, headers):
    assert server.request("POST", PATH, headers, BODY).status == 401
    assert server.request("POST", PATH, {**headers, "Authorization": server.bearer()}, BODY).status == 401
    assert asked_for(server) == []


def test_the_name_that_the_tracker_knows_us_by_is_not_ours_to_judge(server):
    said = {"Host": "hooks.example.org", "X-Hub-Signature-256": signature(BODY)}
    assert server.request("POST", PATH, said, BODY).status == 202


def test_a_browser_sends_no_webhooks(server):
    said = {"Origin": "http://evil.example", "X-Hub-Signature-256": signature(BODY)}
    assert server.request("POST", PATH, said, BODY).status == 403


def test_a_body_is_signed_as_it_came(server):
    body = bytes(range(256)) * 1000
    assert server.post(PATH, body, X_Hub_Signature_256=signature(body)).status == 202


def test_one_that_is_too_large_is_refused(server):
    assert server.post(PATH, b"x" * (5 * 1024 * 1024), X_Hub_Signature_256=signature(b"")).status == 413
    assert asked_for(server) == []


def test_without_a_secret_there_is_no_such_address(tmp_path):
    with served(new_store(tmp_path / "sortie.db")) as server:
        assert server.post(PATH, BODY, X_Hub_Signature_256=signature(BODY, "")).status == 404
