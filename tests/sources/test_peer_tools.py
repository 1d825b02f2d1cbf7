"""What the tools of a turn take, write and answer; without a process, on real documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.peers.author import Author
from sortie.peers.mailbox.mailbox_file import MailboxFile
from sortie.peers.place import Place, place_at
from sortie.peers.roster import Roster
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.open_items import open_items
from sortie.peers.worklog.worklog_file import WorklogFile
from sortie.sources.peer_tools import LONGEST_ANSWER, PeerTools, problem_with
from sortie.tools.definitions import BUILTIN, ENTRIES, WORKLOG_APPEND

pytestmark = pytest.mark.anyio

ADA = Author(name="Ada", role="maintainer")
ALICE = Author(name="Alice", role="agent", run_id="r1")
ROSTER = Roster(agents=("Alice", "Bob"), maintainer="Ada")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / ".git").mkdir()
    found = place_at(tmp_path)
    WorklogFile(found.worklog).create(ROSTER.agents, ROSTER.maintainer, ADA, 1_700_000_000)
    found.settings.write_text("maintainer: Ada\nagents: {Alice: {kind: mock}, Bob: {kind: mock}}\n")
    MailboxFile(found).create(ADA, 1_700_000_000)
    return found


async def call(
    place: Place, tool: str, author: Author = ALICE, since: str = "", **arguments: Any
) -> dict[str, Any]:
    answer = await PeerTools(place, author, session_id="s1", since=since).call(tool, arguments)
    json.dumps(answer)
    return answer


SAID: dict[str, dict[str, Any]] = {
    "note": {},
    "claim": {},
    "completion": {"changed_files": ["a.py"], "tests": "3 pass"},
    "handoff": {"next_owner": "Bob", "tests": "3 pass"},
    "proposal": {"scope": "all", "deadline": "next session"},
    "objection": {"recommended_by": "Bob", "recommended": "YAML", "reasoning": ["slow"]},
    "agreement": {"participants": ["Alice", "Bob"], "rationale": "both say so"},
    "escalation": {},
}
TYPES = {
    "note": ["note"],
    "claim": ["task.claimed"],
    "completion": ["task.completed"],
    "handoff": ["task.completed", "handoff.posted"],
    "proposal": ["proposal.created"],
    "objection": ["objection.raised"],
    "agreement": ["decision.recorded"],
    "escalation": ["escalation.requested"],
}


@pytest.mark.parametrize("kind", SAID)
async def test_everything_an_agent_may_record_is_recorded_as_its_own(place, kind):
    """LOG-05"""
    answer = await call(place, "worklog_append", kind=kind, subject="The format", text="JSON.", **SAID[kind])
    assert answer["success"], answer
    told = [event for event in events_of(WorklogFile(place.worklog).read()) if event.actor == "Alice"]
    assert [event.event_type for event in told] == TYPES[kind]
    assert list(answer["data"]["event_ids"]) == [event.event_id for event in told]
    assert {record.author for record in WorklogFile(place.worklog).written_by().values()} == {"Alice"}


async def test_a_proposal_is_amended_and_ended_by_its_id(place):
    """LOG-02: which the answer names."""
    told = await call(place, "worklog_append", kind="proposal", subject="Format", text="YAML")
    name = told["data"]["proposal_id"]
    answer = await call(place, "worklog_append", kind="amendment", subject="Format", text="JSON", proposal_id=name)
    assert answer["success"] and "proposal_id" not in answer["data"], answer
    events = events_of(WorklogFile(place.worklog).read())
    assert [event.event_type for event in events][-2:] == ["proposal.created", "proposal.amended"]
    assert len(open_items(events).proposals) == 1
    answer = await call(place, "worklog_append", kind="agreement", subject="x", text="JSON it is", about=[name])
    assert answer["success"], answer
    assert open_items(events_of(WorklogFile(place.worklog).read())).proposals == ()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "`kind` is missing"),
        ({"kind": "note"}, "`subject` is missing"),
        ({"kind": "decision", "subject": "x"}, "`kind` must be note"),
        ({"kind": "note", "subject": 7}, "`subject` must be a text"),
        ({"kind": "note", "subject": "x", "as": "Ada"}, "no argument `as`"),
        ({"kind": "note", "subject": "x", "next_owner": "Bob"}, "does not belong to the kind `note`"),
        ({"kind": "handoff", "subject": "x"}, "`next_owner` is missing"),
        ({"kind": "handoff", "subject": "x", "next_owner": ""}, "`next_owner` is missing"),
        ({"kind": "completion", "subject": "x", "changed_files": "a.py"}, "must be a list of texts"),
        ({"kind": "completion", "subject": "x", "changed_files": ["a"] * 600}, "at most 500"),
        ({"kind": "amendment", "subject": "x", "proposal_id": "../x"}, "is no id of a proposal"),
        ({"kind": "note", "subject": "", "text": "x"}, "is empty"),
        ({"kind": "note", "subject": "x", "text": "y" * 300_000}, "a work log takes at most"),
    ],
)
async def test_what_does_not_fit_is_refused_in_a_sentence(place, arguments, said):
    before = place.worklog.read_bytes()
    answer = await call(place, "worklog_append", **arguments)
    assert answer["success"] is False and said in answer["error"]["message"], answer
    assert place.worklog.read_bytes() == before


async def test_what_is_new_is_given_once_for_each_cursor(place):
    """LOG-07: with the same cursor the same, with the next one what came after."""
    first = (await call(place, "worklog_since"))["data"]
    await call(place, "worklog_append", kind="note", subject="One")
    second = (await call(place, "worklog_since", cursor=first["cursor"]))["data"]
    assert [event["subject"] for event in second["events"]] == ["One"]
    assert (await call(place, "worklog_since", cursor=first["cursor"]))["data"] == second
    assert (await call(place, "worklog_since", since=second["cursor"]))["data"]["events"] == []
    refused = await call(place, "worklog_since", cursor="nonsense")
    assert "no place in a work log" in refused["error"]["message"]


async def test_answers_are_bounded(place):
    for number in range(6):
        await call(place, "worklog_append", kind="note", subject=f"Note {number}", text="x" * 60_000)
        await call(
            place,
            "mailbox_send",
            author=Author(name="Bob", role="agent"),
            to=["Alice"],
            subject="s",
            text="y" * 60_000,
        )
    new = (await call(place, "worklog_since"))["data"]
    assert len(json.dumps(new["events"])) <= LONGEST_ANSWER + 1000 and new["left_out"] >= 1
    assert new["events"][-1]["subject"] == "Note 5", "the latest are there"
    mail = (await call(place, "mailbox_check"))["data"]
    assert mail["unread"] == 6 and mail["left_out"] >= 1


async def test_mail_is_sent_listed_and_answered_in_the_name_of_the_turn(place):
    """LOG-11: to look at it is no answer."""
    bob = Author(name="Bob", role="agent", run_id="r2")
    sent = await call(
        place, "mailbox_send", author=bob, to=["alice"], subject="Port?", text="Which?", priority="P0"
    )
    later = await call(place, "mailbox_send", author=bob, to=["all"], subject="Hello", type="notify")
    for _ in range(2):
        mail = (await call(place, "mailbox_check"))["data"]
        assert [message["id"] for message in mail["messages"]] == [sent["data"]["id"], later["data"]["id"]]
        assert mail["unread"] == 2 and mail["messages"][0]["from"] == "Bob"
    done = await call(place, "mailbox_ack", id=sent["data"]["id"], text="8080")
    assert done["data"] == {"id": sent["data"]["id"], "status": "acknowledged"}
    assert (await call(place, "mailbox_check"))["data"]["unread"] == 1
    refused = await call(place, "mailbox_ack", author=bob, id=sent["data"]["id"], status="actioned")
    assert "Only a receiver" in refused["error"]["message"]
    unknown = await call(place, "mailbox_send", to=["Allice"], subject="x")
    assert 'did you mean "Alice"' in unknown["error"]["message"]


async def test_documents_that_are_gone_or_damaged_are_said_to_be(place):
    place.worklog.unlink()
    place.mailbox.write_bytes(b"\xff\xfe\x00garbage")
    for answer in (
        await call(place, "worklog_append", kind="note", subject="x"),
        await call(place, "worklog_since"),
    ):
        assert "WORKLOG.md" in answer["error"]["message"]
    answer = await call(place, "mailbox_check")
    assert answer["success"] is False or answer["data"]["messages"] == []


async def test_a_tool_of_somebody_else_is_none_of_ours(place):
    assert (await call(place, "tracker_api"))["success"] is False
    assert (await PeerTools(place, ALICE).call("worklog_append", ["x"]))["success"] is False


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(sorted(BUILTIN)),
    json_values | st.dictionaries(st.sampled_from(["kind", "id", "to"]), json_values),
)
def test_no_arguments_break_the_check(tool, arguments):
    if tool.startswith(("worklog", "mailbox")):
        assert "\n" not in problem_with(arguments, BUILTIN[tool].input_schema)


def test_the_schema_names_what_each_kind_takes():
    known = WORKLOG_APPEND.input_schema["properties"]
    assert {key for keys in ENTRIES.values() for key in keys} == set(known) - {"kind", "subject", "text"}
    assert known["kind"]["enum"] == list(ENTRIES) and "decision" not in ENTRIES
