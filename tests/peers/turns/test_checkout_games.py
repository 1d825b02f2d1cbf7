"""What an agent does to the repository in its turn fools nobody and holds nobody up."""

import os
import socket

import pytest

from sortie.errors import SortieError
from sortie.peers.turns.changes import changes_between
from sortie.peers.turns.checkout import Damaged
from sortie.peers.turns.snapshot import take_after, take_before
from sortie.peers.turns.working_tree import read_working_tree

from .repository import Repository


@pytest.fixture
def repository(tmp_path):
    found = Repository(tmp_path / "repo")
    found.write("a.txt", "one\n")
    found.write("b/c.txt", "two\n")
    found.commit("first")
    return found


def changed_by(repository, script):
    before = take_before(repository.place, 1)
    repository.sh(script)
    after = take_after(repository.place, before)
    changes = changes_between(before, after)
    return {file.path: file.how for file in changes.files}, changes


SEEN_ALL_THE_SAME = {
    "a filter that gives the old content": (
        "git config filter.lie.clean 'echo one'; echo '* filter=lie' > .git/info/attributes; echo x > a.txt"
    ),
    "flags in the index": "git update-index --assume-unchanged a.txt; echo x > a.txt",
    "skipped in the index": "git update-index --skip-worktree a.txt; echo x > a.txt",
    "committed and flagged": "echo x > a.txt; git commit -qam x; git update-index --assume-unchanged a.txt",
    "times set back": "touch -r a.txt ../when; printf 'two\\n' > a.txt; touch -r ../when a.txt",
    "another working tree": "git config core.worktree /tmp; echo x > a.txt",
    "said to be bare": "git config core.bare true; echo x > a.txt",
    "a broken index": "echo garbage > .git/index; echo x > a.txt",
    "no index": "rm .git/index; echo x > a.txt",
    "a lock left behind": "touch .git/index.lock .git/HEAD.lock .git/packed-refs.lock; echo x > a.txt",
    "sparse": "git sparse-checkout set --no-cone /b 2>&1; echo x > a.txt",
    "a monitor that sees nothing": "git config core.fsmonitor true; echo x > a.txt",
    "no trust in times": "git config core.trustctime false; git config core.checkStat minimal; echo x > a.txt",
    "replaced objects": (
        "echo x > a.txt; git replace $(git rev-parse refs/sortie/turns/1/before^{tree}) $(git mktree < /dev/null)"
    ),
    "the snapshot's ref deleted": "git update-ref -d refs/sortie/turns/1/before; echo x > a.txt",
    "a branch of another history": "git checkout -q --orphan other; git commit -qam x; echo x > a.txt",
    "everything staged": "echo x > a.txt; git add -A",
    "stashed and restored": "echo x > a.txt; git stash -q; git stash pop -q",
}


@pytest.mark.parametrize("game", SEEN_ALL_THE_SAME)
def test_a_changed_file_is_seen(repository, game):
    """LOG-08: nobody hides a change by settings, flags or git's own commands."""
    found, _ = changed_by(repository, SEEN_ALL_THE_SAME[game])
    assert found == {"a.txt": "modified"}


def test_what_is_ignored_from_now_on_is_seen(repository):
    found, _ = changed_by(repository, "echo '*' >> .git/info/exclude; echo x > new; echo x > a.txt")
    assert found == {"a.txt": "modified", "new": "added"}


def test_what_is_ignored_and_added_by_force_is_seen(repository):
    repository.write(".gitignore", "build\n")
    found, _ = changed_by(repository, "mkdir build; echo x > build/x; git add -f build/x; git commit -qm x")
    assert found == {"build/x": "added"}


def test_a_repository_put_around_files_does_not_hide_them(repository):
    found, _ = changed_by(
        repository, "git init -q b; git -C b commit -q --allow-empty -m x; echo x > b/c.txt; echo x > b/new"
    )
    assert found == {"b/c.txt": "modified", "b/new": "added"}


def test_a_link_in_place_of_a_directory(repository, tmp_path):
    found, _ = changed_by(repository, "mv b ../elsewhere; ln -s ../elsewhere b")
    assert found == {"b": "added", "b/c.txt": "deleted"}


