"""What an agent writes into our own state of a checkout is not believed, not run, and not followed anywhere."""

import os
import shutil

import pytest

from sortie.errors import SortieError
from sortie.peers.turns.changes import changes_between
from sortie.peers.turns.look_back import look_back
from sortie.peers.turns.objects import entries_of
from sortie.peers.turns.revert import revert
from sortie.peers.turns.snapshot import Snapshot, recall, take_after, take_before

from .repository import Repository, shared_repository

STATE = ".git/sortie/snapshots"
FLAGGED = (
    f"cp .git/index {STATE}/index; GIT_INDEX_FILE=$PWD/{STATE}/index git update-index --assume-unchanged a.txt"
)


@pytest.fixture
def repository(tmp_path):
    found = Repository(tmp_path / "repo")
    found.write("a.txt", "one\n")
    found.write("b/c.txt", "two\n")
    found.commit("first")
    return found


def changed_by(repository, script, number=1):
    before = take_before(repository.place, number)
    repository.sh(script)
    return {file.path for file in changes_between(before, take_after(repository.place, before)).files}


def a_program(tmp_path):
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\ncat\n")
    program.chmod(0o755)
    return program


def test_no_program_of_an_agent_is_run_by_our_settings(repository, tmp_path):
    """LOG-08: a filter put into our own git directory never runs, in this turn and in those after it."""
    program = a_program(tmp_path)
    config = f'[core]\\n\\trepositoryformatversion = 0\\n[filter "x"]\\n\\tclean = {program}\\n'
    for number, where in enumerate((STATE, f"{tmp_path}/common"), 1):
        script = (
            f"mkdir -p {where}/info {where}/refs {where}/objects; printf '{config}' >> {where}/config; "
            f"echo 'ref: refs/heads/x' > {where}/HEAD; echo '* filter=x' > {where}/info/attributes; "
            f"test {where} = {STATE} || echo {where} > {STATE}/commondir; echo {number} > new"
        )
        assert changed_by(repository, script, number) == {"new"}
    assert changed_by(repository, "echo more > new", 3) == {"new"}
    assert not (tmp_path / "ran").exists()


def test_no_program_of_an_agent_is_run_by_the_settings_of_the_repository(repository, tmp_path):
    """LOG-08: whatever git can be configured to run."""
    program = a_program(tmp_path)
    names = (
        "core.fsmonitor core.pager core.editor core.sshCommand core.askPass core.alternateRefsCommand gpg.program "
        "diff.external filter.x.clean filter.x.process credential.helper alias.ls-files"
    )
    hooks = "reference-transaction post-index-change update post-checkout pre-commit"
    script = (
        f"for name in {names}; do git config $name {program}; done; "
        f"for hook in {hooks}; do cp {program} .git/hooks/$hook; done; "
        "echo '* filter=x' > .git/info/attributes; echo x > a.txt"
    )
    assert changed_by(repository, script) == {"a.txt"}
    assert changed_by(repository, "echo y > a.txt", 2) == {"a.txt"}
    assert not (tmp_path / "ran").exists()


def test_flags_in_an_index_of_ours_hide_nothing(repository):
    """LOG-08: the index that lies there is not the one that a look begins with."""
    take_after(repository.place, take_before(repository.place, 1))
    script = f"{FLAGGED}; echo evil > a.txt"
    assert changed_by(repository, script, 2) == {"a.txt"}
    # The next turn begins with what we left, not with what was put there.
    assert changed_by(repository, "echo worse > a.txt", 3) == {"a.txt"}


def test_nor_after_a_crash(repository):
    """LOG-08: who comes after a crash has no index in memory, and reads everything."""
    take_before(repository.place, 1)
    repository.sh(f"{FLAGGED}; echo '*' >> .git/info/exclude; echo evil > a.txt; echo new > b/new")
    before = recall(repository.place, 1, "before")
    assert before is not None
    changes = changes_between(before, take_after(repository.place, before))
    assert {file.path for file in changes.files} == {"a.txt", "b/new"}


def test_nothing_is_written_through_a_link_in_place_of_our_state(repository, tmp_path):
    """LOG-08: another repository that it names stays whole."""
    victim = Repository(tmp_path / "victim")
    victim.write("precious", "1")
    victim.commit()
    victim.write(".git/index.tmp-mine", "mine")
    index = (victim.root / ".git/index").read_bytes()
    before = take_before(repository.place, 1)
    repository.sh(f"mv {STATE} {STATE}2; ln -s {victim.root}/.git {STATE}; echo x > a.txt")
    after = take_after(repository.place, before)
    assert [file.path for file in changes_between(before, after).files] == ["a.txt"]
    assert any("Symbolic link refused" in problem for problem in after.problems)
    assert (victim.root / ".git/index").read_bytes() == index
    assert (victim.root / ".git/index.tmp-mine").exists()
    with pytest.raises(SortieError, match="Symbolic link refused"):
        take_before(repository.place, 2)


def test_our_whole_state_removed(repository):
    """LOG-08: what was taken before the turn is in memory and in the repository."""
    assert changed_by(repository, "rm -rf .git/sortie; echo x > a.txt") == {"a.txt"}
    assert changed_by(repository, "echo y > a.txt", 2) == {"a.txt"}


@pytest.mark.parametrize("name", [".git/index", f"{STATE}/index"])
def test_a_huge_index_is_not_copied(repository, name):
    """LOG-08: one without end fills no disk, and keeps no turn waiting."""
    state = repository.root / STATE
    assert changed_by(repository, f"rm -f {name}; truncate -s 1T {name}; echo x > a.txt") == {"a.txt"}
    before = take_before(repository.place, 2)
    assert "a.txt" in entries_of(before.checkout, before.tree)
    assert sum(path.stat().st_size for path in state.iterdir()) < 1 << 20


@pytest.mark.parametrize("recalled", [False, True])
def test_what_was_staged_is_not_what_an_agent_says_it_was(tmp_path, recalled):
    """LOG-08: the copy of the index is known by its content."""
    repository = shared_repository(tmp_path / "repo")
    before: Snapshot | None = take_before(repository.place, 1)
    repository.sh(f"echo evil > bob/b.py; git add bob/b.py; cp .git/index {STATE}/index.before-1")
    if recalled:
        before = recall(repository.place, 1, "before")
    assert before is not None
    done = revert(repository.place, look_back(repository.place, "Alice", before), at=1_800_000_000.0)
    assert done.files == ("bob/b.py",)
    assert [problem for problem in done.problems if "staged" in problem] == list(done.problems)
    assert bool(done.problems) == recalled
    assert repository.sh("git diff --cached --name-only") == ("bob/b.py" if recalled else "")


def test_nothing_of_a_look_stays_behind(repository, tmp_path, monkeypatch):
    """LOG-08: what git needs for a call is gone with the call."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", os.fspath(place))
    changed_by(repository, "echo x > a.txt")
    assert list(place.iterdir()) == []
    shutil.rmtree(place)
    with pytest.raises(SortieError, match="no room for temporary files"):
        take_before(repository.place, 2)
