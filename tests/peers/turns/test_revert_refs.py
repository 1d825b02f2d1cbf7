"""What an agent makes of the refs that we need neither moves a branch nor keeps anything from going back."""

import pytest

from sortie.peers.turns.look_back import look_back
from sortie.peers.turns.revert import revert
from sortie.peers.turns.snapshot import KEPT_TURNS, take_after, take_before

from .repository import shared_repository

AT = 1_800_000_000.0


@pytest.fixture
def repository(tmp_path):
    return shared_repository(tmp_path / "repo")


def reverted(repository, script):
    before = take_before(repository.place, 1)
    repository.sh(script)
    looked = look_back(repository.place, "Alice", before)
    return looked, revert(repository.place, looked, at=AT)


def test_no_branch_moves_by_a_symbolic_ref_in_place_of_ours(repository):
    """LOG-08: a ref of ours is written as itself."""
    main = repository.sh("git rev-parse main")
    _, done = reverted(
        repository,
        "for ref in turns/1/after reverted/1; do git symbolic-ref refs/sortie/$ref refs/heads/main; done; "
        "echo x > bob/b.py",
    )
    assert repository.sh("git rev-parse main") == main
    assert (done.ref, done.problems) == ("refs/sortie/reverted/1", ())
    assert repository.sh("git show refs/sortie/turns/1/after:bob/b.py") == "x"
    assert repository.read("bob/b.py") == "b = 1\n"


def test_no_branch_goes_with_an_old_symbolic_ref(repository):
    """LOG-08: nor is a branch deleted by one."""
    repository.sh("git branch other; git symbolic-ref refs/sortie/turns/1/after refs/heads/other")
    take_before(repository.place, KEPT_TURNS + 1)
    assert repository.sh("git for-each-ref --format='%(refname)' refs/heads") == "refs/heads/main\nrefs/heads/other"
    assert repository.sh("git for-each-ref refs/sortie/turns/1") == ""


def test_what_is_kept_of_a_lost_branch_moves_no_other(repository):
    """LOG-08: the same for what a turn would have lost."""
    repository.sh("git checkout -q -b side; echo s > side; git add side; git commit -qm side; git checkout -q main")
    main, side = repository.sh("git rev-parse main side").split()
    before = take_before(repository.place, 1)
    repository.sh("git branch -qD side; git symbolic-ref refs/sortie/lost/1/heads/side refs/heads/main")
    look_back(repository.place, "Alice", before)
    assert repository.sh("git rev-parse main refs/sortie/lost/1/heads/side").split() == [main, side]


IN_THE_WAY = {
    "a ref below": ("git update-ref refs/sortie/reverted/1/x HEAD", "refs/sortie/reverted/1-"),
    "a ref above": ("git update-ref refs/sortie/reverted HEAD", "refs/sortie/reverted-1-"),
    "a lock": (
        "mkdir -p .git/refs/sortie/reverted; touch .git/refs/sortie/reverted/1.lock",
        "refs/sortie/reverted/1-",
    ),
}


@pytest.mark.parametrize("what", IN_THE_WAY)
def test_nothing_in_the_way_of_the_ref_keeps_a_turn_from_going_back(repository, what):
    """LOG-08: what is taken back is kept under another name, and that is told."""
    script, name = IN_THE_WAY[what]
    looked, done = reverted(repository, f"{script}; echo mine > bob/b.py")
    assert done.ref.startswith(name)
    assert done.problems == ()
    assert repository.read("bob/b.py") == "b = 1\n"
    assert repository.sh(f"git show {done.ref}:bob/b.py") == "mine"
    assert repository.sh(f"git rev-parse {done.ref}^") == looked.before.commit


def test_the_ref_of_a_turn_that_was_taken_back_before_the_crash_is_our_own(repository):
    """LOG-08: a ref of the agent that has the same files is not the one that keeps them."""
    before = take_before(repository.place, 1)
    repository.sh(
        "echo mine > bob/b.py; git commit -qam x; git symbolic-ref refs/sortie/reverted/1 refs/heads/main"
    )
    after = take_after(repository.place, before)
    done = revert(repository.place, look_back(repository.place, "Alice", before, after), at=AT)
    assert repository.sh(f"git symbolic-ref -q {done.ref} || echo itself") == "itself"
