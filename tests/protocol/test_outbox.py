"""The stock of an outbox: what counts as delivered, what is refused, and that no outbox costs more than it may."""

import hashlib
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import tracemalloc
from pathlib import Path

import pytest

from sortie.protocol.outbox import MOST_DEPTH, Delivered, Stock, take_stock
from sortie.protocol.safefiles import open_directory
from sortie.protocol.tree_walk import go_on

NOBODY = 65534
SECRET = b"AKIA-top-secret"


@pytest.fixture
def outbox(tmp_path):
    path = tmp_path / "task" / "outbox"
    path.mkdir(parents=True)
    return path


def stock_of(outbox: Path, most_files: int = 100, most_bytes: int = 10**6, check=go_on) -> Stock:
    before = set(os.listdir("/proc/self/fd"))
    try:
        with open_directory(outbox.parent) as folder:
            return take_stock(folder, most_files=most_files, most_bytes=most_bytes, check=check)
    finally:
        assert set(os.listdir("/proc/self/fd")) == before


def delivered(path: str, content: bytes) -> Delivered:
    return Delivered(path, len(content), hashlib.sha256(content).hexdigest())


def test_every_file_is_found_with_its_size_and_hash_in_the_order_of_paths(outbox):
    """BOX-05"""
    contents = {"summary.md": b"done", "data/b.csv": b"", "data/a.csv": b"1;2", "Größe.txt": "ß".encode()}
    for name, content in contents.items():
        (outbox / name).parent.mkdir(exist_ok=True)
        (outbox / name).write_bytes(content)
    expected = tuple(delivered(f"outbox/{name}", contents[name]) for name in sorted(contents))
    assert stock_of(outbox) == Stock(files=expected)


def test_an_empty_outbox_is_an_empty_stock(outbox):
    assert stock_of(outbox) == Stock()


def make_link(path: Path) -> None:
    path.symlink_to(path.parent.parent.parent / "secret")


def make_link_to_directory(path: Path) -> None:
    path.symlink_to("/etc")


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def make_hard_link(path: Path) -> None:
    secret = path.parent.parent.parent / "secret"
    secret.write_bytes(SECRET)
    path.hardlink_to(secret)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind(str(path))


def make_device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root may make a device")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (make_link, "It is a symbolic link"),
        (make_link_to_directory, "It is a symbolic link"),
        (make_dangling_link, "It is a symbolic link"),
        (make_hard_link, "It is a hard link"),
        (make_fifo, "It is a FIFO"),
        (make_socket, "It is a socket"),
        (make_device, "It is a device"),
    ],
)
def test_what_is_no_plain_file_is_refused_and_the_rest_is_taken(outbox, make, why):
    """BOX-05, TBX-08"""
    (outbox / "good.txt").write_bytes(b"good")
    make(outbox / "bad")
    assert stock_of(outbox) == Stock(files=(delivered("outbox/good.txt", b"good"),), refused=(("outbox/bad", why),))


@pytest.mark.parametrize("name", [b"a\nb", b"a\x1b[2Jb", b"\xff\xfe", "a\u2028b".encode(), "a\u202eb".encode()])
@pytest.mark.parametrize("is_directory", [False, True])
def test_a_name_that_could_mislead_is_refused(outbox, name, is_directory):
    """TBX-19"""
    path = os.path.join(os.fsencode(outbox), name)
    if is_directory:
        os.mkdir(path)
        with open(os.path.join(path, b"inner"), "w"):
            pass
    else:
        with open(path, "w"):
            pass
    stock = stock_of(outbox)
    ((shown, why),) = stock.refused
    assert stock.files == ()
    assert shown.startswith("outbox/")
    assert shown.isprintable()
    assert why == "Its name has characters that no name may have"


def test_names_of_every_language_are_taken(outbox):
    """TBX-19"""
    names = sorted(
        [
            "報告.md",
            "отчёт.md",
            "تقرير.md",
            "a\u3000b",
            "Screen\u202fshot.png",
            "👩‍🔬.txt",
            "-rf",
            ".hidden",
            "a\\b",
        ]
    )
    for name in names:
        (outbox / name).write_bytes(b"x")
    assert [file.path for file in stock_of(outbox).files] == [f"outbox/{name}" for name in names]


