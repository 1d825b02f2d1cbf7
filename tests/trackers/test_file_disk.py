"""Replacing a file while programs that know nothing of us write it, at every moment that matters."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sortie.errors import TrackerError
from sortie.protocol.changing_places import TICK_NS, Version, exchange, stamp_of
from sortie.trackers.file_disk import TRIES, read, rewrite

from .scene import names_in


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a")
    return path


def add(before: Version) -> bytes:
    assert before.raw is not None
    return before.raw + b"+ours"


def by_rename(path: Path, content: bytes) -> None:
    other = path.with_name("editor's")
    other.write_bytes(content)
    other.rename(path)


def in_place(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def in_place_unseen(path: Path, content: bytes) -> None:
    """As an edit within one tick of the clock: neither times nor size nor inode show it."""
    status = path.stat()
    with open(path, "r+b") as file:
        file.write(content[: status.st_size])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


EDITORS = [by_rename, in_place, in_place_unseen]


class Once:
    """Makes the editor's write happen at the first call only."""

    def __init__(self, editor: Callable[[Path, bytes], None], path: Path, content: bytes = b"b") -> None:
        self.editor, self.path, self.content = editor, path, content
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == 1:
            self.editor(self.path, self.content)


SECOND = 1_000_000_000


def status_at(mtime: int, inode: int = 1) -> os.stat_result:
    return os.stat_result((0o100644, inode, 1, 1, 0, 0, 5, 0, 0, 0), {"st_mtime_ns": mtime, "st_ctime_ns": mtime})


@pytest.mark.parametrize(
    ("mtime", "readings", "certain"),
    [
        pytest.param(1, [10 * SECOND], [True], id="it has rested"),
        pytest.param(10 * SECOND + 1, [10 * SECOND + 2], [False], id="it may change again within the tick"),
        pytest.param(1, [2, 3, TICK_NS + 3], [False, False, True], id="read again a tick later"),
        pytest.param(10 * SECOND + 1, [2, TICK_NS + 3], [False, True], id="a clock that is ahead"),
        pytest.param(0, [1, TICK_NS + 2, 2 * SECOND + 2], [False, False, True], id="whole seconds tick slower"),
    ],
)
def test_a_stamp_is_certain_once_no_edit_can_leave_the_same(mtime, readings, certain):
    stamp, found = None, []
    for now in readings:
        stamp = stamp_of(status_at(mtime), now, stamp)
        found.append(stamp.certain)
    assert found == certain


def test_another_stamp_begins_anew():
    earlier = stamp_of(status_at(1), 2)
    assert not stamp_of(status_at(1, inode=2), 2 + 2 * TICK_NS, earlier).certain


def test_what_we_wrote_is_certain_at_once_and_shows_every_edit(path):
    stamp = rewrite(path, add)
    assert stamp is not None
    assert stamp.certain
    assert stamp.shows(path.stat())
    in_place(path, b"b+ours")
    assert not stamp.shows(path.stat())


def test_a_file_that_is_certainly_known_is_not_read(path):
    stamp = rewrite(path, add)
    rewrite(path, lambda before: b"known" if before.raw is None else b"read", known=stamp)
    assert path.read_bytes() == b"known"


@pytest.mark.parametrize("editor", [by_rename, in_place])
def test_an_edit_of_a_file_that_was_certainly_known_is_kept(path, editor):
    stamp = rewrite(path, add)
    editor(path, b"b")
    rewrite(path, add, known=stamp)
    assert path.read_bytes() == b"b+ours"


@pytest.mark.parametrize("editor", [by_rename, in_place])
def test_an_edit_at_the_last_moment_of_a_file_that_was_certainly_known_is_kept(path, editor):
    stamp = rewrite(path, add)
    meanwhile = Once(editor, path)

    def swap(one, other):
        meanwhile()
        return exchange(one, other)

    rewrite(path, lambda before: b"known" if before.raw is None else add(before), swap, known=stamp)
    assert path.read_bytes() == b"b+ours"
    assert names_in(path.parent) == {"file"}


def test_two_files_change_places(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"1")
    other.write_bytes(b"2")
    assert exchange(one, other)
    assert (one.read_bytes(), other.read_bytes()) == (b"2", b"1")


def test_exchange_with_a_missing_file_is_an_error(tmp_path, path):
    with pytest.raises(FileNotFoundError):
        exchange(path, tmp_path / "missing")


def test_the_content_is_replaced_and_nothing_is_left_over(path):
    rewrite(path, add)
    assert path.read_bytes() == b"a+ours"
    assert names_in(path.parent) == {"file"}


def test_an_edit_that_changes_nothing_does_not_touch_the_file(path):
    before = read(path).stamp.identity
    assert rewrite(path, lambda before: None) is None
    assert read(path).stamp.identity == before


@pytest.mark.parametrize("editor", EDITORS)
def test_an_edit_made_while_we_prepare_ours_is_kept(path, editor):
    meanwhile = Once(editor, path)

    def edit(before):
        meanwhile()
        return add(before)

    rewrite(path, edit)
    assert path.read_bytes() == b"b+ours"
    assert names_in(path.parent) == {"file"}


@pytest.mark.parametrize("editor", EDITORS)
def test_an_edit_made_at_the_last_moment_is_kept(path, editor):
    meanwhile = Once(editor, path)

    def swap(one, other):
        meanwhile()
        return exchange(one, other)

    rewrite(path, add, swap)
    assert path.read_bytes() == b"b+ours"
    assert names_in(path.parent) == {"file"}


def test_of_two_edits_at_the_last_moment_the_later_one_is_kept(path):
    calls = []

    def swap(one, other):
        calls.append(other)
        if len(calls) <= 2:
            by_rename(path, b"b" * len(calls))
        return exchange(one, other)

    rewrite(path, add, swap)
    assert path.read_bytes() == b"bb+ours"
    assert names_in(path.parent) == {"file"}


def test_a_file_removed_at_the_last_moment_loses_no_edit(path):
    calls = []

    def swap(one, other):
        calls.append(other)
        if len(calls) == 1:
            by_rename(path, b"b")
        if len(calls) == 2:
            path.unlink()
        return exchange(one, other)

    rewrite(path, add, swap)
    assert path.read_bytes() == b"b+ours"
    assert names_in(path.parent) == {"file"}


def test_where_files_cannot_change_places_a_plain_rename_does_it(path):
    meanwhile = Once(by_rename, path)

    def edit(before):
        meanwhile()
        return add(before)

    rewrite(path, edit, lambda one, other: False)
    assert path.read_bytes() == b"b+ours"
    assert names_in(path.parent) == {"file"}


def test_a_half_written_version_is_read_again(path):
    meanwhile = Once(by_rename, path, b"whole")

    def edit(before):
        if before.raw == b"a":
            meanwhile()
            raise TrackerError(TrackerError.PAYLOAD, "half written")
        return add(before)

    rewrite(path, edit)
    assert path.read_bytes() == b"whole+ours"


def test_a_file_that_never_rests_is_given_up_with_the_last_edit_in_place(path):
    edits = []

    def edit(before):
        edits.append(before)
        by_rename(path, b"edit %d" % len(edits))
        return add(before)

    with pytest.raises(TrackerError, match="changed by another program") as failure:
        rewrite(path, edit)
    assert failure.value.kind == TrackerError.TRANSPORT
    assert path.read_bytes() == b"edit %d" % TRIES
    assert names_in(path.parent) == {"file"}
