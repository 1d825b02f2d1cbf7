"""Reading messages: each once and the oldest first, whatever else lies in the directory."""

import json
import os
import time
from pathlib import Path

import pytest

from sortie.protocol.message_inbox import UNREADABLE, Gap, Inbox, list_for
from sortie.protocol.task_messages import send

LATER = 4e9
SECRET = "AKIA-top-secret"


@pytest.fixture
def messages(tmp_path):
    path = tmp_path / "messages"
    path.mkdir()
    return path


def write(messages: Path, name: str, **fields: object) -> None:
    """By hand, as an agent does."""
    document = {"from": "a", "to": "b", "timestamp": "2024-01-15T10:30:00Z", "type": "update", "content": {}}
    (messages / name).write_text(json.dumps({**document, **fields}))


def look(messages: Path, after=None, **options) -> Inbox:
    before = set(os.listdir("/proc/self/fd"))
    inbox = list_for(messages, "b", after or {}, now=LATER, **options)
    assert set(os.listdir("/proc/self/fd")) == before
    return inbox


def names(inbox: Inbox) -> list[str]:
    return [message.name for message in inbox.messages]


def aside(messages: Path) -> list[str]:
    directory = messages / UNREADABLE
    return sorted(path.name.rpartition(".")[0] for path in directory.iterdir()) if directory.exists() else []


def test_the_oldest_comes_first_and_each_comes_once(messages):
    """BOX-10, TBX-10"""
    send(messages, "c", "b", "update", {}, now=30.0)
    send(messages, "a", "b", "data_ready", {"path": "x"}, now=20.0)
    send(messages, "a", "b", "update", {}, now=10.0)
    send(messages, "a", "c", "update", {}, now=5.0)
    inbox = look(messages)
    assert names(inbox) == ["a_to_b_002", "a_to_b_001", "c_to_b_001"]
    assert inbox.messages[1].content == {"path": "x"}
    assert inbox.seen == {"a": 2, "c": 1}
    assert look(messages, inbox.seen) == Inbox(seen=inbox.seen)
    send(messages, "a", "b", "update", {}, now=1.0)
    assert names(look(messages, inbox.seen)) == ["a_to_b_003"]


def test_of_one_second_numbers_decide_also_beyond_999(messages):
    for number in ("999", "1000", "1001"):
        write(messages, f"a_to_b_{number}.json")
    assert [message.seq for message in look(messages, {"a": 998}).messages] == [999, 1000, 1001]


def test_a_message_by_hand_needs_no_more_than_the_document_says(messages):
    """BOX-10"""
    write(messages, "a_to_b_001.json")
    write(messages, "a_to_b_002.json", seq=2, in_reply_to="b_to_a_004.json", priority="high")
    first, second = look(messages).messages
    assert (first.in_reply_to, second.in_reply_to) == ("", "b_to_a_004")


def test_no_more_are_read_than_asked_for_and_none_is_passed_over(messages):
    for number in range(1, 8):
        write(messages, f"a_to_b_{number:03}.json")
        write(messages, f"c_to_b_{number:03}.json", **{"from": "c"})
    seen: dict[str, int] = {}
    read = []
    while found := names(inbox := look(messages, seen, most=3)):
        assert len(found) <= 3
        read += found
        seen = dict(inbox.seen)
    assert sorted(read) == [f"{who}_to_b_{number:03}" for who in "ac" for number in range(1, 8)]
    assert len(set(read)) == 14


def test_what_is_missing_is_told(messages):
    """TBX-10"""
    for number in (1, 4, 5, 9):
        write(messages, f"a_to_b_{number:03}.json")
    inbox = look(messages)
    assert inbox.gaps == (Gap("a", 2, 3), Gap("a", 6, 8))
    assert look(messages, inbox.seen).gaps == ()
    assert look(messages, {"a": 4}).gaps == (Gap("a", 6, 8),)


