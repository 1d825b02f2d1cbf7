"""Sixteen processes write one document, are killed at any moment, and an editor saves older versions in between."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sortie.peers.journal import Record
from sortie.peers.shared_document import SharedDocument

from .document_writers import HEADER, NAME, Name, editors_line, entry, is_rewrite, status_line

ROOT = Path(__file__).parents[2]
HEADING = re.compile(r"### w(\d+) n(\d+) a(\d+)\n")


@pytest.fixture
def directory(tmp_path):
    (tmp_path / ".git").mkdir()
    return tmp_path


def run(directory: Path, *, writers: int, entries: int, editor: str) -> dict[str, Any]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.chaos.document_writers"),
            *(str(directory), "1", str(writers), str(entries), editor),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    said["acknowledged"] = [tuple(name) for name in said["acknowledged"]]
    assert len({name[:2] for name in said["acknowledged"]}) == writers * entries
    return said


def settled(directory: Path) -> SharedDocument:
    """The document after whoever comes next: what the last killed writer left is finished then."""
    document = SharedDocument(directory / NAME)
    with document.held() as held:
        held.rewrite(lambda before: before + b"the end\n", Record(at=2.0, author="test", role="maintainer"))
    assert [one for one in directory.iterdir() if one.name.endswith(".tmp")] == []
    return document


def names_of_whole_entries(content: str) -> list[Name]:
    """All entries of the document in their order; fails where anything else stands between them."""
    body = content.removeprefix(HEADER)
    while body.startswith("Now Working"):
        body = body[body.index("\n") + 1 :]
    found, position = [], 0
    while match := HEADING.match(body, position):
        name = (int(match[1]), int(match[2]), int(match[3]))
        assert body.startswith(entry(*name), position), f"the entry {name} is not whole"
        position += len(entry(*name))
        found.append(name)
    assert body[position:] == "the end\n"
    return found


def test_killed_writers_leave_every_acknowledged_entry_once_whole_and_in_order(directory):
    """LOG-06: 16 processes append 200 entries each, with random SIGKILLs; nothing is lost, doubled or torn."""
    said = run(directory, writers=16, entries=200, editor="none")
    assert said["kills"] > 50
    document = settled(directory)
    content = document.read().decode()
    found = names_of_whole_entries(content)
    count = Counter(found)
    assert max(count.values()) == 1
    # With a key a write happens once, whoever is killed: also where a dead writer's entry was finished by others.
    by_key = Counter(name[:2] for name in found if name[0] % 2 == 0)
    assert max(by_key.values()) == 1
    for writer in range(16):
        numbers = [number for number in range(200) if not is_rewrite(number)]
        if writer % 2:
            acknowledged = [n for n in said["acknowledged"] if n[0] == writer and not is_rewrite(n[1])]
            assert [name for name in found if name in set(acknowledged)] == acknowledged
        assert sorted({name[1] for name in found if name[0] == writer}) == numbers
        in_order = [name[1] for name in found if name[0] == writer]
        assert in_order == sorted(in_order)
        assert status_line(writer, 199).decode() in content
    assert document.missing() == ()


@pytest.mark.parametrize("editor", ["in-place", "by-rename"])
def test_an_editor_that_saves_older_versions_loses_nothing_silently(directory, editor):
    """LOG-06: what it threw out is reported and can be restored, and its own lines stay."""
    said = run(directory, writers=16, entries=20, editor=editor)
    assert said["saved"] > 20
    document = SharedDocument(directory / NAME)
    missing = Counter(record.text for record in document.missing())
    content = document.read().decode()
    for writer, number, attempt in said["acknowledged"]:
        if not is_rewrite(number):
            texts = [entry(writer, number, one) for one in possible_attempts(writer, attempt)]
            assert sum(content.count(text) + missing[text] for text in texts) == 1, texts[-1].partition("\n")[0]
    for number in range(said["saved"]):
        assert content.count(editors_line(number)) == 1
    assert missing, "the editor has thrown nothing out, so nothing was shown"
    document.restore()
    content = document.read().decode()
    assert document.missing() == ()
    for writer, number, attempt in said["acknowledged"]:
        if not is_rewrite(number):
            texts = [entry(writer, number, one).strip() for one in possible_attempts(writer, attempt)]
            assert sum(map(content.count, texts)) == 1


def possible_attempts(writer: int, acknowledged: int) -> range:
    """With a key, an entry may be that of an earlier attempt, which was killed and finished by somebody else."""
    return range(acknowledged if writer % 2 else 1, acknowledged + 1)
