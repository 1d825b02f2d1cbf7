"""Agents that mean harm to the record of their turn: who they are is known, and what they did is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .peer_project import PeerProject

# A command with every mark taken off, no child of the agent any more; the turn goes on until it has ended.
UNMARKED = """\
setsid -f env -u SORTIE_RUN_ID -u SORTIE_STORE_ID -u SORTIE_WORKSPACE bash -c '
ulimit -S -R unlimited; until [ -e "$DIARY.gone" ]; do sleep 0.02; done
{command} > "$DIARY.said" 2>&1; touch "$DIARY.over"'
touch "$DIARY.gone"
until [ -e "$DIARY.over" ]; do sleep 0.05; done
"""
PAGE = "echo 'let version = 2' > web/page.js\n"


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[PeerProject]:
    made = PeerProject(tmp_path / "peers")
    yield made
    made.clean_up()


def kinds(report: dict[str, Any]) -> set[str]:
    return {finding["kind"] for finding in report["findings"]}


@pytest.mark.parametrize("command", ["worklog decide Release", "charter amend --decision mine"])
def test_who_took_off_every_mark_does_not_decide_for_the_maintainer(peers, command):
    """LOG-05, LOG-08: what an agent lets loose is a child of the orchestrator of its turn, and known by that."""
    peers.sortie("worklog", "decide", "Mine")
    before = peers.file("WORKLOG.md").count("maintainer adjudication")
    peers.turn("alice", UNMARKED.format(command=f"{sys.executable} -m sortie {command}"), "-t", "x")
    assert "Alice" in (peers.base / "diary.said").read_text(), "it says whose turn it is"
    assert peers.file("WORKLOG.md").count("maintainer adjudication") == before


@pytest.mark.parametrize(
    "harm",
    [
        "rm -rf .git/sortie",
        "rm .git/sortie/turns.jsonl; mkdir .git/sortie/turns.jsonl",
        "rm -f .git/sortie/turns.jsonl.lock; mkfifo .git/sortie/turns.jsonl.lock",
        "truncate -s 30G .git/sortie/turns.jsonl",
        "echo '{}' > .git/sortie/turns.jsonl",
    ],
    ids=["state removed", "register replaced", "lock replaced", "register endless", "register emptied"],
)
def test_whatever_becomes_of_the_register_what_the_turn_changed_is_told(peers, harm):
    """LOG-05: that a turn began is known to whoever began it."""
    report = peers.turn("alice", PAGE + harm, "-t", "x", code=3)
    assert "lane of another" in kinds(report)
    assert report["outcome"] in ("succeeded", "failed")


def test_settings_that_an_agent_changed_count_for_no_turn(peers):
    """Else it would be told secrets, and run as another."""
    settings = peers.file("peers.yaml")
    script = "sed -i 's/bob.sh/alice.sh/; s/- DIARY/- DIARY\\n      - SECRET/' peers.yaml"
    report = peers.turn("alice", script, "-t", "x", code=3)
    assert kinds(report) == {"settings changed"}
    assert peers.file("peers.yaml") == settings
    assert "alice.sh" in peers.git("show", "refs/sortie/reverted/1:peers.yaml").split("Bob")[1], "it is kept"


def test_an_agent_starts_no_turn_of_anybody_anywhere(peers, tmp_path):
    """LOG-11: a person starts every turn."""
    other = PeerProject(tmp_path / "other")
    peers.turn("alice", f"sortie turn bob -t spend --root {other.root} > $DIARY.said 2>&1", "-t", "x", code=3)
    assert "Only a person starts a turn" in (peers.base / "diary.said").read_text()
    assert other.turns() == []


def test_an_entry_that_an_older_version_was_saved_over_is_told(peers):
    """LOG-06: what was acknowledged in the turn is not gone without a word, and can be put back."""
    script = """\
cp WORKLOG.md "$DIARY.old"
sortie worklog append Mine important >/dev/null 2>&1
cp "$DIARY.old" WORKLOG.md.swp; mv WORKLOG.md.swp WORKLOG.md
"""
    report = peers.turn("alice", script, "-t", "x")
    assert any("Gone from WORKLOG.md" in remark for remark in report["remarks"]), report
    assert "important" not in peers.file("WORKLOG.md")
    peers.sortie("worklog", "verify", "--restore")
    assert peers.file("WORKLOG.md").count("important") == 1


@pytest.mark.parametrize("code", [126, 127])
def test_an_agent_that_says_it_could_not_start_is_looked_at_all_the_same(peers, code):
    """LOG-05: shells end so where a program is missing, and so can anybody."""
    report = peers.turn("alice", f"{PAGE}exit {code}", "-t", "x", code=3)
    assert kinds(report) == {"lane of another"}
    assert report["started"]
