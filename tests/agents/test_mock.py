import time
from typing import Any

import anyio
import pytest

from sortie.agents.agent import AgentSettings, SessionOpened
from sortie.agents.mock import MockAgent
from sortie.core.model import Usage
from sortie.errors import AgentError


@pytest.fixture
def play(make_order, recorder):
    """Plays turns of a script in one run after another; the agent is kept between calls."""

    def agent_for(options: dict[str, Any]) -> MockAgent:
        settings = AgentSettings(kind="mock", options=options)
        assert MockAgent.check(settings) == []
        return MockAgent.from_settings(settings)

    async def play(agent_or_options, turns=1, **changes):
        agent = agent_or_options if isinstance(agent_or_options, MockAgent) else agent_for(agent_or_options)
        session = await agent.open(make_order(**changes), recorder)
        for number in range(1, turns + 1):
            await session.turn("prompt", number)
        await session.close()
        return agent

    return play


async def test_without_a_script_it_works_one_turn_and_asks_for_review(play, recorder, workspace):
    await play({})
    assert recorder.events[0] == SessionOpened("run-1")
    assert len(recorder.said) == 3
    assert recorder.used == [Usage(100, 50)]
    assert (workspace / ".sortie" / "status").read_text().startswith("needs-human-review\nreason: ")


async def test_the_script_goes_on_over_runs_and_its_last_turn_repeats(play, recorder):
    agent = await play({"turns": [{"lines": ["a"]}, {"lines": ["b"]}, {"lines": ["c"]}]}, turns=2)
    await play(agent, turns=3, run_id="run-2")
    assert recorder.said == ["a", "b", "c", "c", "c"]


async def test_issues_are_counted_apart_and_may_have_scripts_of_their_own(play, recorder):
    agent = await play({"turns": [{"lines": ["a"]}, {"lines": ["b"]}], "by_issue": {"X-9": [{"lines": ["x"]}]}})
    await play(agent, issue_id="2", identifier="DEMO-2")
    await play(agent, issue_id="9", identifier="X-9")
    await play(agent)
    assert recorder.said == ["a", "a", "x", "b"]


@pytest.mark.parametrize(
    ("outcome", "kind", "retry"),
    [
        ("failed", AgentError.TURN_FAILED, True),
        ("auth", AgentError.AUTH, False),
        ("rate_limited", AgentError.RATE_LIMITED, True),
    ],
)
async def test_a_failing_turn_fails_as_the_script_says(play, outcome, kind, retry):
    before = time.time()
    with pytest.raises(AgentError, match="because") as caught:
        await play({"turns": [{"outcome": outcome, "reason": "because", "reset_seconds": 30}]})
    assert (caught.value.kind, caught.value.retry) == (kind, retry)
    assert (caught.value.until is not None) == (outcome == "rate_limited")
    assert caught.value.until is None or caught.value.until >= before + 30


async def test_a_hanging_turn_hangs_until_it_is_cancelled(play, recorder):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(play, {"turns": [{"outcome": "hang", "lines": ["waiting"]}]})
        with anyio.fail_after(30):
            while recorder.said != ["waiting"]:
                await anyio.sleep(0)
        tasks.cancel_scope.cancel()


async def test_all_kinds_of_usage_are_reported_and_none_if_there_is_none(play, recorder):
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_read_tokens": 3, "cost_usd": 0.5, "delay_ms": 1}
    await play({"turns": [usage, {}]}, turns=2)
    assert recorder.used == [Usage(1, 2, 3, 0.5)]


async def test_the_status_is_not_written_through_a_link(play, workspace, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (workspace / ".sortie").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="sortie"):
        await play({"turns": [{"status": "blocked"}]})
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_every_mistake_is_named_by_its_key():
    options = {
        "turns": [
            {"outcome": "happy", "delay_ms": -1},
            {"linse": []},
            "completed",
            {"lines": "x", "cost_usd": "1"},
        ],
        "by_issue": {"DEMO-1": [], "DEMO-2": [{"status": "done"}]},
        "speed": 3,
    }
    problems = MockAgent.check(AgentSettings(kind="mock", options=options))
    assert [key for key, _ in problems] == [
        "mock.turns[0].outcome",
        "mock.turns[0].delay_ms",
        "mock.turns[1].linse",
        "mock.turns[2]",
        "mock.turns[3].lines",
        "mock.turns[3].cost_usd",
        "mock.by_issue.DEMO-1",
        "mock.by_issue.DEMO-2[0].status",
        "mock.speed",
    ]
    assert all(sentence.endswith((".", "?")) for _, sentence in problems)


def test_scripts_by_issue_must_be_a_mapping():
    problems = MockAgent.check(AgentSettings(kind="mock", options={"by_issue": ["DEMO-1"]}))
    assert [key for key, _ in problems] == ["mock.by_issue"]
