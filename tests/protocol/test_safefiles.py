"""Descriptor-safe files: what is refused, and that writes are whole or not at all."""

import errno
import os
import socket
import stat
from contextlib import contextmanager
from pathlib import Path

import pytest

from sortie.protocol.safefiles import UnsafeFile, open_directory, read_bounded, remove_half_written, write_atomic
from sortie.protocol.tree_walk import remove_tree


@contextmanager
def no_descriptor_left_open():
    before = set(os.listdir("/proc/self/fd"))
    yield
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def place(tmp_path):
    with no_descriptor_left_open(), open_directory(tmp_path) as descriptor:
        yield descriptor


def make_fifo(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind(str(path))


def make_directory(path):
    path.mkdir()


def make_link(path):
    target = path.with_name("target")
    target.write_text("secret")
    path.symlink_to(target)


def make_dangling_link(path):
    path.symlink_to("nowhere")


def make_hard_link(path):
    target = path.with_name("target")
    target.write_text("secret")
    path.hardlink_to(target)


def make_device_link(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    "make",
    [
        make_fifo,
        make_socket,
        make_directory,
        make_link,
        make_dangling_link,
        make_hard_link,
        make_device_link,
    ],
)
def test_only_a_regular_file_with_one_name_is_read(tmp_path, place, make):
    """A2O-21: FIFO, socket, directory, link and hard link are refused, without blocking."""
    make(tmp_path / "entry")
    with pytest.raises(UnsafeFile) as caught:
        read_bounded(place, "entry", 100)
    assert caught.value.filename == "entry"
    assert caught.value.is_link == (tmp_path / "entry").is_symlink()


def test_a_device_is_refused():
    with open_directory(Path("/dev")) as dev, pytest.raises(UnsafeFile, match="device"):
        read_bounded(dev, "zero", 100)


def test_reading_stops_at_the_limit_in_a_file_of_any_size(tmp_path, place):
    with (tmp_path / "huge").open("wb") as file:
        file.write(b"start")
        file.truncate(1 << 40)
    assert read_bounded(place, "huge", 8) == b"start\0\0\0"


def test_a_short_file_is_read_whole(tmp_path, place):
    (tmp_path / "short").write_bytes(b"abc")
    assert read_bounded(place, "short", 100) == b"abc"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc"])
def test_a_name_is_exactly_one_component(place, name):
    for action in (
        lambda: read_bounded(place, name, 1),
        lambda: write_atomic(place, name, b""),
        lambda: remove_tree(place, name),
        lambda: open_directory(place, name).__enter__(),
    ):
        with pytest.raises(ValueError, match="one directory entry"):
            action()


def test_a_directory_is_opened_through_all_its_components(tmp_path, place):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"content")
    for start in (tmp_path, place):
        with open_directory(start, "a", "b") as descriptor:
            assert read_bounded(descriptor, "file", 100) == b"content"


@pytest.mark.parametrize("linked", ["a", "a/b", "a/b/c"])
def test_a_link_at_any_component_of_a_directory_is_refused(tmp_path, linked):
    real = tmp_path / "real"
    (real / "a/b/c").mkdir(parents=True)
    aside = tmp_path / "aside"
    (real / linked).rename(aside)
    (real / linked).symlink_to(aside)
    with no_descriptor_left_open(), pytest.raises(UnsafeFile) as caught, open_directory(real, "a", "b", "c"):
        pass
    assert caught.value.errno == errno.ELOOP


def test_a_link_as_start_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(UnsafeFile), open_directory(tmp_path / "link"):
        pass


def test_a_file_is_no_directory(tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnsafeFile, match="regular file") as caught, open_directory(place, "file"):
        pass
    assert not caught.value.is_link


def test_a_given_descriptor_stays_open(tmp_path, place):
    (tmp_path / "inner").mkdir()
    with open_directory(place, "inner"), open_directory(place):
        pass
    os.fstat(place)


def test_writing_replaces_the_whole_file_with_the_given_mode(tmp_path, place):
    (tmp_path / "file").write_bytes(b"old and longer")
    write_atomic(place, "file", b"new", 0o640)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["file"]


def test_writing_replaces_a_link_and_leaves_its_target_alone(tmp_path, place):
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "file").symlink_to(target)
    write_atomic(place, "file", b"new")
    assert target.read_text() == "precious"
    assert not (tmp_path / "file").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_failed_write_leaves_no_temporary_file(tmp_path, place):
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomic(place, "file", b"new")
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").is_dir()


def test_removing_a_tree_leaves_what_its_links_lead_to(tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    tree = tmp_path / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/to-directory").symlink_to(outside)
    (tree / "a/to-file").symlink_to(outside / "precious")
    (tree / "a/b/other-name").hardlink_to(outside / "precious")
    os.mkfifo(tree / "fifo")
    remove_tree(place, "tree")
    assert os.listdir(tmp_path) == ["outside"]
    assert (outside / "precious").read_text() == "precious"


def test_a_tree_deeper_than_any_path_is_removed(tmp_path, place):
    descriptor = os.dup(place)
    for _ in range(300):
        os.mkdir("a-rather-long-name", dir_fd=descriptor)
        inner = os.open("a-rather-long-name", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    remove_tree(place, "a-rather-long-name")
    assert os.listdir(tmp_path) == []


def test_removing_a_link_to_a_tree_is_refused(tmp_path, place):
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(NotADirectoryError):
        remove_tree(place, "link")
    assert (tmp_path / "real/inner").is_dir()


def test_what_deaths_left_of_a_file_is_removed_and_nothing_else(tmp_path, place):
    """Killed between the two steps of `write_atomic`; a directory of such a name is not ours."""
    write_atomic(place, "status.json", b"{}")
    kept = ["status.json", ".other.json.0123456789abcdef.tmp", ".status.json.0123.tmp", ".status.json.tmp"]
    for name in (*kept[1:], ".status.json.0123456789abcdef.tmp", ".status.json.fedcba9876543210.tmp"):
        (tmp_path / name).touch()
    (tmp_path / ".status.json.00000000000000ff.tmp").mkdir()
    remove_half_written(place, "status.json")
    assert sorted(os.listdir(place)) == sorted([*kept, ".status.json.00000000000000ff.tmp"])
