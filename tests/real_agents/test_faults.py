"""Each real agent program when things go wrong: what the run says, what follows, and that nothing stays alive."""

from __future__ import annotations

import os
import signal

import pytest

from sortie.core import events as ev
from sortie.core.policy import Spent
from tests import npm
from tests.e2e.processes import is_alive, wait_for

from .scene import PATIENCE, REVIEW, Scene

pytestmark = npm.TIME_TO_INSTALL

DONE = [{"shell": REVIEW}, {"text": "Done."}]


def ended(scene: Scene, issue_id: str = "1") -> ev.RunEnded:
    return scene.project.events(ev.RunEnded, issue_id)[-1]


def test_a_refused_key_holds_dispatch_and_spends_nothing(scene):
    scene.workflow({"tracker": {"in_progress_state": "In Progress"}}, key="sk-wrong-0123456789")
    scene.issue(DONE)
    assert scene.run() == 3, scene.project.output()
    assert (ended(scene).error_kind, ended(scene).turns) == ("agent_auth", 0), ended(scene).error
    schedule = scene.project.schedule()
    assert [(pause.error_kind, pause.tries) for pause in schedule.pauses.values()] == [("agent_auth", 3)]
    assert (schedule.parked, schedule.spent["1"]) == ({}, Spent())
    assert scene.project.state("1") == "To Do"
    assert not any(request["authorised"] for request in scene.model.steps())
    scene.nobody_left()


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (404, "The model no-such-model does not exist.", "agent_config"),
        (400, "Your credit balance is too low to access the API.", "agent_auth"),
    ],
)
def test_an_unknown_model_or_an_account_without_credit_holds_dispatch_and_spends_nothing(
    scene, status, message, kind
):
    scene.issue([{"http": status, "message": message}])
    assert scene.run() == 3, scene.project.output()
    assert (ended(scene).error_kind, ended(scene).turns) == (kind, 0), ended(scene).error
    assert scene.project.schedule().spent["1"] == Spent()
    scene.nobody_left()


def test_a_limit_pauses_the_provider_and_spends_no_attempt(scene):
    scene.issue([{"http": 429, "headers": {"retry-after": str(scene.recipe.retry_after)}}, *DONE])
    service = scene.start()
    (paused,) = service.until(lambda: scene.project.events(ev.ProviderPaused), PATIENCE)
    settled = service.until(lambda: scene.project.events(ev.Settled, "1"), PATIENCE)[-1]
    assert service.stop() == 0
    assert (paused.provider, ended(scene).error_kind) == (scene.recipe.kind, "rate_limited"), ended(scene).error
    assert (settled.retry.kind, settled.retry.failures) == ("limit", 0)
    assert settled.refund, "the session is given back to the budget"
    if scene.recipe.tells_reset:
        assert paused.until - paused.at < 60, "not the pause for a limit without a reset"
    scene.nobody_left()


def test_a_failing_provider_is_tried_again(scene):
    scene.issue([{"http": 500, "headers": {"retry-after": "1"}}, *DONE])
    service = scene.start()
    settled = service.until(lambda: scene.project.events(ev.Settled, "1"), PATIENCE)[0]
    assert service.stop() == 0
    first = scene.project.events(ev.RunEnded, "1")[0]
    assert first.error_kind == "provider_error", first.error
    assert (settled.retry.kind, settled.retry.failures) == ("error", 1)
    scene.nobody_left()


def test_a_provider_that_hangs_or_stalls_runs_into_the_turn_timeout(scene):
    timeout = scene.recipe.starts_within * 1000
    scene.workflow({"agent": {"turn_timeout_ms": timeout}, "budget": {"per_issue": {"sessions": 1}}})
    scene.issue([{"hang": 600}, *DONE], "1")
    scene.issue([{"stall": 600}, *DONE], "2")
    assert scene.run() == 3, scene.project.output()
    assert [scene.project.only_run(issue).status for issue in "12"] == ["timed_out", "timed_out"]
    assert {"hang", "stall"} <= {request["did"] for request in scene.model.steps()}
    scene.nobody_left()


def test_the_orchestrator_killed_in_mid_turn_resumes_after_its_restart(scene):
    step, begun, leave = scene.gate()
    scene.issue([step, *DONE])
    service = scene.start()
    service.until(begun.exists, PATIENCE)
    assert scene.project.living(), "an agent is at work"
    service.kill()  # one may live on, another ends by itself when nobody listens any more
    leave.touch()
    assert scene.run() == 0, scene.project.output()
    assert scene.project.state("1") == "In Review"
    crashed, resumed = scene.project.runs("1")
    assert (crashed.status, resumed.status) == ("cancelled", "succeeded")
    assert crashed.session_id and crashed.session_id == resumed.session_id
    assert scene.model.steps()[-1]["prompts"] == 2, "the conversation was resumed"
    scene.nobody_left()


def test_a_killed_agent_is_started_again(scene):
    step, begun, leave = scene.gate()
    scene.issue([step, *DONE])
    service = scene.start(until_idle=True)
    service.until(begun.exists, PATIENCE)
    (process,) = scene.project.events(ev.ProcessStarted, "1")
    leave.touch()
    kill_family(process.pid)
    assert service.wait(PATIENCE) == 0, scene.project.output()
    assert scene.project.state("1") == "In Review"
    assert [run.status for run in scene.project.runs("1")] == ["failed", "succeeded"]
    assert scene.project.events(ev.RunEnded, "1")[0].error_kind == "turn_unfinished"
    scene.nobody_left()


def test_sigterm_ends_the_agent_and_the_next_start_resumes_it(scene):
    step, begun, leave = scene.gate()
    scene.issue([step, *DONE])
    service = scene.start()
    service.until(begun.exists, PATIENCE)
    assert service.stop() == 0
    scene.nobody_left()
    assert scene.project.only_run("1").status == "cancelled", "an exit code of 0 after our signal is no success"
    leave.touch()
    assert scene.run() == 0, scene.project.output()
    assert scene.project.state("1") == "In Review"
    assert len({run.session_id for run in scene.project.runs("1")}) == 1
    scene.nobody_left()


def kill_family(leader: int) -> None:
    """SIGKILL to the process that we started and to those of its group, as when memory runs out; tools with
    sessions of their own stay behind."""
    os.killpg(leader, signal.SIGKILL)
    wait_for(lambda: not is_alive(leader))
