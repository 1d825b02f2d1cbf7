"""Tokens: what counts, from when to when, and that nothing about them can be learned from outside."""

from __future__ import annotations

import ast
import inspect
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sortie.store.connect import connect_readonly
from sortie.store.web_tokens import remove_tokens, tokens
from sortie.trackers import webhooks
from sortie.web import doorman
from sortie.web import tokens as web_tokens
from sortie.web.doorman import LATELY
from sortie.web.tokens import covers, digest_of, first_link, granted, new_token
from sortie.workflow.config import ServerConfig, TokensConfig
from tests.store.sample import noted

from .event_reader import listening
from .live_server import LiveServer, append, new_store, served

COMMANDS = "/api/v2/commands"
JSON = "application/json"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return new_store(tmp_path / "sortie.db", noted("begun"))


def status(server: LiveServer, token: str) -> int:
    return server.post(COMMANDS, b'{"verb": "refresh"}', Authorization=f"Bearer {token}", Content_Type=JSON).status


def test_a_revoked_token_stops_at_once_as_bearer_and_as_cookie(store):
    with served(store) as server:
        token, cookie = new_token(store, "operate"), server.cookie()
        assert status(server, token) == 202
        remove_tokens(store, None)
        assert status(server, token) == 401
        assert server.get("/api/v2/issues", Authorization=f"Bearer {token}").status == 401
        said = {"Cookie": cookie, "Origin": server.url, "Content-Type": JSON}
        assert server.request("POST", COMMANDS, said, b'{"verb": "refresh"}').status == 401
        # Looking on loopback needs none, so an old cookie is no obstacle.
        assert server.get("/", Cookie=cookie).status == 200


@pytest.mark.parametrize("scope", ["read", "operate"])
@pytest.mark.parametrize("shows", ["bearer", "cookie"])
def test_a_revoked_token_ends_the_streams_it_opened(store, scope, shows):
    """Of somebody elsewhere, who may not listen without one."""
    with served(store) as server:
        shown = {"Cookie": server.cookie(scope)} if shows == "cookie" else {"Authorization": server.bearer(scope)}
        with listening(server, X_Forwarded_For="192.0.2.7", **shown) as reader, listening(server) as near:
            reader.until("stale")
            append(store, noted("before"))
            assert [one.data["text"] for one in reader.changes(1)] == ["before"]
            remove_tokens(store, None)
            time.sleep(LATELY)
            append(store, noted("after"))
            assert [one.event for one in reader.messages()] == [], "it ends, without a word of what came after"
            assert [one.data["text"] for one in near.changes(2)] == ["before", "after"]


def test_who_opened_a_stream_here_by_a_token_that_is_revoked_does_not_keep_it(store):
    """As any request with it is refused, though looking is free here."""
    with served(store) as server, listening(server, Authorization=server.bearer("read")) as reader:
        reader.until("stale")
        remove_tokens(store, None)
        time.sleep(LATELY)
        append(store, noted("after"))
        assert [one.event for one in reader.messages()] == []


def test_only_the_named_ones_are_revoked(store):
    with served(store) as server:
        kept, gone = new_token(store, "operate"), new_token(store, "operate")
        remove_tokens(store, [digest_of(gone)[:12]])
        assert (status(server, kept), status(server, gone)) == (202, 401)


def test_tokens_that_the_workflow_names_count_too(store):
    named = ServerConfig(tokens=TokensConfig(read="r" * 20, operate="o" * 20, metrics="m" * 20))
    with served(store, host="0.0.0.0", server=named) as server:
        assert status(server, "o" * 20) == 202
        assert status(server, "r" * 20) == status(server, "m" * 20) == 403
        assert server.get("/metrics", Authorization=f"Bearer {'m' * 20}").status == 200
        assert server.get("/", Authorization=f"Bearer {'m' * 20}").status == 403
        assert server.get("/", Authorization=f"bearer   {'r' * 20}").status == 200


def test_nothing_but_a_bearer_is_a_proof(store):
    with served(store) as server:
        token = new_token(store, "operate")
        for said in (f"Basic {token}", token, f"Token {token}", "Bearer", "Bearer ", f"Bearer {token} x"):
            assert server.post(COMMANDS, Authorization=said).status == 401
        assert server.post(f"{COMMANDS}?token={token}").status == 401
        assert server.post(COMMANDS, X_Token=token).status == 401


