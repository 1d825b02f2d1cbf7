"""What a turn changed is told by content, and what it did to branches, tags and the stash."""

import pytest

from sortie.peers.turns.changes import changes_between
from sortie.peers.turns.ref_changes import keep_lost
from sortie.peers.turns.snapshot import take_after, take_before

from .repository import Repository


@pytest.fixture
def repository(tmp_path):
    found = Repository(tmp_path / "repo")
    found.write("a.txt", "one\n")
    found.write("b.txt", "two\n" * 20)
    found.commit("first")
    return found


def turn(repository, script, number=1):
    before = take_before(repository.place, number)
    repository.sh(script)
    after = take_after(repository.place, before)
    return before, after, changes_between(before, after)


def test_every_way_to_change_a_file(repository):
    repository.write("gone", "x")
    _, _, changes = turn(
        repository,
        "echo x > new; rm gone; git mv b.txt c.txt; ln -s a.txt link; rm -f a.txt; ln -s c.txt a.txt",
    )
    assert {file.path: file.how for file in changes.files} == {
        "a.txt": "type changed",
        "b.txt": "deleted",
        "c.txt": "added",
        "gone": "deleted",
        "link": "added",
        "new": "added",
    }


def test_a_mode_is_a_change(repository):
    _, _, changes = turn(repository, "chmod +x a.txt")
    (file,) = changes.files
    assert (file.how, file.before.mode, file.after.mode) == ("modified", "100644", "100755")


def test_what_was_committed_is_changed_all_the_same(repository):
    _, _, changes = turn(repository, "echo x > a.txt; git commit -qam one; echo y > b.txt; git commit -qam two")
    assert [file.path for file in changes.files] == ["a.txt", "b.txt"]
    assert list(changes.commits) == repository.sh("git rev-list -2 HEAD").splitlines()
    assert changes.remarks == (
        f"The turn made 2 commits on the branch `main`: {', '.join(oid[:12] for oid in changes.commits)}.",
    )
    assert [(ref.name, ref.lost) for ref in changes.refs] == [("refs/heads/main", False)]


def test_what_was_only_committed_is_no_change_of_a_file(repository):
    repository.write("a.txt", "x")
    _, _, changes = turn(repository, "git commit -qam one")
    assert changes.files == ()
    assert len(changes.commits) == 1


def test_another_branch(repository):
    repository.sh("git checkout -q -b other; echo other > a.txt; git commit -qam other; git checkout -q main")
    _, _, changes = turn(repository, "git checkout -q other")
    assert [file.path for file in changes.files] == ["a.txt"]
    assert changes.commits == ()
    assert changes.remarks == ("HEAD was on the branch `main` before the turn and is on the branch `other` now.",)


def test_a_head_on_no_branch(repository):
    _, _, changes = turn(repository, "git checkout -q --detach; echo x > a.txt; git commit -qam x")
    assert "is on no branch now" in changes.remarks[0]
    # What is on no branch is still reachable by us.
    repository.sh("git checkout -q main; git reflog expire --expire=now --all; git gc -q --prune=now")
    assert repository.sh(f"git show {changes.commits[0]}:a.txt") == "x"


def test_a_reset_and_an_amended_commit_lose_nothing(repository):
    second = repository.commit("second")
    _, after, changes = turn(repository, "git commit -q --amend --allow-empty -m other")
    (change,) = changes.refs
    assert change.lost
    (kept,) = keep_lost(after, changes.refs)
    assert kept.kept == "refs/sortie/lost/1/heads/main"
    assert repository.sh(f"git rev-parse {kept.kept}") == second


def test_a_deleted_branch_whose_work_is_nowhere_else(repository):
    repository.sh("git checkout -q -b side; echo side > s; git add s; git commit -qm side; git checkout -q main")
    side = repository.sh("git rev-parse side")
    repository.sh("git branch merged")
    _, after, changes = turn(repository, "git branch -D side merged")
    assert {(ref.name, ref.lost) for ref in changes.refs} == {
        ("refs/heads/side", True),
        ("refs/heads/merged", False),
    }
    kept = {ref.name: ref.kept for ref in keep_lost(after, changes.refs)}
    assert kept == {"refs/heads/merged": "", "refs/heads/side": "refs/sortie/lost/1/heads/side"}
    assert repository.sh("git rev-parse refs/sortie/lost/1/heads/side") == side


def test_a_dropped_stash(repository):
    repository.sh("echo stashed > a.txt; git stash -q")
    stash = repository.sh("git rev-parse refs/stash")
    _, after, changes = turn(repository, "git stash drop -q")
    (kept,) = keep_lost(after, changes.refs)
    assert (kept.called, kept.lost) == ("The stash", True)
    assert repository.sh(f"git rev-parse {kept.kept}") == stash


def test_a_stash_on_top_of_another_loses_nothing(repository):
    repository.sh("echo stashed > a.txt; git stash -q; echo more > a.txt")
    _, _, changes = turn(repository, "git stash -q")
    assert [ref.lost for ref in changes.refs] == [False]


def test_refs_of_ours_are_put_back(repository):
    first = take_before(repository.place, 1)
    repository.sh(f"git update-ref refs/sortie/reverted/1 {first.commit}")
    _, after, changes = turn(
        repository, "git for-each-ref --format='delete %(refname)' refs/sortie | git update-ref --stdin", number=2
    )
    assert all(ref.is_ours for ref in changes.refs)
    assert all(ref.kept == ref.name for ref in keep_lost(after, changes.refs))
    assert repository.sh("git rev-parse refs/sortie/reverted/1") == first.commit
    assert repository.sh("git rev-parse refs/sortie/turns/1/before") == first.commit


def test_a_new_branch_and_a_moved_tag_are_told(repository):
    repository.sh("git tag v1")
    _, _, changes = turn(repository, "git branch fresh; echo x > a.txt; git commit -qam x; git tag -f v1")
    assert "The branch `fresh` is new." in changes.remarks
    assert {ref.name for ref in changes.refs} == {"refs/heads/fresh", "refs/heads/main", "refs/tags/v1"}
    assert not any(ref.lost for ref in changes.refs)
