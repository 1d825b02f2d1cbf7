"""Sixteen processes send mail and are killed at any moment, and an editor saves older versions in between."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sortie.peers.mailbox.derive import rederived, row_cells, table_of
from sortie.peers.mailbox.draft import Draft
from sortie.peers.mailbox.lint import MILD, lint
from sortie.peers.mailbox.mailbox_file import MailboxFile

from .mail_writers import MAINTAINER, body_of, mailbox

ROOT = Path(__file__).parents[2]
WRITERS = 16


def run(directory: Path, messages: int, editor: str) -> tuple[MailboxFile, dict[str, Any]]:
    """What was said at the end; and the mailbox after whoever comes next, who finds what the last ones left."""
    (directory / ".git").mkdir()
    seed = os.environ.get("SORTIE_CHAOS_SEED") or str(secrets.randbelow(10**9))
    print(f"SORTIE_CHAOS_SEED={seed}")
    began = time.monotonic()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.chaos.mail_writers"),
            *(str(directory), seed, str(WRITERS), str(messages), editor),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:4000]
    said: dict[str, Any] = json.loads(done.stdout)
    print(f"{said['kills']} kills, {said['saved']} saves, {time.monotonic() - began:.1f} s")
    assert len({tuple(one[:2]) for one in said["acknowledged"]}) == WRITERS * messages
    box = mailbox(directory, WRITERS)
    box.send(Draft(to=("all",), subject="the end"), MAINTAINER, at=time.time())
    return box, said


def assert_sound(box: MailboxFile, said: dict[str, Any], messages: int) -> None:
    found = box.read()
    by_subject = Counter(message.subject for message in found.messages)
    assert max(by_subject.values()) == 1
    assert len({message.id for message in found.messages}) == len(found.messages)
    by_id = {message.id: message for message in found.messages}
    for writer, number, attempt, message_id in said["acknowledged"]:
        message = by_id[message_id]
        assert re.fullmatch(rf"w{writer} n{number} a\d+", message.subject), "an ID is given once"
        if writer % 2:
            assert message.subject == f"w{writer} n{number} a{attempt}"
        assert message.body == body_of(message.subject), "whole"
        answered = [ack for ack in message.acks if ack.text == f"acknowledged: {message.subject}"]
        if number % 10 == 5 and writer % 2:
            assert (message.status, len(answered)) == ("acknowledged", 1)
    for writer in range(WRITERS):
        mine = [message.subject for message in found.messages if message.subject.startswith(f"w{writer} ")]
        numbers = [int(re.findall(r"n(\d+)", subject)[0]) for subject in mine]
        assert numbers == sorted(numbers, reverse=True), "the newest first"
        if writer % 2 == 0:
            assert numbers == [*reversed(range(messages))], "with a key each is sent once, whoever is killed"
    assert rederived(found, box.roster.names) == found.data
    table = table_of(found, "snapshot")
    assert table is not None
    unread = {cells[0]: int(cells[1]) for cells in map(row_cells, table.rows)}
    assert unread == {name: len(box.unread(name)) for name in box.roster.names}
    assert [one for one in lint(found, roster=box.roster, now=time.time()) if one.kind not in MILD] == []
    assert [one.name for one in box.path.parent.iterdir() if one.name.endswith(".tmp")] == []


@pytest.mark.timeout(300)
def test_killed_senders_leave_every_acknowledged_message_once_and_whole(tmp_path):
    """LOG-10: 16 processes send 200 messages each, with random SIGKILLs; the snapshot is right at the end."""
    box, said = run(tmp_path, 200, "none")
    assert said["kills"] > 20
    assert_sound(box, said, 200)


@pytest.mark.timeout(300)
def test_an_editor_that_saves_older_versions_loses_no_mail(tmp_path):
    """LOG-11: what it saved over is there again, with its answers; and so is every line of the person who edits."""
    box, said = run(tmp_path, 40, "saves")
    assert said["saved"] > 10
    assert_sound(box, said, 40)
    text = box.path.read_text()
    assert text.count("editor line ") == said["saved"]
    assert "restored: an older version of this file had been saved over MSG-" in text
