"""The changed files of a workspace, whatever an agent made of it: nothing of it runs, nothing is written there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sortie.reports import workspace_diff as module
from sortie.reports.changes import WorkspaceChanges, workspace_changes
from sortie.reports.workspace_diff import FileChange

from .scene import SECRET, hidden

ENVIRONMENT = {
    **os.environ,
    **{"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"},
    **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=where, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def work(tmp_path):
    """A clone in which an agent committed, changed, made and deleted something."""
    origin, work = tmp_path / "origin", tmp_path / "work"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    for name in ("same.txt", "committed.txt", "changed.txt", "deleted.txt"):
        (origin / name).write_text("one\ntwo\nthree\n")
    git(origin, "add", ".")
    git(origin, "commit", "-qm", "first")
    git(tmp_path, "clone", "-q", "origin", "work")
    (work / "committed.txt").write_text("one\n2\nthree\n")
    git(work, "commit", "-qam", "second")
    (work / "changed.txt").write_text(f"one\ntwo\nthree\n{SECRET}\n")
    (work / "deleted.txt").unlink()
    (work / "new.txt").write_text("\tindented \u202e\n")
    (work / ".sortie").mkdir()
    (work / ".sortie" / "status").write_text("needs-human-review")
    return work


def look(work: Path, since: float = 0.0) -> WorkspaceChanges:
    return workspace_changes(work, since=since, hide=hidden)


def by_path(changes: WorkspaceChanges) -> dict[str, FileChange]:
    return {file.path: file for file in changes.files}


def told(file: FileChange) -> list[str]:
    return [line.kind + line.text for line in file.lines if line.kind in "+-"]


def test_all_that_changed_since_it_branched_off_is_shown(work):
    found = look(work)
    files = by_path(found)
    assert (found.kind, found.problem, found.is_cut) == ("diff", "", False)
    assert "where it branched off origin" in found.base
    assert {path: file.how for path, file in files.items()} == {
        "changed.txt": "modified",
        "committed.txt": "modified",
        "deleted.txt": "deleted",
        "new.txt": "untracked",
    }
    assert told(files["committed.txt"]) == ["-two", "+2"]
    assert told(files["changed.txt"]) == ["+[redacted]"]
    assert told(files["new.txt"]) == ["+\tindented \\u202e"]
    assert (files["deleted.txt"].removed, files["deleted.txt"].size) == (3, None)


def test_nothing_of_the_repository_runs_and_nothing_is_written_into_it(work, tmp_path):
    trap = tmp_path / "trap"
    run = f"touch {trap}; cat"
    (work / ".gitattributes").write_text("*.txt diff=evil filter=evil -diff\n")
    for key in ("filter.evil.clean", "filter.evil.process", "diff.evil.textconv", "diff.evil.command"):
        git(work, "config", key, run)
    for key in ("core.fsmonitor", "diff.external", "core.pager", "core.sshCommand", "core.hooksPath"):
        git(work, "config", key, run)
    hook = work / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {trap}\n")
    hook.chmod(0o755)
    before = {path: path.lstat().st_mtime_ns for path in sorted((work / ".git").rglob("*"))}
    files = by_path(look(work))
    assert told(files["committed.txt"]) == ["-two", "+2"], "an attribute hides nothing"
    assert {path: path.lstat().st_mtime_ns for path in sorted((work / ".git").rglob("*"))} == before
    assert not trap.exists()


def test_flags_of_the_index_hide_nothing(work):
    (work / "same.txt").write_text("another\n")
    git(work, "update-index", "--assume-unchanged", "changed.txt")
    git(work, "update-index", "--skip-worktree", "same.txt")
    assert {"changed.txt", "same.txt"} <= by_path(look(work)).keys()


def test_binary_huge_and_odd_files_are_named_and_not_shown(work):
    (work / "binary").write_bytes(b"\0\1\2")
    (work / "huge.txt").write_bytes(b"x" * (2 << 20))
    (work / "long.txt").write_text("line\n" * (module.MOST_LINES + 1))
    (work / "wide.txt").write_text("w" * (module.LARGEST_SHOWN + 1))
    (work / "link").symlink_to("/etc/passwd")
    (work / "committed.txt").chmod(0o755)
    git(work, "checkout", "-q", "HEAD~", "committed.txt")
    (work / "committed.txt").chmod(0o755)
    os.mkfifo(work / "fifo")
    inner = work / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (work / os.fsdecode(b"n\xffame\n.txt")).write_text("x\n")
    found = look(work)
    files = by_path(found)
    why = {path: file.left_out for path, file in files.items() if file.left_out}
    assert why == {
        "binary": "it is binary, or larger than 1 MiB",
        "huge.txt": "it is binary, or larger than 1 MiB",
        "long.txt": "more than 3,000 lines changed",
        "wide.txt": "it is larger than 256 KiB",
        "committed.txt": "only its permissions changed",
        "inner/": "it is a repository of its own",
    }
    assert told(files["link"]) == ["+/etc/passwd"]
    assert told(files["n\ufffdame\\n.txt"]) == ["+x"]


def test_many_files_are_cut(work):
    for number in range(module.MOST_FILES + 5):
        (work / f"f{number}").write_text("x\n")
    found = look(work)
    assert found.is_cut
    assert len(found.files) <= module.MOST_FILES
    assert sum(bool(file.lines) for file in found.files) <= module.MOST_SHOWN


def test_however_many_long_files_changed_what_is_shown_of_all_together_is_bounded(work):
    for number in range(100):
        (work / f"long{number:03}.txt").write_text("a line that was not there\n" * 2_900)
    found = look(work)
    files = by_path(found)
    assert told(files["committed.txt"]) == ["-two", "+2"]
    assert len(told(files["long000.txt"])) == 2_900
    assert sum(len(file.lines) for file in found.files) <= module.MOST_LINES_OF_ALL
    assert files["long099.txt"].left_out == "too much changed to show all of it"
    assert (files["long099.txt"].added, files["long099.txt"].lines) == (2_900, [])
    assert found.not_shown == (99, 99 * 2_900)


def test_what_is_shown_of_all_files_together_is_bounded_in_bytes_too(work):
    for number in range(20):
        (work / f"wide{number:02}.txt").write_text("\u00fc" * 100_000)
    (work / "z-small.txt").write_text("small\n")
    found = look(work)
    shown = sum(len(line.text.encode()) for file in found.files for line in file.lines)
    assert 200_000 < shown <= module.MOST_BYTES_OF_ALL
    assert told(by_path(found)["z-small.txt"]) == ["+small"], "what is small has room after what is large"
    assert found.not_shown == (18, 18)


def test_a_repository_without_a_commit_is_compared_with_nothing(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "new.txt").write_text("x\n")
    found = look(tmp_path)
    assert (found.kind, found.base, [file.path for file in found.files]) == (
        "diff",
        "an empty directory",
        ["new.txt"],
    )


def test_a_working_tree_of_a_repository_elsewhere_is_one_of_its_own(work, tmp_path):
    git(work, "worktree", "add", "-q", str(tmp_path / "second"))
    (tmp_path / "second" / "new.txt").write_text("x\n")
    found = look(tmp_path / "second")
    assert found.kind == "diff"
    assert told(by_path(found)["new.txt"]) == ["+x"]


@pytest.mark.parametrize("how", ["link", "pointer", "common directory", "objects"])
def test_a_repository_that_is_not_its_own_is_not_read(work, tmp_path, how):
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.txt").write_text("x\n")
    if how == "link":
        (own / ".git").symlink_to(work / ".git")
    elif how == "pointer":
        (own / ".git").write_text(f"gitdir: {work / '.git'}\n")
    else:
        git(own, "init", "-q")
        if how == "objects":
            subprocess.run(["rm", "-r", own / ".git" / "objects"], check=True)
            (own / ".git" / "objects").symlink_to(work / ".git" / "objects")
        else:
            (own / ".git" / "commondir").write_text(f"{work / '.git'}\n")
    found = look(own)
    assert (found.kind, [file.path for file in found.files]) == ("files", ["mine.txt"])
    assert found.problem


@pytest.mark.parametrize("name", ["HEAD", "config", "index"])
def test_nobody_waits_for_a_fifo_in_the_place_of_a_file_of_git(work, name):
    (work / ".git" / name).unlink()
    os.mkfifo(work / ".git" / name)
    found = look(work)
    assert found.kind == "files"
    assert "is not a regular file" in found.problem


def test_without_git_the_files_are_named_that_were_written_since(tmp_path):
    for name, at in (("old.txt", 100), ("newer.txt", 300), ("newest.txt", 400)):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (at, at))
    found = look(tmp_path, since=200)
    assert (found.kind, [file.path for file in found.files]) == ("files", ["newest.txt", "newer.txt"])
    assert all(not file.lines for file in found.files)


def test_a_workspace_that_is_gone_or_was_replaced_says_so(tmp_path):
    assert look(tmp_path / "gone").kind == "gone"
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "file").touch()
    assert {look(tmp_path / name).kind for name in ("link", "file")} == {"unknown"}
