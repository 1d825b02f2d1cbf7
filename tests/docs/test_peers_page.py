"""docs/peers.md shows what happens: its session is played as it stands, its forms are read, its tables compared."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from sortie.cli import charter, mailbox, peers, worklog
from sortie.cli.peers_options import LONGEST_TEXT
from sortie.errors import SortieError
from sortie.peers.author import Author
from sortie.peers.charter.lanes import Lane, owner_of
from sortie.peers.mailbox.message import STATUSES, Message
from sortie.peers.mailbox.parse import parse as parse_mailbox
from sortie.peers.mailbox.transitions import People, check_move
from sortie.peers.mailbox.write_card import LONGEST_SUBJECT
from sortie.peers.settings import PeerSettings
from sortie.peers.turns import prompt
from sortie.peers.turns.snapshot import KEPT_TURNS
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.parse import parse as parse_worklog
from sortie.tools.definitions import FOR_PEERS
from sortie.workflow.fields import ANY, leaves

from .console import assert_shown, open_shell, section, steps

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "peers"
PAGE = (ROOT / "docs" / "peers.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
NOBODY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Maintainer"), ("EMAIL", "maintainer@localhost"))
}
VARIES = (
    (r"\bwl-[0-9a-f]{16}\b", "wl-ID"),
    (r"\bMSG-\d{8}-", "MSG-DAY-"),
    (r"\(\d+s\)", "(0s)"),
)


def blocks(language: str) -> list[str]:
    return [block[2] for block in re.finditer(rf"^(`{{3,}}){language}\n(.*?)^\1$", PAGE, re.S | re.M)]


def rows(text: str, *, columns: int = 0) -> list[list[str]]:
    """Of all tables in the text, without their headers."""
    found = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line[1:-1])]
        for line in re.findall(r"^\|.*\|$", text, re.M)
    ]
    inner = [row for number, row in enumerate(found) if "---" not in row[0] and "---" not in _after(found, number)]
    return [row for row in inner if not columns or len(row) == columns]


def _after(found: list[list[str]], number: int) -> str:
    return found[number + 1][0] if number + 1 < len(found) else ""


def test_the_worked_session_is_what_happens(tmp_path):
    """LOG-01 LOG-08 LOG-11 LOG-12: a handoff, an objection, a decision of the maintainer, a file of another lane
    that is put back and kept, a P0 message that is escalated once; every turn started by a command of a person."""
    place = shutil.copytree(EXAMPLE, tmp_path / "greetings")
    shell = open_shell(place, tmp_path / "bin", **NOBODY)
    shell("git init -q . && git add -A && git commit -qm start")
    session = steps(section(PAGE, "A worked session"))
    assert len(session) > 20
    for step in session:
        assert_shown(step, shell(step[0]).replace(str(place), "/home/you/greetings"), VARIES)
    events = json.loads(shell("sortie worklog events --json"))
    (shown,) = blocks("json")
    assert anonymous(shown) in [anonymous(json.dumps(event, indent=2)) for event in events]
    (escalated,) = [event for event in events if event["payload"].get("message_id")]
    assert escalated["payload"]["message_id"].startswith("MSG-")
    from_python = shell(f"{shlex.quote(sys.executable)} -c {shlex.quote(program())}").splitlines()
    assert from_python[0] == "succeeded True" and "in the lane of ben" in from_python[1]
    assert "handoff.posted ada greet in two languages" in from_python


def program() -> str:
    """What docs/python.md shows of a turn."""
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", section(page, "Peers"), re.S | re.M)
    return str(block)


def anonymous(text: str) -> str:
    for pattern, instead in (*VARIES, (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME")):
        text = re.sub(pattern, instead, text)
    return text.strip()


def test_the_readme_shows_a_turn_of_that_session():
    (step,) = steps(section(README, "Peers"))
    assert step in steps(PAGE)


def test_the_first_five_minutes(tmp_path):
    (start,) = re.findall(r"^```sh\n(.*?)^```", section(PAGE, "In five minutes"), re.S | re.M)
    init, edit, *rest = start.splitlines()
    shell = open_shell(tmp_path, tmp_path / "bin")
    shell("git init -q .")
    assert "wrote" in shell(init)
    assert edit.startswith("$EDITOR CHARTER.md")
    assert "is still to be filled in" in shell("sortie charter check")
    assert [line.split(" #")[0].split()[:2] for line in rest] == [
        ["sortie", "charter"],
        ["sortie", "turn"],
        ["sortie", "turn"],
    ]


@pytest.mark.parametrize("number", [0, 1], ids=["ours", "of others"])
def test_every_form_is_read_as_the_event_that_is_named(number):
    """LOG-02: the forms of the page, and what their table says of them."""
    forms = section(PAGE, "The work log").partition("### Forms")[2].partition("### Events")[0]
    told = [event.event_type for event in events_of(parse_worklog(blocks("markdown")[number].encode()))]
    named = [re.findall(r"`([a-z.]+)`", row[0]) for row in rows(forms, columns=3 if number == 0 else 2)]
    assert told == [event for row in named for event in row]
    if number == 0:
        assert {*told} == {
            one for one in re.findall(r"`([a-z]+\.[a-z]+|note)`", forms) if "." in one or one == "note"
        }


def test_the_card_is_read():
    (message,) = parse_mailbox(f"## Active Messages\n\n{blocks('markdown')[2]}".encode()).messages
    assert (message.status, message.sender, message.recipients, message.priority) == (
        "actioned",
        "ben",
        ("ada",),
        "P0",
    )
    assert [ack.actor for ack in message.acks] == ["sortie", "ada"]


def test_the_moves_of_a_message_are_those_of_the_code():
    """LOG-10: what the table says a receiver may do, and nothing else."""
    table = [row for row in rows(section(PAGE, "The mailbox"), columns=3) if row[2] == "a receiver"]
    shown = {re.findall(r"`(\w+)`", row[0])[0]: {*re.findall(r"`(\w+)`", row[1])} for row in table}
    for before in STATUSES:
        message = Message(id="MSG-20261118-001", sender="ben", recipients=("ada",), status=before)
        legal = {after for after in STATUSES if after != "closed" and is_legal(message, after)}
        assert legal == shown.get(before, set()), before


def is_legal(message, after):
    try:
        check_move(message, after, Author(name="ada", role="agent"), People(("ada", "ben"), "Maintainer"))
    except SortieError:
        return False
    return True


def test_the_patterns_of_lanes_mean_what_the_table_says():
    """LOG-08: each file one owner, by patterns with one meaning."""

    def has(pattern: str, path: str) -> bool:
        return owner_of(path, [Lane(name="l", owner="ada", globs=tuple(pattern.split()))]) == "ada"

    patterns = " ".join(row[0] for row in rows(section(PAGE, "Lanes"), columns=2))
    for pattern in ("docs/", "docs", "Makefile", "docs/*.md", "**/Makefile", "!src/old/**"):
        assert f"`{pattern}`" in patterns
    assert has("docs/", "docs/a/b") and not has("docs/", "docs")
    assert has("docs", "docs/a/b") and has("Makefile", "Makefile") and not has("Makefile", "src/Makefile")
    assert has("docs/*.md", "docs/a.md") and not has("docs/*.md", "docs/a.md/b")
    assert has("**/Makefile", "Makefile") and has("**/Makefile", "src/Makefile")
    assert has("src/** !src/old/**", "src/a") and not has("!src/old/** src/**", "src/old/a")


def test_the_settings_are_those_of_the_code():
    shown = {row[0].strip("`"): row[1].strip("`") for row in rows(section(PAGE, "peers.yaml"), columns=3)}
    known = {key.replace(ANY, "NAME"): default for key, _, default in leaves(PeerSettings())}
    assert shown.keys() == known.keys()
    for key, default in known.items():
        if default in ("", (), {}, None):
            assert not shown[key], key
        elif isinstance(default, str):
            assert shown[key] == default
        else:
            assert float(shown[key]) == default * (1000 if key.endswith("_ms") else 1), key


@pytest.mark.parametrize(
    ("group", "homes"),
    [("worklog", worklog.HOMES), ("mailbox", mailbox.HOMES), ("charter", charter.HOMES), ("peers", peers.HOMES)],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_every_command_is_described(group, homes):
    cells = [row[0] for row in rows(PAGE) if f"sortie {group} " in row[0]]
    described = {word for cell in cells for word in re.findall(rf"sortie {group} ([a-z]+)|, `([a-z]+)", cell)}
    assert {*homes} <= {word for pair in described for word in pair}


def test_the_limits_are_those_of_the_code():
    limits = section(PAGE, "Limits and exit codes")
    for number in (
        LONGEST_TEXT,
        prompt.LONGEST_TASK,
        prompt.LONGEST_TEXT,
        prompt.LONGEST_NEWS,
        prompt.LONGEST_MAIL,
    ):
        assert f"{number:,}" in limits, number
    assert f"{LONGEST_SUBJECT} characters" in limits
    assert f"the last {KEPT_TURNS} turns" in PAGE


def test_the_tools_of_a_turn_are_described():
    page = (ROOT / "docs" / "tools.md").read_text("utf-8")
    for name in FOR_PEERS:
        assert f"| `{name}` |" in page, name
