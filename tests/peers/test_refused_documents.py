"""What is no document of its own, or no text for one, is refused with a sentence and never followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sortie.errors import SortieError
from sortie.peers.document_file import LIMIT
from sortie.peers.shared_document import SharedDocument

from .test_shared_document import append, record


def test_what_exists_is_not_created_again(path):
    document = SharedDocument(path)
    with document.held() as held, pytest.raises(SortieError, match="exists already"):
        held.create(b"new\n", record())
    assert path.read_bytes() == b"# Log\n"
    path.write_bytes(b"")
    with document.held() as held:
        held.create(b"new\r\nlines\n", record())
    assert path.read_bytes() == b"new\nlines\n"


@pytest.mark.parametrize("text", [b"\xff", b"x" * (16 * 1024 * 1024 + 1)], ids=["no text", "too long"])
def test_a_text_that_does_not_belong_into_a_document_is_refused(path, text):
    with SharedDocument(path).held() as held, pytest.raises(SortieError):
        held.append(text, record())
    assert path.read_bytes() == b"# Log\n"
    assert list(SharedDocument(path).records()) == []


def test_a_name_that_utf_8_has_no_form_for_is_refused(path):
    with SharedDocument(path).held() as held, pytest.raises(SortieError, match="UTF-8"):
        held.append(b"x\n", record(subject="\udcff"))
    assert path.read_bytes() == b"# Log\n"


def test_a_document_that_is_missing_or_too_large_is_an_error_that_says_so(tmp_path):
    document = SharedDocument(tmp_path / "WORKLOG.md")
    with pytest.raises(SortieError, match="does not exist"):
        document.read()
    with document.held() as held, pytest.raises(SortieError, match="does not exist"):
        held.append(b"x\n", record())
    document.path.touch()
    os.truncate(document.path, LIMIT + 1)
    with pytest.raises(SortieError, match="larger than 512 MiB"):
        document.read()


def link(path: Path) -> None:
    target = path.parent / "elsewhere"
    target.write_bytes(b"precious\n")
    path.symlink_to(target)


def second_name(path: Path) -> None:
    target = path.parent / "elsewhere"
    target.write_bytes(b"precious\n")
    os.link(target, path)


@pytest.mark.parametrize("make", [link, second_name, os.mkfifo, os.mkdir])
@pytest.mark.parametrize("name", ["WORKLOG.md", ".git/sortie/WORKLOG.md.lock", ".git/sortie/WORKLOG.md.journal"])
def test_what_is_no_file_of_its_own_is_refused_and_never_followed(path, name, make):
    """A link, FIFO or directory in the place of document, lock or journal: an error at once, and nothing else."""
    append(path, b"### one\n")
    strange = path.parent / name
    strange.unlink()
    make(strange)
    document = SharedDocument(path)
    with pytest.raises(SortieError, match="not a regular file of its own"), document.held() as held:
        held.append(b"### two\n", record())
    elsewhere = strange.parent / "elsewhere"
    assert not elsewhere.exists() or elsewhere.read_bytes() == b"precious\n"
    if name == "WORKLOG.md" and make is not second_name:
        with pytest.raises(SortieError):
            document.read()


@pytest.mark.parametrize("make", [link, os.mkfifo, os.mkdir])
def test_a_stamp_that_is_no_file_costs_time_and_nothing_else(path, make):
    append(path, b"### one\n")
    stamp = path.parent / ".git" / "sortie" / "WORKLOG.md.stamp"
    stamp.unlink()
    make(stamp)
    append(path, b"### two\n")
    assert path.read_bytes() == b"# Log\n### one\n### two\n"
