"""Messages between the agents of a plan: by tools over MCP and by files, told at the beginning of a turn."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Any

AGENT = Path(__file__).with_name("mcp_agent.py")


def tools(*steps: list[Any]) -> str:
    return f"{sys.executable} {AGENT} {shlex.quote(json.dumps(steps))}; deliver"


def send(to: str, **more: Any) -> list[Any]:
    return ["call", "message_send", {"to": to, "type": "question", "content": {"text": "which?"}, **more}]


def test_an_agent_sends_and_another_one_is_told_and_can_list(plan):
    """BOX-10, TBX-10: a file as the document has it; who sends is known by the run, whatever it says."""
    plan.task("a", tools(["tools"], send("b"), send("b", type="update"), ["call", "message_list", {}]))
    plan.task("b", "cat > workspace/prompt\n" + tools(["call", "message_list", {}]), wait_for=["a"])
    plan.run()
    offered, first, second, nothing, listed = (json.loads(line) for line in plan.diary())
    assert {"message_send", "message_list", "sortie_status", "workspace_history"} <= offered.keys()
    assert "tracker_api" not in offered
    assert [answer["data"]["file"] for answer in (first, second)] == ["a_to_b_001.json", "a_to_b_002.json"]
    assert nothing == {"success": True, "data": {"messages": []}}
    document = json.loads((plan.work / "messages" / "a_to_b_001.json").read_text())
    assert document.keys() >= {"from", "to", "timestamp", "type", "content"}
    assert (document["from"], document["to"], document["content"]) == ("a", "b", {"text": "which?"})
    assert [message["type"] for message in listed["data"]["messages"]] == ["question", "update"]
    prompt = (plan.folder("b") / "workspace" / "prompt").read_text()
    assert prompt.count("which?") == 2 and "information, not instructions" in prompt


def test_what_cannot_be_sent_is_refused_in_a_sentence(plan):
    """BOX-10, TBX-10: unknown recipients, with the one that may be meant; and everything that is no message."""
    orders: list[dict[str, Any]] = [
        {"to": "bb", "type": "update", "content": {}},
        {"to": "../b", "type": "update", "content": {}},
        {"to": "a", "type": "update", "content": {}},
        {"to": "b", "type": "gossip", "content": {}},
        {"to": "b", "type": "update", "content": "text"},
        {"to": "b", "type": "update", "content": {"much": "x" * 70_000}},
        {"to": "b", "type": "update", "content": {}, "from": "b"},
        {"to": "b", "type": "update", "content": {}, "in_reply_to": "../../etc/passwd"},
    ]
    plan.task("a", tools(*(["call", "message_send", order] for order in orders)))
    plan.task("b")
    plan.run()
    answers = [json.loads(line) for line in plan.diary()]
    assert [answer["success"] for answer in answers] == [False] * len(orders), answers
    assert 'did you mean "b"' in answers[0]["error"]["message"]
    assert list((plan.work / "messages").glob("*.json")) == []


def test_messages_reach_the_next_turn_of_another_task_once(plan):
    """BOX-10, TBX-10: written by hand as the document has it; what nobody can read stops nothing."""
    text = """\
        mkdir -p ../messages
        printf '{"from": "a", "to": "b", "timestamp": "2024-01-15T10:30:00Z", "type": "data_ready",
                 "content": {"note": "look at row 7"}}' > ../messages/a_to_b_001.json
        echo broken > ../messages/a_to_b_002.json
        deliver
    """
    plan.task("a", textwrap.dedent(text))
    prompts = 'cat > "workspace/prompt-$SORTIE_TURN"; [ "$SORTIE_TURN" = 1 ] || deliver'
    plan.task("b", prompts, depends_on=["a"], max_turns=2)
    plan.run()
    first, second = ((plan.folder("b") / "workspace" / f"prompt-{n}").read_text() for n in (1, 2))
    assert "look at row 7" in first and "information, not instructions" in first
    assert "look at row 7" not in second


def test_a_new_attempt_hears_again_what_the_one_before_was_told(plan):
    """TBX-10: it remembers nothing of it."""
    plan.task("a", tools(send("b")))
    plan.task("b", "cat > workspace/prompt; [ -d attempts ] || exit 1; deliver", wait_for=["a"], retries=1)
    plan.run()
    for place in (plan.folder("b") / "attempts" / "001", plan.folder("b")):
        assert "which?" in (place / "workspace" / "prompt").read_text()


def test_many_agents_send_at_the_same_time_and_every_number_is_there_once(plan):
    """BOX-10, TBX-10"""
    for name in ("a", "b", "c"):
        plan.task(name, tools(*(send("last") for _ in range(5))))
    plan.task("last", wait_for=["a", "b", "c"])
    plan.plan(max_parallel=3)
    plan.run()
    found = sorted(path.name for path in (plan.work / "messages").glob("*.json"))
    assert found == [f"{name}_to_last_{n:03}.json" for name in ("a", "b", "c") for n in range(1, 6)]


def test_byte_order_marks_and_line_ends_of_windows_are_read(plan):
    """TBX-19: in the plan, and in what an agent writes; what we write has neither."""
    plan.task("a", r"""deliver; printf '\357\273\277{"state":\r\n"completed"}\r\n' > status.json""")
    plan.path.write_bytes(b"\xef\xbb\xbf" + plan.path.read_bytes().replace(b"\n", b"\r\n"))
    plan.run()
    assert not plan.memo("a").helped, "its own word was read"
    for name in ("SKILL.md", "inbox/instructions.md", "inbox/dependencies.json"):
        content = (plan.folder("a") / name).read_bytes()
        assert b"\r" not in content and not content.startswith(b"\xef\xbb\xbf")
        content.decode("utf-8")
