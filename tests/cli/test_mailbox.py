"""`sortie mailbox` as people, scripts and agents call it: what is printed, what is refused, and the exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import pytest
from rich.cells import cell_len

from sortie.peers.place import place_at
from sortie.peers.turn_register import TurnRegister

from . import scene
from .test_live import SEQUENCE

MARKS = ("CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI", "OPENCODE", "COPILOT_CLI", "SORTIE_RUN_ID")
CHARTER = """\
# Charter

- Session ID: s1

## Roster

| Role | Agent |
|---|---|
| Maintainer | Rob |
| Agent | Alice |
| Agent | Bob |
| Agent | Carol |
"""


def ask(capsys, *words):
    """Exit code, and what was said on the two streams."""
    said = scene.ask(capsys, *words)
    return said.code, said.out, said.err


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A repository with a charter, and no sign of an agent around us."""
    for name in MARKS:
        monkeypatch.delenv(name, raising=False)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "CHARTER.md").write_text(CHARTER)
    return tmp_path


@pytest.fixture
def mail(root, capsys):
    """Runs `sortie mailbox` there; gives the exit code, and what it said."""
    ask(capsys, "mailbox", "init", "--root", str(root))

    def run(*words):
        return ask(capsys, "mailbox", *map(str, words), "--root", str(root))

    return run


def sent(mail, *words, to="Bob", by="Alice"):
    code, out, err = mail("send", *to.split("+"), "--as", by, *(words or ("-s", "Hello")))
    assert (code, err) == (0, "")
    return out.strip()


