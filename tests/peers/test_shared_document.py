"""A document that several processes and people write."""

from __future__ import annotations

import pytest

from sortie.peers.journal import Record
from sortie.peers.shared_document import SharedDocument


def record(**fields) -> Record:
    return Record(at=1.0, author="Alice", role="agent", **fields)


@pytest.fixture
def path(tmp_path):
    (tmp_path / ".git").mkdir()
    path = tmp_path / "WORKLOG.md"
    path.write_bytes(b"# Log\n")
    return path


def append(path, text: bytes, **fields) -> None:
    with SharedDocument(path).held() as held:
        held.append(text, record(**fields))


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


def test_a_rewrite_replaces_the_whole_and_is_on_record(path):
    path.chmod(0o640)
    with SharedDocument(path).held() as held:
        held.rewrite(lambda before: before.replace(b"Log", b"LOG"), record(subject="status"))
        held.append(b"### one\n", record())
    assert path.read_bytes() == b"# LOG\n### one\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.subject for one in SharedDocument(path).records()] == ["status", ""]


def test_what_an_editor_threw_out_is_told_once_and_can_be_restored(path):
    """LOG-06: a person's editor that saves an older version loses nothing silently."""
    old = path.read_bytes()
    append(path, b"### one\n")
    append(path, b"### two\n")
    path.write_bytes(old + b"mine\n")
    document = SharedDocument(path)
    with document.held() as held:
        assert [one.text for one in held.lost] == ["### one\n", "### two\n"]
    with document.held() as held:
        assert held.lost == ()
    assert [one.text for one in document.missing()] == ["### one\n", "### two\n"]
    document.restore()
    assert path.read_bytes() == b"# Log\nmine\n### one\n### two\n"
    assert document.missing() == ()


def test_a_document_is_created_where_there_is_none(tmp_path):
    path = tmp_path / "MAILBOX.md"
    with SharedDocument(path).held() as held:
        held.create(b"# Mail\n", record())
        held.rewrite(lambda _: b"# Other\n", record())
    assert path.read_bytes() == b"# Other\n"
    assert SharedDocument(path).missing() == ()
    assert (tmp_path / ".sortie" / ".gitignore").read_text() == "*\n"
