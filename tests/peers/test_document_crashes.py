"""A writer that dies at any moment leaves a document and a journal that agree, once the next one has come."""

from __future__ import annotations

import shutil
import subprocess
import sys

import msgspec
import pytest

from sortie.peers.journal import Line, Record
from sortie.peers.shared_document import SharedDocument
from sortie.protocol.changing_places import exchange, identity_of

from ..own_process import in_own_process
from .kill_points import killed_at_every_line

BEGINNING = b"# Log\n\nNow Working (Alice): idle\n\n### one\n\nfirst\n"


def record(**fields) -> Record:
    return Record(at=1.0, author="Alice", role="agent", **fields)


class Scene:
    """A document with one entry of ours, which can be put back as it was."""

    def __init__(self, root) -> None:
        self.root = root / "repository"
        (self.root / ".git").mkdir(parents=True)
        self.path = self.root / "WORKLOG.md"
        self.document = SharedDocument(self.path)
        with self.document.held() as held:
            held.create(BEGINNING.partition(b"### one")[0], record())
            held.append(b"### one\n\nfirst\n", record(key="one"))
        self._kept = root / "kept"
        shutil.copytree(self.root, self._kept)

    def put_back(self) -> None:
        if self._content(self.root) == self._content(self._kept):
            return
        shutil.rmtree(self.root)
        shutil.copytree(self._kept, self.root)
        # A copy has other inodes, so that the first look at it is a thorough one.
        with self.document.held():
            pass

    def _content(self, root) -> dict[str, bytes]:
        files = [*root.iterdir(), *(root / ".git" / "sortie").iterdir()]
        changing = (".lock", ".stamp")
        return {one.name: one.read_bytes() for one in files if one.is_file() and one.suffix not in changing}

    def texts(self) -> list[str]:
        return [one.text for one in self.document.records() if one.text]

    def names(self) -> set[str]:
        return {one.name for one in self.root.iterdir()}


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


@in_own_process
def test_an_append_killed_anywhere_happens_once_and_whole_or_not_at_all(scene):
    """LOG-06: SIGKILL at every line of an append, from taking the lock to giving it back."""
    seen = set()

    def work() -> None:
        with scene.document.held() as held:
            held.append(b"### two\n\nsecond\n", record(key="two"))

    for ended in killed_at_every_line(work):
        with scene.document.held() as held:
            assert held.lost == ()
            written = held.done("two")
        content = scene.path.read_bytes()
        assert content == BEGINNING + (b"### two\n\nsecond\n" if written else b"")
        assert scene.texts() == ["### one\n\nfirst\n", *(["### two\n\nsecond\n"] if written else [])]
        assert written or not ended
        seen.add(written)
        scene.put_back()
    assert seen == {False, True}


@in_own_process
def test_a_rewrite_killed_anywhere_is_in_the_document_and_on_record_or_in_neither(scene):
    """LOG-06: a whole rewrite is atomic; a change in the document is never without its author."""
    seen = set()

    def work() -> None:
        with scene.document.held() as held:
            held.rewrite(lambda before: before.replace(b"idle", b"two"), record(key="two", subject="status"))

    for ended in killed_at_every_line(work):
        with scene.document.held() as held:
            written = held.done("two")
        assert scene.path.read_bytes() == (BEGINNING.replace(b"idle", b"two") if written else BEGINNING)
        assert written == ("status" in [one.subject for one in scene.document.records()])
        with scene.document.held() as held:
            held.rewrite(lambda before: before + b"\n", record())
        assert scene.names() == {".git", "WORKLOG.md"}, "what a killed writer left is removed by the next rewrite"
        assert written or not ended
        seen.add(written)
        scene.put_back()
    assert seen == {False, True}