def process(root, *words, agent_mark="", text=""):
    """The real command, as a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in MARKS}
    environment |= {"SORTIE_RUN_ID": agent_mark} if agent_mark else {}
    return subprocess.run(
        [sys.executable, "-m", "sortie", "mailbox", *words, "--root", str(root)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
        input=text,
    )


def test_a_message_from_new_to_the_archive(mail, root):
    """LOG-10: each step by its command, in the file that people read."""
    first = sent(mail, "-s", "Review the parser", "-b", "please\nsoon", "-p", "P1")
    assert mail("check", "--as", "Bob")[0] == 3
    assert mail("ack", first, "--as", "Bob", "-n", "on it")[:2] == (0, f"{first} is acknowledged\n")
    assert mail("check", "--as", "Bob")[0] == 0, "it waits still, and is answered"
    assert mail("block", first, "--as", "Bob", "--on", "the schema")[1] == f"{first} is blocked\n"
    assert mail("action", first, "--as", "Bob")[1] == f"{first} is actioned\n"
    code, out, _ = mail("check", "--as", "Bob")
    assert (code, out) == (0, "nothing waits for Bob\n")
    assert mail("close", first, "--as", "Alice", "-n", "thanks")[1] == f"{first} is closed\n"
    text = (root / "MAILBOX.md").read_text()
    assert re.search(rf"\| {first} \| [\d-]{{10}} \| Alice -> Bob \| resolved \| thanks \|", text)
    assert "**Ack**\n\n- Bob — " in text
    assert mail("archive")[1] == f"1 message moved to {root}/MAILBOX_ARCHIVE.md\n"
    assert mail("archive")[1] == "nothing is closed\n"
    assert "> soon" in mail("show", first)[1]
    assert mail("list", "--all")[1] == "no messages\n"


def test_illegal_moves_are_refused_with_what_is_legal(mail, root):
    """LOG-10"""
    first = sent(mail)
    before = (root / "MAILBOX.md").read_bytes()
    for words, said in (
        (("close", first, "--as", "Bob"), "Only Alice or Rob may close"),
        (("ack", first, "--as", "Carol"), "It can be acknowledged or actioned by Bob, or closed by Alice or Rob."),
        (("block", first, "--as", "Bob", "--on", "x"), f"{first} is new and cannot be blocked."),
        (("close", first, "--as", "Alice", "--disposition", "abandoned"), "Only Rob may close"),
        (("close", first, "--as", "Alice", "--disposition", "done"), 'A message is not closed as "done"'),
        (("ack", "MSG-20200101-001", "--as", "Bob"), "There is no message MSG-20200101-001"),
        (("archive", "--as", "Bob"), "Only Rob puts messages into the archive"),
    ):
        code, out, err = mail(*words)
        assert (code, out) == (1, "")
        assert said in err
        assert err.startswith("sortie: ")
        assert "Traceback" not in err
    assert (root / "MAILBOX.md").read_bytes() == before
    assert mail("block", first, "--as", "Bob")[0] == 2


def test_nothing_leaves_closed(mail):
    """LOG-10"""
    first = sent(mail)
    assert mail("close", first, "--disposition", "abandoned")[0] == 0
    code, _, err = mail("ack", first, "--as", "Bob")
    assert (code, "is closed, and nothing leaves that. Send a new message" in err) == (1, True)


def test_unknown_names_are_refused_with_the_one_that_was_meant(mail, root):
    """LOG-10"""
    before = (root / "MAILBOX.md").read_bytes()
    code, out, err = mail("send", "Alice", "Bobb", "-s", "x")
    assert (code, out) == (1, "")
    assert 'Nobody here is called "Bobb"; did you mean "Bob"? Messages go to Alice, Bob, Carol, Rob or all.' in err
    assert "Nobody here is called" in mail("send", "Bob", "-s", "x", "--as", "Alicia")[2]
    assert "Nobody here is called" in mail("send", "Bob", "-s", "x", "--closure-owner", "Dave")[2]
    assert (root / "MAILBOX.md").read_bytes() == before


def test_several_receivers_and_all(mail):
    """LOG-10: unread is counted for each; the sender of a message to all is not its receiver."""
    both, everybody = sent(mail, to="bob+Carol"), sent(mail, "-s", "Stand-up", to="all", by="Bob")
    inboxes = json.loads(mail("check", "--json")[1])["inboxes"]
    assert inboxes == {"Alice": 1, "Bob": 1, "Carol": 2, "Rob": 1}
    assert mail("ack", both, "--as", "Bob")[1] == f"Bob acknowledged {both}; Carol has not answered yet\n"
    assert mail("ack", both, "--as", "Bob")[1] == f"Bob acknowledged {both} already; Carol has not answered yet\n"
    assert mail("ack", both, everybody, "--as", "carol")[1] == (
        f"{both} is acknowledged\nCarol acknowledged {everybody}; Alice, Rob have not answered yet\n"
    )
    assert mail("action", both, "--as", "Bob")[1] == f"Bob actioned {both}, which is acknowledged for all\n"
    inboxes = json.loads(mail("check", "--json")[1])["inboxes"]
    assert inboxes == {"Alice": 1, "Bob": 0, "Carol": 0, "Rob": 1}


def test_tables_are_headed_as_all_others_and_what_is_new_is_marked(mail):
    """LOG-11: a mark that is explained where it stands, and in the help."""
    first = sent(mail, "-s", "One")
    listed = mail("list")[1].split("\n")
    assert " ".join(listed[0].split()) == "id status pri needed by from -> to subject"
    shown = mail("check", "--as", "Bob")[1].splitlines()
    assert " ".join(shown[0].split()) == "id status pri needed by from subject"
    assert shown[1].startswith(first) and shown[1].endswith("* One")
    assert shown[2] == "* was not shown before"
    again = mail("check", "--as", "Bob")[1]
    assert "*" not in again
    assert "marked with *" in " ".join(mail("check", "--help")[1].split())


def test_check_shows_the_oldest_first_and_changes_nothing(mail, root):
    """LOG-11: agents are shown their mail when somebody asks; to be shown it is no answer."""
    ids = [sent(mail, "-s", f"Number {number}") for number in range(25)]
    before = (root / "MAILBOX.md").read_bytes()
    code, out, _ = mail("check", "--as", "Bob")
    assert code == 3
    assert re.findall(r"MSG-[\d-]+", out) == ids[:20]
    assert out.count("* Number") == 20, "shown for the first time"
    assert "5 more wait; --all shows them." in out
    assert "* Number" not in mail("check", "--as", "bob")[1]
    answer = json.loads(mail("check", "--as", "Bob", "--all", "--json")[1])
    assert (answer["unread"], answer["waiting"], len(answer["messages"])) == (25, 25, 25)
    assert [one["shown_before"] for one in answer["messages"]] == [True] * 20 + [False] * 5
    assert (root / "MAILBOX.md").read_bytes() == before


def test_everybody_may_read_everything_and_looking_at_anothers_mail_does_not_show_it_to_them(mail):
    """LOG-11: there are no private channels."""
    first = sent(mail, "-s", "For Bob", "-b", "no secret")
    assert first in mail("check", "Bob")[1]
    assert "no secret" in mail("show", first)[1]
    assert "* For Bob" in mail("check", "--as", "Bob", "--full")[1]
    assert "Bob has 1 unread message" in mail("check")[1]


def test_json_beside_every_table(mail):
    first = sent(mail, "-s", "a | b", "-b", "text", "--needed-by", "next session", "--related", "MSG-1")
    assert [one["id"] for one in json.loads(mail("list", "--json")[1])] == [first]
    (message,) = json.loads(mail("show", first, "--json")[1])
    assert {key: message[key] for key in ("from", "to", "subject", "body", "response_needed_by", "related")} == {
        "from": "Alice",
        "to": ["Bob"],
        "subject": "a | b",
        "body": "text",
        "response_needed_by": "next session",
        "related": "MSG-1",
    }
    (moved,) = json.loads(mail("ack", first, "--as", "Bob", "--json")[1])
    assert (moved["status"], moved["repeated"]) == ("acknowledged", False)
    assert json.loads(mail("lint", "--json")[1]) == []
    assert json.loads(mail("archive", "--json")[1])["archived"] == []
    answer = json.loads(ask_json(mail, "send", "Bob", "-s", "x"))
    assert answer["status"] == "new"


def ask_json(mail, *words):
    return mail(*words, "--json")[1]


def test_the_body_comes_from_an_option_a_file_or_a_pipe(mail, root):
    (root / "body.txt").write_text("-")
    assert "> -" in mail("show", sent(mail, "-s", "x", "--body-file", str(root / "body.txt")))[1]
    done = process(root, "send", "Bob", "-s", "x", "-b", "-", text="from a pipe\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "> from a pipe" in mail("show", done.stdout.strip())[1]
    for name, content, said in (
        ("large", b"x" * 900_000, "is too large for a message"),
        ("binary", b"\0\1", "or no text"),
        ("latin", b"\xe4\xf6\xfc", "is not UTF-8 text"),
    ):
        (root / name).write_bytes(content)
        code, _, err = mail("send", "Bob", "-s", "x", "--body-file", root / name)
        assert (code, said in err) == (1, True), err
    assert "cannot be read: is a directory" in mail("send", "Bob", "-s", "x", "--body-file", root)[2]
    assert "cannot be read: no such file" in mail("send", "Bob", "-s", "x", "--body-file", root / "none")[2]
    assert mail("send", "Bob", "-s", "x", "-b", "y", "--body-file", root / "body.txt")[0] == 2
    assert "characters" in mail("send", "Bob", "-s", "x" * 1_048_576)[2]


@pytest.mark.parametrize("content", [b"", b"\0binary", b"# Something else\n", b"## Open Queue\n## Open Queue\n"])
def test_a_damaged_mailbox_is_an_error_that_says_so(mail, root, content):
    """LOG-11: never an empty one."""
    (root / "MAILBOX.md").write_bytes(content)
    for words in (
        ("check",),
        ("list",),
        ("send", "Bob", "-s", "x"),
        ("ack", "MSG-1"),
        ("archive",),
        ("show", "MSG-1"),
    ):
        code, out, err = mail(*words)
        assert (code, out) == (1, "")
        assert "nothing can be said of its messages" in err
    code, out, _ = mail("lint")
    assert (code, out.startswith("MAILBOX.md: It ")) == (3, True)
    assert (root / "MAILBOX.md").read_bytes() == content


def test_no_mailbox_and_a_second_one(root, capsys):
    code, _, err = ask(capsys, "mailbox", "check", "--root", str(root))
    assert (code, f"There is no MAILBOX.md in {root}." in err) == (1, True)
    assert "mailbox init --root" in err
    assert ask(capsys, "mailbox", "init", "--root", str(root))[1] == f"wrote {root}/MAILBOX.md\n"
    code, _, err = ask(capsys, "mailbox", "init", "--root", str(root))
    assert (code, "There is a MAILBOX.md" in err) == (1, True)
    assert "| Rob | 0 | none | none |" in (root / "MAILBOX.md").read_text()


def test_without_a_charter_the_mailbox_says_who_takes_part(root, capsys):
    (root / "CHARTER.md").unlink()
    code, _, err = ask(capsys, "mailbox", "init", "--root", str(root))
    assert (code, "Name each agent with --agent NAME." in err) == (1, True)
    assert ask(capsys, "mailbox", "init", "--agent", "a|b", "--root", str(root))[0] == 1
    assert ask(capsys, "mailbox", "init", "--agent", "ann", "--agent", "ben", "--root", str(root))[0] == 0
    assert ask(capsys, "mailbox", "send", "Ben", "-s", "x", "--as", "ann", "--root", str(root))[0] == 0


def begin_turn(root, agent="Bob", run_id="run-1"):
    return TurnRegister(place_at(root)).begin(agent=agent, kind="work", began=time.time(), run_id=run_id)


def test_an_agent_writes_only_as_itself(mail, root):
    """LOG-11: who acts is decided by who runs, whatever the command says."""
    first = sent(mail, to="Carol")
    begin_turn(root)
    done = process(root, "send", "Alice", "-s", "As myself", agent_mark="run-1")
    assert done.returncode == 0, done.stderr
    assert "| From | Bob |" in mail("show", done.stdout.strip())[1]
    for words in (("send", "Alice", "-s", "x", "--as", "Rob"), ("ack", first, "--as", "Carol")):
        done = process(root, *words, agent_mark="run-1")
        assert (done.returncode, done.stdout) == (1, "")
        assert "This is a turn of Bob, who cannot write as" in done.stderr
    done = process(root, "close", first, "--disposition", "abandoned", agent_mark="run-1")
    assert (done.returncode, "Only Rob may close" in done.stderr) == (1, True)


def test_an_overdue_message_is_told_and_escalated_once(mail, root, capsys):
    """LOG-12: who checks the mailbox brings it to the work log, once; in a turn that is for its end."""
    ask(capsys, "worklog", "init", "--root", str(root))
    first = sent(mail, "-s", "The build is red", "-p", "P0")
    turn = begin_turn(root)
    TurnRegister(place_at(root)).end(turn.number, "succeeded", time.time())
    done = process(root, "check", agent_mark="run-1")
    assert done.returncode == 3
    assert f"overdue: {first}, Bob did not ack within P0 window" in done.stdout
    assert "escalated to the work log" not in done.stdout
    assert f"escalated to the work log: {first}" in mail("check", "--as", "Bob")[1]
    line = f"Escalated: {first} — The build is red — receiver did not ack within P0 window"
    assert (root / "WORKLOG.md").read_text().count(line) == 1
    answer = json.loads(mail("check", "--json")[1])
    assert ([one["id"] for one in answer["overdue"]], answer["escalated"]) == ([first], [])
    assert (root / "WORKLOG.md").read_text().count(line) == 1
    assert "sortie — " in mail("show", first)[1]


def test_an_overdue_message_without_a_work_log_is_told_all_the_same(mail, root):
    """LOG-12"""
    first = sent(mail, "-s", "x", "-p", "P0")
    turn = begin_turn(root)
    TurnRegister(place_at(root)).end(turn.number, "succeeded", time.time())
    code, out, err = mail("check", "--as", "Bob")
    assert code == 3
    assert f"overdue: {first}" in out
    assert "What is overdue cannot be told in the work log" in err


def test_lint_finds_decisions_that_are_only_in_the_mailbox(mail, root, capsys):
    """LOG-13"""
    ask(capsys, "worklog", "init", "--root", str(root))
    first = sent(mail, "-s", "Which database", "--type", "decision-required", to="Rob")
    assert mail("lint")[:2] == (0, "MAILBOX.md: 1 message, nothing is wrong\n")
    mail("action", first, "-n", "approved: SQLite")
    code, out, _ = mail("lint")
    assert code == 3
    assert f"{first} (Which database) has a decision that the work log does not have." in out
    ask(capsys, "worklog", "decide", "Which database", "SQLite", "--root", str(root))
    assert mail("lint")[0] == 0


def test_what_an_editor_saved_over_is_told(mail, root):
    """LOG-11"""
    opened = (root / "MAILBOX.md").read_bytes()
    first = sent(mail)
    (root / "MAILBOX.md").write_bytes(opened)
    code, _, err = mail("send", "Bob", "-s", "next")
    assert code == 0
    assert err == f"sortie: An older version of MAILBOX.md had been saved over {first}; it is all there again.\n"
    assert first in mail("list")[1]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
def test_tables_hold_at_every_width(mail, monkeypatch, width):
    subject = "日本語 🎉 \u202egnihtyreve\x1b[2J [red]x[/red] " + "words " * 20
    first = sent(mail, "-s", subject, "--needed-by", "next session")
    monkeypatch.setenv("COLUMNS", str(width))
    for words in (("list",), ("check", "Bob"), ("check",)):
        lines = SEQUENCE.sub("", mail(*words)[1]).splitlines()
        assert [line for line in lines if cell_len(line) > width] == []
        assert all(line.isprintable() for line in lines)
    assert any(line.startswith(first) for line in SEQUENCE.sub("", mail("list")[1]).splitlines())


def test_help_of_every_command(capsys):
    for name in ("init", "send", "list", "check", "show", "ack", "action", "block", "close", "archive", "lint"):
        code, out, _ = ask(capsys, "mailbox", name, "--help")
        assert code == 0
        assert out.startswith(f"Usage: sortie mailbox {name}")
    assert "Commands:" in ask(capsys, "mailbox")[1]
    assert "Did you mean 'check'" in ask(capsys, "mailbox", "chekc")[2]
