"""`sortie token`: made, listed and revoked by people, beside a service or without one; never by an agent."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from sortie.process.identity import RUN_MARK, limit_marked, limit_marker
from sortie.store.lock import held
from tests.web.live_server import new_store

from .scene import ask


@pytest.fixture
def store(scene) -> Path:
    return new_store(scene.directory / ".sortie.db")


@contextmanager
def served(store: Path, url: str = "http://127.0.0.1:8123/") -> Iterator[None]:
    """A service that says of itself where its dashboard is."""
    with held(store, {"pid": 1, **({"dashboard": url} if url else {})}):
        yield


def test_a_link_carries_the_token_and_is_shown_once(scene, say, store):
    with served(store):
        said = say("token", "new")
    assert said.code == 0
    (link,) = said.out.split()
    assert link.startswith("http://127.0.0.1:8123/login?token=")
    token = link.partition("token=")[2]
    assert len(token) == 43
    assert token not in say("token", "list").out + say("token", "list", "--json").out


@pytest.mark.parametrize("url", ["http://[::1]:8100/", "https://sortie.example.com/"])
def test_the_link_leads_to_where_the_service_says_that_it_is(scene, say, store, url):
    with served(store, url):
        assert say("token", "new", "--scope", "read").out.startswith(f"{url}login?token=")
        assert say("token", "new", "--json").json()["link"].startswith(f"{url}login?token=")


@pytest.mark.parametrize("is_held", [True, False], ids=["a service without a dashboard", "no service"])
def test_without_a_dashboard_of_this_store_no_link_leads_to_another(scene, say, store, monkeypatch, is_held):
    """Whoever listens on the port that the workflow names would be sent a token that is not theirs."""
    monkeypatch.delenv("SORTIE_SERVER_PORT", raising=False)
    scene.workflow.write_text(scene.workflow.read_text().replace("agent:", "server: {port: 8100}\nagent:"))
    with served(store, "") if is_held else nullcontext():
        said, told = say("token", "new"), say("token", "new", "--json").json()
    assert said.code == 0
    assert re.fullmatch(r"Authorization: Bearer [\w-]{43}\n", said.out)
    assert said.err == (
        "No dashboard is served for this store now, so there is no link: "
        "start one with `sortie run` and paste the token at /login.\n"
    )
    assert told["link"] is None and len(told["token"]) == 43


def test_the_group_by_itself_says_what_there_is(capsys):
    alone, asked = ask(capsys, "token"), ask(capsys, "token", "--help")
    assert (alone.code, asked.code) == (0, 0)
    assert alone.out == asked.out
    for command, what in (
        ("new", "print a login link, or a bearer token"),
        ("list", "list the tokens and their scopes"),
        ("revoke", "revoke tokens, with immediate effect"),
    ):
        assert re.search(rf"^  {command} +{what}$", alone.out, re.M)


def test_for_figures_there_is_a_bearer_and_no_link(scene, say, store):
    assert say("token", "new", "--scope", "metrics").out.startswith("Authorization: Bearer ")
    assert say("token", "new", "--scope", "metrics", "--json").json()["link"] is None


def test_tokens_are_listed_and_revoked_by_their_ids(scene, say, store):
    assert "There are no tokens" in say("token", "list").out
    made = [say("token", "new", "--scope", scope, "--json").json() for scope in ("read", "operate", "metrics")]
    listed = say("token", "list", "--json").json()
    assert [(one["id"], one["scope"]) for one in listed] == [(one["id"], one["scope"]) for one in made]
    assert made[1]["id"] in say("token", "list").out
    gone = say("token", "revoke", made[0]["id"], made[2]["id"])
    assert (gone.code, gone.out) == (0, "Revoked 2 tokens.\n")
    assert [one["id"] for one in say("token", "list", "--json").json()] == [made[1]["id"]]
    again = say("token", "revoke", made[0]["id"])
    assert again.code == 1
    assert f"there is no token {made[0]['id']}" in again.err
    assert say("token", "revoke", "--all", "--json").json()[0]["id"] == made[1]["id"]
    assert say("token", "list", "--json").json() == []


@pytest.mark.parametrize("arguments", [["revoke"], ["revoke", "abc", "--all"], ["new", "--scope", "everything"]])
def test_what_is_not_meant_is_a_mistake(scene, say, store, arguments):
    assert say("token", *arguments).code == 2


def test_without_a_store_nothing_is_made(scene, say):
    said = say("token", "new")
    assert said.code == 1
    assert "sortie run" in said.err
    assert not (scene.directory / ".sortie.db").exists()


@pytest.mark.parametrize("arguments", [["new"], ["list"], ["revoke", "--all"]])
def test_an_agent_is_refused(scene, store, arguments):
    marked = scene.run("token", *arguments, env={**os.environ, RUN_MARK: "run-1"})
    with limit_marked(limit_marker("store", "run-1")):
        limited = scene.background("token", *arguments)
    _, error = limited.communicate(timeout=30)
    for code, said in ((marked.returncode, marked.stderr), (limited.returncode, error)):
        assert code == 1
        assert "Only a person gives out tokens" in said
        assert "A person does so in a terminal of their own" in said and "work log" not in said


def test_a_store_of_a_plan_has_tokens_too(tmp_path, capsys):
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        """name: p
tasks: [{name: a, objective: do, success_criteria: [done], outputs: [x], agent: {kind: command, command: "true"}}]
"""
    )
    said = ask(capsys, "token", "new", "-w", str(plan))
    assert said.code == 1
    assert "has not been run yet" in said.err
    (tmp_path / "plan.work").mkdir()
    new_store(tmp_path / "plan.work" / ".sortie.db")
    assert ask(capsys, "token", "new", "-w", str(plan)).code == 0
    assert len(ask(capsys, "token", "list", "-w", str(plan), "--json").json()) == 1