@in_own_process
def test_an_editors_save_that_a_killed_rewrite_displaced_is_put_back(scene):
    """LOG-06: the editor saves at the last moment before the two files change places, and we die at any line."""

    def work() -> None:
        saved = False

        def edit(before: bytes) -> bytes:
            nonlocal saved
            if not saved:
                saved = True
                other = scene.path.with_name("other")
                other.write_bytes(before + b"mine\n")
                other.rename(scene.path)
            return before.replace(b"idle", b"two")

        with scene.document.held() as held:
            held.rewrite(edit, record(key="two"))

    for ended in killed_at_every_line(work):
        with scene.document.held() as held:
            written = held.done("two")
        content = scene.path.read_bytes()
        is_saved = content.endswith(b"mine\n")
        base = BEGINNING + b"mine\n" if is_saved else BEGINNING
        assert content == (base.replace(b"idle", b"two") if written else base)
        assert is_saved or not written
        assert written or not ended
        scene.put_back()


def test_what_a_rewrite_displaced_without_having_read_it_is_put_back(scene):
    """LOG-06: its writer died before it could see that what it displaced was an editor's save."""
    base = identity_of(scene.path.stat())
    beside = scene.path.with_name(".WORKLOG.md.sortie-abcdefgh.tmp")
    beside.write_bytes(BEGINNING.replace(b"idle", b"two"))
    line = Line(op="rewrite", record=record(key="two"), base=base, inode=beside.stat().st_ino, beside=beside.name)
    with open(scene.root / ".git" / "sortie" / "WORKLOG.md.journal", "ab") as journal:
        journal.write(msgspec.json.encode(line) + b"\n")
    scene.path.write_bytes(BEGINNING + b"mine\n")
    exchange(beside, scene.path)
    with scene.document.held() as held:
        assert not held.done("two")
    assert scene.path.read_bytes() == BEGINNING + b"mine\n"
    assert scene.names() == {".git", "WORKLOG.md"}


@in_own_process
def test_a_creation_killed_anywhere_can_be_repeated(tmp_path):
    path = tmp_path / "MAILBOX.md"

    def create() -> None:
        with SharedDocument(path).held() as held:
            if not path.exists() or not path.read_bytes():
                held.create(b"# Mail\n", record())

    for _ in killed_at_every_line(create):
        create()
        assert path.read_bytes() == b"# Mail\n"
        assert SharedDocument(path).missing() == ()
        path.unlink()
        shutil.rmtree(tmp_path / ".sortie")


@in_own_process
def test_a_restoration_killed_anywhere_restores_each_text_once(scene):
    scene.path.write_bytes(b"# Log\n")
    for _ in killed_at_every_line(scene.document.restore):
        scene.document.restore()
        assert scene.path.read_bytes() == b"# Log\n\n### one\n\nfirst\n"
        scene.put_back()
        scene.path.write_bytes(b"# Log\n")


@in_own_process
def test_what_was_lost_is_told_even_if_who_found_out_was_killed(scene):
    scene.path.write_bytes(b"# Log\n")
    told = scene.root.parent / "told"

    def work() -> None:
        with scene.document.held() as held:
            told.write_text(str(len(held.lost)))

    for ended in killed_at_every_line(work):
        said = told.exists()
        with scene.document.held() as held:
            assert held.lost or said
            assert not (ended and held.lost)
        assert len(scene.document.missing()) == 1
        told.unlink(missing_ok=True)
        scene.put_back()
        scene.path.write_bytes(b"# Log\n")


def pend(scene, text: str, *, crlf: bool = False, lead: str = "") -> bytes:
    """What a writer would have written that died when its line was in the journal and nothing in the document."""
    line = Line(op="append", record=record(text=text), offset=scene.path.stat().st_size, crlf=crlf, lead=lead)
    with open(scene.root / ".git" / "sortie" / "WORKLOG.md.journal", "ab") as journal:
        journal.write(msgspec.json.encode(line) + b"\n")
    return line.written()


@pytest.mark.parametrize("crlf", [False, True])
def test_an_append_that_stopped_after_any_byte_is_finished(scene, crlf):
    """LOG-06: whatever part of the text is in the document already."""
    length = len(pend(scene, "### zwei\n\nzweitens\n", crlf=crlf, lead="\n"))
    scene.put_back()
    for there in range(length + 1):
        data = pend(scene, "### zwei\n\nzweitens\n", crlf=crlf, lead="\n")
        with open(scene.path, "ab") as file:
            file.write(data[:there])
        with scene.document.held():
            pass
        assert scene.path.read_bytes() == BEGINNING + data
        assert scene.document.missing() == ()
        scene.put_back()


