"""The history of a work log in real repositories: who edited or removed what, in which commit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sortie.errors import SortieError
from sortie.peers.worklog.verify_git import History, verify_history

from .logs import serious

HEAD = "# WORKLOG\n\nNow Working (Alice): idle\nNow Working (Bob): idle\n\n## Session 1 — 2026-11-17\n"


def entry(number: int, who: str = "Alice", text: str = "text") -> str:
    return f"\n### 2026-11-17T{number:02}:00:00Z — {who}: entry {number}\n\n{text} {number}\n"


class Repository:
    """A repository with a work log, and people who commit to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        self.log = path / "WORKLOG.md"
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, who: str = "Mira") -> str:
        identity = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
                    for key, value in (("NAME", who), ("EMAIL", f"{who}@example.org"))}  # fmt: skip
        environment = os.environ | identity | {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        return done.stdout.strip()

    def write(self, text: str) -> None:
        self.log.write_text(text)

    def commit(self, text: str | None, who: str = "Mira", *flags: str) -> str:
        if text is None:
            self.log.unlink()
        else:
            self.write(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", *flags, "-m", f"by {who}", who=who)
        return self.git("rev-parse", "HEAD")

    def verify(self, revision: str = "HEAD") -> History:
        now = self.log.read_bytes() if self.log.exists() else b""
        return verify_history(self.log, revision=revision, now=now if revision == "HEAD" else None)


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repository")


def found(history: History) -> list[tuple[str, str, str]]:
    """Kind, title of the entry, and who made the commit."""
    bad = {id(one) for one in serious(one.finding for one in history.found)}
    return [
        (one.finding.kind, one.finding.sentence.partition('"')[2].partition('"')[0], one.commit.author)
        for one in history.found
        if id(one.finding) in bad
    ]


def test_each_edit_and_removal_is_named_with_commit_author_and_date(repository):
    """LOG-04: who did it, and when, from the history alone."""
    first = HEAD + entry(1) + entry(2, "Bob") + entry(3)
    repository.commit(first, "Alice")
    edit = repository.commit(first.replace("text 2", "other 2"), "Mallory")
    removal = repository.commit(HEAD + entry(2, "Bob", "other") + entry(3), "Trent")
    repository.commit(repository.log.read_text() + entry(4), "Bob")
    history = repository.verify()
    assert found(history) == [("edited", "entry 2", "Mallory"), ("removed", "entry 1", "Trent")]
    assert [one.commit.name for one in history.found] == [edit, removal]
    assert [one.finding.owner for one in history.found] == ["Bob", "Alice"]
    assert history.found[0].commit.date == repository.git("show", "-s", "--format=%aI", edit)
    assert history.commits == 4


def test_a_history_of_appends_and_of_status_changes_is_clean(repository):
    """LOG-04: what everybody may do."""
    text = HEAD
    for number in range(6):
        text = text.replace("Alice): idle", "Alice): work") + entry(number, "Bob")
        repository.commit(text, "Alice")
    assert repository.verify().found == ()


def test_what_is_not_committed_yet_is_told_too(repository):
    """LOG-04: the working tree against the last commit."""
    repository.commit(HEAD + entry(1) + entry(2), "Alice")
    repository.write(HEAD + entry(1, text="changed") + entry(2) + entry(3))
    assert found(repository.verify()) == [("edited", "entry 1", "")]
    repository.log.unlink()
    (one,) = repository.verify().found
    assert one.finding.sentence == "The whole work log was removed, with 2 entries."
    assert found(repository.verify("main")) == []


def branched(repository: Repository) -> str:
    """Two branches that both append, before they are merged."""
    base = HEAD + entry(1) + entry(2)
    repository.commit(base, "Alice")
    repository.git("checkout", "--quiet", "-b", "side")
    repository.commit(base + entry(4, "Bob"), "Bob")
    repository.git("checkout", "--quiet", "main")
    repository.commit(base + entry(3), "Alice")
    return base


def merge(repository: Repository, text: str, who: str) -> str:
    repository.git("merge", "--quiet", "--no-commit", "--strategy=ours", "side")
    return repository.commit(text, who)


def test_a_merge_that_keeps_both_sides_is_clean(repository):
    """LOG-04: in whichever order it puts them."""
    base = branched(repository)
    merge(repository, base + entry(4, "Bob") + entry(3), "Mira")
    repository.commit(repository.log.read_text() + entry(5), "Alice")
    assert found(repository.verify()) == []


def test_a_merge_that_drops_an_entry_of_one_side_is_named(repository):
    """LOG-04: losses hide best in merges."""
    base = branched(repository)
    merged = merge(repository, base + entry(3), "Mallory")
    history = repository.verify()
    assert found(history) == [("removed", "entry 4", "Mallory")]
    assert history.found[0].commit.name == merged


def test_what_a_branch_did_is_told_once_and_of_the_branch(repository):
    """LOG-04: the merge only brought it along."""
    base = branched(repository)
    repository.git("checkout", "--quiet", "side")
    changed = base.replace("text 2", "other 2").replace(entry(1), "") + entry(4, "Bob")
    repository.commit(changed, "Mallory")
    repository.git("checkout", "--quiet", "main")
    merge(repository, changed + entry(3), "Mira")
    assert sorted(found(repository.verify())) == [
        ("edited", "entry 2", "Mallory"),
        ("removed", "entry 1", "Mallory"),
    ]


def test_a_file_that_was_away_for_a_while_is_compared_with_what_it_was_before(repository):
    """LOG-04: deleting it and bringing it back hides no edit."""
    repository.commit(HEAD + entry(1) + entry(2), "Alice")
    repository.commit(None, "Mallory")
    (repository.path / "other").write_text("x")
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "-m", "something else")
    repository.commit(HEAD + entry(1, text="changed") + entry(2), "Trent")
    history = repository.verify()
    assert [one.commit.author for one in history.found] == ["Mallory", "Trent"]
    assert history.found[0].finding.sentence == "The whole work log was removed, with 2 entries."
    assert history.found[1].finding.kind == "edited"


def test_history_that_was_rewritten_is_found_as_long_as_git_remembers(repository):
    """LOG-04: an amended commit, a reset, and who did it."""
    repository.commit(HEAD + entry(1), "Alice")
    dropped = repository.commit(HEAD + entry(1) + entry(2, "Bob"), "Bob")
    repository.git("reset", "--quiet", "--hard", "HEAD~1", who="Mallory")
    repository.commit(HEAD + entry(1) + entry(3), "Alice")
    (one,) = repository.verify().found
    assert (one.finding.kind, one.finding.owner, one.commit.name) == ("removed", "Bob", dropped)
    assert one.commit.author == "Mallory"
    assert "reset: moving to HEAD~1" in one.finding.sentence


def test_rewritten_history_that_lost_nothing_is_clean(repository):
    """LOG-04: an amended commit with one entry more, a rebase, a commit that moved to another branch."""
    repository.commit(HEAD + entry(1), "Alice")
    repository.commit(HEAD + entry(1) + entry(2), "Alice")
    repository.commit(HEAD + entry(1) + entry(2) + entry(3), "Alice", "--amend")
    repository.commit(HEAD + entry(1) + entry(2) + entry(3) + entry(4), "Alice")
    repository.git("branch", "kept")
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    assert found(repository.verify()) == []


def test_entries_that_moved_to_the_archive_are_legal(repository):
    """LOG-04: in the same commit, or where the archive was committed later."""
    repository.commit(HEAD + entry(1) + entry(2), "Alice")
    archive = repository.path / "WORKLOG_ARCHIVE.md"
    archive.write_text(entry(1))
    repository.commit(HEAD + entry(2), "Mira")
    (one,) = repository.verify().found
    assert (one.finding.kind, one.commit.author) == ("archived", "Mira")
    archive.write_text("gone")
    repository.commit(HEAD + entry(2) + entry(3), "Alice")
    assert found(repository.verify()) == []


def test_a_range_looks_at_its_commits_only(repository):
    text = HEAD + entry(1) + entry(2)
    repository.commit(text, "Alice")
    old = repository.commit(text.replace("text 1", "other 1"), "Mallory")
    repository.commit(text.replace("text 1", "other 1").replace("text 2", "other 2"), "Trent")
    assert found(repository.verify(f"{old}..main")) == [("edited", "entry 2", "Trent")]


def test_a_shallow_clone_says_that_it_is_one(repository, tmp_path):
    """LOG-04: what is there is looked at."""
    text = HEAD + entry(1) + entry(2)
    for number in range(3):
        repository.commit(text.replace("text 1", f"version {number}"), "Mallory")
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", "--depth=2", f"file://{repository.path}", str(clone))
    history = verify_history(clone / "WORKLOG.md", now=(clone / "WORKLOG.md").read_bytes())
    assert found(history) == [("edited", "entry 1", "Mallory")]
    assert "shallow" in history.remarks[0]


def test_before_the_first_commit_and_without_the_file_there_is_nothing_to_say(repository):
    repository.write(HEAD + entry(1))
    assert repository.verify().remarks == ("There is no commit yet.",)
    (repository.path / "other").write_text("x")
    repository.git("add", "other")
    repository.git("commit", "--quiet", "-m", "other")
    assert repository.verify().remarks == ("No commit has this file.",)


def test_where_there_is_no_repository_or_no_such_revision_that_is_said(repository, tmp_path):
    (tmp_path / "WORKLOG.md").write_text(HEAD)
    with pytest.raises(SortieError, match="in no git repository"):
        verify_history(tmp_path / "WORKLOG.md", now=HEAD.encode())
    repository.commit(HEAD + entry(1), "Alice")
    for revision in ("no-such-thing", "--all", "--output=here"):
        with pytest.raises(SortieError, match="git rev-list failed"):
            repository.verify(revision)
    assert not (repository.path / "here").exists()


def test_names_that_mean_something_to_git_or_a_terminal_are_taken_as_they_are(tmp_path):
    """A directory with blanks, stars and a dash; an author that would write to the terminal."""
    repository = Repository(tmp_path / "-a b*:(top)")
    repository.commit(HEAD + entry(1) + entry(2), "Alice")
    repository.commit(HEAD + entry(1), "Mal\x1b[2Jlory")
    assert [one.finding.kind for one in repository.verify().found] == ["removed"]


def test_nothing_that_the_repository_names_is_run(repository, tmp_path):
    """Hooks, a monitor of files, a program for signatures, a replaced commit."""
    text = HEAD + entry(1) + entry(2)
    repository.commit(text, "Alice")
    bad = repository.commit(text.replace("text 1", "other"), "Mallory")
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "gpg.program", "core.pager", "core.sshCommand", "diff.external"):
        repository.git("config", key, str(program))
    repository.git("config", "log.showSignature", "true")
    tree = repository.git("rev-parse", "HEAD~1^{tree}")
    clean = repository.git(
        "-c", "core.fsmonitor=false", "commit-tree", tree, "-p", "HEAD~1", "-m", "clean", who="Alice"
    )
    repository.git("-c", "core.fsmonitor=false", "replace", bad, clean)
    ran.unlink(missing_ok=True)
    assert found(repository.verify())[0] == ("edited", "entry 1", "Mallory")
    assert not ran.exists()


def test_a_long_history_of_a_growing_log_is_read_piece_by_piece(repository):
    """More versions than are asked of git at once."""
    stream, text = [], HEAD
    for number in range(450):
        if number == 300:
            text = text.replace("text 7\n", "changed 7\n")
        text += f"\n### 2026-11-17T10:00:00Z — Alice: entry {number}\n\ntext {number}\n"
        data = text.encode()
        who = "Mallory" if number == 300 else "Alice"
        before = f"from :{number}\n" if number else ""
        stream.append(
            f"commit refs/heads/main\nmark :{number + 1}\ncommitter {who} <a@b> {1_763_000_000 + number} +0000\n"
            f"data 2\nx\n{before}M 100644 inline WORKLOG.md\ndata {len(data)}\n{text}\n"
        )
    subprocess.run(
        ["git", "fast-import", "--quiet"],
        cwd=repository.path,
        input="".join(stream).encode(),
        check=True,
        timeout=60,
    )
    repository.git("reset", "--quiet", "--hard", "main")
    history = repository.verify()
    assert found(history) == [("edited", "entry 7", "Mallory")]
    assert history.commits == 450
