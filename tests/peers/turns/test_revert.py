"""What a turn did outside of its lane is taken back and kept; the rest of its work stays."""

import os
import stat

import pytest

from sortie.errors import SortieError
from sortie.peers.turns.look_back import look_back
from sortie.peers.turns.revert import revert
from sortie.peers.turns.snapshot import recall, take_before

from .repository import CHARTER, LOG, shared_repository

AT = 1_800_000_000.0


@pytest.fixture
def repository(tmp_path):
    return shared_repository(tmp_path / "repo")


def reverted(repository, script, agent="Alice"):
    before = take_before(repository.place, 1)
    repository.sh(script)
    looked = look_back(repository.place, agent, before)
    return looked, revert(repository.place, looked, at=AT)


def test_only_what_is_against_the_rules_goes_back(repository):
    """LOG-05, LOG-08: files of others and the charter are as they were; the agent's own work stays."""
    _, done = reverted(
        repository,
        "echo mine > bob/b.py; echo x > bob/new; echo x >> CHARTER.md; echo 2 > alice/a.py; echo x > README.md",
    )
    assert done.files == ("CHARTER.md", "bob/b.py", "bob/new")
    assert done.problems == ()
    assert repository.read("bob/b.py") == "b = 1\n"
    assert repository.read("CHARTER.md") == CHARTER
    assert not (repository.root / "bob/new").exists()
    assert (repository.read("alice/a.py"), repository.read("README.md")) == ("2\n", "x\n")


def test_what_goes_back_is_kept_under_a_ref(repository):
    looked, done = reverted(repository, "echo mine > bob/b.py; echo x > bob/new")
    assert done.ref == "refs/sortie/reverted/1"
    assert repository.sh(f"git show {done.ref}:bob/b.py; git show {done.ref}:bob/new") == "mine\nx"
    assert repository.sh(f"git rev-parse {done.ref}^") == looked.before.commit
    message = repository.sh(f"git log -1 --format=%B {done.ref}")
    assert message == "Turn 1 of Alice, as it was before this was taken back:\n\n`bob/b.py`\n`bob/new`"


def test_a_good_turn_leaves_no_ref(repository):
    _, done = reverted(repository, "echo 2 > alice/a.py; echo x > README.md")
    assert (done.ref, done.files) == ("", ())
    assert repository.sh("git for-each-ref refs/sortie/reverted") == ""


def test_links_modes_and_deleted_files(repository):
    repository.write("bob/tool", "#!/bin/sh\n").chmod(0o755)
    (repository.root / "bob/link").symlink_to("b.py")
    repository.write("bob/deep/er/file", "deep\n")
    repository.commit()
    _, done = reverted(
        repository,
        "chmod -x bob/tool; rm bob/link; echo x > bob/link; rm -r bob/deep; ln -sf /etc/passwd bob/b.py; "
        "mkdir -p bob/made/here; echo x > bob/made/here/f",
    )
    assert done.problems == ()
    root = repository.root
    assert stat.S_IMODE((root / "bob/tool").stat().st_mode) & 0o111
    assert os.readlink(root / "bob/link") == "b.py"
    assert not (root / "bob/b.py").is_symlink()
    assert repository.read("bob/b.py") == "b = 1\n"
    assert repository.read("bob/deep/er/file") == "deep\n"
    assert not (root / "bob/made").exists()
    assert repository.sh("git status --porcelain") == ""


