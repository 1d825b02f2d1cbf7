"""Tokens: what counts, from when to when, and that nothing about them can be learned from outside."""

from __future__ import annotations

import hmac
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from sortie.protocol.signature import signature
from sortie.store.connect import connect_readonly
from sortie.store.web_tokens import Scope, remove_tokens, tokens
from sortie.trackers.webhooks import is_authentic
from sortie.web.authentication import Authentication
from sortie.web.site import Site
from sortie.web.tokens import covers, digest_of, first_link, granted, new_token
from sortie.workflow.config import ServerConfig, TokensConfig
from tests.store.sample import noted

from .event_reader import listening
from .live_server import LiveServer, append, new_store, served, serving

COMMANDS = "/api/v2/commands"
JSON = "application/json"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return new_store(tmp_path / "sortie.db", noted("begun"))


def asking_always(store: Path) -> Site:
    """One that believes no answer of a moment ago about a token."""
    return Site(store, store.parent / "WORKFLOW.md", tokens_stand_for=0.0)


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
    with serving(asking_always(store)) as server:
        shown = {"Cookie": server.cookie(scope)} if shows == "cookie" else {"Authorization": server.bearer(scope)}
        with listening(server, X_Forwarded_For="192.0.2.7", **shown) as reader, listening(server) as near:
            reader.until("stale")
            append(store, noted("before"))
            assert [one.data["text"] for one in reader.changes(1)] == ["before"]
            remove_tokens(store, None)
            append(store, noted("after"))
            assert [one.event for one in reader.messages()] == [], "it ends, without a word of what came after"
            assert [one.data["text"] for one in near.changes(2)] == ["before", "after"]


def test_who_opened_a_stream_here_by_a_token_that_is_revoked_does_not_keep_it(store):
    """As any request with it is refused, though looking is free here."""
    with serving(asking_always(store)) as server, listening(server, Authorization=server.bearer("read")) as reader:
        reader.until("stale")
        remove_tokens(store, None)
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


# -- comparing ----------------------------------------------------------------------------------------------------


def _refuse(*_: object) -> Any:
    raise AssertionError("a secret is compared as any value is")


class SecretBytes(bytes):
    """It may be compared in constant time alone: any other way takes longer the more of it fits."""

    __eq__ = __ne__ = __lt__ = __hash__ = _refuse


class Secret(str):
    __eq__ = __ne__ = __lt__ = __hash__ = _refuse

    def strip(self, *_: Any) -> Secret:
        return Secret(super().strip())

    def encode(self, *how: str) -> SecretBytes:
        return SecretBytes(super().encode(*how))


@contextmanager
def comparisons() -> Iterator[list[None]]:
    """As long as there were comparisons in constant time meanwhile, in this thread."""
    made: list[None] = []

    def called(_: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and function is hmac.compare_digest:
            made.append(None)

    sys.setprofile(called)
    try:
        yield made
    finally:
        sys.setprofile(None)


def test_any_other_comparison_is_seen():
    secret, other = Secret("secret"), "secret"
    for compare in (
        lambda: secret == other,
        lambda: other == secret,
        lambda: secret != other,
        lambda: secret in [other],
        lambda: secret in {other: 1},
        lambda: secret.strip().encode() == other.encode(),
        lambda: other.encode() == secret.encode(),
    ):
        with pytest.raises(AssertionError):
            compare()


@pytest.mark.parametrize(("token", "scope"), [("right", "read"), ("none of them", None)])
def test_a_token_is_compared_with_every_digest_in_constant_time(token, scope):
    known: list[tuple[str, Scope]] = [(Secret(digest_of(name)), "read") for name in ("first", "right", "last")]
    with comparisons() as made:
        assert granted(token, known) == scope
    assert len(made) == 3


async def test_whoever_stands_at_the_door_compares_as_that_does(store):
    made_before = [new_token(store, "read") for _ in range(3)]
    authentication = Authentication(Site(store, store.parent / "WORKFLOW.md"))
    for token, scope in ((made_before[1], "read"), ("none of them", None)):
        with comparisons() as made:
            assert await authentication.scope_lately(token) == scope
        assert len(made) == 3


@pytest.mark.parametrize("secret", ["right", "wrong"])
def test_a_signature_is_compared_in_constant_time(secret):
    shown = {"X-Hub-Signature-256": Secret(signature(secret, b"body"))}
    with comparisons() as made:
        assert is_authentic("right", shown, b"body") == (secret == "right")
    assert len(made) == 1
