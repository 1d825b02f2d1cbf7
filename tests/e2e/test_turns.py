"""Agents that take turns in one checkout: real scripts, real `sortie` processes, a real git repository."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .peer_project import PeerProject
from .shell import BLOCKED, REVIEW

MCP_AGENT = Path(__file__).with_name("mcp_agent.py")


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[PeerProject]:
    made = PeerProject(tmp_path / "peers")
    yield made
    made.clean_up()


def test_a_turn_is_claimed_told_done_and_recorded(peers):
    """LOG-14: one log tells the whole story of a turn, also of an agent that records nothing itself."""
    report = peers.turn("alice", "echo 'version = 2' > src/api.py", "--task", "Raise the version")
    assert (report["outcome"], report["needs_maintainer"], report["findings"]) == ("succeeded", False, [])
    assert report["files"] == [{"path": "src/api.py", "how": "modified"}]
    told = [(event.event_type, event.actor, event.subject) for event in peers.events()[1:]]
    assert told == [
        ("task.claimed", "Alice", "Raise the version"),
        ("task.completed", "Alice", "Raise the version"),
        ("handoff.posted", "Alice", "Raise the version"),
    ]
    handoff = peers.events("handoff")[0].payload
    assert (handoff["next_owner"], handoff["changed_files"]) == ("Ada", ["src/api.py"])
    assert handoff["tests"] == "not reported"
    (turn,) = peers.turns()
    assert (turn.number, turn.agent, turn.outcome) == (1, "Alice", "succeeded")
    assert "Now Working (Alice): idle" in peers.file("WORKLOG.md")
    assert peers.git("status", "--short").split() == ["M", "WORKLOG.md", "M", "src/api.py"]
    assert peers.living() == []


def test_a_session_of_two_agents_and_a_maintainer(peers):
    """LOG-05, LOG-07, LOG-14: a handoff, an objection, a decision; each is told once, with who wrote it."""
    handoff = "sortie worklog handoff 'The parser' --to Bob --file src/api.py --tests '3 pass' >> \"$DIARY\" 2>&1"
    peers.turn("alice", f"echo 'version = 2' > src/api.py; {handoff}", "--task", "The parser")
    assert [event.event_type for event in peers.events(actor="Alice")] == [
        "task.claimed",
        "task.completed",
        "handoff.posted",
    ], peers.diary()
    proposed = peers.sortie("turn", "--next", "--json").stdout
    first = json.loads(proposed)["proposed"][0]
    assert (first["agent"], first["reason"]) == ("Bob", "handoff")

    objection = (
        "sortie worklog object 'Format' --recommended-by Alice --recommended 'YAML' --counter 'JSON' "
        "--reason 'everybody reads it' >> \"$DIARY\" 2>&1"
    )
    peers.turn("bob", "true")
    assert peers.turns()[-1].task == "The parser", "without a task it takes up what was handed to it"
    assert "No task was named" in peers.prompt(2, "bob") and "3 pass" in peers.prompt(2, "bob")
    peers.turn("bob", objection, "--kind", "review")
    assert "written by: Alice:" in peers.prompt(2, "bob") and "3 pass" not in peers.prompt(3, "bob")
    (raised,) = peers.events("objection.raised")
    assert (raised.actor, raised.payload["counter"]) == ("Bob", "JSON"), peers.diary()
    assert json.loads(peers.sortie("turn", "--next", "--json").stdout)["proposed"][0]["agent"] == "Alice"

    peers.sortie("worklog", "decide", "Format", "JSON it is", "--rationale", "as Bob says")
    (decision,) = [event for event in peers.events("decision.recorded") if event.subject == "Format"]
    assert decision.actor == "Ada"
    peers.turn("alice", "true", "--task", "Go on")
    told = peers.prompt(4, "alice")
    assert told.count("JSON it is") == 1 and "written by: Ada:" in told
    assert told.count("Counter-recommendation: Format") == 1
    peers.turn("alice", "true", "--task", "Go on")
    again = peers.prompt(5, "alice")
    assert "JSON it is" not in again and "Counter-recommendation" not in again


def test_the_agent_says_how_its_turn_ended(peers):
    """LOG-14: blocked is an escalation with its reason, a wish for a look a handoff to the maintainer."""
    report = peers.turn(
        "alice", f"{BLOCKED}; echo 'no key for the server' >> .sortie/status", "-t", "Deploy", code=3
    )
    assert report["outcome"] == "blocked"
    (escalation,) = peers.events("escalation")
    assert escalation.actor == "Alice" and "no key for the server" in escalation.payload["reason"]
    report = peers.turn("bob", f"echo 2 > web/page.js; {REVIEW}", "-t", "The page", code=3)
    assert report["outcome"] == "needs-human-review"
    (handoff,) = peers.events("handoff", actor="Bob")
    assert handoff.payload["next_owner"] == "Ada"
    report = peers.turn("bob", "echo 'out of memory'; exit 7", "-t", "More", code=3)
    assert report["outcome"] == "failed" and "7" in report["reason"]
    assert [event.actor for event in peers.events("escalation")] == ["Alice", "sortie"]
    assert [turn.outcome for turn in peers.turns()] == ["blocked", "needs-human-review", "failed"]
    # A failed turn may not have heard what it was told: the next one hears it again.
    peers.turn("bob", "true", "-t", "Again")
    assert "Handoff: The page" in peers.prompt(3, "bob") and "Handoff: The page" in peers.prompt(4, "bob")


def test_mail_reaches_the_next_turn_and_a_p0_without_an_answer_is_escalated(peers):
    """LOG-11, LOG-12: reading is no answer; the escalation is written once."""
    send = "sortie mailbox send Bob --subject 'Which port?' --body 'The server needs one.' --priority P0"
    peers.turn("alice", f'{send} >> "$DIARY" 2>&1', "--task", "Ask")
    (message,) = peers.mailbox.unread("Bob")
    assert (message.sender, message.priority) == ("Alice", "P0"), peers.diary()
    assert json.loads(peers.sortie("turn", "--next", "--json").stdout)["proposed"][0]["reason"] == "urgent mail"
    report = peers.turn("bob", "true", "--kind", "mailbox", code=3)
    prompt = peers.prompt(2, "bob")
    assert "Message 1, " in prompt and "written by: Alice:" in prompt and "The server needs one." in prompt
    assert "Check the mailbox" in prompt
    assert report["escalated"] == [message.id]
    (escalation,) = peers.events("escalation")
    assert escalation.payload["message_id"] == message.id
    report = peers.turn("bob", f'sortie mailbox ack {message.id} --note 8080 >> "$DIARY" 2>&1', "--kind", "mailbox")
    assert report["escalated"] == [] and len(peers.events("escalation")) == 1
    assert peers.mailbox.unread("Bob") == []


def test_tools_write_as_the_running_agent_and_as_nobody_else(peers):
    """LOG-05: over a real MCP client; what does not fit is refused in a sentence."""
    calls: list[list[Any]] = [
        ["tools"],
        ["call", "worklog_append", {"kind": "note", "subject": "Begun", "text": "with the tools"}],
        [
            "call",
            "worklog_append",
            {"kind": "handoff", "subject": "The parser", "next_owner": "Bob", "tests": "2 pass"},
        ],
        ["call", "worklog_append", {"kind": "decision", "subject": "I decide", "text": "all of it"}],
        ["call", "worklog_append", {"kind": "note", "subject": "x", "actor": "Ada"}],
        ["call", "worklog_append", {"kind": "objection", "subject": "x", "text": "y"}],
        ["call", "worklog_since", {}],
        ["call", "mailbox_send", {"to": ["bob"], "subject": "Look", "text": "at the parser", "priority": "P1"}],
        ["call", "mailbox_send", {"to": ["carol"], "subject": "Look"}],
        ["call", "mailbox_check", {}],
        ["call", "mailbox_ack", {"id": "MSG-20200101-001"}],
    ]
    run = f"{sys.executable} {MCP_AGENT} {shlex.quote(json.dumps(calls))}"
    peers.turn("alice", run, "--task", "The parser")
    offered, note, handoff, *rest = (json.loads(line) for line in peers.diary())
    assert set(offered) == {
        *("sortie_status", "worklog_append", "worklog_since"),
        *("mailbox_send", "mailbox_check", "mailbox_ack"),
    }
    assert note["success"] and len(handoff["data"]["event_ids"]) == 2
    decision, stranger, half, since, sent, unknown, mail, ack = rest
    refused = [answer["error"]["message"] for answer in (decision, stranger, half, unknown, ack)]
    assert "`kind` must be note, claim" in refused[0] and "no argument `actor`" in refused[1]
    assert "recommended_by" in refused[2] and 'Nobody here is called "carol"' in refused[3]
    assert [event["subject"] for event in since["data"]["events"]][-3:] == ["Begun", "The parser", "The parser"]
    assert sent["data"]["id"].startswith("MSG-") and mail["data"] == {"unread": 0, "messages": []}
    assert [event.actor for event in peers.events()[1:]] == ["Alice"] * 4
    assert {record.author for record in peers.worklog.written_by().values()} == {"Ada", "sortie", "Alice"}
    # The handoff is its own, so none is recorded for it.
    assert len(peers.events("handoff")) == 1
    (message,) = peers.mailbox.unread("Bob")
    ack_it = [["call", "mailbox_ack", {"id": message.id, "status": "actioned", "text": "looked"}]]
    peers.turn("bob", f"{sys.executable} {MCP_AGENT} {shlex.quote(json.dumps(ack_it))}", "--kind", "mailbox")
    assert peers.mailbox.find(message.id)[1].message.status == "actioned"


def test_what_an_agent_writes_by_hand_is_its_own(peers):
    """LOG-05: an entry in the form of the document counts, and is the running agent's."""
    entry = "### 2026-11-18T05:00:00Z — Alice: Completed: The parser\\n\\nBy hand.\\n"
    peers.turn("alice", f"printf '\\n{entry}' >> WORKLOG.md", "--task", "The parser")
    assert [event.event_type for event in peers.events(actor="Alice")] == ["task.claimed", "task.completed"]
    written = peers.worklog.written_by()
    assert written[peers.events("completed")[0].entry_id].author == "Alice"
    peers.turn("bob", "true", "--task", "Read")
    assert "written by: Alice:" in peers.prompt(2, "bob")


