"""Kills at exact points of a run: what was written counts, what was not is done again, nothing is done twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from .proofs import assert_sound, ends_by_conduct
from .scene import DEADLINE, Scene, until

CONDUCTS = ("review", "turns-2", "blocked", "stumbles", "family-20", "silent")
STEPS = ("policy", "tick", "effect_done", "workspace", "turn", "settle")


def one_issue(tmp_path: Path, name: str, more: str = "") -> Scene:
    return Scene(tmp_path / "scene", [name], more=more)


@pytest.fixture(scope="module")
def undisturbed_ends(tmp_path_factory):
    scene = Scene(tmp_path_factory.mktemp("undisturbed") / "scene", CONDUCTS)
    scene.run_to_the_end()
    assert_sound(scene)
    return ends_by_conduct(scene)


@pytest.mark.parametrize("kind", STEPS)
def test_a_kill_before_a_step_is_written_down_changes_no_result(tmp_path, undisturbed_ends, kind):
    scene = Scene(tmp_path / "scene", CONDUCTS)
    scene.kill_before(kind)
    scene.run_to_the_end()
    assert ends_by_conduct(scene) == undisturbed_ends
    assert_sound(scene)


def test_a_kill_between_claim_and_start_costs_no_session(tmp_path):
    scene = one_issue(tmp_path, "review")
    scene.kill_at_gate("before-look")
    assert scene.query("SELECT count(*) FROM claims") == [(1,)]
    assert scene.starts() == 0

    scene.run_to_the_end()

    assert scene.verdicts() == [("cancelled", ""), ("succeeded", "needs-human-review")]
    assert scene.query("SELECT sessions FROM budget WHERE scope = 'issue'") == [(1,)]
    assert_sound(scene)


def test_an_agent_that_was_never_written_down_is_ended_before_the_next_one_starts(tmp_path):
    scene = one_issue(tmp_path, "family-80")
    scene.kill_before("process")
    assert scene.query("SELECT pid FROM claims") == [(None,)]
    until(lambda: scene.diary_lines("end"), "the agent to go on without its orchestrator")
    assert scene.survivors(), "what the agent left behind lives on"

    scene.run_to_the_end()

    assert_sound(scene)
    assert scene.starts() == 2


@pytest.mark.parametrize(("name", "state"), [("blocked", "In Progress"), ("review", "Review")])
def test_a_signal_of_a_completed_turn_is_honoured_without_another_run(tmp_path, name, state):
    """A2O-06, A2O-09: the agent has said what it wants; a crash does not make it say it again."""
    scene = one_issue(tmp_path, name)
    scene.kill_before("end")

    scene.run_to_the_end()

    token = "blocked" if name == "blocked" else "needs-human-review"
    assert scene.starts() == 1
    assert scene.verdicts() == [("succeeded", token)]
    assert scene.issues()[name]["state"] == state
    assert_sound(scene)


def test_a_kill_does_not_lose_the_last_words_of_an_agent_that_gave_no_reason(tmp_path):
    """A2O-09: the reason is shown wherever a person looks, also where it is only the last lines of output."""
    scene = one_issue(tmp_path, "terse")
    scene.kill_before("end")

    scene.run_to_the_end()

    assert scene.starts() == 1
    assert scene.query("SELECT reason FROM parked") == [("The password is missing.\nI cannot go on.",)]
    assert_sound(scene)


def test_a_signal_of_a_turn_that_was_cut_short_does_not_count(tmp_path):
    """A2O-15: the status is read after a completed turn only."""
    scene = one_issue(tmp_path, "blocked")
    scene.kill_before("turn_end")

    scene.run_to_the_end()

    assert scene.starts() == 2
    assert scene.verdicts() == [("cancelled", ""), ("succeeded", "blocked")]
    assert_sound(scene)


def test_a_blocked_issue_stays_parked_over_kills(tmp_path):
    """A2O-09: an unchanged issue stays parked across restarts."""
    scene = one_issue(tmp_path, "blocked")
    scene.kill_before("settle")
    for _ in range(2):
        scene.run_to_the_end()
    assert scene.starts() == 1
    assert_sound(scene)


def test_an_answer_given_while_the_orchestrator_was_down_is_heard(tmp_path):
    """A2O-09: a person changed the issue after the agent signalled, so it is dispatched again."""
    scene = one_issue(tmp_path, "blocked")
    scene.kill_at_gate("before-completion")
    scene.set_state("blocked", "To Do")

    scene.run_to_the_end()

    assert scene.verdicts() == [("succeeded", "blocked"), ("succeeded", "blocked")]
    assert scene.query("SELECT kind FROM parked") == [("signal",)]


def test_an_issue_that_came_back_after_its_hand_off_is_worked_on_again(tmp_path):
    scene = one_issue(tmp_path, "review")
    scene.kill_at_gate("before-completion")
    assert scene.issues()["review"]["state"] == "Review"
    scene.set_state("review", "To Do")

    scene.run_to_the_end()

    assert scene.verdicts() == [("succeeded", "needs-human-review")] * 2
    assert scene.issues()["review"]["state"] == "Review"
    assert scene.query("SELECT * FROM parked") == []


@pytest.mark.parametrize("gate", ["before-Review", "after-Review"])
def test_a_pending_hand_off_is_made_once(tmp_path, gate):
    """A2O-08: the verdict stands, so the hand-off is made, and not again where it was made already."""
    scene = one_issue(tmp_path, "review")
    scene.kill_at_gate(gate)

    scene.run_to_the_end()

    assert scene.starts() == 1
    assert scene.journal("transition") == [["id-review", "In Progress"], ["id-review", "Review"]]
    assert scene.issues()["review"]["state"] == "Review"
    assert_sound(scene)


def test_a_hand_off_that_was_made_does_not_undo_what_a_person_did_since(tmp_path):
    scene = one_issue(tmp_path, "review")
    scene.kill_at_gate("after-Review")
    scene.set_state("review", "Done")

    scene.run_to_the_end()

    assert scene.issues()["review"]["state"] == "Done"
    assert_sound(scene)


@pytest.mark.parametrize("gate", ["before-dispatch", "after-dispatch", "before-completion", "after-completion"])
def test_a_pending_comment_is_made_once(tmp_path, gate):
    scene = one_issue(tmp_path, "review")
    scene.kill_at_gate(gate)
    scene.run_to_the_end()
    assert scene.starts() == 1
    assert_sound(scene)


def test_a_failure_is_told_once_and_tried_again(tmp_path):
    scene = one_issue(tmp_path, "stumbles")
    scene.kill_at_gate("after-failure")
    scene.run_to_the_end()
    assert scene.verdicts() == [("failed", ""), ("succeeded", "needs-human-review")]
    assert_sound(scene)


@pytest.mark.parametrize("kind", ["opened", "end", "settle"])
def test_a_recovery_that_is_killed_too_is_made_good_by_the_next(tmp_path, kind):
    scene = one_issue(tmp_path, "family-80")
    scene.kill_where(lambda: "process" in scene.kinds(), "the agent to start")
    scene.kill_before(kind)

    scene.run_to_the_end()

    assert scene.verdicts()[-1] == ("succeeded", "needs-human-review")
    assert_sound(scene)


def test_a_kill_while_an_orphan_is_being_ended_leaves_it_to_the_next_start(tmp_path):
    scene = one_issue(tmp_path, "stubborn")
    scene.kill_where(lambda: scene.diary_lines("waits"), "an agent that does not hear SIGTERM")
    scene.kill_where(lambda: scene.kinds().count("opened") == 2, "the second start")
    assert scene.survivors(), "the agent outlived both"

    scene.run_to_the_end()

    assert scene.verdicts() == [("cancelled", ""), ("succeeded", "needs-human-review")]
    assert_sound(scene)


def test_a_workspace_whose_creation_was_cut_short_is_made_anew(tmp_path):
    hook = """\
