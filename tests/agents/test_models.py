"""Which model an agent works with, as it tells it: in recordings of the real ones, and where it tells nonsense."""

from __future__ import annotations

import json

import pytest

from sortie.agents.agent import AgentSettings, ModelNamed, is_model
from sortie.agents.claude.claude_code import ClaudeCode
from sortie.agents.claude.claude_stream import ClaudeReader
from sortie.agents.copilot.copilot_stream import CopilotReader
from sortie.agents.gemini.gemini_stream import GeminiReader

from . import acp_lab, codex_lab
from .playing import Played, recorded
from .readers import READERS


@pytest.mark.parametrize(
    ("kind", "recording", "model"),
    [
        ("claude", "claude-ok", "claude-opus-4-8[1m]"),
        ("claude", "claude-resume", "claude-opus-4-8"),
        ("claude", "claude-two-turns", "claude-opus-5-5"),
        ("copilot", "copilot-ok", "fake-model"),
        ("copilot", "copilot-subagent", "fake-model"),
        ("gemini", "gemini-ok", "gemini-2.5-pro"),
        ("gemini", "gemini-401", "gemini-2.5-pro"),
        ("opencode", "opencode-ok", ""),  # it does not tell
    ],
)
def test_a_real_stream_tells_its_model(kind, recording, model):
    assert Played(READERS[kind](), recorded(recording)).reader.model == model


@pytest.mark.parametrize("recording", ["codex-ok", "codex-resume"])
async def test_codex_tells_the_model_of_its_thread(recording, tmp_path, make_order, recorder):
    order = {"resume": codex_lab.THREAD} if recording == "codex-resume" else {}
    await codex_lab.Lab(tmp_path, make_order, recorder).run(recording, order=order)
    assert models(recorder) == ["fake-model"]


@pytest.mark.parametrize(
    ("recording", "named"),
    [
        ("claude-two-prompts", ["claude-opus-5-5"]),
        ("codex-two-prompts", ["fake-model"]),
        ("gemini-two-prompts", ["gemini-2.5-pro"]),
        ("opencode-two-prompts", ["fake/fake-model"]),
        ("copilot-two-prompts", []),  # it does not tell
    ],
)
async def test_an_agent_of_the_client_protocol_tells_its_model_once(
    recording, named, tmp_path, make_order, recorder
):
    lab = acp_lab.Lab(tmp_path, make_order, recorder)
    await lab.run(recording, "session/set_mode={}", "session/set_config_option={}", prompts=["One", "Two"])
    assert models(recorder) == named


async def test_turns_with_the_same_model_name_it_once(stand_in, make_order, recorder):
    command = stand_in("print(open(T + '/claude-ok.jsonl').read())")
    agent = ClaudeCode.from_settings(AgentSettings(kind="claude-code", command=command))
    session = await agent.open(make_order(), recorder)
    for number in (1, 2):
        await session.turn("Go.", number)
    await session.close()
    assert models(recorder) == ["claude-opus-4-8[1m]"]


def models(recorder):
    return [event.model for event in recorder.events if isinstance(event, ModelNamed)]


# -- forgeries --------------------------------------------------------------------------------------------------


def said_by(model, **more):
    return json.dumps({"type": "assistant", "message": {"model": model, "content": []}, **more}).encode()


def test_claude_that_falls_back_names_the_model_that_answers():
    reader = Played(ClaudeReader(), [*recorded("claude-ok"), said_by("claude-haiku-9")]).reader
    assert reader.model == "claude-haiku-9"


@pytest.mark.parametrize(
    "line",
    [
        said_by("claude-opus-4-8"),  # its own, without the size of its window
        said_by("claude-haiku-9", parent_tool_use_id="toolu_1"),  # a sub-agent's
        said_by("<synthetic>"),  # nobody's
        said_by(""),
    ],
)
def test_the_model_of_claude_stays_the_one_that_it_began_with(line):
    reader = Played(ClaudeReader(), [*recorded("claude-ok"), line]).reader
    assert reader.model == "claude-opus-4-8[1m]"


def test_of_the_models_that_gemini_chose_from_the_busiest_counts():
    stats = {"models": {"flash": {"total_tokens": 5}, "pro": {"total_tokens": 70}, "odd": {"total_tokens": "many"}}}
    lines = [
        b'{"type": "init", "session_id": "s", "model": "auto"}',
        json.dumps({"type": "result", "status": "success", "stats": stats}).encode(),
    ]
    assert Played(GeminiReader(), lines).reader.model == "pro"


@pytest.mark.parametrize("nonsense", [None, 5, ["x"], {"a": 1}, ""])
def test_a_model_that_is_no_name_costs_nothing_else_of_its_line(nonsense):
    init = {"session_id": "s-1", "model": nonsense}
    claude = Played(ClaudeReader(), [json.dumps({"type": "system", "subtype": "init", **init}).encode()]).reader
    gemini = Played(GeminiReader(), [json.dumps({"type": "init", **init}).encode()]).reader
    assert [(one.session_id, one.model) for one in (claude, gemini)] == [("s-1", "")] * 2
    message = {"type": "assistant.message", "data": {"content": "Done.", "model": nonsense}}
    copilot = Played(CopilotReader(), [json.dumps(message).encode()])
    assert (copilot.said, copilot.reader.model) == (["Done."], "")


@pytest.mark.parametrize("stats", [{"models": 5}, {"models": {"x": 5}}, {"models": {}}])
def test_totals_of_models_that_are_none_leave_the_model_as_it_was(stats):
    lines = [
        b'{"type": "init", "session_id": "s", "model": "pro"}',
        json.dumps({"type": "result", "status": "success", "stats": stats}).encode(),
    ]
    assert Played(GeminiReader(), lines).reader.model == "pro"


@pytest.mark.parametrize("name", ["claude-opus-4-8[1m]", "fake/fake-model", "gpt-6.1-sol[low]", "GPT 6 (low)"])
def test_names_of_models_are_taken(name):
    assert is_model(name)


@pytest.mark.parametrize("name", ["", " x", "<script>", "a\nb", "\x1b[31mred", "x" * 101, "\u202eevil", "a\ud800"])
def test_what_nobody_calls_a_model_is_not_taken(name):
    assert not is_model(name)
