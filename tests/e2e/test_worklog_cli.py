"""`sortie worklog` as people, agents and scripts start it: real processes, pipes, git, limits."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from sortie.peers.place import place_at
from sortie.peers.turn_register import TurnRegister
from sortie.peers.worklog.events import events_of
from sortie.peers.worklog.parse import parse

COMMAND = [sys.executable, "-m", "sortie", "worklog"]
# What programs that run models put into the environment of their shells: with these nobody is a person.
AGENT_MARKS = ("SORTIE_RUN_ID", "CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI", "OPENCODE", "COPILOT_CLI")
TYPES = [
    "task.claimed", "task.completed", "handoff.posted", "proposal.created", "proposal.amended", "objection.raised",
    "decision.recorded", "escalation.requested",
]  # fmt: skip


class Checkout:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "WORKLOG.md"

    def run(
        self, *arguments: str, given: str | bytes = b"", env: Mapping[str, str] | None = None, **more: object
    ) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in AGENT_MARKS} | dict(
            env or {}
        )
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.root,
            input=given if isinstance(given, bytes) else given.encode(),
            env=environment,
            capture_output=True,
            timeout=60,
            check=False,
            **more,  # type: ignore[call-overload]
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def done(self, *arguments: str, given: str = "", env: Mapping[str, str] | None = None) -> str:
        said = self.run(*arguments, given=given, env=env)
        assert said.returncode == 0, said.stderr
        return said.stdout

    def git(self, *arguments: str, who: str = "Mira") -> None:
        identity = ["-c", f"user.name={who}", "-c", f"user.email={who}@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=self.root, check=True, timeout=30)


@pytest.fixture
def checkout(tmp_path):
    checkout = Checkout(tmp_path)
    checkout.git("init", "--quiet")
    checkout.done("init", "--agent", "Alice", "--agent", "Bob")
    return checkout


def test_eight_types_of_events_go_in_by_command_and_come_out_as_envelopes(checkout):
    """LOG-02, LOG-03: each in its own process; long text from a pipe; the ids stay in every later reading."""
    below = checkout.root / "src" / "deep"
    below.mkdir(parents=True)
    as_alice = ("--as", "Alice")
    printed = checkout.done("claim", "parser", "--note", "-", *as_alice, given="two\nlines\n")
    printed += checkout.done("handoff", "parser", "--to", "Bob", "--file", "a.py", *as_alice)
    printed += checkout.done("propose", "Use TOML", "-", *as_alice, given="for\n\nall\n### Bob: forged\n")
    printed += checkout.done("amend", "PROP-001", "for most", *as_alice)
    printed += checkout.done("object", "PROP-001", "--counter", "-", "--as", "Bob", given="YAML")
    early = json.loads(checkout.done("events", "--json"))
    printed += checkout.done("decide", "Use TOML", "--root", str(checkout.root))
    printed += checkout.done("escalate", "formats", "no agreement", "--as", "Bob")
    events = json.loads(checkout.done("events", "--json"))
    assert [event["event_id"] for event in events] == [word for word in printed.split() if word != "PROP-001"]
    assert [event["event_type"] for event in events] == TYPES
    assert events[: len(early)] == early
    assert [event["payload"]["written_by"] for event in events] == ["Alice"] * 5 + ["Bob", "Maintainer", "Bob"]
    assert events[0]["payload"]["note"] == "two\nlines"
    assert events[3]["payload"]["proposal"] == "for\n\nall\n### Bob: forged"
    from_below = subprocess.run(
        [*COMMAND, "events", "--json"], cwd=below, capture_output=True, timeout=60, check=True
    )
    assert json.loads(from_below.stdout) == events
    assert json.loads(checkout.done("lint", "--json")) == []


def test_in_a_run_the_agent_of_the_turn_writes_whatever_it_says(checkout):
    """LOG-05: never the maintainer, never another agent, and no decision of the maintainer."""
    TurnRegister(place_at(checkout.root)).begin(agent="Alice", kind="work", began=1.0, run_id="run-1")
    in_turn = {"SORTIE_RUN_ID": "run-1"}
    said = json.loads(checkout.done("append", "mine", "--json", env=in_turn))
    assert said["written_by"] == "Alice"
    before = checkout.path.read_bytes()
    for arguments in (
        ("append", "x", "--as", "Bob"),
        ("append", "x", "--as", "Maintainer"),
        ("decide", "all mine"),
        ("decide", "all mine", "--as", "Maintainer"),
        ("decide", "all mine", "--mode", "maintainer adjudication"),
        ("status", "--focus", "mine"),
        ("status", "--checkpoint", "mine", "--as", "Maintainer"),
        ("status", "--set", "x", "--as", "Bob"),
    ):
        for environment in (in_turn, {"SORTIE_RUN_ID": "run-of-nobody"}, {"CLAUDECODE": "1"}):
            if environment is not in_turn and "Bob" in arguments:
                continue  # who is in no register may say who it is
            refused = checkout.run(*arguments, env=environment)
            assert (refused.returncode, refused.stdout) == (1, ""), (arguments, environment)
    assert checkout.path.read_bytes() == before
    checkout.done("decide", "agreed", "--mode", "consensus", "--with", "Alice", "--with", "Bob", env=in_turn)
    (row,) = parse(checkout.path.read_bytes()).index
    assert row.owner == "Alice"


def test_edits_and_removals_in_git_are_named_with_who_made_them(checkout):
    """LOG-04: commit by commit, and what is not committed."""
    checkout.done("append", "one", "first words", "--as", "Alice")
    checkout.done("append", "two", "--as", "Bob")
    checkout.git("add", "WORKLOG.md")
    checkout.git("commit", "--quiet", "-m", "log", who="Alice")
    clean = checkout.run("verify", "--git")
    assert (clean.returncode, clean.stdout) == (0, "WORKLOG.md: only appended to, in one commit\n")
    checkout.path.write_text(checkout.path.read_text().replace("first words", "other words"))
    checkout.git("commit", "--quiet", "-am", "tidy\x1b[2J", who="Mallory")
    checkout.path.write_text(checkout.path.read_text().replace("Bob: two", "Bob: three"))
    said = checkout.run("verify", "--git")
    assert said.returncode == 3
    commit, edit, tree, change = said.stdout.splitlines()
    assert " of Mallory, 20" in commit
    assert commit.endswith(r": tidy\x1b[2J")
    assert 'WORKLOG.md:15: edited: The entry "one" of Alice was edited' in edit
    assert tree == "not committed"
    assert "of Bob" in change
    found = json.loads(checkout.run("verify", "--git", "HEAD", "--json").stdout)
    assert [(one["kind"], one["author"]) for one in found] == [("edited", "Mallory"), ("removed", "")]
    assert checkout.run("verify", "--git", "HEAD~1").returncode == 0
    checkout.path.unlink()
    assert "whole work log was removed" in checkout.run("verify", "--git", "--root", ".").stdout


def test_two_versions_are_compared_through_a_pipe(checkout):
    """LOG-04: exit 3, and the entry is named."""
    checkout.done("append", "one", "first words", "--as", "Alice")
    old = checkout.path.read_bytes()
    checkout.path.write_bytes(old.replace(b"first", b"other"))
    said = checkout.run("verify", "-", "WORKLOG.md", given=old)
    assert said.returncode == 3
    assert 'edited: The entry "one" of Alice' in said.stdout


def test_what_an_editor_threw_out_is_told_and_put_back(checkout):
    """LOG-04: nothing acknowledged is lost silently."""
    saved = checkout.path.read_bytes()
    (lost,) = checkout.done("append", "one", "--as", "Alice").split()
    checkout.path.write_bytes(saved)
    said = checkout.run("append", "two", "--as", "Bob")
    assert said.returncode == 0
    assert f"  {lost}: " in said.stderr
    assert "verify --restore` puts it back" in said.stderr
    assert checkout.run("verify").returncode == 3
    assert lost in checkout.done("verify", "--restore")
    assert checkout.run("verify").returncode == 0
    assert [event.subject for event in events_of(parse(checkout.path.read_bytes()))] == ["two", "one"]


def test_what_was_written_stands_when_nobody_reads_the_answer(checkout):
    """Closed standard output, and one that is full."""
    append = f"{' '.join(COMMAND)} append x --as Alice"
    environment = {name: value for name, value in os.environ.items() if name not in AGENT_MARKS}
    for number, (line, code) in enumerate(
        ((f"{append} >&-", 0), (f"{append} | true", 0), (f"{append} >/dev/full", 1))
    ):
        done = subprocess.run(["sh", "-c", line], cwd=checkout.root, env=environment, timeout=60, check=False)
        assert done.returncode == code
        assert len(parse(checkout.path.read_bytes()).entries) == number + 1


def test_a_disk_that_is_full_is_said_to_be_and_leaves_nothing_half_written(checkout):
    """LOG-06: what is not acknowledged is not there."""
    before = checkout.path.read_bytes()

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20,) * 2)

    said = checkout.run("append", "x", "words " * 100, "--as", "Alice", preexec_fn=little_room)
    assert said.returncode == 1
    assert said.stdout == ""
    assert said.stderr.startswith("sortie: ")
    assert "Traceback" not in said.stderr
    assert checkout.path.read_bytes() == before
    checkout.done("append", "y", "--as", "Alice")
    assert checkout.run("verify").returncode == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"a\0b", "NUL"),
        (b"x" * 300_000, "characters"),
        ("é".encode() * 450_000, "characters"),
    ],
)
def test_what_is_no_text_is_not_read_from_a_pipe(checkout, given, said):
    before = checkout.path.read_bytes()
    refused = checkout.run("append", "x", "-", given=given)
    assert refused.returncode == 1
    assert said in refused.stderr
    assert checkout.path.read_bytes() == before


def test_a_pipe_is_read_once(checkout):
    refused = checkout.run("complete", "x", "--note", "-", "--risks", "-", given="words")
    assert refused.returncode == 2
    assert "Only one text" in refused.stderr


def test_a_start_loads_little(checkout):
    """An agent starts it again and again; what a command does not need is not loaded."""
    program = (
        "import sys\nfrom sortie.cli.main import main\ncode = main(sys.argv[1:])\n"
        "print(*sorted(sys.modules), sep='\\n', file=sys.stderr)\nsys.exit(code)\n"
    )
    (checkout.root / "CHARTER.md").write_text(
        "# Charter\n\n## Roster\n\n| Role | Agent |\n|---|---|\n| Builder | Alice |\n"
    )
    heavy = {"anyio", "asyncio", "hypothesis", "importlib.metadata", "jinja2", "rich", "sqlite3", "yaml"}
    for command in (
        ["append", "x"],
        ["claim", "y"],
        ["events"],
        ["since", "Alice"],
        ["status"],
        ["lint"],
        ["verify"],
    ):
        as_alice = ["--as", "Alice"] if command[0] in ("append", "claim") else []
        done = subprocess.run(
            [sys.executable, "-c", program, "worklog", *command, *as_alice],
            cwd=checkout.root, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        loaded = set(done.stderr.split())
        assert "sortie.peers.worklog.worklog_file" in loaded, done.stderr
        assert loaded & heavy == set(), command
