"""The host without processes keeps those parts of the contract that need none, and plays what a test says."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager

import anyio
import pytest

from sortie.core.conclude import Outcome
from sortie.runs import messages as say
from sortie.testing.fake_host import FakeHost, one_turn
from sortie.testing.host_contract import HostContract
from sortie.testing.run_driver import end_of, follow, of_kind, spec_for

WITHOUT_PROCESSES = {
    "test_there_is_a_machine",
    "test_messages_are_numbered_without_a_gap_and_the_end_is_the_last",
    "test_what_was_not_dealt_with_is_told_again",
    "test_a_failed_turn_is_a_failed_run",
    "test_a_turn_that_may_not_begin_ends_the_run",
    "test_an_answer_that_nobody_waits_for_is_passed_over",
    "test_a_run_that_somebody_else_started_is_refused",
    "test_a_run_that_nobody_started_is_unknown",
    "test_the_state_of_a_run",
    "test_a_run_that_waits_for_an_answer_can_be_cancelled",
}


async def as_the_script_says(spec):
    """What a run of these few shell commands tells."""
    script = spec.agent.command
    yield say.WorkspaceReady(key=spec.workspace.key, path="/nowhere")
    yield say.TurnAsked(turn=1)
    yield say.ProcessSpawned(pid=1, start_ticks=1, boot_id="")
    for text in re.findall(r"echo ([^;]+)", script):
        yield say.Line(source="agent", text=text)
    if "exit 3" in script:
        error = script.split(";")[0]
        yield say.Ended(outcome=Outcome(status="failed", turns=0, error=error, error_kind="turn_failed"))
    yield say.TurnCompleted(turn=1)


class TestFakeHost(HostContract):
    on = "fake"

    @pytest.fixture(autouse=True)
    def needs_no_process(self, request):
        if request.function.__name__ not in WITHOUT_PROCESSES:
            pytest.skip("there are neither processes nor workspaces")

    @asynccontextmanager
    async def host(self, directory):
        host = FakeHost(as_the_script_says)
        yield host
        await host.aclose()


async def test_what_a_run_was_started_with_and_told_can_be_looked_at(tmp_path):
    host, spec = FakeHost(one_turn), spec_for(tmp_path, "")
    await host.start(spec.run_id, "fence", spec, "fake")
    heard = await follow(host, spec.run_id)
    assert end_of(heard).outcome.soft_stop == "needs-human-review"
    assert host.specs == {spec.run_id: spec}
    assert host.answers[spec.run_id] == [say.Proceed(), say.Proceed()]


async def test_a_play_may_wait_and_gets_its_answers(tmp_path):
    go, given = anyio.Event(), []

    async def play(spec):
        given.append((yield say.TurnAsked(turn=1)))
        await go.wait()
        yield say.Line(source="agent", text="at last")

    host, spec = FakeHost(play), spec_for(tmp_path, "")
    await host.start(spec.run_id, "fence", spec, "fake")
    heard: list[say.Numbered] = []
    async with anyio.create_task_group() as tasks:

        async def listen():
            heard.extend(await follow(host, spec.run_id))

        tasks.start_soon(listen)
        while not given:
            await anyio.lowlevel.checkpoint()
        go.set()
    assert given == [say.Proceed()]
    assert [line.text for line in of_kind(heard, say.Line)] == ["at last"]
    assert end_of(heard).outcome.status == "succeeded"
