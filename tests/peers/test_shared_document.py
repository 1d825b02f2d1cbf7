"""A document that several processes and people write: what is appended, rewritten, lost and found again."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from sortie.errors import SortieError
from sortie.peers.journal import Record
from sortie.peers.shared_document import SharedDocument

from .kill_points import just_before


def record(**fields) -> Record:
    return Record(at=1.0, author="Alice", role="agent", **fields)


def append(path: Path, text: bytes, **fields) -> None:
    with SharedDocument(path).held() as held:
        held.append(text, record(**fields))


def by_rename(path: Path, content: bytes) -> None:
    other = path.with_name("editor's")
    other.write_bytes(content)
    other.rename(path)


def in_place(path: Path, content: bytes) -> None:
    path.write_bytes(content)


EDITORS = pytest.mark.parametrize("save", [by_rename, in_place])


def test_what_is_appended_is_in_the_document_and_on_record(path):
    """LOG-06: an acknowledged entry is in the document and in the journal."""
    append(path, b"### one\n", key="k", subject="e1")
    append(path, b"### two")
    assert path.read_bytes() == b"# Log\n### one\n### two\n"
    document = SharedDocument(path)
    assert document.read() == path.read_bytes()
    assert [(one.text, one.subject) for one in document.records()] == [("### one\n", "e1"), ("### two\n", "")]
    with document.held() as held:
        assert held.done("k")
        assert not held.done("other")
        assert held.lost == ()


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        pytest.param(b"", b"one\n", b"one\n", id="an empty file"),
        pytest.param(b"a\nb", b"one\n", b"a\nb\none\n", id="no newline at the end"),
        pytest.param(b"a\r\nb\r\n", b"one\ntwo\n", b"a\r\nb\r\none\r\ntwo\r\n", id="line ends of Windows are kept"),
        pytest.param(b"a\r\nb", b"one\n", b"a\r\nb\r\none\r\n", id="also for the newline that was missing"),
        pytest.param(b"a\nb\r\n", b"one\n", b"a\nb\r\none\n", id="the first line decides"),
        pytest.param(b"a\n", b"one\r\ntwo\n", b"a\none\ntwo\n", id="text that comes with them is adapted"),
        pytest.param(b"\xff\xfe\0\n", "ä\n".encode(), b"\xff\xfe\0\n\xc3\xa4\n", id="bytes that are no text"),
    ],
)
def test_the_appended_text_keeps_to_the_manner_of_the_document(path, before, text, after):
    path.write_bytes(before)
    append(path, text)
    assert path.read_bytes() == after
    assert SharedDocument(path).missing() == ()


def test_mode_and_owner_stay(path):
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 1234, 1234)
    before = path.stat()
    append(path, b"### one\n")
    with SharedDocument(path).held() as held:
        held.rewrite(lambda content: content.replace(b"Log", b"LOG"), record())
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert path.read_bytes() == b"# LOG\n### one\n"


def test_a_rewrite_is_on_record_and_one_that_changes_nothing_leaves_the_file_alone(path):
    inode = path.stat().st_ino
    with SharedDocument(path).held() as held:
        held.rewrite(lambda before: before, record(subject="nothing"))
        assert path.stat().st_ino == inode
        held.rewrite(lambda before: b"new " + before, record(subject="something"))
    assert path.read_bytes() == b"new # Log\n"
    assert [one.subject for one in SharedDocument(path).records()] == ["nothing", "something"]


@EDITORS
def test_a_rewrite_is_made_again_on_what_somebody_saved_meanwhile(path, save):
    """LOG-06: the editor's own lines are never lost by us."""
    seen = []

    def edit(before: bytes) -> bytes:
        seen.append(before)
        if len(seen) == 1:
            save(path, b"# Log\nmine\n")
        return before + b"ours\n"

    with SharedDocument(path).held() as held:
        held.rewrite(edit, record(subject="once"))
    assert seen == [b"# Log\n", b"# Log\nmine\n"]
    assert path.read_bytes() == b"# Log\nmine\nours\n"
    assert [one.subject for one in SharedDocument(path).records()] == ["once"]


