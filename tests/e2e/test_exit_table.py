"""What follows a run: the four rows of the hand-off matrix, each from a real agent to the tracker file."""

from __future__ import annotations

import pytest

from sortie.core import events as ev

from .project import merged
from .shell import BLOCKED, REVIEW, writes

HANDOFF = {"tracker": {"handoff_state": "Review"}}


def test_the_hand_off_matrix(project):
    """A2O-22 A2O-07 A2O-08: review hands over, blocked never does, silence does, an error never does."""
    project.workflow(HANDOFF)
    project.add("review", REVIEW)
    project.add("blocked", BLOCKED)
    project.add("absent", "true")
    project.add("unknown", writes(b"fine\n"))
    project.add("error", f"{REVIEW}; exit 1")
    project.run()
    states = {issue["id"]: issue["state"] for issue in project.issues()}
    assert states == {
        "review": "Review",
        "blocked": "To Do",
        "absent": "Review",
        "unknown": "Review",
        "error": "To Do",
    }
    retries = {i: retry and retry.kind for i in states if [retry := project.settled(i).retry]}
    assert retries == {"review": None, "blocked": None, "absent": None, "unknown": None, "error": "error"}
    assert project.schedule().running == {}


def test_a_hand_off_that_fails_releases_a_review_and_continues_after_silence(project):
    """A2O-08 A2O-22: a refused transition is a warning; after a signal no retry follows, after silence one does."""
    project.workflow(merged(HANDOFF, project.record_tracker_calls(refuse=["review", "absent"])))
    project.add("review", REVIEW)
    project.add("absent", "true")
    project.run()
    assert {line for line in project.diary() if "transition" in line} == {
        "tracker transition review Review",
        "tracker transition absent Review",
    }
    assert project.settled("review").retry is None
    assert project.settled("absent").retry.kind == "continuation"
    reason = "the hand-off to Review failed; the agent said: needs-human-review"
    assert project.parked()["review"] == ("signal", reason)
    assert project.only_run("review").status == "succeeded"
    for issue_id in ("review", "absent"):
        (done,) = project.events(ev.EffectDone, issue_id)
        assert not done.ok
        assert "refuses this transition" in done.detail
    assert '"level": "warning", "message": "transition in the tracker failed' in project.output()


def test_a_tracker_file_that_cannot_be_written_is_a_hand_off_that_failed(unprivileged):
    """A2O-22: the same with the file tracker on a read-only directory."""
    unprivileged.workflow(merged(HANDOFF, {"db_path": "memory/db", "workspace": {"root": "memory/workspaces"}}))
    unprivileged.db_path = unprivileged.root / "memory" / "db"
    unprivileged.add("1", "true")
    (unprivileged.root / "memory").mkdir()
    unprivileged.own(unprivileged.root / "memory")
    unprivileged.issues_path.chmod(0o444)
    unprivileged.root.chmod(0o555)
    unprivileged.run()
    unprivileged.root.chmod(0o755)
    assert unprivileged.state("1") == "To Do"
    assert unprivileged.settled("1").retry.kind == "continuation"


def test_the_hand_off_comes_before_the_release(project):
    """A2O-08: the transition is carried out while the issue is still claimed, and only once."""
    project.workflow(merged(HANDOFF, project.record_tracker_calls()))
    project.add("1", REVIEW)
    assert project.run() == 0
    order = [type(event) for event in project.events(ev.AnyEvent, "1")]
    assert order.index(ev.RunEnded) < order.index(ev.EffectDone) < order.index(ev.Settled)
    assert [line for line in project.diary() if "transition" in line] == ["tracker transition 1 Review"]


def test_blocked_moves_nothing_whatever_is_configured(project):
    """A2O-07: no transition is even tried."""
    project.workflow(merged(HANDOFF, project.record_tracker_calls()))
    project.add("1", BLOCKED)
    project.run()
    assert not [line for line in project.diary() if "transition" in line]
    assert project.parked()["1"] == ("signal", "blocked")


def test_review_without_a_hand_off_state_is_parked(project):
    """A2O-08 A2O-09: nothing to move to, so the issue waits for a person where it is."""
    project.add("1", REVIEW)
    assert project.run() == 3
    assert project.state("1") == "To Do"
    assert project.parked()["1"] == ("signal", "needs-human-review")


@pytest.mark.parametrize("signal", ["true", REVIEW])
@pytest.mark.parametrize("state", ["Waiting", "Done"])
def test_an_issue_that_is_no_longer_active_is_not_handed_over(project, signal, state):
    """A2O-08: somebody moved it during the turn, and nobody noticed before its end; it stays where they put it."""
    unnoticed = {"polling": {"interval_ms": 60_000}}
    project.workflow(merged(merged(HANDOFF, unnoticed), project.record_tracker_calls(unwatched=True)))
    move = (
        "import json, os; p = os.environ['SORTIE_WORKFLOW_DIR'] + '/issues.json'; d = json.load(open(p));"
        f"d[0]['state'] = '{state}'; open(p + '.new', 'w').write(json.dumps(d)); os.rename(p + '.new', p)"
    )
    project.add("1", f'python3 -c "{move}"; {signal}')
    assert project.run() == 0
    assert project.only_run("1").status == "succeeded"
    assert project.state("1") == state
    assert not [line for line in project.diary() if "transition" in line]
    assert (project.settled("1").retry, project.settled("1").park) == (None, None)


def test_a_hand_off_that_cannot_be_looked_at_is_a_failed_one(project):
    """A2O-08: without knowing that the issue is active nothing is moved; a warning, no retry."""
    asked = project.root / "asked"
    fails = f"test ! -e {asked}"
    project.workflow(merged(HANDOFF, project.record_tracker_calls(on_fetch_states=fails)))
    project.add("1", f"touch {asked}; {REVIEW}")
    assert project.run() == 3
    assert project.state("1") == "To Do"
    assert not [line for line in project.diary() if "transition" in line]
    assert project.settled("1").retry is None
    assert [done.ok for done in project.events(ev.EffectDone, "1")] == [False]
