"""What a turn hides from git in a lane of somebody else is told and taken back; what is ignored as ever is not."""

import pytest

from sortie.peers.turns.look_back import look_back
from sortie.peers.turns.revert import revert
from sortie.peers.turns.snapshot import recall, take_before

from .repository import shared_repository


@pytest.fixture
def repository(tmp_path):
    return shared_repository(tmp_path / "repo")


def looked_at(repository, script, number=1, *, recalled=False):
    before = take_before(repository.place, number)
    repository.sh(script)
    if recalled:
        before = recall(repository.place, number, "before")
    return look_back(repository.place, "Alice", before)


HIDDEN = {
    "by a file that ignores itself": ("echo '*' > bob/.gitignore; echo x > bob/conftest.py", "conftest.py"),
    "in a new directory": ("mkdir -p bob/x/y; echo '*' > bob/x/.gitignore; echo x > bob/x/y/z", "x/y/z"),
    "by a rule at the top": ("printf '.gitignore\\nbob/new*\\n' > .gitignore; echo x > bob/new.py", "new.py"),
    "a whole directory at the top": ("echo bob/x > .gitignore; mkdir bob/x; echo x > bob/x/y", "x/y"),
    "in a repository of its own": (
        "git init -q bob/x; echo '*' > bob/x/.gitignore; echo x > bob/x/y; echo bob/x > .gitignore",
        "x/y",
    ),
}


@pytest.mark.parametrize("recalled", [False, True])
@pytest.mark.parametrize("how", HIDDEN)
def test_files_hidden_in_the_lane_of_another(repository, how, recalled):
    """LOG-08: ignore rules of the turn itself hide nothing, and what they hid goes back."""
    script, name = HIDDEN[how]
    looked = looked_at(repository, script, recalled=recalled)
    assert f"bob/{name}" in {finding.subject for finding in looked.violations}
    done = revert(repository.place, looked, at=1_800_000_000.0)
    assert f"bob/{name}" in done.files
    assert not (repository.root / "bob" / name).exists()


def test_what_is_ignored_by_the_rules_of_before(repository):
    """LOG-08: build output is no change, wherever it lies."""
    repository.write(".gitignore", "build/\n*.pyc\n")
    repository.write("bob/.venv/.gitignore", "*\n")
    repository.commit()
    repository.write("bob/.cache/.gitignore", "*\n")
    script = "mkdir -p bob/build; touch bob/build/x bob/b.pyc bob/.venv/more bob/.cache/more ':(x).pyc' bob/:y.pyc"
    assert looked_at(repository, script).facts.changes.files == ()


def test_what_hides_itself_outside_of_the_lanes_of_others(repository):
    """LOG-08: caches and environments bring rules of their own."""
    script = "for d in .cache alice/.cache docs/.cache; do mkdir $d; echo '*' > $d/.gitignore; touch $d/x; done"
    assert looked_at(repository, script).facts.changes.files == ()


def test_what_was_hidden_once_stays_known(repository):
    """LOG-08: a later turn that changes it is told of that."""
    looked_at(repository, "echo '*' > bob/.gitignore; echo x > bob/conftest.py")
    later = looked_at(repository, "echo y > bob/conftest.py", 2)
    assert [(file.path, file.how) for file in later.facts.changes.files] == [("bob/conftest.py", "modified")]
