"""Whoever has a file open for writing is waited for before another file takes its place.

Everything else about changing places is shown with the issue file, in `tests/trackers/test_file_disk.py`.
"""

from __future__ import annotations

import errno
import threading

import pytest

from sortie.protocol.changing_places import (
    Stamp,
    Version,
    exchange,
    identity_of,
    is_beside,
    replace,
    wait_for_writers,
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a")
    return path


def version(path) -> Version:
    status = path.stat()
    return Version(Stamp(identity_of(status), status.st_ctime_ns), status, path.read_bytes())


def test_readers_are_not_waited_for_and_writers_are(path):
    assert wait_for_writers(path, 0)
    with path.open("rb"):
        assert wait_for_writers(path, 0)
    for mode in ("ab", "r+b"):
        with path.open(mode):
            assert not wait_for_writers(path, 0)
            assert not wait_for_writers(path, 0.01)
        assert wait_for_writers(path, 0)
    assert wait_for_writers(path.with_name("missing"), 0)


def test_a_writer_that_ends_in_time_is_not_overrun(path):
    before = version(path)
    editor = path.open("ab", buffering=0)

    def save_and_close():
        editor.write(b" and mine")
        editor.close()

    saving = threading.Thread(target=save_and_close)

    def swap(one, other):
        done = exchange(one, other)
        if saving.ident is None:
            saving.start()
        return done

    assert replace(path, before, b"ours", swap, patience=30) is None
    saving.join()
    assert path.read_bytes() == b"a and mine"
    assert replace(path, version(path), b"ours", patience=30)
    assert path.read_bytes() == b"ours"


def test_a_writer_that_does_not_end_keeps_its_file(path):
    with path.open("ab"), pytest.raises(OSError) as caught:
        replace(path, version(path), b"ours", patience=0.01)
    assert caught.value.errno == errno.ETXTBSY
    assert path.read_bytes() == b"a"
    assert [one.name for one in path.parent.iterdir()] == ["file"]


def test_the_names_of_new_versions_are_known(path):
    seen = []
    replace(path, version(path), b"b", before_swap=lambda beside, _: seen.append(beside))
    assert is_beside(path, seen[0].name)
    assert not is_beside(path.with_name("other"), seen[0].name)
    for name in ("file", ".file.tmp", ".file.swp", ".file.sortie-/../x.tmp", ""):
        assert not is_beside(path, name)