def test_nothing_is_written_through_a_link_that_the_agent_left(repository, tmp_path):
    """The directory is a link to one outside, with a file of the same name in it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("precious\n")
    _, done = reverted(repository, f"rm -r bob; ln -s {outside} bob")
    assert done.problems == ()
    assert (outside / "b.py").read_text() == "precious\n"
    assert not (repository.root / "bob").is_symlink()
    assert repository.read("bob/b.py") == "b = 1\n"
    assert repository.sh(f"git cat-file -p {done.ref}:bob") == str(outside)


def test_a_file_in_place_of_a_directory_and_the_reverse(repository):
    repository.write("bob/deep/f", "1")
    repository.commit()
    _, done = reverted(
        repository, "rm -r bob/deep bob/b.py; echo x > bob/deep; mkdir bob/b.py; echo x > bob/b.py/x"
    )
    assert done.problems == ()
    assert (repository.read("bob/deep/f"), repository.read("bob/b.py")) == ("1", "b = 1\n")
    assert repository.sh("git status --porcelain") == ""


def test_a_link_put_there_between_look_and_revert_is_not_followed(repository, tmp_path):
    before = take_before(repository.place, 1)
    repository.write("bob/b.py", "mine")
    looked = look_back(repository.place, "Alice", before)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("mine")
    repository.sh(f"mv bob ../moved; ln -s {outside} bob")
    done = revert(repository.place, looked, at=AT)
    assert (outside / "b.py").read_text() == "mine"
    assert done.files == ()
    assert "Symbolic link refused" in done.problems[0]


def test_what_somebody_wrote_since_is_not_lost(repository):
    before = take_before(repository.place, 1)
    repository.write("bob/b.py", "mine")
    repository.write("bob/new", "mine")
    looked = look_back(repository.place, "Alice", before)
    repository.write("bob/b.py", "a person was faster")
    done = revert(repository.place, looked, at=AT)
    assert done.files == ("bob/new",)
    assert repository.read("bob/b.py") == "a person was faster"
    assert "it was changed since the turn ended" in done.problems[0]


def test_very_many_files_of_any_size(repository):
    contents = {f"bob/many/{number}": f"{number}\n" * (number % 7) for number in range(500)}
    contents["bob/large"] = "x" * (3 << 20)
    for path, content in contents.items():
        repository.write(path, content)
    _, done = reverted(repository, "rm -r bob/many; echo mine > bob/large; mkdir bob/many; echo x > bob/many/7")
    assert done.problems == ()
    assert {path: repository.read(path) for path in contents} == contents


def test_what_is_not_kept_stays(repository):
    _, done = reverted(repository, "truncate -s 200M bob/b.py; truncate -s 200M bob/huge; mkfifo bob/fifo")
    assert done.files == ()
    assert [problem.split(" ")[0] for problem in done.problems] == ["`bob/huge`", "`bob/b.py`"]
    assert all("larger than 100 MiB" in problem for problem in done.problems)


def test_a_fifo_in_place_of_a_file_goes(repository):
    _, done = reverted(repository, "rm bob/b.py; mkfifo bob/b.py")
    assert done.problems == ()
    assert repository.read("bob/b.py") == "b = 1\n"


def test_what_was_staged_before_is_staged_again(repository):
    repository.write("bob/b.py", "staged\n")
    repository.sh("git add bob/b.py")
    repository.write("bob/b.py", "in the tree\n")
    _, done = reverted(repository, "echo mine > bob/b.py; echo x > bob/new; echo 2 > alice/a.py; git add -A")
    assert done.problems == ()
    assert repository.sh("git show :bob/b.py") == "staged"
    assert repository.read("bob/b.py") == "in the tree\n"
    assert repository.sh("git ls-files bob/new") == ""
    assert repository.sh("git diff --cached --name-only") == "alice/a.py\nbob/b.py"


@pytest.mark.parametrize("setting", ["core.bare true", "core.worktree /tmp"])
def test_settings_of_the_repository_do_not_stop_it(repository, setting):
    _, done = reverted(repository, f"echo mine > bob/b.py; git add -A; git config {setting}")
    assert done.problems == ()
    assert repository.read("bob/b.py") == "b = 1\n"
    assert repository.sh("git -c core.bare=false -c core.worktree=$PWD show :bob/b.py") == "b = 1"


def test_commits_stay_and_that_is_said(repository):
    _, done = reverted(
        repository, "echo mine > bob/b.py; echo x > bob/new; echo 2 > alice/a.py; git add -A; git commit -qm x"
    )
    assert repository.sh("git show HEAD:bob/b.py") == "mine"
    assert repository.read("bob/b.py") == "b = 1\n"
    assert repository.sh("git diff HEAD --name-only") == "bob/b.py\nbob/new"
    assert done.remarks == (
        "The commits of the turn stay as they are: the files are back in the working tree, as changes to it.",
    )


def test_a_lock_left_in_the_index_is_told(repository):
    _, done = reverted(repository, "echo mine > bob/b.py; git add -A; touch .git/index.lock")
    assert repository.read("bob/b.py") == "b = 1\n"
    assert "what is staged of them is not as it was" in done.problems[0]
    assert "index.lock" in done.problems[0]


def test_without_a_ref_nothing_is_taken_back(repository):
    before = take_before(repository.place, 1)
    repository.write("bob/b.py", "mine")
    looked = look_back(repository.place, "Alice", before)
    repository.sh("mv .git/objects .git/gone; touch .git/objects")
    with pytest.raises(SortieError, match="Nothing of the turn was taken back"):
        revert(repository.place, looked, at=AT)
    assert repository.read("bob/b.py") == "mine"


def test_without_a_repository_nothing_is_taken_back(repository):
    before = take_before(repository.place, 1)
    repository.write("WORKLOG.md", LOG.replace("fast", "slow"))
    repository.sh("rm -rf .git")
    with pytest.raises(SortieError, match="Nothing was taken back"):
        revert(repository.place, look_back(repository.place, "Alice", before), at=AT)
    assert "slow" in repository.read("WORKLOG.md")


def test_a_repository_inside_is_left_alone(repository):
    _, done = reverted(repository, "git init -q bob/inner; git -C bob/inner commit -q --allow-empty -m x")
    assert done.files == ()
    assert "It is a repository of its own" in done.problems[0]


def test_after_a_crash_in_the_middle_it_is_completed(repository):
    """Every state that a dead process can have left is found, and the end is the same."""
    before = take_before(repository.place, 1)
    repository.sh("echo mine > bob/b.py; echo x > bob/new; echo y > bob/other; echo 2 > alice/a.py")
    looked = look_back(repository.place, "Alice", before)
    whole = revert(repository.place, looked, at=AT)
    # As if it had died after the first file, with another half written.
    repository.write("bob/b.py", "mine\n")
    repository.write("bob/.sortie-0123456789abcdef.tmp", "of nobody")
    again_before, again_after = (recall(repository.place, 1, when) for when in ("before", "after"))
    assert again_before is not None
    again = revert(repository.place, look_back(repository.place, "Alice", again_before, again_after), at=AT)
    assert (again.ref, again.files, again.problems) == (whole.ref, whole.files, ())
    assert repository.read("bob/b.py") == "b = 1\n"
    assert repository.sh(f"git rev-list --count {before.commit}..{whole.ref}") == "1"


@pytest.mark.parametrize(
    "instead", ["rm WORKLOG.md", "mv WORKLOG.md w; ln -s w WORKLOG.md", "rm WORKLOG.md; mkfifo WORKLOG.md"]
)
def test_a_work_log_that_went_comes_back(repository, instead):
    """LOG-04"""
    _, done = reverted(repository, instead)
    assert "WORKLOG.md" in done.files
    assert done.problems == ()
    assert repository.read("WORKLOG.md") == LOG
    assert not (repository.root / "WORKLOG.md").is_symlink()


def test_a_directory_in_place_of_the_work_log(repository):
    """LOG-04"""
    _, done = reverted(repository, "rm WORKLOG.md; mkdir WORKLOG.md; echo x > WORKLOG.md/x")
    assert done.problems == ()
    assert repository.read("WORKLOG.md") == LOG
    assert repository.sh(f"git show {done.ref}:WORKLOG.md/x") == "x"