def test_only_one_turn_at_a_time(peers):
    """LOG-11: the second one is refused with who has the first."""
    peers.script("alice", 'say began; while [ ! -e "$DIARY.go" ]; do sleep 0.05; done')
    first = peers.start("alice", "--task", "Slow")
    peers.wait_for_line("began")
    refused = peers.sortie("turn", "bob", "--task", "Quick", code=1)
    assert "Alice has a turn" in refused.stderr and f"process {first.pid}" in refused.stderr
    assert "goes on" in peers.sortie("turn", "--next").stdout
    assert "goes on" in peers.sortie("turn", "--list").stdout
    Path(f"{peers.diary_path}.go").touch()
    assert first.wait(30) == 0, peers.said()
    assert len(peers.turns()) == 1 and len(peers.events("claimed")) == 1
    peers.turn("bob", "true", "--task", "Quick")


def test_a_turn_that_is_stopped_by_a_person_is_told_to_the_next_one(peers):
    peers.script("alice", "echo half > src/half.py; say began; while :; do sleep 600; done")
    first = peers.start("alice", "--task", "Long")
    peers.wait_for_line("began")
    first.terminate()
    assert first.wait(30) == 3, peers.said()
    assert peers.living() == []
    assert [turn.outcome for turn in peers.turns()] == ["interrupted"]
    (note,) = peers.events("note")
    assert note.actor == "sortie" and "Turn 1 of Alice was interrupted" in note.subject
    assert json.loads(peers.sortie("turn", "--next", "--json").stdout)["proposed"][0]["reason"] == "interrupted"
    peers.turn("bob", "true", "--task", "Web")
    told = peers.prompt(2, "bob")
    assert "## Turn 1 was interrupted" in told and "that of Alice" in told and "src/half.py" in told
    peers.turn("bob", "true", "--task", "Web")
    assert "was interrupted, begun" not in peers.prompt(3, "bob") and "## Turn 1" not in peers.prompt(3, "bob")


