"""The state of a checkout is kept whole, whatever it is, and nothing of the repository changes by that."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from sortie.errors import SortieError
from sortie.peers.place import place_at
from sortie.peers.turns.changes import changes_between
from sortie.peers.turns.objects import blob, entries_of
from sortie.peers.turns.snapshot import KEPT_TURNS, recall, take_after, take_before

from .repository import Repository

NOBODY = 65534


@pytest.fixture
def repository(tmp_path):
    found = Repository(tmp_path / "repo")
    found.write("a.txt", "one\n")
    found.write("b/c.txt", "two\n")
    found.write(".gitignore", "build/\n")
    found.commit("first")
    return found


def content_of(snapshot, path):
    entry = entries_of(snapshot.checkout, snapshot.tree)[path]
    return blob(snapshot.checkout, entry.oid)


def test_all_files_are_in_it_whether_staged_or_known_or_not(repository):
    repository.write("a.txt", "staged\n")
    repository.sh("git add a.txt")
    repository.write("a.txt", "staged and changed\n")
    repository.write("new/deep/file", "untracked\n")
    repository.write("build/output", "ignored\n")
    repository.write("tool", "#!/bin/sh\n").chmod(0o755)
    (repository.root / "link").symlink_to("../outside")
    (repository.root / "b/c.txt").unlink()
    before = take_before(repository.place, 1)
    found = entries_of(before.checkout, before.tree)
    assert set(found) == {".gitignore", "a.txt", "new/deep/file", "tool", "link"}
    assert content_of(before, "a.txt") == b"staged and changed\n"
    assert content_of(before, "link") == b"../outside"
    assert (found["tool"].mode, found["link"].mode, found["a.txt"].mode) == ("100755", "120000", "100644")
    assert repository.sh("git rev-parse refs/sortie/turns/1/before") == before.commit


def test_nothing_of_the_repository_changes(repository):
    repository.write("a.txt", "in the stash\n")
    repository.sh("git stash -q")
    repository.write("a.txt", "staged\n")
    repository.sh("git add a.txt")
    repository.write("untracked", "x")
    index = repository.root / ".git/index"

    def state():
        seen = repository.sh("git for-each-ref refs/heads refs/tags refs/stash; git stash list; cat .git/HEAD")
        return seen, index.read_bytes(), index.stat().st_mtime_ns, sorted(os.listdir(repository.root))

    was = state()
    before = take_before(repository.place, 1)
    take_after(repository.place, before)
    assert state() == was
    assert repository.sh("git status --porcelain") == "M  a.txt\n?? untracked"


def test_the_bytes_of_a_file_are_kept_whatever_git_is_told_to_make_of_them(repository):
    repository.write(
        ".gitattributes", "*.txt text eol=lf\n*.bin filter=twist ident\n*.utf working-tree-encoding=UTF-16\n"
    )
    repository.sh("git config filter.twist.clean 'tr a-z A-Z'; git config core.autocrlf true")
    raw = {"w.txt": b"a\r\nb\r\n", "x.bin": b"quiet $Id$\n", "y.utf": "hé".encode("utf-16")}
    for name, content in raw.items():
        repository.write(name, content)
    before = take_before(repository.place, 1)
    assert {name: content_of(before, name) for name in raw} == raw


def test_a_second_look_at_the_same_files_gives_the_same_tree(repository):
    before = take_before(repository.place, 1)
    repository.sh("touch a.txt")
    after = take_after(repository.place, before)
    assert after.tree == before.tree
    assert changes_between(before, after).files == ()


def test_a_repository_without_a_commit(tmp_path):
    repository = Repository(tmp_path / "repo")
    repository.write("a", "1")
    before = take_before(repository.place, 1)
    assert (before.head, before.branch) == ("", "refs/heads/main")
    first = repository.commit("first")
    repository.write("b", "2")
    changes = changes_between(before, take_after(repository.place, before))
    assert [(file.path, file.how) for file in changes.files] == [("b", "added")]
    assert changes.commits == (first,)


def test_a_detached_head(repository):
    repository.sh("git checkout -q --detach")
    before = take_before(repository.place, 1)
    assert (before.head, before.branch) == (repository.sh("git rev-parse HEAD"), "")


def test_objects_with_longer_names(tmp_path):
    repository = Repository(tmp_path / "repo", "--object-format=sha256")
    repository.write("a", "1")
    repository.commit()
    before = take_before(repository.place, 1)
    assert len(before.commit) == 64
    repository.write("a", "2")
    (changed,) = changes_between(before, take_after(repository.place, before)).files
    assert changed.before is not None
    assert blob(before.checkout, changed.before.oid) == b"1"


def test_working_trees_of_one_repository_count_their_own_turns(repository, tmp_path):
    repository.sh("git worktree add -q ../second -b second")
    second = place_at(tmp_path / "second")
    (tmp_path / "second/only-here").write_text("x")
    first_before, second_before = take_before(repository.place, 1), take_before(second, 1)
    assert repository.sh("git rev-parse refs/sortie/turns/1/before") == first_before.commit
    assert repository.sh("git rev-parse refs/sortie/worktrees/second/turns/1/before") == second_before.commit
    assert "only-here" in entries_of(second_before.checkout, second_before.tree)
    changes = changes_between(first_before, take_after(repository.place, first_before))
    assert changes.refs == ()
    assert list((tmp_path / "second").glob("*sortie*")) == []


def test_a_submodule_counts_by_its_commit_and_can_be_a_checkout_itself(repository, tmp_path):
    library = Repository(tmp_path / "library")
    library.write("l", "1")
    library.commit()
    repository.sh("git -c protocol.file.allow=always submodule add -q ../library lib && git commit -qm sub")
    before = take_before(repository.place, 1)
    assert entries_of(before.checkout, before.tree)["lib"].is_repository
    inner = place_at(repository.root / "lib")
    inner_before = take_before(inner, 1)
    repository.sh("cd lib && echo 2 > l && git commit -qam more")
    (changed,) = changes_between(before, take_after(repository.place, before)).files
    assert (changed.path, changed.how) == ("lib", "modified")
    (changed,) = changes_between(inner_before, take_after(inner, inner_before)).files
    assert changed.path == "l"


def test_a_directory_inside_of_a_repository_is_refused_with_the_fix(repository):
    with pytest.raises(SortieError, match="is a directory inside the repository") as refused:
        take_before(place_at(repository.root / "b"), 1)
    assert str(repository.root) in refused.value.fix


def test_no_repository_is_refused_with_the_fix(tmp_path):
    with pytest.raises(SortieError, match=r"no git repository.* git -C .* init"):
        take_before(place_at(tmp_path), 1)
    with pytest.raises(SortieError, match="There is no directory"):
        take_before(place_at(tmp_path / "gone"), 1)


def test_a_working_tree_elsewhere_is_refused_with_the_fix(repository, tmp_path):
    (tmp_path / "else").mkdir()
    repository.sh("git config core.worktree ../../else")
    with pytest.raises(SortieError, match=r"core\.worktree"):
        take_before(repository.place, 1)


def test_what_cannot_be_stored_is_left_out_and_named(repository):
    os.truncate(repository.write("huge", ""), 5 << 30)
    os.truncate(repository.root / "a.txt", 200 << 20)
    (repository.root / "b/c.txt").unlink()
    os.mkfifo(repository.root / "b/c.txt")
    os.mkfifo(repository.root / "fifo")
    repository.sh(
        "git init -q empty && echo 1 > empty/f && git init -q inner && git -C inner commit -q --allow-empty -m x"
    )
    before = take_before(repository.place, 1)
    assert {(one.path, one.why) for one in before.left_out} == {
        ("a.txt", "it is larger than 100 MiB"),
        ("b/c.txt", "it is no regular file"),
        ("empty", "it is a repository without a commit"),
        ("huge", "it is larger than 100 MiB"),
        ("inner", "it is a repository of its own"),
    }
    assert set(entries_of(before.checkout, before.tree)) == {".gitignore", "inner"}
    # They are watched by their size and times.
    os.utime(repository.root / "huge", ns=(1, 1))
    (repository.root / "a.txt").unlink()
    changed = changes_between(before, take_after(repository.place, before)).files
    assert [(file.path, file.how) for file in changed] == [("a.txt", "deleted"), ("huge", "modified")]


def test_an_unreadable_file_is_left_out_and_named():
    home = Path(tempfile.mkdtemp(prefix="sortie-test-"))
    was_root = os.geteuid() == 0
    if was_root:
        os.chown(home, NOBODY, -1)
        os.seteuid(NOBODY)
    try:
        repository = Repository(home / "repo")
        repository.write("open", "1")
        repository.write("closed", "2").chmod(0)
        repository.write("dir/inner", "3")
        (repository.root / "dir").chmod(0)
        before = take_before(repository.place, 1)
        assert [(one.path, one.why) for one in before.left_out] == [("closed", "it may not be read")]
        assert set(entries_of(before.checkout, before.tree)) == {"open"}
        (repository.root / "closed").chmod(0o600)
        (changed,) = changes_between(before, take_after(repository.place, before)).files
        assert (changed.path, changed.how) == ("closed", "modified")
    finally:
        (home / "repo/dir").chmod(0o700)
        if was_root:
            os.seteuid(0)
        shutil.rmtree(home)


def test_any_name_of_a_file(repository):
    names = [
        "new\nline",
        os.fsdecode(b"not \xff utf-8"),
        " blank ",
        '"quoted"',
        ":(top)magic",
        "*",
        "-n",
        "tab\t",
        "é",
    ]
    before = take_before(repository.place, 1)
    for name in names:
        repository.write(name, "x")
    changes = changes_between(before, take_after(repository.place, before))
    assert [file.path for file in changes.files] == sorted(names)


def test_many_files(tmp_path):
    repository = Repository(tmp_path / "repo")
    for number in range(100):
        directory = repository.root / f"d{number}"
        directory.mkdir()
        for inner in range(1000):
            os.mknod(directory / f"f{inner}")
    before = take_before(repository.place, 1)
    (repository.root / "d7/f7").write_text("x")
    (repository.root / "d8/f8").unlink()
    changes = changes_between(before, take_after(repository.place, before))
    assert [(file.path, file.how) for file in changes.files] == [("d7/f7", "modified"), ("d8/f8", "deleted")]


def test_a_snapshot_is_found_again_after_a_crash(repository):
    repository.write("WORKLOG.md", "log\n")
    os.truncate(repository.write(os.fsdecode(b"huge\xff"), ""), 200 << 20)
    before = take_before(repository.place, 3)
    again = recall(repository.place, 3, "before")
    assert again is not None
    assert (again.commit, again.tree, again.head, again.branch) == (
        before.commit,
        before.tree,
        before.head,
        before.branch,
    )
    assert again.left_out == before.left_out
    assert again.documents.content == {"worklog": b"log\n"}
    assert recall(repository.place, 4, "before") is None
    repository.write("a.txt", "changed\n")
    (changed,) = changes_between(again, take_after(repository.place, again)).files
    assert changed.path == "a.txt"


def test_only_the_last_turns_are_kept_and_what_was_reverted_for_ever(repository):
    first = take_before(repository.place, 1)
    take_after(repository.place, first)
    repository.sh(f"git update-ref refs/sortie/reverted/1 {first.commit}")
    take_before(repository.place, KEPT_TURNS)
    assert repository.sh("git for-each-ref --format='%(refname)' refs/sortie/turns/1 | wc -l") == "2"
    last = take_before(repository.place, KEPT_TURNS + 1)
    assert repository.sh("git for-each-ref --format='%(refname)' refs/sortie").splitlines() == [
        "refs/sortie/reverted/1",
        f"refs/sortie/turns/{KEPT_TURNS}/before",
        f"refs/sortie/turns/{KEPT_TURNS + 1}/before",
    ]
    # That they are gone is our own doing, and nobody else's.
    assert changes_between(last, take_after(repository.place, last)).refs == ()


def test_documents_are_in_it_even_where_git_ignores_them(repository):
    repository.write(".gitignore", "*.md\n")
    repository.write("WORKLOG.md", "log\n")
    repository.write("notes.md", "mine\n")
    before = take_before(repository.place, 1)
    assert content_of(before, "WORKLOG.md") == b"log\n"
    assert "notes.md" not in entries_of(before.checkout, before.tree)
    assert before.documents.content == {"worklog": b"log\n"}


def test_what_a_killed_snapshot_left_is_no_hindrance(repository):
    take_before(repository.place, 1)
    own = repository.root / ".git/sortie/snapshots"
    (own / "index.lock").touch()
    (own / "index.tmp-0123").write_text("half")
    (own / "index").write_text("garbage")
    before = take_before(repository.place, 2)
    assert "a.txt" in entries_of(before.checkout, before.tree)
    assert not (own / "index.tmp-0123").exists()
