"""Copies of whole trees that an agent wrote, and the removal of what was copied."""

from __future__ import annotations

import os
import socket
import stat

import pytest

from sortie.protocol.copied_removal import remove_copied
from sortie.protocol.safefiles import open_directory
from sortie.protocol.tree_copy import copy_tree, read_tree
from sortie.protocol.tree_walk import go_on, remove_tree


class Trees:
    def __init__(self, directory):
        self.here, self.there = directory / "here", directory / "there"
        (self.here / "task/deep/er").mkdir(parents=True)
        self.there.mkdir()
        (self.here / "task/deep/er/file").write_bytes(b"content")

    def copy(self, **options):
        with open_directory(self.here) as here, open_directory(self.there) as there:
            return copy_tree(here, "task", there, go_on, **options)

    def remove(self, copied):
        with open_directory(self.here) as here:
            return remove_copied(here, "task", {file.path: file.version for file in copied.files}, go_on)

    def read(self):
        with open_directory(self.there) as there:
            return read_tree(there, "task", go_on)


@pytest.fixture
def trees(tmp_path):
    return Trees(tmp_path)


def told(tree):
    return [(file.path, file.size, file.sha256) for file in tree.files]


def test_files_are_copied_with_their_times_and_rights_and_read_the_same(trees):
    """TBX-16: count and hashes are verified."""
    program = trees.here / "task/run.sh"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o4755)
    os.utime(program, (1_000_000_000, 1_000_000_000))
    (trees.here / "task/empty").mkdir()
    copied = trees.copy()
    assert told(copied) == told(trees.read())
    assert [file.path for file in copied.files] == ["task/run.sh", "task/deep/er/file"]
    copy = (trees.there / "task/run.sh").stat()
    assert (stat.S_IMODE(copy.st_mode), copy.st_mtime) == (0o755, 1_000_000_000)
    assert (trees.there / "task/empty").is_dir()
    assert trees.remove(copied) == []
    assert not (trees.here / "task").exists()


def test_links_and_specials_are_never_copied_and_stay(trees, tmp_path):
    """TBX-16: links are not preserved and not followed; TBX-08: only regular files are copied."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    task = trees.here / "task"
    (task / "link").symlink_to(secret)
    (task / "dir").symlink_to(tmp_path)
    (task / "loop").symlink_to(task)
    os.mkfifo(task / "deep/pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(task / "socket"))
    copied = trees.copy()
    assert [(path, why.split()[-1]) for path, why in copied.skipped] == [
        ("task/dir", "link"),
        ("task/link", "link"),
        ("task/loop", "link"),
        ("task/socket", "socket"),
        ("task/deep/pipe", "FIFO"),
    ]
    assert [path.name for path in trees.there.rglob("*")] == ["task", "deep", "er", "file"]
    assert sorted(trees.remove(copied)) == sorted(path for path, _ in copied.skipped)
    assert secret.read_text() == "secret"
    assert not (task / "deep/er").exists()
    assert (task / "link").is_symlink()


def test_a_file_with_two_names_becomes_two_and_both_names_go(trees):
    os.link(trees.here / "task/deep/er/file", trees.here / "task/again")
    copied = trees.copy()
    assert {(trees.there / file.path).stat().st_nlink for file in copied.files} == {1}
    assert trees.remove(copied) == []


def change(file):
    file.write_bytes(b"changed")


def replace(file):
    new = file.with_name("new")
    new.write_bytes(b"content")
    new.replace(file)


def rewrite_with_old_time(file):
    found = file.stat()
    file.write_bytes(b"CONTENT")
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.mark.parametrize("become_another", [change, replace, rewrite_with_old_time])
def test_what_became_another_file_since_it_was_copied_stays(trees, become_another):
    """TBX-16: only what is in the archive goes."""
    copied = trees.copy()
    become_another(trees.here / "task/deep/er/file")
    (trees.here / "task/new").touch()
    assert sorted(trees.remove(copied)) == ["task/deep/er/file", "task/new"]
    assert (trees.there / "task/deep/er/file").read_bytes() == b"content"


def test_a_removal_that_is_repeated_goes_on(trees):
    copied = trees.copy()
    (trees.here / "task/deep/er/file").unlink()
    assert trees.remove(copied) == []


def test_holes_cost_nothing_and_stay_holes(trees):
    """A sparse file of many gigabytes is neither read whole nor written whole."""
    sparse = trees.here / "task/sparse"
    with sparse.open("wb") as file:
        file.truncate(1 << 43)
        for place in (0, 3 << 30, (1 << 43) - 5):
            file.seek(place)
            file.write(b"data!")
    copied = trees.copy()
    assert told(copied) == told(trees.read())
    copy = trees.there / "task/sparse"
    assert copy.stat().st_size == 1 << 43
    assert copy.stat().st_blocks * 512 < 1 << 20
    with copy.open("rb") as file:
        for place in (0, 3 << 30, (1 << 43) - 5):
            file.seek(place)
            assert file.read(5) == b"data!"
    with sparse.open("r+b") as file:
        file.seek(3 << 30)
        file.write(b"other")
    with open_directory(trees.here) as here:
        assert told(read_tree(here, "task", go_on)) != told(copied)


def test_names_of_any_bytes_are_copied(trees):
    odd = os.fsencode(trees.here / "task") + b"/\xff\n%s..\\"
    with open(odd, "wb") as file:
        file.write(b"odd")
    copied = trees.copy()
    assert told(copied) == told(trees.read())
    assert trees.remove(copied) == []


def test_a_tree_deeper_than_any_path_is_copied_and_removed(trees):
    with open_directory(trees.here, "task") as opened:
        descriptor = os.dup(opened)
    for _ in range(600):
        os.mkdir("a" * 20, dir_fd=descriptor)
        inner = os.open("a" * 20, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    copied = trees.copy()
    assert len(copied.files) == 2
    assert told(copied) == told(trees.read())
    assert trees.remove(copied) == []
    with open_directory(trees.there) as there:
        remove_tree(there, "task")


def test_what_is_left_out_is_not_copied_but_goes(trees):
    copied = trees.copy(leave_out=lambda names: names == ("deep", "er", "file"))
    assert not (trees.there / "task/deep/er/file").exists()
    assert trees.remove(copied) == []


def test_a_target_that_cannot_be_written_is_an_error_not_a_skip(trees):
    (trees.there / "task").mkdir()
    with pytest.raises(FileExistsError):
        trees.copy()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_cannot_be_read_is_named_and_stays(trees):
    closed = trees.here / "task/closed"
    closed.touch(0o000)
    copied = trees.copy()
    assert copied.skipped == [("task/closed", "Permission denied")]
    assert trees.remove(copied) == ["task/closed"]


def test_no_descriptor_is_left_open(trees):
    before = os.listdir("/proc/self/fd")
    trees.remove(trees.copy())
    assert os.listdir("/proc/self/fd") == before
