"""What a turn hides from git in a lane of somebody else is told and taken back; what is ignored as ever is not."""

import pytest

from sortie.peers.turns.look_back import look_back
from sortie.peers.turns.revert import revert
from sortie.peers.turns.snapshot import Snapshot, recall, take_before

from .repository import shared_repository


@pytest.fixture
def repository(tmp_path):
    return shared_repository(tmp_path / "repo")


def looked_at(repository, script, number=1, *, recalled=False):
    before: Snapshot | None = take_before(repository.place, number)
    repository.sh(script)
    if recalled:
        before = recall(repository.place, number, "before")
    assert before is not None
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


RULES = {
    "those of the repository": ("echo 'bob/new*' >> .git/info/exclude", "info/exclude"),
    "a file that the settings name": ("echo x > ../e; git config core.excludesFile ../e", "core.excludesFile"),
    "the file that the settings name": ("echo 'bob/new*' >> ../named", "../named"),
}


@pytest.mark.parametrize("recalled", [False, True])
@pytest.mark.parametrize("what", RULES)
def test_rules_of_what_git_ignores_that_are_no_files_of_the_checkout(repository, what, recalled):
    """LOG-08: who changes them, to hide files in a later turn, is told of; nothing is hidden in this one."""
    script, subject = RULES[what]
    if subject == "../named":
        repository.sh("echo x > ../named; git config core.excludesFile ../named")
    looked = looked_at(repository, f"{script}; echo x > bob/new.py", recalled=recalled)
    assert [finding.subject for finding in looked.violations] == [subject, "bob/new.py"]
    # Once, and not in every turn that follows.
    assert looked_at(repository, "true", 2).findings == []


def test_rules_of_the_person_are_told_and_no_violation(repository, tmp_path, monkeypatch):
    """LOG-08: people and their tools change them for all repositories, whenever they like."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    looked = looked_at(repository, "mkdir -p ../settings/git; echo 'bob/*' > ../settings/git/ignore; touch bob/new")
    assert [finding.kind for finding in looked.findings] == ["ignored files changed elsewhere", "lane of another"]
    assert [finding.subject for finding in looked.violations] == ["bob/new"]


INSIDE = {
    "a changed file": "echo evil > bob/lib/f.py",
    "a new file": "echo evil > bob/lib/new.py",
    "a file deep in it": "echo evil > bob/lib/deep/er/g.py",
    "a file that is gone": "rm bob/lib/f.py",
    "a mode": "chmod +x bob/lib/f.py",
    "a commit": "cd bob/lib; echo 2 > f.py; git commit -qam 2",
    "a repository no more": "rm -rf bob/lib/.git; echo evil > bob/lib/f.py",
}


@pytest.mark.parametrize("recalled", [False, True])
@pytest.mark.parametrize("what", INSIDE)
def test_a_change_inside_of_a_repository_in_the_checkout(repository, what, recalled):
    """LOG-08: it is not kept, and told."""
    repository.sh(
        "mkdir -p bob/lib/deep/er; cd bob/lib; git init -q; echo 1 > f.py; echo 1 > deep/er/g.py; git add .; "
        "git commit -qm l; cd ../..; git add bob/lib; git commit -qm lib"
    )
    looked = looked_at(repository, INSIDE[what], recalled=recalled)
    finding = looked.violations[0]
    assert finding.subject == "bob/lib"
    assert "is not kept, because it is a repository" in finding.sentence
    done = revert(repository.place, looked, at=1_800_000_000.0)
    assert "bob/lib" not in done.files
    assert done.problems == ("`bob/lib` could not be put back: It is a repository of its own.",)


def test_a_repository_in_the_checkout_that_nobody_touched(repository):
    """LOG-08: new, it is added; then it is as it was."""
    made = looked_at(
        repository, "git init -q bob/lib; git -C bob/lib commit -q --allow-empty -m x; touch bob/lib/f"
    )
    assert [(file.path, file.how) for file in made.facts.changes.files] == [("bob/lib", "added")]
    assert looked_at(repository, "git -C bob/lib status", 2).facts.changes.files == ()
    gone = looked_at(repository, "rm -rf bob/lib", 3)
    assert [(file.path, file.how) for file in gone.facts.changes.files] == [("bob/lib", "deleted")]
