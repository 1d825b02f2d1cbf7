"""Archives: complete, private, made before anything is removed, and pruned by age."""

import errno
import os
import re
import resource
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from sortie.errors import WorkspaceError
from sortie.protocol.tree_walk import Check, go_on
from sortie.workspace.removal import archive_workspace, remove_archived


def archive_and_remove(root: Path, key: str, archives: Path, name: str, check: Check = go_on) -> Path | None:
    archive = archive_workspace(root, key, archives, name, check)
    if root.is_dir():
        assert remove_archived(root, check) == []
    return archive


def remove(root: Path, archives: Path) -> Path:
    archive = archive_and_remove(root, "A-1", archives, "A-1")
    assert archive is not None
    return archive


def describe(top: Path) -> dict[bytes, object]:
    """Everything that must survive: kinds, modes, contents, link targets, and times except those of links."""
    found: dict[bytes, object] = {}
    for directory, names, files in os.walk(os.fsencode(top)):
        for name in [b".", *names, *files]:
            path = os.path.join(directory, name)
            info = os.lstat(path)
            changed = round(info.st_mtime, 5)
            about: object = changed
            if stat.S_ISLNK(info.st_mode):
                about = os.readlink(path)
            elif stat.S_ISREG(info.st_mode):
                with open(path, "rb") as file:
                    about = (file.read(), changed)
            found[os.path.relpath(path, os.fsencode(top))] = (info.st_mode, about)
    return found


def make_dirty(top: Path) -> None:
    (top / "src/empty").mkdir(parents=True)
    (top / "src/main.py").write_text("print('hi')\n")
    (top / "src/main.py").chmod(0o755)
    (top / ".hidden").write_bytes(bytes(range(256)) * 1000)
    (top / "empty file").touch()
    (top / "name\nwith newline").write_text("odd")
    (top / "-rf").write_text("odd")
    (top / "größe €").write_text("odd")
    (top / ("n" * 250)).write_text("long")
    with open(os.fsencode(top) + b"/not utf-8 \xff\xfe", "wb") as file:
        file.write(b"odd")
    os.symlink(b"target \xff", os.fsencode(top) + b"/link \xff")
    (top / "link-to-file").symlink_to("src/main.py")
    (top / "link-to-directory").symlink_to("src")
    (top / "link-to-nowhere").symlink_to("/nowhere/at/all")
    (top / "link-to-itself").symlink_to("link-to-itself")
    (top / "second-name").hardlink_to(top / "src/main.py")
    (top / "sticky").mkdir(mode=0o700)
    (top / "sticky").chmod(0o1770)
    (top / "read-only").mkdir()
    (top / "read-only/file").write_text("kept")
    (top / "read-only").chmod(0o555)
    os.utime(top / "src/main.py", (1000000000.5, 1000000000.5))


@pytest.mark.parametrize("extract", ["python", "tar"])
def test_extracting_an_archive_gives_the_workspace_back(root, archives, workspace, tmp_path, extract):
    make_dirty(workspace)
    before = describe(workspace)
    archive = remove(root, archives)
    assert archive.parent == archives
    assert re.fullmatch(r"A-1-\d{8}T\d{6}Z\.tar\.gz", archive.name)
    assert os.listdir(archives) == [archive.name]
    assert not workspace.exists()
    restored = tmp_path / "restored"
    restored.mkdir()
    if extract == "python":
        with tarfile.open(archive) as tar:
            tar.extractall(restored, filter="fully_trusted")
    else:
        if shutil.which("tar") is None:
            pytest.skip("no tar program")
        subprocess.run(["tar", "-xpzf", str(archive), "-C", str(restored)], check=True, timeout=30)
    assert describe(restored / "A-1") == before
    assert os.listdir(restored) == ["A-1"]


def test_what_a_session_wrote_for_its_agent_is_left_out(root, archives, workspace):
    """EXT-01: it may hold the tracker's key; what the agent itself put beside it is kept."""
    ours = workspace / ".sortie"
    gemini = ours / "gemini" / ".gemini"
    gemini.mkdir(parents=True)
    secret = (
        ours / "mcp.json",
        ours / "opencode.json",
        gemini / "settings.json",
        ours / f".mcp.json.{'0a' * 8}.tmp",
    )
    for path in (*secret, ours / "state.json", ours / ".gitignore"):
        path.write_text("key")
    theirs = (
        ours / "status",
        ours / "notes.txt",
        gemini / "history",
        workspace / "mcp.json",
        workspace / "state.json",
    )
    for path in theirs:
        path.write_text("mine")
    with tarfile.open(remove(root, archives)) as tar:
        files = {member.name for member in tar if member.isfile()}
    assert files == {f"A-1/{path.relative_to(workspace)}" for path in theirs}


