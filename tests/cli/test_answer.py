"""`sortie answer`: what is an answer, where it comes from, and what is refused."""

from __future__ import annotations

import subprocess
from contextlib import closing

import pytest

from sortie.core.operator import LONGEST_ANSWER
from sortie.core.schedule import Schedule
from sortie.store.connect import connect_readonly
from sortie.store.load import load

from .scene import BLOCK, REVIEW

SECRET = "hunter2-hunter2"


@pytest.fixture
def parked(scene):
    """T-1 has asked, and T-2 was never active."""
    scene.workflow.write_text(scene.workflow.read_text().replace("kind: file", f"kind: file\n  api_key: {SECRET}"))
    scene.issue(1, BLOCK)
    scene.issue(2, REVIEW, state="Backlog")
    done = scene.run("run", "--until-idle")
    assert done.returncode == 3, done.stderr
    return scene


def schedule(scene) -> Schedule:
    with closing(connect_readonly(scene.directory / ".sortie.db")) as db:
        return load(db).schedule


def said(scene) -> list[str]:
    return [one.text for one in schedule(scene).answers.values()]


def test_words_standard_input_and_secrets(parked, say):
    assert say("answer", "T-1", "Use port 8080.").out.startswith("T-1 is free to start again; its agent gets")
    assert schedule(parked).parked == {}
    for words in (("#1", "Use", "port", "80."), ("1", f"The key is {SECRET}."), ("T-1", "WORKFLOW.md")):
        assert say("answer", *words).code == 0
    read = subprocess.run(
        parked.command("answer", "T-1", "-"), cwd=parked.directory, input=b"line\n\xff\x00\n", capture_output=True
    )
    assert (read.returncode, read.stderr) == (0, b"")
    assert said(parked) == [
        "Use port 8080.",
        "Use port 80.",
        "The key is [redacted].",
        "WORKFLOW.md",
        "line\n\ufffd\x00\n",
    ]
    assert len([one for one in schedule(parked).effects.values() if one.verb == "comment"]) == 5
    why = say("why", "T-1").out
    assert "a person answered: Use port 8080." in why
    assert SECRET not in why


def test_what_is_no_answer_is_refused_and_changes_nothing(parked, say):
    for words, sentence in {
        ("T-1", " "): "The answer is empty",
        ("T-1", "x" * (LONGEST_ANSWER + 1)): "longer than 64 KiB",
        ("T-99", "yes"): "T-99 is not known",
        ("T-2", "yes"): "T-2 is in Backlog, which is not an active state",
    }.items():
        refused = say("answer", *words)
        assert refused.code == 1
        assert sentence in refused.err
        assert refused.err.count("\n") == 1
    too_long = b"x" * (1 << 20)
    read = subprocess.run(
        parked.command("answer", "T-1", "-"), cwd=parked.directory, input=too_long, capture_output=True
    )
    assert read.returncode == 1
    assert b"longer than 64 KiB" in read.stderr
    assert said(parked) == []
    assert [*schedule(parked).parked] == ["1"]


def test_a_text_that_begins_with_a_dash_goes_behind_two_dashes(parked, say):
    refused = say("answer", "T-1", "-5", "degrees")
    assert refused.code == 2
    assert "Put `--` between" in refused.err
    assert refused.err.count("\n") == 1
    assert parked.run("answer", "T-1", "--", "-5", "degrees").returncode == 0
    assert said(parked) == ["-5 degrees"]


def test_an_answer_needs_an_issue_a_text_and_a_store(scene, say):
    for words in ((), ("T-1",)):
        refused = say("answer", *words)
        assert refused.code == 2
        assert "Missing argument" in refused.err
    refused = say("answer", "T-1", "yes")
    assert refused.code == 1
    assert "sortie run" in refused.err
    assert not (scene.directory / ".sortie.db").exists()