@EDITORS
@pytest.mark.parametrize("moment", ["write_at_end", "_set_exact_time", "stamp"])
@pytest.mark.parametrize("has_read_ours", [False, True])
def test_an_append_is_there_once_whatever_somebody_saves_meanwhile(path, save, moment, has_read_ours):
    """LOG-06: before our text is written, just after, and before it is looked at again."""
    before = path.read_bytes()

    def edit() -> None:
        save(path, (path.read_bytes() if has_read_ours else before) + b"mine\n")

    with SharedDocument(path).held() as held, just_before(moment, edit):
        held.append(b"### ours\n", record())
    assert sorted(path.read_bytes().splitlines()) == [b"# Log", b"### ours", b"mine"]
    assert SharedDocument(path).missing() == ()
    assert len(list(SharedDocument(path).records())) == 1


@EDITORS
def test_a_rewrite_displaces_nothing_that_it_has_not_read(path, save):
    """LOG-06: the editor saves in the instant before the two files change places."""
    with SharedDocument(path).held() as held, just_before("on_record", lambda: save(path, b"# Log\nmine\n")):
        held.rewrite(lambda before: before + b"ours\n", record())
    assert path.read_bytes() == b"# Log\nmine\nours\n"
    assert len(list(SharedDocument(path).records())) == 1


def test_a_rewrite_that_refuses_half_a_file_is_asked_again(path):
    def edit(before: bytes) -> bytes:
        if b"whole" not in before:
            path.write_bytes(b"whole\n")
            raise SortieError("There is no status line.")
        return before + b"ours\n"

    with SharedDocument(path).held() as held:
        held.rewrite(edit, record())
        assert path.read_bytes() == b"whole\nours\n"
        with pytest.raises(SortieError, match="for good"):
            held.rewrite(refuse, record())
    assert path.read_bytes() == b"whole\nours\n"


def refuse(_: bytes) -> bytes:
    raise SortieError("No, for good.")


def test_a_document_that_goes_away_while_it_is_edited_is_an_error_that_says_so(path):
    def edit(_: bytes) -> bytes:
        path.unlink()
        raise SortieError("There is no status line.")

    with SharedDocument(path).held() as held, pytest.raises(SortieError, match="does not exist"):
        held.rewrite(edit, record())


def test_after_a_rewrite_of_ours_nothing_has_to_be_looked_at(path):
    """What the next holder finds is the stamp that the rewrite left, and not one of an unknown version."""
    stamp = path.parent / ".git" / "sortie" / "WORKLOG.md.stamp"
    for write in (
        lambda held: held.append(b"### one\n", record()),
        lambda held: held.rewrite(lambda before: before + b"more\n", record()),
    ):
        in_one_hold(path, write)
        status = path.stat()
        expected = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        assert json.loads(stamp.read_text())[1] == expected


def test_a_file_that_changes_all_the_time_is_an_error_in_the_end(path):
    def edit(before: bytes) -> bytes:
        by_rename(path, before + b"mine\n")
        return b"ours\n"

    with (
        SharedDocument(path).held() as held,
        pytest.raises(SortieError, match="changed by another program 20 times"),
    ):
        held.rewrite(edit, record())
    assert b"ours" not in path.read_bytes()
    assert list(SharedDocument(path).records()) == []


def test_a_save_in_place_that_is_under_way_is_waited_for(path):
    """LOG-06: half a save is neither extended nor replaced, and its program does not write into a removed file."""
    for write in (
        lambda held: held.append(b"### ours\n", record()),
        lambda held: held.rewrite(lambda before: before + b"### ours\n", record()),
    ):
        path.write_bytes(b"# Log\nold\n")
        with open(path, "wb", buffering=0) as editor:
            editor.write(b"# Log\n")
            done = threading.Thread(target=in_one_hold, args=(path, write))
            done.start()
            wait_until_held(path)
            editor.write(b"mine\n")
        done.join()
        assert path.read_bytes() == b"# Log\nmine\n### ours\n"


def wait_until_held(path: Path) -> None:
    lock = path.parent / ".git" / "sortie" / f"{path.name}.lock"
    while True:
        with suppress(FileNotFoundError), lock.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return


def in_one_hold(path: Path, write) -> None:
    with SharedDocument(path).held() as held:
        write(held)


