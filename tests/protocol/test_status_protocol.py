"""What `.sortie/status` means, for every content and everything that can stand at its path."""

import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.protocol.safefiles import open_directory
from sortie.protocol.status_file import (
    FIRST_LINE_LIMIT,
    REASON_LIMIT,
    UNRECOGNISED_LIMIT,
    Status,
    delete_status,
    parse_status,
    read_status,
)

TOKENS = ["blocked", "needs-human-review"]
SECRET = "AKIA-top-secret"


@pytest.fixture
def workspace(tmp_path):
    path = tmp_path / "workspace"
    (path / ".sortie").mkdir(parents=True)
    return path


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    return path


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize(
    "form",
    ["{}", "{}\n", " {}", "\t{} \r\n", "{}\r\n", "\r \t{}\t \r\nmore\n", "{}\nblocked\nneeds-human-review\n"],
)
def test_a_token_is_recognised_with_ascii_whitespace_around_it(token, form):
    """A2O-03, A2O-05: the first line decides, trimmed of TAB, LF, CR and space."""
    assert parse_status(form.format(token).encode()).token == token


@pytest.mark.parametrize(
    "raw",
    [
        b"Blocked\n",
        b"BLOCKED",
        b"Needs-Human-Review\n",
        b"NEEDS-HUMAN-REVIEW",
        b"blocked!",
        b"blocked needs-human-review",
        b"needs_human_review",
        b"needs-human-revie",
        b"\nblocked\n",
        b"\x0bblocked\n",
        b"blocked\x0c\n",
        "\u00a0blocked\n".encode(),
        "blocked\u0085".encode(),
        b"\xef\xbb\xbfblocked\n",
        b"blocked\x00\n",
        "blocked\n".encode("utf-16"),
        b"\xff\xfe\x00\x01",
    ],
)
def test_anything_else_is_unrecognised(raw):
    """A2O-03, A2O-05, A2O-12, A2O-14: no case folding, no Unicode trimming, no decoding."""
    status = parse_status(raw)
    assert status.token is None
    assert status.present
    assert status.unrecognised == raw.split(b"\n")[0].strip(b"\t\r ")


@pytest.mark.parametrize("raw", [b"", b"\n", b" \t\r\n", b"\n\n\n"])
def test_an_empty_file_is_present_and_unrecognised(raw):
    """A2O-12: an empty first line deserves its warning too."""
    assert parse_status(raw) == Status(unrecognised=b"")
    assert parse_status(raw).present


@given(st.binary(max_size=200))
def test_only_the_specified_algorithm_decides(raw):
    """A2O-03, A2O-14: for all bytes the verdict is that of split, trim and compare."""
    word = raw.split(b"\n")[0].strip(b"\t\n\r ")
    status = parse_status(raw)
    assert (status.token is not None) == (word in (b"blocked", b"needs-human-review"))
    assert status.unrecognised == (None if status.token else word[:UNRECOGNISED_LIMIT])


@given(st.sampled_from(TOKENS), st.binary(max_size=300))
def test_later_lines_never_change_the_verdict_and_are_safe_to_show(token, rest):
    """A2O-04: lines 2..n are text for people, without control characters."""
    status = parse_status(token.encode() + b"\n" + rest)
    assert status.token == token
    assert all(character == "\n" or character.isprintable() for character in status.reason)
    assert len(status.reason) <= REASON_LIMIT


def test_reason_and_context_and_plain_lines_are_kept():
    """A2O-04: the documented `key: value` lines reach people."""
    raw = b"blocked\r\nreason: missing API key\r\n\n  context: checked env, checked vault\nask Anna\n"
    assert parse_status(raw).reason == "missing API key\ncontext: checked env, checked vault\nask Anna"


def test_terminal_escapes_in_a_reason_are_made_visible():
    reason = parse_status("blocked\nreason: \x1b[2J\u202egnp\x07 \u00fc\n".encode()).reason
    assert reason == "\\x1b[2J\\u202egnp\\x07 \u00fc"


def test_a_long_reason_is_cut():
    reason = parse_status(b"blocked\n" + b"x" * 100_000).reason
    assert len(reason) == REASON_LIMIT
    assert reason.endswith("x…")


def test_an_unrecognised_token_carries_no_reason():
    assert parse_status(b"paused\nreason: lunch\n").reason == ""


@pytest.mark.parametrize("filler", [b" ", b"\t", b"\r", b"x", b"\0"])
def test_a_first_line_longer_than_the_bound_is_never_cut_into_a_match(workspace, filler):
    """A2O-21: the bound on the read never makes a token of a longer line."""
    (workspace / ".sortie/status").write_bytes(b"blocked" + filler * FIRST_LINE_LIMIT)
    status = read_status(workspace)
    assert status.token is None
    assert status.unrecognised is not None
    assert len(status.unrecognised) == UNRECOGNISED_LIMIT


def test_a_first_line_of_exactly_the_bound_is_read():
    padding = b" " * (FIRST_LINE_LIMIT - len(b"blocked"))
    assert parse_status(padding + b"blocked").token == "blocked"
    assert parse_status(padding + b" blocked").token is None


def test_a_file_of_any_size_costs_its_first_bytes_only(workspace):
    """A2O-21: a sparse terabyte is read as quickly as a line."""
    with (workspace / ".sortie/status").open("wb") as file:
        file.write(b"blocked\nreason: big\n")
        file.truncate(1 << 40)
    assert read_status(workspace).token == "blocked"


@pytest.mark.parametrize("token", TOKENS)
def test_the_documented_shell_command_is_understood(workspace, token):
    """A2O-05, A2O-10: only the content at the moment of the read counts."""
    assert os.system(f'cd "{workspace}" && mkdir -p .sortie && echo "{token}" > .sortie/status') == 0
    assert read_status(workspace) == Status(token=token)
    (workspace / ".sortie/status").unlink()
    assert read_status(workspace) == Status()