def test_a_directory_in_the_place_of_a_session_file_is_kept(root, archives, workspace):
    (workspace / ".sortie" / "mcp.json").mkdir(parents=True)
    (workspace / ".sortie" / "mcp.json" / "state.json").write_text("mine")
    with tarfile.open(remove(root, archives)) as tar:
        assert "A-1/.sortie/mcp.json/state.json" in tar.getnames()


def test_links_are_archived_as_links_and_never_followed(root, archives, workspace, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (workspace / "directory").symlink_to(outside)
    (workspace / "file").symlink_to(outside / "secret")
    archive = remove(root, archives)
    with tarfile.open(archive) as tar:
        assert {m.name: m.issym() for m in tar} == {"A-1": False, "A-1/directory": True, "A-1/file": True}
    assert (outside / "secret").read_text() == "secret"


def test_holes_cost_neither_time_nor_space(root, archives, workspace, tmp_path):
    size = 1 << 38
    with (workspace / "image").open("wb") as file:
        file.truncate(size)
        for offset in (0, 5 << 20, size // 2 + 7):
            file.seek(offset)
            file.write(b"data at %d" % offset)
    with (workspace / "only-a-hole").open("wb") as file:
        file.truncate(size)
    archive = remove(root, archives)
    assert archive.stat().st_size < 100_000
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    with (tmp_path / "A-1/image").open("rb") as file:
        for offset in (0, 5 << 20, size // 2 + 7):
            file.seek(offset)
            assert file.read(len(b"data at %d" % offset)) == b"data at %d" % offset
    for name in ("image", "only-a-hole"):
        info = (tmp_path / "A-1" / name).stat()
        assert info.st_size == size
        assert info.st_blocks < 1000


def test_data_between_holes_survives_whole(root, archives, workspace, tmp_path):
    data = os.urandom(700_001)
    with (workspace / "image").open("wb") as file:
        for offset in (1 << 21, 1 << 23, 1 << 25):
            file.seek(offset)
            file.write(data)
    before = (workspace / "image").read_bytes()
    archive = remove(root, archives)
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    assert (tmp_path / "A-1/image").read_bytes() == before


def test_fifos_and_sockets_are_skipped_and_noted(root, archives, workspace):
    os.mkfifo(workspace / "fifo\n")
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind(str(workspace / "socket"))
    (workspace / "file").write_text("kept")
    archive = remove(root, archives)
    with tarfile.open(archive) as tar:
        assert tar.getnames() == ["A-1", "A-1/file", "A-1.not-archived.txt"]
        notes = tar.extractfile("A-1.not-archived.txt")
        assert notes is not None
        assert notes.read().decode().splitlines() == [
            r"'A-1/fifo\n': not a file, directory or link",
            "'A-1/socket': not a file, directory or link",
        ]
    assert not workspace.exists()


def test_a_tree_deeper_than_any_path_is_archived_and_removed(root, archives, workspace):
    descriptor = os.open(workspace, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("a-rather-long-name", dir_fd=descriptor)
        inner = os.open("a-rather-long-name", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    archive = remove(root, archives)
    with tarfile.open(archive) as tar:
        assert len(tar.getnames()) == 301
    assert not workspace.exists()


class Opened:
    """Counts how often this process opens something; a hook cannot be removed, so there is one for all."""

    def __init__(self) -> None:
        self.count = 0
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        self.count += event == "open"


@pytest.fixture(scope="module")
def opened():
    return Opened()


def nest(top: Path, depth: int) -> None:
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)


def test_every_further_directory_costs_the_same(root, archives, opened):
    """However deep they are nested: the work grows with their number, not with its square."""
    counts = []
    for depth in (100, 200, 300):
        (root / "A-1").mkdir(parents=True)
        nest(root / "A-1", depth)
        before = opened.count
        remove(root, archives)
        counts.append(opened.count - before)
    assert counts[2] - counts[1] == counts[1] - counts[0]


def test_a_link_in_place_of_the_root_is_refused(root, archives, workspace, tmp_path):
    """Nothing behind it is archived or removed, though it may hold a directory of that name."""
    root.rename(tmp_path / "aside")
    root.symlink_to("aside")
    with pytest.raises(WorkspaceError, match="Symbolic link refused"):
        archive_and_remove(root, "A-1", archives, "A-1")
    assert (tmp_path / "aside/A-1").is_dir()


def test_only_the_owner_can_read_an_archive(root, archives, workspace):
    archive = remove(root, archives)
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert stat.S_IMODE(archives.stat().st_mode) == 0o700


@contextmanager
def files_limited_to(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_when_the_archive_cannot_be_written_nothing_is_removed(root, archives, workspace):
    (workspace / "file").write_bytes(os.urandom(200_000))
    before = describe(workspace)
    with files_limited_to(50_000), pytest.raises(WorkspaceError, match="stays, because it could not be archived"):
        archive_and_remove(root, "A-1", archives, "A-1")
    assert describe(workspace) == before
    assert os.listdir(archives) == []


def test_a_link_in_place_of_the_workspace_is_archived_and_removed_as_a_link(root, archives, tmp_path):
    """Nothing behind it is touched."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("kept")
    root.mkdir()
    (root / "A-1").symlink_to(tmp_path / "outside")
    with tarfile.open(remove(root, archives)) as tar:
        assert [(member.name, member.issym()) for member in tar] == [("A-1", True)]
    assert os.listdir(root) == []
    assert (tmp_path / "outside/file").read_text() == "kept"


def test_what_cannot_be_removed_is_named_and_tried_again_without_another_archive(root, archives, workspace):
    """Its place is free; the same sentence each time."""
    (workspace / "file").touch()
    archive_workspace(root, "A-1", archives, "A-1", go_on)
    (rest,) = root.glob(".A-1~*")

    def refused() -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", "file")

    said = [str(problem) for _ in range(2) for problem in remove_archived(root, refused)]
    why = "stays: Operation not permitted (file). Remove it by hand."
    assert said == [f"{rest}, the rest of a workspace that is in the archive, {why}"] * 2
    assert not workspace.exists()
    assert remove_archived(root, go_on) == []
    assert os.listdir(root) == [] and len(os.listdir(archives)) == 1


ARCHIVES_AND_TELLS_ITS_MEMORY = """
import sys, tracemalloc
from pathlib import Path
from sortie.protocol.tree_walk import go_on
from sortie.workspace.removal import archive_workspace

tracemalloc.start()
archive_workspace(Path(sys.argv[1]), "A-1", Path(sys.argv[2]), "A-1", go_on)
print(tracemalloc.get_traced_memory()[1])
"""


def test_archiving_keeps_no_list_of_what_it_archived(root, archives, workspace):
    """A million files must fit into memory. In a process of its own, where nobody else allocates."""
    for number in range(5_000):
        path = workspace / f"{number % 60}" / f"{number:0100}"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    command = [sys.executable, "-c", ARCHIVES_AND_TELLS_ITS_MEMORY, str(root), str(archives)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50)
    assert int(done.stdout) < 1_900_000, "a list would take three millions"


def test_a_workspace_that_is_gone_already_needs_no_archive(root, archives):
    assert archive_and_remove(root, "A-1", archives, "A-1") is None
    assert not archives.exists()


def test_an_archive_is_never_overwritten(root, archives):
    made = []
    for number in range(5):
        (root / "A-1").mkdir(parents=True)
        (root / "A-1/file").write_text(f"content {number}")
        made.append(remove(root, archives))
    for number, path in enumerate(made):
        with tarfile.open(path) as tar:
            file = tar.extractfile("A-1/file")
            assert file is not None
            assert file.read().decode() == f"content {number}"


@pytest.mark.parametrize("name", ["../A 1", "gr\u00f6\u00dfe", "\ud800"])
def test_the_name_of_the_issue_is_in_the_comment_of_the_archive(root, archives, workspace, name):
    archive = archive_and_remove(root, "A-1", archives, name)
    assert archive is not None
    with tarfile.open(archive) as tar:
        shown = name.encode("utf-8", "backslashreplace").decode()
        assert tar.pax_headers["comment"] == f"Workspace of {shown}"
        assert tar.getnames() == ["A-1"]