def test_what_a_turn_cannot_be_taken_for_is_said_before_anything_is_written(peers):
    """Each in a sentence with its fix; nothing is claimed and no turn is counted."""
    assert 'did you mean "Alice"' in peers.sortie("turn", "alise", code=1).stderr
    assert "is the maintainer" in peers.sortie("turn", "ada", code=1).stderr
    peers.settings({"Alice": {"command": "no-such-program --x"}})
    assert "no-such-program" in peers.sortie("turn", "alice", "-t", "x", code=1).stderr
    peers.settings({"Alice": {"kind": "claud-code"}})
    assert 'did you mean "claude-code"' in peers.sortie("turn", "alice", code=2).stderr
    peers.settings()
    charter = peers.file("CHARTER.md")
    (peers.root / "CHARTER.md").write_text(charter.replace("web/**", "src/**"))
    warned = peers.sortie("turn", "alice", "-t", "x")
    assert "changed without a decision of the maintainer" in warned.stderr
    (peers.root / "CHARTER.md").write_text(charter)
    (peers.root / "WORKLOG.md").rename(peers.root / "gone.md")
    assert "There is no" in peers.sortie("turn", "bob", "-t", "x", code=1).stderr
    (peers.root / "gone.md").rename(peers.root / "WORKLOG.md")
    assert len(peers.turns()) == 1 and len(peers.events("claimed")) == 1


