"""The journal: whatever stands in it, each line of ours is found, and so is each key."""

from __future__ import annotations

import json
import os

import msgspec
import pytest

from sortie.peers.journal import Journal, Line, Record, lines_of
from sortie.peers.key_table import KeyTable
from sortie.peers.shared_document import SharedDocument


def record(**fields) -> Record:
    return Record(at=1.0, author="Alice", role="agent", **fields)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "WORKLOG.md.journal"


def test_lines_come_back_with_their_positions(path):
    journal = Journal(path)
    lines = [Line(op="append", record=record(text=f"{number}\n"), offset=number) for number in range(3)]
    positions = [journal.append(line) for line in lines]
    assert list(journal.lines()) == list(zip(positions, lines, strict=True))
    assert list(journal.lines(positions[1])) == list(zip(positions[1:], lines[1:], strict=True))
    journal.drop(positions[1])
    assert [line for _, line in journal.lines()] == lines[:1]
    journal.close()
    assert path.stat().st_mode & 0o777 == 0o600


NOISE = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b'{"op":"append"}',
    b'{"op":"burn","record":{"at":1,"author":"A","role":"agent"}}',
    b'{"op":"append","offset":-1,"record":{"at":1,"author":"A","role":"agent"}}',
    b'{"op":"append","offset":99999999999999999999999,"record":{"at":1,"author":"A","role":"agent"}}',
    b'{"op":"append","record":{"at":"then","author":"A","role":"agent"}}',
    b'{"op":"told","of":"all"}',
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b"x" * 1_000_000,
]


def test_what_is_no_line_of_ours_is_skipped(path):
    whole = msgspec.json.encode(Line(op="note", record=record(key="k")))
    path.write_bytes(b"\n".join([*NOISE, whole, *NOISE, whole]))
    assert [line.op for _, line in lines_of(path)] == ["note"], "the last one has no end"
    journal = Journal(path)
    assert journal.has_key("k")
    journal.append(Line(op="note", record=record(key="other")))
    assert [line.record.key for _, line in journal.lines() if line.record] == ["k", "other"]
    journal.close()


def test_lines_that_somebody_else_made_up_harm_nobody(tmp_path):
    """An agent can write the journal. It must not make us remove, follow or overwrite anything by that."""
    path, precious = tmp_path / "WORKLOG.md", tmp_path.parent / "precious"
    path.write_bytes(b"# Log\n")
    precious.write_bytes(b"precious\n")
    state = tmp_path / ".sortie"
    state.mkdir()
    made_up = {"record": {"at": 1, "author": "A", "role": "agent", "text": "made up\n"}}
    for line in (
        {"op": "rewrite", "beside": "../precious", "inode": path.stat().st_ino, **made_up},
        {"op": "rewrite", "beside": "../../x\0y", "inode": 5, "base": [1], **made_up},
        {"op": "rewrite", "beside": ".WORKLOG.md.sortie-/../../precious.tmp", **made_up},
        {"op": "rewrite", "beside": "WORKLOG.md", **made_up},
        {"op": "append", "offset": 2**62, **made_up},
        {"op": "told", "of": [-(2**70), 2**70]},
    ):
        (state / "WORKLOG.md.journal").write_text(json.dumps(line) + "\n")
        (state / "WORKLOG.md.stamp").unlink(missing_ok=True)
        with SharedDocument(path).held() as held:
            held.append(b"### one\n", record())
        assert precious.read_bytes() == b"precious\n"
        assert path.read_bytes().startswith(b"# Log\n")
        assert path.read_bytes().endswith(b"### one\n")


def test_keys_are_found_however_many_there_are(path):
    journal = Journal(path)
    positions = [journal.append(Line(op="note", record=record(key=f"k{number}"))) for number in range(500)]
    assert all(journal.has_key(f"k{number}") for number in range(500))
    assert not journal.has_key("k500")
    assert not journal.has_key("")
    journal.drop(positions[400])
    assert journal.has_key("k399")
    assert not journal.has_key("k400"), "what was taken back is not on record"
    journal.append(Line(op="note", record=record(key="k401")))
    assert journal.has_key("k401")
    assert not journal.has_key("k402")
    journal.close()


@pytest.mark.parametrize("damage", [b"", b"x", b"\xff" * 32768, None], ids=["empty", "short", "noise", "gone"])
def test_a_damaged_table_of_keys_is_made_again_or_does_no_harm(path, damage):
    journal = Journal(path)
    journal.append(Line(op="note", record=record(key="k")))
    keys = path.with_suffix(".keys")
    if damage is None:
        keys.unlink()
    else:
        keys.write_bytes(damage)
    assert journal.has_key("k") or damage == b"\xff" * 32768
    assert not journal.has_key("other")
    journal.append(Line(op="note", record=record(key="new")))
    assert journal.has_key("new")
    journal.close()


def test_a_table_of_keys_grows_and_takes_the_same_key_as_often_as_it_comes(tmp_path):
    table = KeyTable(tmp_path / "keys")
    table.make([])
    known = {f"k{number}": number for number in range(6000)}
    for key, position in known.items():
        if not table.add(key, position):
            table.make((key, known[key]) for key in list(known)[: position + 1])
    assert all(known[key] in table.places(key) for key in known)
    assert (tmp_path / "keys").stat().st_size > 4096 * 8
    table.make(("same", number) for number in range(1000))
    assert table.places("same") == [999]
    assert sum(table.add("same", number) for number in range(100)) == 63, "then it is time to make it again"


def test_a_link_in_the_place_of_a_new_table_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious\n")
    os.symlink(precious, tmp_path / "keys.new")
    KeyTable(tmp_path / "keys").make([("k", 7)])
    assert precious.read_bytes() == b"precious\n"
    assert KeyTable(tmp_path / "keys").places("k") == [7]
