"""Whether what an agent was given to read is still as it was given."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.protocol.safefiles import open_directory
from sortie.protocol.seals import added_since, broken_seals, seal


@pytest.fixture
def task(tmp_path):
    for name, content in {
        "SKILL.md": "skill",
        "inbox/instructions.md": "do",
        "inbox/data/a.csv": "a",
        "inbox/data/b.csv": "b",
        "outbox/file": "not sealed",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def sealed(task, most_files=10):
    with open_directory(task) as folder:
        return seal(folder, ("SKILL.md", "inbox"), most_files=most_files, most_bytes=1000)


def test_the_seal_is_of_all_that_was_given_and_nothing_else(task):
    """TBX-11"""
    before = sealed(task)
    assert set(before) == {"SKILL.md", "inbox/instructions.md", "inbox/data/a.csv", "inbox/data/b.csv"}
    assert all(len(digest) == 64 for digest in before.values())
    assert broken_seals(before, sealed(task)) == []
    assert added_since(before, sealed(task)) == []


def change(task):
    (task / "inbox/data/a.csv").write_text("A")


def change_skill(task):
    (task / "SKILL.md").write_text("another skill")


def remove_skill(task):
    (task / "SKILL.md").unlink()


def remove_directory(task):
    for name in ("a.csv", "b.csv"):
        (task / "inbox/data" / name).unlink()
    (task / "inbox/data").rmdir()


def replace_skill_by_fifo(task):
    (task / "SKILL.md").unlink()
    os.mkfifo(task / "SKILL.md")


def replace_skill_by_directory(task):
    (task / "SKILL.md").unlink()
    (task / "SKILL.md").mkdir()


def grow_skill(task):
    (task / "SKILL.md").write_text("x" * 2000)


def replace_file_by_link_to_the_same(task):
    (task / "inbox/data/a.csv").rename(task / "aside")
    (task / "inbox/data/a.csv").symlink_to(task / "aside")


def replace_directory_by_link(task):
    (task / "inbox/data").rename(task / "aside")
    (task / "inbox/data").symlink_to(task / "aside")


def replace_inbox_by_link(task):
    (task / "inbox").rename(task / "aside")
    (task / "inbox").symlink_to(task / "aside")


def fill_inbox(task):
    for number in range(20):
        (task / "inbox" / str(number)).touch()


def remove_inbox(task):
    (task / "inbox").rename(task / "aside")


@pytest.mark.parametrize(
    ("tamper", "sentences"),
    [
        (change, ["inbox/data/a.csv was changed."]),
        (change_skill, ["SKILL.md was changed."]),
        (remove_skill, ["SKILL.md was removed."]),
        (remove_directory, ["inbox/data/a.csv was removed.", "inbox/data/b.csv was removed."]),
        (replace_skill_by_fifo, ["SKILL.md was changed."]),
        (replace_skill_by_directory, ["SKILL.md was removed."]),
        (grow_skill, ["SKILL.md was changed."]),
        (replace_file_by_link_to_the_same, ["inbox/data/a.csv was changed."]),
        (replace_directory_by_link, ["inbox/data was replaced: It is a symbolic link."]),
        (replace_inbox_by_link, ["inbox was replaced: It is a symbolic link."]),
        (fill_inbox, ["inbox was replaced: inbox holds more than 10 files."]),
        (
            remove_inbox,
            [
                "inbox/data/a.csv was removed.",
                "inbox/data/b.csv was removed.",
                "inbox/instructions.md was removed.",
            ],
        ),
    ],
)
def test_whatever_is_done_to_what_was_given_is_told(task, tamper, sentences):
    """BOX-04, TBX-11"""
    before = sealed(task)
    tamper(task)
    assert broken_seals(before, sealed(task)) == sentences


def test_what_was_added_is_told_apart(task):
    """TBX-11"""
    before = sealed(task)
    (task / "inbox/notes.md").write_text("mine")
    (task / "inbox/link").symlink_to("nowhere")
    assert broken_seals(before, sealed(task)) == []
    assert added_since(before, sealed(task)) == ["inbox/link was added.", "inbox/notes.md was added."]


paths = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)


def is_tree(sealed):
    return not any(other.startswith(f"{path}/") for path in sealed for other in sealed)


seals = st.dictionaries(paths, st.sampled_from(["1", "2"]), max_size=5).filter(is_tree)


@given(seals, seals)
def test_seals_are_unbroken_exactly_where_all_that_was_given_is_the_same(before, after):
    """TBX-11"""
    is_same = all(after.get(path) == digest for path, digest in before.items())
    assert (broken_seals(before, after) == []) == is_same
    if is_same:
        assert added_since(before, after) == sorted(f"{path} was added." for path in after.keys() - before)
