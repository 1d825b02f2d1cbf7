"""The files in `.sortie/`: their modes and contents, and that nothing an agent left there leads us astray."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.protocol import session_files as files
from sortie.protocol.safefiles import open_directory

ENTRY = files.server_entry(["/opt/sortie"], Path("/p/WORKFLOW.md"), {"SORTIE_ISSUE_ID": "1"})

names = st.text(min_size=1).filter(lambda name: name != files.SERVER)
values = st.none() | st.integers() | st.text() | st.lists(st.text(), max_size=2)
operators = st.fixed_dictionaries(
    {"mcpServers": st.dictionaries(names, st.dictionaries(st.text(), values, max_size=2), max_size=3)},
    optional={"inputs": values, "other": values},
)


@pytest.fixture
def workspace(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def write_all(workspace: int) -> None:
    with files.session_directory(workspace) as directory:
        files.write_gitignore(directory)
        files.write_mcp_config(directory, files.merged_config(ENTRY, {}))
        files.write_state(directory, {"turn_number": 1})


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_everything_is_for_the_owner_only(tmp_path, workspace, umask):
    """EXT-01 EXT-02: whatever the umask is."""
    before = os.umask(umask)
    try:
        write_all(workspace)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / ".sortie").iterdir()}
    assert modes == {".gitignore": 0o600, "mcp.json": 0o600, "state.json": 0o600}
    assert stat.S_IMODE((tmp_path / ".sortie").stat().st_mode) == 0o700


def test_the_contents_are_those_of_the_protocol(tmp_path, workspace):
    """EXT-01 EXT-02 EXT-12"""
    write_all(workspace)
    folder = tmp_path / ".sortie"
    assert (folder / ".gitignore").read_bytes() == b"*\n"
    assert json.loads((folder / "state.json").read_bytes()) == {"turn_number": 1}
    assert json.loads((folder / "mcp.json").read_bytes()) == {
        "mcpServers": {
            "sortie-tools": {
                "type": "stdio",
                "command": "/opt/sortie",
                "args": ["mcp-server", "--workflow", "/p/WORKFLOW.md"],
                "env": {"SORTIE_ISSUE_ID": "1"},
            }
        }
    }


def test_a_command_of_several_words_keeps_its_order():
    entry = files.server_entry(["/usr/bin/python", "-m", "sortie"], Path("/w.md"), {})
    assert [entry["command"], *entry["args"]] == [
        "/usr/bin/python", "-m", "sortie", "mcp-server", "--workflow", "/w.md",
    ]  # fmt: skip


@given(operators)
def test_an_operators_configuration_is_kept_whole(operator):
    """EXT-04: nothing is lost, nothing is changed, and ours comes last."""
    given_text = json.dumps(operator)
    merged = files.merged_config(ENTRY, operator)
    assert json.dumps(operator) == given_text, "the operator's own object is not touched"
    assert list(merged["mcpServers"]) == [*operator["mcpServers"], files.SERVER]
    assert merged["mcpServers"].pop(files.SERVER) == ENTRY
    assert merged == operator


def test_other_keys_need_no_servers():
    """EXT-04"""
    assert files.merged_config(ENTRY, {"inputs": []}) == {"inputs": [], "mcpServers": {files.SERVER: ENTRY}}


def test_the_name_of_our_server_is_reserved():
    """EXT-04"""
    with pytest.raises(files.ReservedName, match="sortie-tools"):
        files.merged_config(ENTRY, {"mcpServers": {"sortie-tools": {}}})


@pytest.mark.parametrize("target", ["outside", "nowhere", ".sortie"])
def test_a_link_at_the_folder_is_refused_and_nothing_is_written_behind_it(tmp_path, workspace, target):
    """EXT-01: to a directory, to nothing, to itself."""
    (tmp_path / "outside").mkdir()
    (tmp_path / ".sortie").symlink_to(target)
    with pytest.raises(OSError, match="link refused"):
        write_all(workspace)
    assert list((tmp_path / "outside").iterdir()) == []
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo], ids=["file", "FIFO"])
def test_what_is_no_folder_is_refused(tmp_path, workspace, make):
    """EXT-01: without waiting for anybody."""
    make(tmp_path / ".sortie")
    with pytest.raises(OSError, match="Not a directory"):
        write_all(workspace)


def test_links_and_pipes_in_the_place_of_the_files_are_replaced(tmp_path, workspace):
    """EXT-01 EXT-12: what a link leads to stays as it is; a FIFO makes nobody wait."""
    folder = tmp_path / ".sortie"
    folder.mkdir()
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder / ".gitignore").symlink_to(precious)
    os.mkfifo(folder / "mcp.json")
    os.link(precious, folder / "state.json")
    write_all(workspace)
    assert precious.read_text() == "mine"
    assert {path.name for path in folder.iterdir() if path.is_file() and not path.is_symlink()} == {
        ".gitignore", "mcp.json", "state.json",
    }  # fmt: skip


def test_a_directory_in_the_place_of_a_file_is_an_error_and_leaves_no_litter(tmp_path, workspace):
    """EXT-01: the caller hears of it."""
    (tmp_path / ".sortie" / "mcp.json").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_all(workspace)
    assert sorted(path.name for path in (tmp_path / ".sortie").iterdir()) == [".gitignore", "mcp.json"]


def test_credentials_go_half_written_ones_too_and_nothing_else_does(tmp_path):
    """EXT-01: what an agent put in the place of one stops the removal of no other."""
    folder = tmp_path / ".sortie"
    folder.mkdir()
    half = f".mcp.json.{'0a' * 8}.tmp"
    (folder / "mcp.json").mkdir()
    for name in (half, "opencode.json", "state.json", f".state.json.{'0a' * 8}.tmp", ".mcp.json.tmp"):
        (folder / name).touch()
    with open_directory(tmp_path) as workspace:
        files.remove_credentials(workspace)
    left = {path.name for path in folder.iterdir()}
    assert left == {"mcp.json", "state.json", f".state.json.{'0a' * 8}.tmp", ".mcp.json.tmp"}


def test_what_is_the_same_already_is_not_written_again(tmp_path, workspace):
    """But whatever has another content, another mode or a second name is."""
    write_all(workspace)
    folder = tmp_path / ".sortie"

    def inodes() -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in folder.iterdir()}

    before = inodes()
    write_all(workspace)
    assert {name for name, inode in inodes().items() if inode == before[name]} == {".gitignore", "mcp.json"}
    (folder / ".gitignore").chmod(0o644)
    (tmp_path / "second").hardlink_to(folder / "mcp.json")
    write_all(workspace)
    assert stat.S_IMODE((folder / ".gitignore").stat().st_mode) == 0o600
    assert (folder / "mcp.json").stat().st_nlink == 1
    (folder / ".gitignore").write_bytes(b"!\n")
    write_all(workspace)
    assert (folder / ".gitignore").read_bytes() == b"*\n"
    assert sorted(inodes()) == [".gitignore", "mcp.json", "state.json"]
