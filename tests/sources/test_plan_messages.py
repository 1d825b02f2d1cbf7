"""What agents of a plan hear of each other: each message once while they remember it, and none of them never."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from sortie.plans.plan import Plan, Task
from sortie.protocol.task_messages import send
from sortie.sources.plan_messages import PlanMessages

pytestmark = pytest.mark.anyio


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    tasks = tuple(Task(name=name, objective="Do it.") for name in ("a", "b"))
    found = Plan(name="sample", path=tmp_path / "plan.yaml", root=tmp_path / "work", tasks=tasks)
    found.messages.mkdir(parents=True)
    return found


def say(plan: Plan, *words: str) -> None:
    for word in words:
        send(plan.messages, "a", "b", "update", {"word": word}, now=time.time())


def words(news: str) -> list[str]:
    return re.findall(r'"word": "([^"]+)"', news)


async def test_a_conversation_that_goes_on_hears_of_each_message_once(plan):
    """BOX-10."""
    messages = PlanMessages(plan)
    say(plan, "one")
    assert words(await messages.news("b", "nothing")) == ["one"]
    assert await messages.news("b", "everything") == ""
    say(plan, "two")
    assert words(await messages.news("b", "everything")) == ["two"]


async def test_a_new_conversation_hears_of_all(plan):
    messages = PlanMessages(plan)
    say(plan, "one", "two")
    await messages.news("b", "nothing")
    assert words(await messages.news("b", "nothing")) == ["one", "two"]


async def test_what_was_told_last_may_not_have_arrived(plan):
    """After a death it is told again; what was told before that is not."""
    messages = PlanMessages(plan)
    say(plan, "one")
    await messages.news("b", "nothing")
    say(plan, "two")
    await messages.news("b", "everything")
    say(plan, "three")
    assert words(await PlanMessages(plan).news("b", "not the last")) == ["two", "three"]
    assert words(await PlanMessages(plan).news("b", "not the last")) == ["two", "three"], "dead once more"
    assert await messages.news("b", "everything") == ""


@pytest.mark.parametrize("content", [b"", b"[]", b'{"seen": {"a": "x"}}', b"\xff" * 100])
async def test_without_a_memory_all_is_told_again(plan, content):
    messages = PlanMessages(plan)
    say(plan, "one")
    await messages.news("b", "nothing")
    (plan.messages / ".told" / "b.json").write_bytes(content)
    assert words(await messages.news("b", "everything")) == ["one"]


async def test_all_messages_are_listed_however_many(plan):
    messages = PlanMessages(plan)
    say(plan, *(f"w{n}" for n in range(250)))
    (plan.messages / "a_to_b_x.json").write_text("misnamed")
    answer = await messages.call("b", "message_list", {})
    assert [one["content"]["word"] for one in answer["data"]["messages"]] == [f"w{n}" for n in range(250)]
    assert "earlier" not in answer["data"]


async def test_an_answer_is_bounded_and_keeps_the_last(plan):
    messages = PlanMessages(plan)
    say(plan, *(f"{n:02}" + "x" * 60_000 for n in range(30)))
    data = (await messages.call("b", "message_list", {}))["data"]
    assert data["messages"][-1]["content"]["word"].startswith("29")
    assert len(data["messages"]) + data["earlier"] == 30 and data["earlier"] > 10
