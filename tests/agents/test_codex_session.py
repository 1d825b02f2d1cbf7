"""What becomes of the process of Codex, of its threads and turns, and of the questions that it asks."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from sortie.agents.agent import ErrorReported, ToolStarted, TurnFinished
from sortie.agents.codex.codex import Codex
from sortie.agents.codex.codex_thread import CodexThread
from sortie.errors import AgentError

from .codex_lab import THREAD, Lab, agent
from .playing import TRANSCRIPTS


@pytest.fixture
def lab(tmp_path, make_order, recorder):
    return Lab(tmp_path, make_order, recorder)


async def test_a_session_from_process_to_events(lab):
    await lab.run("codex-ok", ["One", "Two"])
    assert [message["method"] for message in lab.sent] == [
        "initialize",
        "initialized",
        "account/read",
        "thread/start",
        "turn/start",
        "turn/start",
    ]
    assert not any("jsonrpc" in message for message in lab.sent)
    recorder = lab.recorder
    assert recorder.sessions == [THREAD]
    assert recorder.said == ["done one", "done two"]
    assert recorder.events.count(TurnFinished("completed")) == 2
    assert sum(usage.input for usage in recorder.used) == 5400
    assert sum(usage.cache_read for usage in recorder.used) == 1300
    assert len(recorder.identities) == 1


async def test_a_resumed_thread_counts_from_where_it_stood(lab, workspace):
    await lab.run("codex-resume", order={"resume": THREAD})
    [resumed] = lab.asked("thread/resume")
    assert resumed == {
        "threadId": THREAD,
        "excludeTurns": True,
        "cwd": str(workspace),
        "approvalPolicy": "never",
        "sandbox": "danger-full-access",
    }
    assert lab.recorder.sessions == [THREAD]
    assert sum(usage.input for usage in lab.recorder.used) == 2100


async def test_a_refused_resume_begins_a_fresh_thread(lab):
    await lab.run("codex-bad-resume", order={"resume": "01a1e21a-0000-7943-b8af-69da22bb4955"})
    assert lab.recorder.sessions == ["01a1e228-3ba3-7cf3-9182-7b98b28d4268"]
    assert any(
        isinstance(event, ErrorReported) and "no rollout found" in event.detail for event in lab.recorder.events
    )


async def test_another_thread_than_the_one_asked_for_is_a_refusal(lab):
    with pytest.raises(AgentError, match="thread/start"):
        await lab.run("codex-resume", order={"resume": "not this one"})
    assert lab.asked("thread/start")


async def test_a_prompt_may_be_anything(lab):
    prompt = "ü\n\0\ud800" + "x" * 300_000
    await lab.run("codex-ok", [prompt])
    [turn] = lab.asked("turn/start")
    assert turn["input"][0]["text"] == prompt.replace("\ud800", "?")


async def test_questions_are_declined_and_that_is_a_failure(lab):
    with pytest.raises(AgentError, match="commandExecution") as caught:
        await lab.run("codex-declined", approval_policy="untrusted")
    assert caught.value.kind == AgentError.PERMISSION
    assert {"id": 0, "result": {"decision": "decline"}} in lab.sent
    assert lab.recorder.events[-1] == TurnFinished(AgentError.PERMISSION)


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("item/fileChange/requestApproval", {"result": {"decision": "decline"}}),
        ("item/permissions/requestApproval", {"result": {"permissions": {}}}),
        ("item/tool/requestUserInput", {"result": {"answers": {}}}),
        ("mcpServer/elicitation/request", {"result": {"action": "decline"}}),
        ("item/tool/call", {"error": {"code": -32601, "message": "Sortie does not answer item/tool/call."}}),
    ],
)
async def test_each_question_has_an_answer(lab, tmp_path, method, answer):
    recording = tmp_path / "asked.jsonl"
    text = (TRANSCRIPTS / "codex-declined.jsonl").read_text()
    text = text.replace("item/commandExecution/requestApproval", method).replace('"declined"', '"completed"')
    recording.write_text(text)
    run = lab.run(str(recording.with_suffix("")))
    if method == "item/permissions/requestApproval":
        with pytest.raises(AgentError, match="more permissions"):
            await run
    else:
        await run
    assert {"id": 0, **answer} in lab.sent


async def test_the_failure_of_a_turn_is_its_outcome(lab):
    with pytest.raises(AgentError) as caught:
        await lab.run("codex-usage-limit")
    assert (caught.value.kind, caught.value.until) == (AgentError.RATE_LIMITED, 1794800760.0)


class ImpatientThread(CodexThread):
    limit_timeout = 0.2


class Impatient(Codex):
    session_type = ImpatientThread


async def test_codex_is_not_left_to_wait_for_a_limit_without_end(lab, tmp_path):
    lines = (TRANSCRIPTS / "codex-429.jsonl").read_text().splitlines()
    first_notice = next(number for number, line in enumerate(lines, 1) if '"willRetry":true' in line)
    recording = tmp_path / "waiting.jsonl"
    recording.write_text("\n".join(lines[:first_notice]))
    with pytest.raises(AgentError, match="goes on waiting") as caught:
        await lab.run(str(recording.with_suffix("")), kind=Impatient)
    assert caught.value.kind == AgentError.RATE_LIMITED


async def test_an_interrupted_turn_is_waited_for(lab):
    """The recording has the end of the turn only after the answer to our request."""
    codex = agent(lab.command("codex-interrupted"))
    session = await codex.open(lab.make_order(), lab.recorder)
    try:
        with anyio.move_on_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.turn, "Go.", 1)
                while not any(isinstance(event, ToolStarted) for event in lab.recorder.events):
                    await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()
        await session.interrupt()
    finally:
        await session.close()
    [asked] = lab.asked("turn/interrupt")
    assert set(asked) == {"threadId", "turnId"}


@pytest.mark.parametrize(
    ("twist", "kind"),
    [
        ("initialize=exit", AgentError.CONFIG),
        ("initialize=silence", AgentError.SILENT),
        ("account/read=nonsense", AgentError.AUTH),  # what does not say otherwise wants a login
        ("thread/start=refuse", AgentError.CONFIG),
        ("thread/start=nonsense", AgentError.TURN_FAILED),
        ("thread/start=silence", AgentError.SILENT),
        ("turn/start=nonsense", AgentError.TURN_FAILED),
        ("turn/start=kill", AgentError.UNFINISHED),
        ("turn/start=exit", AgentError.UNFINISHED),
    ],
)
async def test_a_server_that_misbehaves(lab, tmp_path, twist, kind):
    environment = {"HOME": str(tmp_path)}
    timeout = 1.0 if twist.endswith("silence") else 20.0
    with pytest.raises(AgentError) as caught:
        await lab.run("codex-ok", twist=twist, read_timeout=timeout, environment=environment)
    assert caught.value.kind == kind
    assert not Path(f"/proc/{lab.recorder.identities[0].pid}").exists()


@pytest.mark.parametrize("words", ["Rate limiter initialised", "indexed 403 files", "error: unknown variant x"])
async def test_a_killed_server_behind_a_shell_is_judged_by_the_signal(make_order, recorder, words):
    command = f"sh -c 'echo {words} >&2; kill -KILL $$'; exit $?; :"
    with pytest.raises(AgentError, match="SIGKILL") as caught:
        await agent(command).open(make_order(), recorder)
    assert (caught.value.kind, caught.value.retry) == (AgentError.UNFINISHED, True)
    assert recorder.stderr_lines[0] == words


async def test_a_missing_program_is_not_tried_again(make_order, recorder):
    with pytest.raises(AgentError) as caught:
        await agent("/nowhere/codex").open(make_order(), recorder)
    assert (caught.value.kind, caught.value.retry) == (AgentError.NOT_FOUND, False)