def test_a_mount_in_the_outbox_is_refused(outbox, tmp_path):
    """TBX-08: on a directory, or on a file."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_bytes(SECRET)
    (outbox / "a").mkdir()
    (outbox / "b").touch()
    mounted = []
    try:
        for source, place in ((secret, outbox / "a"), (secret / "file", outbox / "b")):
            done = subprocess.run(["mount", "--bind", str(source), str(place)], capture_output=True, check=False)
            if done.returncode:
                pytest.skip("only root may mount")
            mounted.append(place)
        why = "A file system is mounted there"
        assert stock_of(outbox) == Stock(refused=(("outbox/a", why), ("outbox/b", why)))
    finally:
        for place in mounted:
            subprocess.run(["umount", str(place)], check=True)


def test_what_may_not_be_read_is_refused():
    """TBX-08. Root is stopped by no mode, so this test runs as somebody else."""
    was_root = os.geteuid() == 0
    home = Path(tempfile.mkdtemp(prefix="sortie-test-"))
    if was_root:
        os.chown(home, NOBODY, -1)
        os.seteuid(NOBODY)
    try:
        outbox = home / "outbox"
        (outbox / "closed").mkdir(parents=True)
        (outbox / "file").write_bytes(b"x")
        (outbox / "file").chmod(0)
        (outbox / "closed").chmod(0)
        expected = (("outbox/closed", "Permission denied"), ("outbox/file", "Permission denied"))
        assert stock_of(outbox) == Stock(refused=expected)
        (outbox / "closed").chmod(0o700)
        outbox.chmod(0)
        assert stock_of(outbox) == Stock(problem="outbox cannot be read: Permission denied.")
        outbox.chmod(0o700)
    finally:
        if was_root:
            os.seteuid(0)
        shutil.rmtree(home)


# -- bounds ---------------------------------------------------------------------------------------------------


def test_no_outbox_is_a_problem(outbox):
    outbox.rmdir()
    assert stock_of(outbox).problem == "outbox cannot be read: No such file or directory."


@pytest.mark.parametrize("make", [make_link_to_directory, make_fifo, Path.touch])
def test_what_is_no_directory_is_a_problem(outbox, make):
    outbox.rmdir()
    make(outbox)
    assert stock_of(outbox).problem.startswith("outbox cannot be read: ")


def test_as_many_files_and_bytes_as_are_allowed_and_no_more(outbox):
    for number in range(3):
        (outbox / str(number)).write_bytes(b"12345")
    assert len(stock_of(outbox, most_files=3, most_bytes=15).files) == 3
    assert stock_of(outbox, most_files=2) == Stock(problem="outbox holds more than 2 files.")
    assert stock_of(outbox, most_bytes=14) == Stock(problem="outbox holds more than 14 bytes.")


def test_a_sparse_file_of_10_gigabytes_is_never_read(outbox):
    """BOX-05: the size counts, not what the disk holds."""
    with (outbox / "sparse").open("wb") as file:
        file.truncate(10 * 1024**3)
    steps = []
    stock = stock_of(outbox, most_bytes=1024**3, check=lambda: steps.append(1))
    assert stock == Stock(problem=f"outbox holds more than {1024**3} bytes.")
    assert len(steps) < 10


def test_of_200_000_files_no_more_are_looked_at_than_are_allowed():
    """BOX-05: bounded work and bounded memory."""
    home = Path(tempfile.mkdtemp(prefix="sortie-test-", dir="/dev/shm"))  # no disk takes so many so fast
    outbox = home / "outbox"
    outbox.mkdir()
    folder = os.open(outbox, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for number in range(200_000):
            os.close(os.open(f"{number}", os.O_WRONLY | os.O_CREAT, dir_fd=folder))
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1

        tracemalloc.start()
        stock = stock_of(outbox, most_files=10_000, check=count)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert stock == Stock(problem="outbox holds more than 10000 files.")
        assert steps < 10_010
        assert peak < 8 * 1024 * 1024
    finally:
        os.close(folder)
        shutil.rmtree(home)


def test_paths_are_bounded_too(outbox):
    """Each is kept on record: a few thousand files below long names would be a record of many megabytes."""
    deep = outbox.joinpath(*["x" * 200] * 15)
    deep.mkdir(parents=True)
    for number in range(40):
        (deep / str(number)).write_bytes(b"1")
    assert len(stock_of(outbox, most_files=100).files) == 40
    stock = stock_of(outbox, most_files=40)
    assert stock == Stock(problem="outbox holds too many files with paths of more than 1024 characters.")


@pytest.mark.parametrize("make", [Path.mkdir, make_fifo, make_dangling_link])
def test_what_is_no_file_is_bounded_too(outbox, make):
    for number in range(20):
        make(outbox / str(number))
    stock = stock_of(outbox, most_files=10)
    assert stock.problem.startswith("outbox holds more than 10 ")
    assert len(stock.refused) <= 10


def test_a_tree_may_be_deep_but_not_without_end(outbox):
    place = outbox
    for _ in range(MOST_DEPTH - 1):
        place /= "d"
    place.mkdir(parents=True)
    (place / "file").write_bytes(b"x")
    assert len(stock_of(outbox).files) == 1
    (place / "d").mkdir()
    assert stock_of(outbox) == Stock(problem=f"outbox is nested more than {MOST_DEPTH} deep.")


# -- changes meanwhile ----------------------------------------------------------------------------------------


def at_step(number: int, act):
    """A check that does something, once, in the middle of the work."""
    count = 0

    def check() -> None:
        nonlocal count
        count += 1
        if count == number:
            act()

    return check


def every_step(outbox: Path) -> int:
    count = 0

    def check() -> None:
        nonlocal count
        count += 1

    stock_of(outbox, most_bytes=10**8, check=check)
    return count


def test_a_file_that_changes_while_it_is_read_is_never_delivered_half(outbox):
    """BOX-05: whenever it happens, the file is refused, or it is one of the two versions."""
    file = outbox / "file"
    old, new = b"a" * 3_000_000, b"b" * 3_000_001
    versions = {delivered("outbox/file", old), delivered("outbox/file", new)}
    file.write_bytes(old)
    refused = 0
    for step in range(1, every_step(outbox) + 1):
        file.write_bytes(old)
        stock = stock_of(outbox, most_bytes=10**8, check=at_step(step, lambda: file.write_bytes(new)))
        if stock.refused:
            refused += 1
            assert stock == Stock(refused=(("outbox/file", "It changed while it was read"),))
        else:
            assert set(stock.files) <= versions
    assert refused >= 2


def test_a_link_swapped_in_at_any_step_never_shows_its_target(outbox, tmp_path):
    """TBX-08"""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_bytes(SECRET)
    inner = outbox / "inner"
    inner.mkdir()
    (inner / "file").write_bytes(b"good")

    def swap() -> None:
        inner.rename(tmp_path / "aside")
        inner.symlink_to(tmp_path / "elsewhere")

    for step in range(1, every_step(outbox) + 1):
        stock = stock_of(outbox, check=at_step(step, swap))
        assert set(stock.files) <= {delivered("outbox/inner/file", b"good")}
        inner.unlink()
        (tmp_path / "aside").rename(inner)


def test_it_can_be_interrupted_at_any_step(outbox):
    class Interrupted(Exception):
        pass

    def interrupt() -> None:
        raise Interrupted

    (outbox / "inner").mkdir()
    (outbox / "inner/file").write_bytes(b"x" * 3_000_000)
    steps = every_step(outbox)
    assert steps > 5
    for step in range(1, steps + 1):
        with pytest.raises(Interrupted):
            stock_of(outbox, most_bytes=10**8, check=at_step(step, interrupt))