def test_the_budget_of_a_day_bounds_the_turns_of_a_day(peers):
    peers.settings(budget={"per_day": {"turns": 1}})
    peers.turn("alice", "true", "-t", "x")
    refused = peers.sortie("turn", "bob", "-t", "y", code=3)
    assert "budget of the day is used up: all of 1 turns used" in refused.stderr
    assert len(peers.turns()) == 1


def test_a_limit_of_the_provider_ends_the_turn_and_holds_up_nobody(peers):
    """LOG-11: nothing waits for it; the next turn is a person's wish like every other."""
    limited = {"kind": "mock", "command": "", "env": [], "options": {"turns": [{"outcome": "rate_limited"}]}}
    peers.settings({"Alice": limited, "Bob": {**limited, "options": {"turns": [{"input_tokens": 900}]}}})
    report = peers.turn("alice", None, "-t", "x", code=3)
    assert report["outcome"] == "failed" and "limit is reached" in report["reason"]
    assert peers.turn("bob", None, "-t", "y")["tokens"] == 900
    peers.settings(
        {"Bob": {**limited, "options": {"turns": [{"input_tokens": 900}]}}}, budget={"per_turn": {"tokens": 7}}
    )
    report = peers.turn("bob", None, "-t", "z", code=3)
    assert [finding["kind"] for finding in report["findings"]] == ["over budget"]


def test_a_turn_can_be_taken_from_python(peers):
    program = (
        "import sortie, sys; found = sortie.take_turn(sys.argv[1], 'alice', task='From Python'); "
        "print(found.result.outcome, found.turn.number, [file.path for file in found.changes.files])"
    )
    peers.script("alice", "echo 2 > src/api.py")
    done = subprocess.run(
        [sys.executable, "-c", program, str(peers.root)],
        env=peers.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "succeeded 1 ['src/api.py']\n", done.stderr


def test_what_was_taken_can_be_looked_at(peers):
    peers.turn("alice", "echo the agent speaks", "--task", "Speak")
    listed = json.loads(peers.sortie("turn", "--list", "--json").stdout)
    assert [(turn["agent"], turn["outcome"]) for turn in listed] == [("Alice", "succeeded")]
    assert "run ended after 1 turn" in peers.sortie("turn", "--why", "1").stdout
    assert "the agent speaks" in peers.sortie("turn", "--log", "1").stdout
    assert "no turn 9" in peers.sortie("turn", "--why", "9", code=1).stderr
    shown = peers.sortie("turn", "bob", "--task", "Look", "--dry-run").stdout
    assert "# Turn 2: Bob" in shown and len(peers.turns()) == 1
    hint = peers.sortie("turn", code=2)
    assert "Usage:" in hint.stderr and "turn Bob" in hint.stdout
    assert "only one of them" in peers.sortie("turn", "alice", "--next", code=2).stderr