def test_a_file_that_somebody_keeps_open_for_writing_is_appended_to_but_not_replaced(path):
    """Whoever has it open would write into a file that nobody sees any more."""
    with open(path, "ab"):
        append(path, b"### one\n")
        with SharedDocument(path).held() as held, pytest.raises(SortieError, match="Close it in the program"):
            held.rewrite(lambda before: before + b"x\n", record(key="k"))
    assert path.read_bytes() == b"# Log\n### one\n"
    with SharedDocument(path).held() as held:
        assert not held.done("k")
    assert {one.name for one in path.parent.iterdir()} == {".git", "WORKLOG.md"}


@EDITORS
def test_what_an_editor_threw_out_is_told_once_and_can_be_restored(path, save):
    """LOG-06: a person's editor that saves an older version loses nothing silently."""
    old = path.read_bytes()
    append(path, b"### one\n")
    append(path, b"### two\n")
    save(path, old + b"mine\n")
    document = SharedDocument(path)
    with document.held() as held:
        assert [one.text for one in held.lost] == ["### one\n", "### two\n"]
    with document.held() as held:
        assert held.lost == ()
    assert [one.text for one in document.missing()] == ["### one\n", "### two\n"]
    assert [one.text for one in document.restore()] == ["### one\n", "### two\n"]
    assert path.read_bytes() == b"# Log\nmine\n\n### one\n\n### two\n"
    assert document.missing() == ()
    assert document.restore() == ()
    save(path, old)
    with document.held() as held:
        assert [one.text.strip() for one in held.lost] == ["### one", "### two"], (
            "what was restored can be lost again"
        )


def test_what_is_lost_is_told_to_whoever_comes_after_one_that_failed(path):
    append(path, b"### one\n")
    path.write_bytes(b"# Log\n")
    document = SharedDocument(path)
    with pytest.raises(SortieError, match="No, for good"), document.held() as held:
        assert held.lost
        held.append(b"### two\n", record())
        held.rewrite(refuse, record())
    with document.held() as held:
        assert [one.text for one in held.lost] == ["### one\n"]
    assert path.read_bytes() == b"# Log\n### two\n", "nothing comes back by itself"


@EDITORS
def test_what_is_thrown_out_while_somebody_holds_the_lock_is_told_to_the_next(path, save):
    append(path, b"### one\n")
    with SharedDocument(path).held() as held:
        save(path, b"# Log\n")
        held.append(b"### two\n", record())
    assert path.read_bytes() == b"# Log\n### two\n"
    with SharedDocument(path).held() as held:
        assert [one.text for one in held.lost] == ["### one\n"]


def test_an_entry_that_moved_to_the_archive_is_not_lost(path):
    append(path, b"### one\n\ntext\n")
    path.with_name("WORKLOG_ARCHIVE.md").write_bytes(b"# Old\n\n### one\n\ntext\n")
    path.write_bytes(b"# Log\n")
    assert SharedDocument(path).missing() == ()


@pytest.mark.parametrize(
    "make",
    [lambda p: p.symlink_to("/dev/zero"), os.mkfifo, os.mkdir, lambda p: p.write_bytes(b"\xff" * 100)],
    ids=["link", "fifo", "directory", "noise"],
)
def test_an_archive_that_is_none_is_no_obstacle(path, make):
    append(path, b"### one\n")
    make(path.with_name("WORKLOG_ARCHIVE.md"))
    path.write_bytes(b"# Log\n")
    assert [one.text for one in SharedDocument(path).missing()] == ["### one\n"]


def test_records_without_text_and_the_first_content_take_no_part_in_what_is_lost(tmp_path):
    path = tmp_path / "MAILBOX.md"
    with SharedDocument(path).held() as held:
        held.create(b"# Mail\n", record(subject="created"))
        held.rewrite(lambda _: b"# Other\n", record(subject="rewritten"))
        held.note(record(subject="found", text=""))
    path.write_bytes(b"nothing\n")
    document = SharedDocument(path)
    assert document.missing() == ()
    assert [(one.subject, one.text) for one in document.records()] == [
        ("created", ""), ("rewritten", ""), ("found", ""),
    ]  # fmt: skip
    assert (tmp_path / ".sortie" / ".gitignore").read_text() == "*\n"


def test_a_note_with_a_text_is_looked_for_like_what_we_wrote(path):
    path.write_bytes(b"# Log\n### by hand\n")
    with SharedDocument(path).held() as held:
        held.note(record(text="### by hand\n", key="k"))
        assert held.done("k")
    path.write_bytes(b"# Log\n")
    assert [one.text for one in SharedDocument(path).missing()] == ["### by hand\n"]