def test_a_leap_of_any_size_is_one_gap(messages):
    write(messages, "a_to_b_999999999999.json")
    assert look(messages).gaps == (Gap("a", 1, 999999999998),)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"from": "c"}, "`from` must be a, as in its name"),
        ({"from": ["a"]}, "`from` must be a, as in its name"),
        ({"to": "c"}, "`to` must be b, as in its name"),
        ({"seq": 2}, "`seq` must be 1, as in its name"),
        ({"seq": -1}, "`seq` must be 1, as in its name"),
        ({"seq": "1"}, "`seq` must be a number"),
        ({"seq": True}, "`seq` must be a number"),
        ({"type": "gossip"}, "`type` must be one of data_ready, question, answer, update, not `gossip`"),
        ({"type": None}, "`type` must be one of data_ready, question, answer, update"),
        ({"content": "text"}, "`content` must be an object"),
        ({"content": None}, "`content` must be an object"),
        ({"timestamp": None}, "`timestamp` must be a time like 2024-01-15T10:30:00Z"),
        ({"timestamp": "noon"}, "`timestamp` must be a time like 2024-01-15T10:30:00Z"),
        ({"in_reply_to": "it"}, "`in_reply_to` must be the name of a message, like a_to_b_001"),
        ({"content": {"x": "y" * 70_000}}, "It is larger than 64 KiB"),
    ],
)
def test_a_message_that_is_none_or_lies_is_set_aside_and_holds_up_nothing(messages, fields, why):
    """BOX-10, TBX-10"""
    write(messages, "a_to_b_001.json", **fields)
    write(messages, "a_to_b_002.json")
    inbox = look(messages)
    assert names(inbox) == ["a_to_b_002"]
    assert inbox.set_aside == (("a_to_b_001.json", why),)
    assert inbox.gaps == ()
    assert aside(messages) == ["a_to_b_001.json"]
    assert look(messages, inbox.seen) == Inbox(seen={"a": 2})


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe\x00", b"[" * 60_000, b"null", b"\0" * 50])
def test_bytes_that_are_no_json_are_set_aside(messages, raw):
    """TBX-10"""
    (messages / "a_to_b_001.json").write_bytes(raw)
    assert [name for name, _ in look(messages).set_aside] == ["a_to_b_001.json"]


def make_link(path: Path) -> None:
    target = path.parent.parent / "secret"
    target.write_text(json.dumps({"from": "a", "to": "b", "type": SECRET}))
    path.symlink_to(target)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_directory(path: Path) -> None:
    (path / "inner").mkdir(parents=True)


@pytest.mark.parametrize("make", [make_link, make_fifo, make_directory])
def test_what_is_no_file_is_set_aside_without_being_opened(messages, make):
    """TBX-10"""
    make(messages / "a_to_b_001.json")
    inbox = look(messages)
    assert [name for name, _ in inbox.set_aside] == ["a_to_b_001.json"]
    assert SECRET not in repr(inbox)
    assert aside(messages) == ["a_to_b_001.json"]


def test_nothing_that_was_set_aside_is_overwritten(messages):
    for _ in range(3):
        (messages / "a_to_b_001.json").write_text("no message")
        look(messages)
    assert aside(messages) == ["a_to_b_001.json"] * 3


def test_a_number_that_was_set_aside_can_be_used_by_a_message(messages):
    """The reader has not passed it: nothing is lost."""
    (messages / "a_to_b_001.json").write_text("no message")
    seen = look(messages).seen
    send(messages, "a", "b", "update", {}, now=1.0)
    assert names(look(messages, seen)) == ["a_to_b_001"]


@pytest.mark.parametrize("make", [Path.touch, make_link])
def test_where_nothing_can_be_set_aside_the_queue_goes_on_all_the_same(messages, make):
    make(messages / UNREADABLE)
    (messages / "a_to_b_001.json").write_text("no message")
    inbox = look(messages)
    assert [name for name, _ in inbox.set_aside] == ["a_to_b_001.json"]
    assert (messages / "a_to_b_001.json").exists()
    assert look(messages, inbox.seen) == Inbox(seen={"a": 1})


@pytest.mark.parametrize(
    "name", ["a_to_b_1.json", "A_to_b_001.json", "_to_b_001.json", "a_to_b_000.json", "a_to_b_x\n.json"]
)
def test_a_name_by_which_it_would_never_be_found_is_told(messages, name):
    write(messages, name)
    ((shown, why),) = look(messages).set_aside
    assert shown.isprintable()
    assert why == "Its name must be like a_to_b_001.json"
    assert look(messages).set_aside == ()


def test_a_long_name_can_be_set_aside_too(messages):
    write(messages, f"a_to_b_{'ü' * 120}.json")
    assert len(look(messages).set_aside) == 1
    assert len(list((messages / UNREADABLE).iterdir())) == 1


@pytest.mark.parametrize(
    "name", ["a_to_c_1.json", "notes.txt", ".a_to_b_001.json", "a_to_b_001.json.bak", "a_to_bb_001.json"]
)
def test_what_is_not_for_this_task_is_left_alone(messages, name):
    write(messages, name)
    assert look(messages) == Inbox()
    assert (messages / name).exists()


def test_one_that_is_being_written_waits_and_later_ones_with_it(messages):
    """TBX-10: what an agent writes by hand is not taken from under its pen, and not overtaken."""
    (messages / "a_to_b_001.json").write_text('{"from": "a", ')
    write(messages, "a_to_b_002.json")
    write(messages, "c_to_b_001.json", **{"from": "c"})
    inbox = list_for(messages, "b", {}, now=time.time())
    assert (names(inbox), inbox.gaps, inbox.set_aside) == (["c_to_b_001"], (), ())
    write(messages, "a_to_b_001.json")
    assert names(look(messages, inbox.seen)) == ["a_to_b_001", "a_to_b_002"]


def test_a_hard_link_shows_nothing_but_a_message_of_its_name(messages, tmp_path):
    (tmp_path / "secret").write_text(json.dumps({"key": SECRET}))
    (messages / "a_to_b_001.json").hardlink_to(tmp_path / "secret")
    inbox = look(messages)
    assert len(inbox.set_aside) == 1
    assert SECRET not in repr(inbox)


def test_no_directory_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        look(tmp_path / "nowhere")
