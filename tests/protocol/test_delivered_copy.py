"""Copies of delivered files: to the byte what was recorded, or nothing at all."""

import os
import stat

import pytest

from sortie.protocol.delivered_copy import ChangedSince, copy_out
from sortie.protocol.outbox import Delivered, take_stock
from sortie.protocol.safefiles import UnsafeFile, open_directory
from sortie.protocol.tree_walk import go_on

CONTENT = b"content" * 400_000


class Place:
    """A task folder with one delivered file, deep below, and a directory to copy it to."""

    def __init__(self, tmp_path):
        self.task, self.target = tmp_path / "task", tmp_path / "target"
        self.file = self.task / "outbox/data/deep/file.bin"
        self.file.parent.mkdir(parents=True)
        self.file.write_bytes(CONTENT)
        self.target.mkdir()
        with open_directory(self.task) as folder:
            (self.delivered,) = take_stock(folder, most_files=10, most_bytes=10**8).files

    def copy(self, name="copy.bin", delivered=None, check=go_on):
        before = set(os.listdir("/proc/self/fd"))
        try:
            with open_directory(self.task) as folder, open_directory(self.target) as target:
                copy_out(folder, delivered or self.delivered, target, name, check)
        finally:
            assert set(os.listdir("/proc/self/fd")) == before

    def copied(self):
        return [path for path in self.target.rglob("*") if not path.is_dir()]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize("name", ["copy.bin", "inbox/source_data/file.bin"])
def test_a_copy_is_whole_and_read_only(place, name):
    """BOX-08: directories on the way are made."""
    place.copy(name)
    assert (place.target / name).read_bytes() == CONTENT
    assert stat.S_IMODE((place.target / name).stat().st_mode) == 0o444


def change_content(place):
    place.file.write_bytes(CONTENT[::-1])


def grow(place):
    place.file.write_bytes(CONTENT + b"x")


def append(place):
    with place.file.open("ab") as file:
        file.write(b"x")


def shrink(place):
    place.file.write_bytes(CONTENT[1:])


def remove(place):
    place.file.unlink()


def put_link(place):
    place.file.rename(place.task / "aside")
    place.file.symlink_to(place.task / "aside")


def put_hard_link(place):
    (place.task / "aside").hardlink_to(place.file)


def put_fifo(place):
    place.file.unlink()
    os.mkfifo(place.file)


def put_link_above(place):
    place.file.parent.rename(place.task / "aside")
    place.file.parent.symlink_to(place.task / "aside")


@pytest.mark.parametrize(
    "change", [change_content, grow, shrink, remove, put_link, put_hard_link, put_fifo, put_link_above]
)
def test_what_is_not_as_it_was_recorded_is_not_copied(place, change):
    """TBX-08 and TBX-12"""
    change(place)
    with pytest.raises(ChangedSince, match=r"^outbox/data/deep/file.bin changed since it was delivered: .+\.$"):
        place.copy()
    assert place.copied() == []


@pytest.mark.parametrize("change", [change_content, grow, shrink, append])
def test_a_change_while_it_is_copied_leaves_no_part_of_a_copy(place, change):
    """TBX-12"""
    steps = 0

    def check():
        nonlocal steps
        steps += 1
        if steps == 2:
            change(place)

    with pytest.raises(ChangedSince):
        place.copy(check=check)
    assert steps >= 2
    assert place.copied() == []


def test_an_interrupted_copy_leaves_nothing(place):
    class Interrupted(Exception):
        pass

    def check():
        if place.copied():
            raise Interrupted

    with pytest.raises(Interrupted):
        place.copy(check=check)
    assert place.copied() == []


def test_what_is_there_already_stays(place):
    """TBX-07: nothing is overwritten."""
    (place.target / "copy.bin").write_bytes(b"older")
    with pytest.raises(FileExistsError):
        place.copy()
    assert (place.target / "copy.bin").read_bytes() == b"older"


def test_a_link_in_the_target_is_not_followed(place, tmp_path):
    """TBX-07"""
    (tmp_path / "elsewhere").mkdir()
    (place.target / "inbox").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeFile):
        place.copy("inbox/file.bin")
    (place.target / "copy.bin").symlink_to(tmp_path / "elsewhere/file.bin")
    with pytest.raises(FileExistsError):
        place.copy()
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("name", ["../copy.bin", "/copy.bin", "a/../../copy.bin", "", "a//b", "."])
def test_no_name_leads_out_of_the_target(place, name):
    """BOX-08, TBX-07"""
    with pytest.raises(ValueError, match=r"is not the name of one directory entry"):
        place.copy(name)
    assert place.copied() == []


def test_no_recorded_path_leads_out_of_the_folder(place):
    """TBX-07"""
    with pytest.raises(ValueError, match=r"is not the name of one directory entry"):
        place.copy(delivered=Delivered("../target/x", 1, ""))
