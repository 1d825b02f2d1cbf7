"""Where the documents are, and where the state about them lies."""

from __future__ import annotations

import os
import subprocess

import pytest

from sortie.errors import SortieError
from sortie.peers.place import find_place, make_state_directory, place_at, state_directory


@pytest.mark.parametrize("name", ["WORKLOG.md", "MAILBOX.md", "CHARTER.md", "peers.yaml"])
def test_the_nearest_directory_with_a_document_is_the_place(tmp_path, name):
    inner = tmp_path / "repository" / "src" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "WORKLOG.md").touch()
    (tmp_path / "repository" / name).touch()
    (inner / "MAILBOX.md").mkdir()
    place = find_place(inner)
    assert place == place_at(tmp_path / "repository")
    assert place.worklog == tmp_path / "repository" / "WORKLOG.md"
    assert place.state == tmp_path / "repository" / ".sortie"


def test_without_any_document_it_says_what_to_do(tmp_path):
    with pytest.raises(SortieError, match="sortie peers init"):
        find_place(tmp_path)


def test_the_state_is_in_the_git_directory_and_survives_a_clean(tmp_path):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    state = make_state_directory(tmp_path)
    assert state == tmp_path / ".git" / "sortie"
    assert state.stat().st_mode & 0o777 == 0o700
    (state / "kept").touch()
    subprocess.run(["git", "clean", "-fdxq"], cwd=tmp_path, check=True)
    assert (state / "kept").exists()
    assert make_state_directory(tmp_path) == state


def test_a_worktree_has_a_state_of_its_own(tmp_path):
    main, tree = tmp_path / "main", tmp_path / "tree"
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.invalid"]
    subprocess.run([*git, "init", "--quiet", str(main)], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "Begin"], cwd=main, check=True)
    subprocess.run([*git, "worktree", "add", "--quiet", str(tree)], cwd=main, check=True)
    assert make_state_directory(tree).resolve() == (main / ".git" / "worktrees" / "tree" / "sortie").resolve()
    assert state_directory(main) != state_directory(tree)


def test_without_git_the_state_lies_beside_and_git_would_not_see_it(tmp_path):
    assert state_directory(tmp_path) == tmp_path / ".sortie"
    assert list(tmp_path.iterdir()) == [], "asking makes nothing"
    make_state_directory(tmp_path)
    make_state_directory(tmp_path)
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    done = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""


@pytest.mark.parametrize(
    "content",
    [b"", b"gitdir: ", b"gitdir: /nowhere\n", b"gitdir: \0\n", b"gitdir: /etc\n", b"\xff" * 100_000, b"nonsense"],
)
def test_a_git_file_that_names_no_git_directory_is_none(tmp_path, content):
    (tmp_path / ".git").write_bytes(content)
    assert state_directory(tmp_path) == tmp_path / ".sortie"


def test_a_git_file_that_is_a_fifo_does_not_block(tmp_path):
    os.mkfifo(tmp_path / ".git")
    assert state_directory(tmp_path) == tmp_path / ".sortie"


@pytest.mark.parametrize("make", [lambda p: p.touch(), lambda p: p.symlink_to("/tmp"), os.mkfifo])
def test_something_else_in_the_place_of_the_state_is_an_error_that_says_so(tmp_path, make):
    (tmp_path / ".git").mkdir()
    make(tmp_path / ".git" / "sortie")
    with pytest.raises(SortieError, match="cannot be used"):
        make_state_directory(tmp_path)
