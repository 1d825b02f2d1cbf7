"""`sortie peers init`: four documents, each only where there is none; and `sortie peers status`."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from sortie.peers.author import Author
from sortie.peers.charter.charter import parse_charter
from sortie.peers.mailbox.draft import Draft
from sortie.peers.mailbox.mailbox_file import MailboxFile
from sortie.peers.place import place_at
from sortie.peers.settings import examine_settings
from sortie.peers.turn_register import TurnRegister

from .scene import ask

DOCUMENTS = ["CHARTER.md", "MAILBOX.md", "WORKLOG.md", "peers.yaml"]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    for name in ("CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI", "OPENCODE", "COPILOT_CLI", "SORTIE_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "webshop"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@pytest.fixture
def init(repository, capsys):
    def run(*arguments, at=repository):
        return ask(capsys, "peers", "init", str(at), *arguments)

    return run


def shown_to_git(root) -> list[str]:
    argv = ["git", "-C", str(root), "status", "--short", "-uall"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return sorted(line[3:] for line in done.stdout.splitlines())


def test_four_documents_that_fit_together(init, repository):
    """LOG-08: valid as they are, but for what a person has to fill in; git sees nothing else."""
    said = init("--agent", "alice=claude-code", "--agent", "Bob=command:./agents/bob.sh -x", "--maintainer", "Rob")
    assert said.code == 0, said.err
    assert shown_to_git(repository) == DOCUMENTS
    charter = parse_charter((repository / "CHARTER.md").read_bytes())
    assert (charter.roster.agents, charter.roster.maintainer) == (("alice", "Bob"), "Rob")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-webshop", charter.session_id)
    assert {
        "roster",
        "lanes",
        "contracts",
        "governance",
        "criteria",
        "gates",
        "escalation",
        "handshakes",
    } <= charter.sections
    assert all("filled in" in remark.message for remark in charter.remarks)
    settings, problems = examine_settings(repository / "peers.yaml")
    assert problems == [] and settings is not None
    assert {name: (each.kind, each.command) for name, each in settings.agents.items()} == {
        "alice": ("claude-code", ""),
        "Bob": ("command", "./agents/bob.sh -x"),
    }
    assert settings.maintainer == "Rob"
    assert charter.session_id in (repository / "WORKLOG.md").read_text()
    assert "Now Working (Bob): idle" in (repository / "WORKLOG.md").read_text()
    assert "| Rob |" in (repository / "MAILBOX.md").read_text()


def test_filled_in_it_can_be_adopted(init, repository, capsys):
    """LOG-08"""
    init("--agent", "alice")
    path = repository / "CHARTER.md"
    text = path.read_text().replace("{FILES OF THIS LANE}", "src/**")
    path.write_text(re.sub(r"\{[A-Z ]{5,}\}", "something", text))
    assert ask(capsys, "charter", "adopt", "--root", str(repository)).code == 0


def test_what_is_there_stays_and_the_rest_is_written(init, repository):
    (repository / "WORKLOG.md").write_text("# mine\n")
    said = init("--agent", "alice")
    assert said.code == 0
    assert f"{repository / 'WORKLOG.md'} is there already: kept" in said.out
    assert (repository / "WORKLOG.md").read_text() == "# mine\n"
    assert shown_to_git(repository) == DOCUMENTS
    contents = {name: (repository / name).read_bytes() for name in DOCUMENTS}
    again = init()
    assert again.code == 0 and again.out.count("kept") == 4
    assert {name: (repository / name).read_bytes() for name in DOCUMENTS} == contents


def test_a_dry_run_writes_nothing(init, repository):
    said = init("--agent", "alice", "--dry-run")
    assert said.code == 0 and said.out.count("would write") == 4
    assert shown_to_git(repository) == []
    assert not (repository / ".git/sortie").exists()


def test_only_in_a_repository_unless_told_otherwise(init, tmp_path):
    plain = tmp_path / "plain dir"
    plain.mkdir()
    said = init("--agent", "alice", at=plain)
    assert said.code == 1
    assert f"git -C '{plain}' init" in said.err and "--no-git" in said.err
    assert os.listdir(plain) == []
    assert init("--agent", "alice", "--no-git", at=plain).code == 0
    assert sorted(name for name in os.listdir(plain) if name != ".sortie") == DOCUMENTS


def test_from_a_directory_inside_the_top_is_meant(init, repository):
    (repository / "src/deep").mkdir(parents=True)
    assert init("--agent", "alice", at=repository / "src/deep").code == 0
    assert shown_to_git(repository) == DOCUMENTS


def test_a_worktree_has_documents_and_state_of_its_own(init, repository, tmp_path):
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    tree = tmp_path / "tree"
    subprocess.run([*git, "worktree", "add", "-q", str(tree)], check=True)
    assert init("--agent", "alice", at=tree).code == 0
    assert shown_to_git(tree) == DOCUMENTS and shown_to_git(repository) == []
    assert place_at(tree).state.is_relative_to(repository / ".git/worktrees")
    assert "/.sortie/" in (repository / ".git/info/exclude").read_text()


def test_rules_of_other_people_stay_in_the_exclude_file(init, repository):
    exclude = repository / ".git/info/exclude"
    exclude.write_bytes(b"*.tmp\n/.sortie/")
    init("--agent", "alice")
    init("--agent", "alice")
    assert exclude.read_bytes() == b"*.tmp\n/.sortie/\n/.sortie.lock\n"


def test_an_exclude_file_elsewhere_is_not_written_through_a_link(init, repository):
    exclude = repository / ".git/info/exclude"
    exclude.rename(repository / ".git/mine")
    exclude.symlink_to("../mine")
    before = exclude.read_bytes()
    said = init("--agent", "alice")
    assert said.code == 0 and "hide /.sortie/ and /.sortie.lock from git yourself" in said.out
    assert exclude.is_symlink() and exclude.read_bytes() == before


@pytest.mark.parametrize("what", ["link", "directory", "fifo"])
def test_what_is_no_file_stops_it_before_anything_is_written(init, repository, what):
    path = repository / "MAILBOX.md"
    match what:
        case "link":
            path.symlink_to("/etc/passwd")
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
    said = init("--agent", "alice")
    assert said.code == 1 and "MAILBOX.md is no regular file" in said.err
    assert [name for name in DOCUMENTS if (repository / name).exists() and name != "MAILBOX.md"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Say who takes part"),
        (["--agent", "all"], "a meaning of its own"),
        (["--agent", "a|b"], "has a character"),
        (["--agent", "alice", "--agent", "ALICE"], "named twice"),
        (["--agent", "alice=claud-code"], 'did you mean "claude-code"?'),
        (["--agent", "rob", "--maintainer", "Rob"], "Rob is the maintainer"),
        (["--agent", "alice", "--maintainer", "all"], "a meaning of its own"),
    ],
)
def test_who_cannot_take_part(init, repository, arguments, words):
    said = init(*arguments)
    assert (said.code, words in said.err) == (2, True), said.err
    assert shown_to_git(repository) == []


def test_an_agent_sets_nothing_up(init, repository, monkeypatch):
    """LOG-08: who takes part is for the maintainer to say."""
    monkeypatch.setenv("SORTIE_RUN_ID", "r1")
    said = init("--agent", "alice")
    assert said.code == 1 and "Only a person" in said.err
    assert shown_to_git(repository) == []


def test_how_the_peers_stand(init, repository, capsys):
    init("--agent", "alice", "--agent", "bob")
    place = place_at(repository)
    draft = Draft(to=("bob",), subject="hello")
    MailboxFile(place).send(draft, Author(name="alice", role="agent"), at=1e9)
    TurnRegister(place).begin(agent="alice", kind="build", task="the shop", began=1e9, run_id="r1")
    told = ask(capsys, "peers", "status", "--root", str(repository), "--json").json()
    assert [peer["name"] for peer in told["peers"]] == ["alice", "bob", "Maintainer"]
    assert [peer["unread"] for peer in told["peers"]] == [0, 1, 0]
    assert (told["open_turn"]["agent"], told["charter"]) == ("alice", "draft")
    said = ask(capsys, "peers", "status", "--root", str(repository))
    assert said.code == 0 and re.search(r"turn 1 of alice since .*: the shop", said.out)


def test_a_damaged_mailbox_is_told_and_the_rest_is_shown(init, repository, capsys):
    init("--agent", "alice")
    (repository / "MAILBOX.md").unlink()
    (repository / "MAILBOX.md").mkdir()
    said = ask(capsys, "peers", "status", "--root", str(repository))
    assert said.code == 0
    assert "MAILBOX.md" in said.out and re.search(r"alice +\?", said.out)
