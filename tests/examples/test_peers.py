"""The session among the examples plays as its page says, in a repository of its own; the demo embeds it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .embedded import PEERS

README = (PEERS.example / "README.md").read_text("utf-8")
SCRIPT = (PEERS.example / "session.sh").read_text("utf-8")
# Whoever runs the tests may be an agent, and the session has a person in it.
ENVIRON = {
    "PATH": "/usr/bin:/bin",
    "HOME": os.environ.get("HOME", "/"),
    "LANG": "C.UTF-8",
    "COLUMNS": "100",
    "SORTIE": f"{sys.executable} -m sortie",
}


def run(place: Path, *command: str, code: int = 0, **environ: str) -> str:
    done = subprocess.run(
        command,
        cwd=place,
        env={**ENVIRON, **environ},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def sortie(place: Path, *words: str, code: int = 0) -> str:
    return run(place, sys.executable, "-m", "sortie", *words, code=code)


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of somebody, in which the example lies as it lies in ours; the session was played there."""
    around = tmp_path_factory.mktemp("around")
    run(around, "git", "init", "--quiet", "--initial-branch=main", ".")
    shutil.copytree(PEERS.example, around / "peers")
    run(around, "git", "add", "--all")
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    run(around, "git", *identity, "commit", "--quiet", "-m", "start")
    # As in a hook, where git says which repository is meant.
    run(around / "peers", "./session.sh", GIT_DIR=str(around / ".git"), GIT_WORK_TREE=str(around))
    return around


@pytest.fixture(scope="module")
def place(around: Path) -> Path:
    return around / "peers"


def test_the_demo_embeds_it_as_it_is():
    assert PEERS.contents(PEERS.copy) == PEERS.contents(PEERS.example), "run: python -m tests.examples.embedded"


def test_its_page_names_the_commands_of_the_script():
    """LOG-11: every turn is something that a person types."""
    typed = re.findall(r"^run \d '(.*?)'", SCRIPT, re.M)
    named = [
        cell
        for line in README.splitlines()
        if line.startswith("| `")
        for cell in re.findall(r"`sortie (.*?)`", line)
    ]
    for command in named:
        assert any(one.startswith(command.removesuffix(" …")) for one in typed), command
    assert [one for one in typed if one.startswith("turn ") and "--next" not in one] == [
        one for one in named if one.startswith("turn ") and "--next" not in one
    ]


def test_the_session_has_all_that_its_page_promises(place):
    """LOG-01 LOG-02 LOG-12: a handoff, an objection, a decision, a lane, a P0 message: each is in the log."""
    events = json.loads(sortie(place, "worklog", "events", "--json"))
    told = {(event["actor"], event["event_type"]) for event in events}
    assert {("ada", "handoff.posted"), ("ben", "objection.raised"), ("Maintainer", "decision.recorded")} <= told
    escalated = [event["payload"] for event in events if event["event_type"] == "escalation.requested"]
    assert [bool(one["message_id"]) for one in escalated] == [False, True], "the lane, then the message, once"
    log = (place / "WORKLOG.md").read_text("utf-8")
    assert log.index("Now Working (ada): idle") < log.index("## Decision Index") < log.index("### ")
    assert json.loads(sortie(place, "mailbox", "list", "--all", "--json"))[0]["disposition"] == "resolved"


def test_what_was_taken_back_is_kept(place):
    """LOG-08: a file has one owner, and the page is ben's."""
    kept = run(place, "git", "show", "refs/sortie/reverted/3:docs/greet.md")
    assert "It speaks the language of LANG." in kept
    assert "It speaks" not in run(place, "git", "log", "-p", "--", "docs")
    assert run(place, "sh", "src/greet.sh", "Ben", LANG="de") == "Hallo, Ben!\n"
    assert "with `LANG=de`" in (place / "docs" / "greet.md").read_text("utf-8")


def test_what_the_page_suggests_to_try(place, tmp_path):
    """LOG-04: an edit of an earlier entry is told, with its author."""
    copy = shutil.copytree(place, tmp_path / "copy")
    (block,) = re.findall(r"^less WORKLOG.*?(?=^```)", README, re.S | re.M)
    _, events, dry, edit, verify = (line.split("  #")[0].strip() for line in block.splitlines())
    assert json.loads(sortie(copy, *events.split()[1:]))
    assert "You are ben" in sortie(copy, *dry.split()[1:])
    run(copy, "sh", "-c", edit)
    assert "was changed since ada recorded it" in sortie(copy, *verify.split()[1:], code=3)


def test_the_repository_around_it_is_not_touched(around, place):
    assert run(around, "git", "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]
    assert run(around, "git", "log", "--format=%s").split() == ["start"]
    assert run(around, "git", "diff", "--cached", "--name-only") == ""
    assert not (around / ".git" / "sortie").exists()
    assert run(place, "git", "log", "--format=%s").splitlines()[-1] == "Before the session"


def test_it_is_played_once(place):
    before = (place / "WORKLOG.md").read_bytes()
    run(place, "./session.sh", code=1)
    assert (place / "WORKLOG.md").read_bytes() == before