def test_a_token_can_be_pasted_into_the_form(store):
    with served(store) as server:
        said = {"Origin": server.url, "Content-Type": "application/x-www-form-urlencoded"}
        answer = server.request("POST", "/login", said, f"token={new_token(store, 'read')}".encode())
        assert (answer.status, answer.headers["location"]) == (303, "/")
        assert "HttpOnly" in answer.headers["set-cookie"]
        assert server.request("POST", "/login", said, b"token=wrong").status == 401


def test_a_token_for_figures_is_no_way_in(store):
    with served(store) as server:
        answer = server.get(f"/login?token={new_token(store, 'metrics')}")
        assert answer.status == 403
        assert "set-cookie" not in answer.headers


def test_the_first_link_is_made_once_and_lets_in(store):
    with served(store) as server:
        link = first_link(store, f"{server.url}/")
        assert link is not None and link.startswith(f"{server.url}/login?token=")
        assert server.get(link.removeprefix(server.url)).status == 303
        assert first_link(store, server.url) is None


def test_the_store_has_digests_and_no_token(store):
    token = new_token(store, "operate")
    with closing(connect_readonly(store)) as db:
        (row,) = tokens(db)
    assert row.digest == digest_of(token)
    files = [path.read_bytes() for path in store.parent.iterdir() if path.is_file()]
    assert not any(token.encode() in content for content in files)


def test_tokens_are_long_and_never_the_same(store):
    made = {new_token(store, "read") for _ in range(20)}
    assert len(made) == 20
    assert all(len(token) >= 43 for token in made)


def test_a_store_that_cannot_be_read_opens_nothing(tmp_path):
    store = new_store(tmp_path / "sortie.db")
    with served(store) as server:
        token = new_token(store, "operate")
        with closing(sqlite3.connect(store)) as db:
            db.execute("DROP TABLE web_tokens")
        assert status(server, token) == 401


@pytest.mark.parametrize(
    ("scope", "wanted", "is_enough"),
    [
        ("operate", "operate", True), ("operate", "read", True), ("operate", "metrics", True),
        ("read", "operate", False), ("read", "read", True), ("read", "metrics", True),
        ("metrics", "operate", False), ("metrics", "read", False), ("metrics", "metrics", True),
        (None, "operate", False), (None, "read", False), (None, "metrics", False),
    ],
)  # fmt: skip
def test_what_each_scope_covers(scope, wanted, is_enough):
    assert covers(scope, wanted) is is_enough


def test_of_one_token_with_two_scopes_the_stronger_counts():
    digest = digest_of("same")
    assert granted("same", [(digest, "read"), (digest, "operate"), (digest, "metrics")]) == "operate"
    assert granted("x" * 5000, [(digest_of("x" * 5000), "operate")]) is None


def compared_in(module: Any) -> tuple[set[str], int]:
    """Names that are compared with == or != or looked for with `in`, and how often `compare_digest` is called."""
    tree = ast.parse(inspect.getsource(module))
    compared: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq | ast.In) for op in node.ops):
            for side in (node.left, *node.comparators):
                compared |= {
                    ast.unparse(part) for part in ast.walk(side) if isinstance(part, ast.Name | ast.Attribute)
                }
    return compared, ast.unparse(tree).count("hmac.compare_digest(")


@pytest.mark.parametrize("module", [web_tokens, doorman, webhooks])
def test_no_digest_is_compared_but_in_constant_time(module):
    compared, _ = compared_in(module)
    assert not compared & {"token", "digest", "one", "row.digest", "proof", "given", "secret"}


def test_tokens_and_signatures_are_compared_in_constant_time():
    assert compared_in(web_tokens)[1] == 1
    assert compared_in(webhooks)[1] == 1


def test_every_known_digest_is_compared_whether_one_fits_or_not():
    seen: list[str] = []

    def known() -> Any:
        for name in ("first", "right", "last"):
            seen.append(name)
            yield digest_of(name), "read"

    assert granted("right", known()) == "read"
    assert granted("none of them", known()) is None
    assert seen == ["first", "right", "last"] * 2