def test_path_and_descriptor_give_the_same(workspace):
    (workspace / ".sortie/status").write_text("blocked\nreason: x\n")
    with open_directory(workspace) as descriptor:
        assert read_status(descriptor) == read_status(workspace) == Status(token="blocked", reason="x")
        os.fstat(descriptor)


def test_absence_is_silent(workspace):
    """A2O-11: no file, or no `.sortie`, is the normal state."""
    assert read_status(workspace) == Status()
    (workspace / ".sortie").rmdir()
    assert read_status(workspace) == Status()
    assert not read_status(workspace).present


def test_reading_never_creates_the_directory(workspace):
    """A2O-26"""
    (workspace / ".sortie").rmdir()
    read_status(workspace)
    delete_status(workspace)
    assert os.listdir(workspace) == []


def place_link(status: Path, secret: Path) -> None:
    status.symlink_to(secret)


def place_linked_directory(status: Path, secret: Path) -> None:
    status.parent.rmdir()
    status.parent.symlink_to(secret.parent)
    (secret.parent / "status").write_text(f"blocked {SECRET}")


def place_linked_workspace(status: Path, secret: Path) -> None:
    workspace = status.parent.parent
    status.write_text("blocked")
    real = workspace.rename(workspace.with_name("real"))
    workspace.symlink_to(real)


def place_hard_link(status: Path, secret: Path) -> None:
    status.hardlink_to(secret)


def place_fifo(status: Path, secret: Path) -> None:
    os.mkfifo(status)


def place_socket(status: Path, secret: Path) -> None:
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind(str(status))


def place_directory(status: Path, secret: Path) -> None:
    status.mkdir()


def place_file_for_directory(status: Path, secret: Path) -> None:
    status.parent.rmdir()
    status.parent.write_text("blocked")


def place_link_loop(status: Path, secret: Path) -> None:
    status.symlink_to(status)


PROBLEMS = [
    (place_link, "Symbolic link refused: status"),
    (place_linked_directory, "Symbolic link refused: .sortie"),
    (place_linked_workspace, "Symbolic link refused: "),
    (place_link_loop, "Symbolic link refused: status"),
    (place_hard_link, "Hard link refused: status"),
    (place_fifo, "Not a regular file but a FIFO: status"),
    (place_socket, "Not a regular file but a socket: status"),
    (place_directory, "Not a regular file but a directory: status"),
    (place_file_for_directory, "Not a directory but a regular file: .sortie"),
]


@pytest.mark.parametrize(("place", "problem"), PROBLEMS)
def test_every_obstacle_is_a_problem_with_a_clear_text(workspace, secret, place, problem):
    """A2O-13, A2O-19, A2O-21: a read error, never an exception, and nothing of another file's content."""
    place(workspace / ".sortie/status", secret)
    status = read_status(workspace)
    assert (status.token, status.unrecognised, status.present) == (None, None, False)
    assert status.problem.startswith(f".sortie/status cannot be read: {problem}")
    assert SECRET not in repr(status)


def test_a_fifo_with_a_waiting_writer_neither_blocks_nor_counts(workspace):
    """A2O-21"""
    fifo = workspace / ".sortie/status"
    os.mkfifo(fifo)
    with open(os.open(fifo, os.O_RDWR), "wb", buffering=0) as writer:
        writer.write(b"blocked\n")
        assert "FIFO" in read_status(workspace).problem


def test_a_missing_workspace_is_a_problem(tmp_path):
    assert "No such file or directory" in read_status(tmp_path / "gone").problem


def test_a_closed_descriptor_is_a_problem(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.close(descriptor)
    assert "Bad file descriptor" in read_status(descriptor).problem


def test_the_clean_up_deletes_only_the_status_file(workspace):
    """A2O-18: `.sortie` and everything else in it stay."""
    (workspace / ".sortie/status").write_text("blocked\n")
    (workspace / ".sortie/state.json").write_text("{}")
    assert delete_status(workspace) == "deleted"
    assert os.listdir(workspace / ".sortie") == ["state.json"]
    with open_directory(workspace) as descriptor:
        assert delete_status(descriptor) == "absent"


def test_the_clean_up_takes_away_what_could_not_be_read(workspace, secret):
    for place in (place_fifo, place_socket, place_hard_link):
        place(workspace / ".sortie/status", secret)
        assert delete_status(workspace) == "deleted"
    assert secret.read_text() == f"{SECRET}\n"


@pytest.mark.parametrize("place", [place_link, place_linked_directory, place_linked_workspace, place_link_loop])
def test_the_clean_up_leaves_links_and_their_targets(workspace, secret, place):
    """A2O-19: reported as a link, for a warning."""
    status = workspace / ".sortie/status"
    place(status, secret)
    result = delete_status(workspace)
    assert result.startswith("skipped: Symbolic link refused: ")
    assert os.path.lexists(status)
    assert secret.exists()


@pytest.mark.parametrize("place", [place_directory, place_file_for_directory])
def test_a_failed_clean_up_says_why_and_does_not_raise(workspace, secret, place):
    """A2O-20"""
    place(workspace / ".sortie/status", secret)
    result = delete_status(workspace)
    assert result.startswith("failed: ")
    assert "irectory" in result


def test_the_clean_up_of_a_missing_workspace_fails_without_raising(tmp_path):
    assert delete_status(tmp_path / "gone").startswith("failed: No such file or directory")


def test_reading_works_in_any_thread(workspace):
    (workspace / ".sortie/status").write_text("blocked\n")
    results: list[Status] = []
    threads = [threading.Thread(target=lambda: results.append(read_status(workspace))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert results == [Status(token="blocked")] * 8