def test_a_journal_line_that_stopped_after_any_byte_is_dropped(scene):
    """A torn last line was never acknowledged; what comes after it is read."""
    journal = scene.root / ".git" / "sortie" / "WORKLOG.md.journal"
    before = journal.read_bytes()
    pend(scene, "### two\n" + "long " * 2000)
    whole = journal.read_bytes()
    for there in (*range(len(before) + 1, len(before) + 80), len(whole) - 4096, len(whole) - 1):
        scene.put_back()
        journal.write_bytes(whole[:there])
        with scene.document.held() as held:
            held.append(b"### three\n", record())
        assert scene.path.read_bytes() == BEGINNING + b"### three\n"
        assert scene.texts() == ["### one\n\nfirst\n", "### three\n"]


def test_an_older_stamp_after_a_power_loss_costs_a_look_and_nothing_else(scene):
    stamp = scene.root / ".git" / "sortie" / "WORKLOG.md.stamp"
    older = stamp.read_bytes()
    for number in range(3):
        with scene.document.held() as held:
            held.append(f"### {number}\n".encode(), record())
    for content in (older, b"", b"garbage", b"[-1,[0,0,0,0]]", b"[3,[0,0,0,0]]", b"[9999999999999999,[0,0,0,0]]"):
        stamp.write_bytes(content)
        with scene.document.held() as held:
            assert held.lost == ()
        assert scene.path.read_bytes() == BEGINNING + b"### 0\n### 1\n### 2\n"


def test_a_pending_append_meets_a_file_that_an_editor_has_saved_meanwhile(scene):
    """Whether the editor had seen our text or not, it is there once."""
    pend(scene, "### two\n")
    scene.path.write_bytes(BEGINNING + b"mine\n")
    with scene.document.held():
        pass
    assert scene.path.read_bytes() == BEGINNING + b"mine\n### two\n"
    scene.put_back()
    pend(scene, "### two\n")
    scene.path.write_bytes(BEGINNING.replace(b"idle", b"something") + b"### two\nmine\n")
    with scene.document.held():
        pass
    assert scene.path.read_bytes().count(b"### two\n") == 1


def test_a_disk_that_takes_no_more_leaves_neither_text_nor_record(scene):
    """A write that fails in the middle is taken back: half of it was in the document already."""
    program = (
        "import resource, sys; from pathlib import Path\n"
        "from sortie.errors import SortieError\n"
        "from sortie.peers.journal import Record\n"
        "from sortie.peers.shared_document import SharedDocument\n"
        "path = Path(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10,) * 2)\n"
        "try:\n"
        "    with SharedDocument(path).held() as held:\n"
        "        held.append(b'### two, too long\\n', Record(at=1.0, author='A', role='agent'))\n"
        "except SortieError as error: print(error)\n"
    )
    with scene.document.held() as held:  # longer than its journal, so that the limit is met there
        held.rewrite(lambda before: before + b"x" * 5000 + b"\n", record())
    before = scene.path.read_bytes()
    said = subprocess.run(
        [sys.executable, "-c", program, str(scene.path)], capture_output=True, text=True, check=True
    )
    assert "file too large" in said.stdout
    assert scene.path.read_bytes() == before
    assert scene.texts() == ["### one\n\nfirst\n"]
    with scene.document.held() as held:
        held.append(b"### two\n", record())
    assert scene.path.read_bytes() == before + b"### two\n"


def test_a_document_that_is_gone_takes_what_was_pending_with_it(scene):
    pend(scene, "### two\n")
    scene.path.unlink()
    with scene.document.held() as held:
        assert [one.text for one in held.lost] == ["### one\n\nfirst\n"]
        held.create(b"# New\n", record())
    assert scene.path.read_bytes() == b"# New\n"
