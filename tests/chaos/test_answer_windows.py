"""Kills on the way of an answer from a person to the agent: what is told and shown is neither lost nor doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from sortie.store.commands import add_commands

from .proofs import assert_sound
from .scene import Scene

ANSWER = "Use port 8080."


@pytest.fixture
def asked(tmp_path: Path) -> Scene:
    """An agent has asked; the answer is a row of the store that nobody has read yet."""
    scene = Scene(tmp_path / "scene", ["asks"])
    scene.run_to_the_end()
    assert scene.query("SELECT kind FROM parked") == [("signal",)]
    add_commands(scene.db_path, "answer", ["asks"], ANSWER)
    return scene


def assert_answered(scene: Scene, *heard: int) -> None:
    """`heard` is how often the answer was in each prompt that it was in."""
    assert [line[1] for line in scene.diary_lines("start")] == ["start"] * (1 + len(heard))
    told = [line for count in (1, 2) for line in scene.diary_lines(f"heard-{count}")]
    assert [line[1] for line in told] == [f"heard-{count}" for count in heard]
    assert scene.verdicts()[-1] == ("succeeded", "needs-human-review")
    assert scene.issues()["asks"]["state"] == "Review"
    shown = [one["body"] for one in scene.issues()["asks"]["comments"] if f"> {ANSWER}" in one["body"]]
    assert len(shown) == 1
    assert scene.kinds().count("answer") == 1
    assert scene.query("SELECT * FROM answers") == []
    assert scene.query("SELECT ok, text FROM commands") == [(1, "")]
    assert_sound(scene)


def test_a_kill_before_the_answer_is_written_down_leaves_the_command(asked):
    asked.kill_before("answer")
    assert "answer" not in asked.kinds()
    asked.run_to_the_end()
    assert_answered(asked, 1)


@pytest.mark.parametrize("gate", ["before-answer", "after-answer"])
def test_a_kill_around_the_comment_makes_neither_two_nor_none(asked, gate):
    """The run goes on beside it: it has read its prompt by then, and is cut short and resumed."""
    (asked.diary / "hold").touch()
    asked.kill_at_gate(gate, lambda: asked.diary_lines("heard-1"))
    (asked.diary / "hold").unlink()
    asked.run_to_the_end()
    assert_answered(asked, 1, 1)


def test_a_turn_that_is_cut_short_is_told_again(asked):
    (asked.diary / "hold").touch()
    asked.kill_where(lambda: asked.diary_lines("heard-1"), "the turn")
    (asked.diary / "hold").unlink()
    asked.run_to_the_end()
    assert_answered(asked, 1, 1)


def test_a_turn_whose_end_was_not_written_down_is_told_again(asked):
    asked.kill_before("turn_end")
    asked.run_to_the_end()
    assert_answered(asked, 1, 1)


def test_a_turn_whose_end_was_written_down_is_told_of_never_again(asked):
    asked.kill_before("end")
    asked.run_to_the_end()
    assert_answered(asked, 1)