hooks:
  after_create: |
    ls -A | wc -l >> "$CHAOS_DIARY/found"
    touch half-made
    while [ -e "$CHAOS_DIARY/wait" ]; do sleep 0.02; done
    rm half-made
"""
    scene = one_issue(tmp_path, "review", more=hook)
    (scene.diary / "wait").touch()
    scene.kill_where((scene.base / "workspaces" / "review" / "half-made").exists, "the hook")

    # It hangs on, as an orphan, until the next start.
    assert scene.survivors()
    with scene.orchestrator() as process:
        until(lambda: (scene.diary / "found").read_text().split() == ["0", "0"], "the hook to run again")
        (scene.diary / "wait").unlink()
        assert process.wait(DEADLINE) == 0

    assert scene.verdicts() == [("cancelled", ""), ("succeeded", "needs-human-review")]
    assert not (scene.base / "workspaces" / "review" / "half-made").exists()
    assert_sound(scene)


def test_a_kill_during_the_drain_is_like_any_other(tmp_path):
    scene = one_issue(tmp_path, "stubborn")
    with scene.orchestrator() as process:
        until(lambda: scene.diary_lines("waits"), "the agent")
        process.send_signal(signal.SIGTERM)
        until(lambda: "stop" in scene.kinds(), "the drain to begin")
        process.kill()
        assert process.wait(DEADLINE) == -signal.SIGKILL

    scene.run_to_the_end()

    assert scene.verdicts() == [("cancelled", ""), ("succeeded", "needs-human-review")]
    assert scene.query("SELECT sessions FROM budget WHERE scope = 'issue'") == [(1,)]
    assert_sound(scene)


def test_a_drain_leaves_no_agent_and_the_next_start_goes_on(tmp_path):
    scene = one_issue(tmp_path, "slow")
    with scene.orchestrator() as process:
        until(lambda: scene.diary_lines("waits"), "the agent")
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE)
    assert scene.survivors() == []

    scene.run_to_the_end()

    assert scene.verdicts() == [("cancelled", ""), ("succeeded", "needs-human-review")]
    assert_sound(scene)


def test_a_second_signal_leaves_no_agent_either(tmp_path):
    scene = one_issue(tmp_path, "stubborn")
    with scene.orchestrator() as process:
        until(lambda: scene.diary_lines("waits"), "the agent")
        process.send_signal(signal.SIGTERM)
        until(lambda: "once more to force" in scene.what_was_said(), "another signal to count")
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE)
    assert scene.survivors() == []

    scene.run_to_the_end()

    assert scene.verdicts() == [("cancelled", ""), ("succeeded", "needs-human-review")]
    assert_sound(scene)


def test_a_workspace_that_was_archived_before_a_kill_is_not_missed_after_it(tmp_path):
    scene = one_issue(tmp_path, "review")
    scene.run_to_the_end()
    scene.set_state("review", "Done")
    scene.kill_before("workspace_gone")
    assert not (scene.base / "workspaces" / "review").exists()

    scene.run_to_the_end()

    assert scene.query("SELECT * FROM workspaces") == []
    assert len(list(scene.db_path.with_suffix(".archive").iterdir())) == 1
    assert_sound(scene)