def test_a_directory_in_place_of_a_file_and_the_reverse(repository):
    found, _ = changed_by(repository, "rm a.txt; mkdir a.txt; echo x > a.txt/x; rm -r b; echo x > b")
    assert found == {"a.txt": "deleted", "a.txt/x": "added", "b": "added", "b/c.txt": "deleted"}


def test_a_socket_and_a_fifo_in_the_tree(repository):
    before = take_before(repository.place, 1)
    os.mkfifo(repository.root / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(repository.root / "socket"))
        after = take_after(repository.place, before)
    assert changes_between(before, after).files == ()


def test_a_repository_that_git_cannot_read_any_more_is_told_and_the_files_all_the_same(repository):
    found, changes = changed_by(repository, "echo '[core' >> .git/config; echo x > a.txt")
    assert found == {"a.txt": "modified"}
    assert any("bad config" in remark for remark in changes.remarks)


def test_snapshots_that_were_thrown_away(repository):
    repository.write("a.txt", "not committed\n")
    before = take_before(repository.place, 1)
    repository.sh(
        "git update-ref -d refs/sortie/turns/1/before; git reflog expire --expire=now --all; git gc -q --prune=now"
    )
    after = take_after(repository.place, before)
    assert any("are gone" in problem for problem in after.problems)
    # What there is now is kept whole, and the next turn begins as any other.
    assert repository.sh(f"git show {after.commit}:a.txt") == "not committed"
    assert changes_between(before, after).files == ()


@pytest.mark.parametrize("name", [".gitignore", "b/.gitattributes"])
def test_a_fifo_that_git_waits_for_is_named(repository, name):
    before = take_before(repository.place, 1)
    os.mkfifo(repository.root / name)
    (repository.root / "b/new").touch()
    with pytest.raises(Damaged, match=f"{name}` is not a regular file"):
        read_working_tree(before.checkout, (), seconds=0.5)


DAMAGES = {
    "no repository any more": ("rm -rf .git", "is gone"),
    "another one": ("rm -rf .git; git init -q", "Another repository|is gone or damaged"),
    "moved away": ("mv .git ../moved; echo 'gitdir: ../moved' > .git", "is gone or damaged"),
    "a file that names another": ("cp -r .git ../copy; rm -rf .git; echo 'gitdir: ../copy' > .git", "damaged"),
    "a file that names nothing": ("mv .git ../moved; echo 'gitdir: ../gone' > .git", "is gone or damaged"),
    "a FIFO": ("mv .git ../moved; mkfifo .git", "is gone or damaged"),
    "another common directory": (
        "git init -q ../other; echo ../../other/.git > .git/commondir",
        "Another repository",
    ),
    "no objects": ("rm -rf .git/objects", "is gone or damaged"),
    "a FIFO as index": ("rm .git/index; mkfifo .git/index", "is not a regular file"),
    "a FIFO as configuration": ("rm .git/config; mkfifo .git/config", "is not a regular file"),
    "a FIFO as HEAD": ("rm .git/HEAD; mkfifo .git/HEAD", "is not a regular file"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_repository_is_said_to_be_one(repository, damage):
    script, words = DAMAGES[damage]
    before = take_before(repository.place, 1)
    repository.sh(script)
    with pytest.raises(Damaged, match=words):
        take_after(repository.place, before)


def test_damaged_objects_are_said_to_be_damaged(repository):
    before = take_before(repository.place, 1)
    repository.sh(
        "find .git/objects -type f -exec chmod +w {} + -exec sh -c 'for f; do echo junk > $f; done' - {} +"
    )
    repository.write("a.txt", "x")
    with pytest.raises(SortieError, match="damage"):
        changes_between(before, take_after(repository.place, before))


def test_no_turn_begins_in_a_repository_that_is_damaged(repository):
    repository.sh("echo garbage > .git/HEAD")
    with pytest.raises(Damaged, match="no repository that git can use"):
        take_before(repository.place, 1)
