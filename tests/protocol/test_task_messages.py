"""Sending messages between tasks: numbers without gaps under any number of writers, and only what is a message."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.protocol.foreign_text import Malformed
from sortie.protocol.message_inbox import list_for
from sortie.protocol.safefiles import UnsafeFile
from sortie.protocol.task_messages import (
    SIZE_LIMIT,
    Address,
    Message,
    MessageRefused,
    parse_address,
    parse_message,
    send,
)

NOW = 1705314600.25
WRITERS, EACH = 4, 60

WRITER = """
import sys
from pathlib import Path
from sortie.protocol.task_messages import send
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    send(Path(sys.argv[1]), "agent-a", "agent-b", "update", {"writer": sys.argv[2], "number": number}, now=1e9)
"""


@pytest.fixture
def messages(tmp_path):
    path = tmp_path / "messages"
    path.mkdir()
    return path


def test_a_message_is_a_file_with_the_fields_of_the_document(messages):
    """BOX-10"""
    sent = send(messages, "agent-a", "agent-b", "question", {"text": "größer?"}, now=NOW)
    assert [path.name for path in messages.iterdir()] == ["agent-a_to_agent-b_001.json"]
    assert json.loads((messages / "agent-a_to_agent-b_001.json").read_bytes()) == {
        "from": "agent-a",
        "to": "agent-b",
        "timestamp": "2024-01-15T10:30:00Z",
        "type": "question",
        "content": {"text": "größer?"},
        "seq": 1,
        "in_reply_to": None,
    }
    assert sent == Message("agent-a", "agent-b", 1, float(int(NOW)), "question", {"text": "größer?"})
    assert sent.name == "agent-a_to_agent-b_001"


def test_each_direction_counts_for_itself(messages):
    """BOX-10, TBX-10: per ordered pair."""
    question = send(messages, "a", "b", "question", {}, now=NOW)
    answer = send(messages, "b", "a", "answer", {}, now=NOW, in_reply_to=question.name)
    assert (answer.seq, answer.in_reply_to) == (1, "a_to_b_001")
    assert send(messages, "a", "b", "update", {}, now=NOW).seq == 2
    assert send(messages, "a", "b-c", "update", {}, now=NOW).seq == 1


def test_numbers_grow_beyond_three_digits(messages):
    """TBX-10"""
    (messages / "a_to_b_999.json").touch()
    assert send(messages, "a", "b", "update", {}, now=NOW).name == "a_to_b_1000"
    assert send(messages, "a", "b", "update", {}, now=NOW).name == "a_to_b_1001"


def test_the_next_number_is_after_the_highest_also_across_gaps(messages):
    """TBX-10: a number that a reader has passed is not used again."""
    for number in ("001", "007"):
        (messages / f"a_to_b_{number}.json").touch()
    assert send(messages, "a", "b", "update", {}, now=NOW).seq == 8


@pytest.mark.parametrize(
    "name",
    ["a_to_b_9.json", "a_to_b_0009.json", "a_to_b_999.json.tmp", "x_a_to_b_999.json", "a_to_b_9999999999999.json"],
)
def test_other_names_do_not_count(messages, name):
    (messages / name).touch()
    assert send(messages, "a", "b", "update", {}, now=NOW).seq == 1


def test_no_number_is_left_at_the_end_of_all_numbers(messages):
    (messages / "a_to_b_999999999999.json").touch()
    with pytest.raises(MessageRefused, match=r"no number left after a_to_b_999999999999: remove that file\.$"):
        send(messages, "a", "b", "update", {}, now=NOW)
    assert len(list(messages.iterdir())) == 1


def test_processes_that_write_at_the_same_time_share_all_numbers(messages):
    """BOX-10, TBX-10: unique, without gaps, nothing lost; a reader that looks meanwhile gets each message once."""
    for number in range(3000):  # a listing takes several steps, between which files are added
        (messages / f"agent-c_to_agent-d_{number:03}.json").touch()
    command = [sys.executable, "-c", WRITER, str(messages)]
    processes = [
        subprocess.Popen([*command, str(writer), str(EACH)], stdin=subprocess.PIPE) for writer in range(WRITERS)
    ]
    try:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
        read: list[Message] = []
        seen: dict[str, int] = {}
        is_over = False
        while not is_over:
            is_written = all(process.poll() is not None for process in processes)
            inbox = list_for(messages, "agent-b", seen, now=2e9)
            assert (inbox.gaps, inbox.set_aside) == ((), ())
            read += inbox.messages
            seen = dict(inbox.seen)
            is_over = is_written and not inbox.messages
        assert [process.returncode for process in processes] == [0] * WRITERS
    finally:
        for process in processes:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
    assert sorted(message.seq for message in read) == list(range(1, WRITERS * EACH + 1))
    for writer in range(WRITERS):
        in_order = sorted(
            (message for message in read if message.content["writer"] == str(writer)), key=lambda m: m.seq
        )
        assert [message.content["number"] for message in in_order] == list(range(EACH))
    assert len(list(messages.iterdir())) == WRITERS * EACH + 3000, "something else was left behind"


def test_threads_share_all_numbers_too(messages):
    """BOX-10"""
    with ThreadPoolExecutor(8) as threads:
        sent = list(threads.map(lambda n: send(messages, "a", "b", "update", {"n": n}, now=NOW), range(200)))
    assert sorted(message.seq for message in sent) == list(range(1, 201))
    assert len(list(messages.iterdir())) == 200


CIRCULAR: dict[str, object] = {}
CIRCULAR["self"] = CIRCULAR
DEEP: dict[str, object] = {}
for _ in range(50):
    DEEP = {"deeper": DEEP}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"sender": "../a"}, "is no name of a task"),
        ({"sender": "A"}, "is no name of a task"),
        ({"sender": ""}, "is no name of a task"),
        ({"recipient": "-b"}, "is no name of a task"),
        ({"recipient": "b\n"}, "is no name of a task"),
        ({"recipient": "b_to_c"}, "is no name of a task"),
        ({"recipient": "x" * 65}, "is no name of a task"),
        ({"recipient": "a"}, "cannot send a message to itself"),
        ({"kind": "gossip"}, "`type` must be one of data_ready, question, answer, update"),
        ({"content": "text"}, "`content` must be an object"),
        ({"content": None}, "`content` must be an object"),
        ({"content": {"x": float("nan")}}, "not JSON compliant"),
        ({"content": {"x": object()}}, "not JSON serializable"),
        ({"content": CIRCULAR}, "This is no message"),
        ({"content": DEEP}, "nested more than 32 deep"),
        ({"content": {"x": "y" * SIZE_LIMIT}}, "larger than 64 KiB"),
        ({"in_reply_to": "the last one"}, "`in_reply_to` must be the name of a message"),
    ],
)
def test_what_is_no_message_is_refused_and_leaves_nothing(messages, fields, why):
    """BOX-10"""
    order = {"sender": "a", "recipient": "b", "kind": "update", "content": {}, **fields}
    with pytest.raises(MessageRefused) as caught:
        send(messages, now=NOW, **order)
    assert why in str(caught.value)
    assert str(caught.value).endswith(".")
    assert list(messages.iterdir()) == []


def test_no_directory_and_a_link_to_one_take_no_message(tmp_path, messages):
    with pytest.raises(FileNotFoundError):
        send(tmp_path / "nowhere", "a", "b", "update", {}, now=NOW)
    (tmp_path / "link").symlink_to(messages)
    with pytest.raises(UnsafeFile):
        send(tmp_path / "link", "a", "b", "update", {}, now=NOW)


names = st.from_regex(r"[a-z0-9][a-z0-9-]{0,63}", fullmatch=True)
addresses = st.builds(Address, names, names, st.integers(1, 10**12 - 1))


@given(addresses)
def test_a_name_says_who_wrote_to_whom_and_the_number(address):
    assert parse_address(address.file) == address


@given(st.text())
def test_a_name_that_is_understood_is_the_only_one_of_its_message(name):
    address = parse_address(name)
    assert address is None or address.file == name


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(raw):
    with pytest.raises(Malformed):
        parse_message(raw, Address("a", "b", 1))


def test_a_sender_that_is_killed_leaves_nothing_that_is_read(messages):
    """What is half-written has another name."""
    (messages / ".a.0123456789abcdef.tmp").write_text('{"from": "a"')
    assert list_for(messages, "b", {}, now=NOW).set_aside == ()
    assert send(messages, "a", "b", "update", {}, now=NOW).seq == 1
    os.link(messages / "a_to_b_001.json", messages / ".a.1123456789abcdef.tmp")  # killed between two steps
    assert [message.seq for message in list_for(messages, "b", {}, now=NOW).messages] == [1]
