"""The shared documents as they are at one moment, and the rules that hold then, whatever is done to them later."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ...errors import SortieError
from ...protocol.safefiles import explain, open_directory, read_bounded
from ..charter.charter import Charter, parse_charter
from ..charter.charter_file import CharterFile
from ..document_file import LIMIT
from ..journal import Record, lines_of
from ..place import Place
from ..roster import Roster, roster_of

Document = Literal["worklog", "mailbox", "charter", "settings", "worklog_archive", "mailbox_archive"]
DOCUMENTS: tuple[Document, ...] = (
    *("worklog", "mailbox", "charter", "settings"),
    *("worklog_archive", "mailbox_archive"),
)
_JOURNALED: tuple[Document, ...] = ("worklog", "mailbox", "charter")
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFREG: "a file with a second name",
}
NOTHING = "nothing"


class Documents(Struct, frozen=True, kw_only=True):
    """`content` has those that are regular files of their own, `instead` says of the others what stands there.
    `journals` says how far the record of our own writes went."""

    content: Mapping[Document, bytes] = {}
    instead: Mapping[Document, str] = {}
    journals: Mapping[Document, int] = {}


class Rules(Struct, frozen=True, kw_only=True):
    """The charter in force and who takes part."""

    charter: Charter
    roster: Roster


def path_of(place: Place, document: Document) -> Path:
    if document in ("worklog_archive", "mailbox_archive"):
        path = place.worklog if document == "worklog_archive" else place.mailbox
        return path.with_name(f"{path.stem}_ARCHIVE.md")
    path = getattr(place, document)
    assert isinstance(path, Path)
    return path


def read_documents(place: Place) -> Documents:
    """Never raises: what cannot be read is said."""
    content: dict[Document, bytes] = {}
    instead: dict[Document, str] = {}
    for document in DOCUMENTS:
        path = path_of(place, document)
        try:
            with open_directory(path.parent.resolve()) as directory:
                content[document] = read_bounded(directory, path.name, LIMIT)
        except FileNotFoundError:
            instead[document] = NOTHING
        except OSError as error:
            instead[document] = _what_stands_at(path, error)
    return Documents(content=content, instead=instead, journals=_journal_sizes(place))


def written_since(place: Place, document: Document, before: Documents) -> list[Record]:
    """The writes through our own commands, with their true authors. Raises where the journal cannot be read."""
    lines = lines_of(_journal(place, document), before.journals.get(document, 0))
    return [record for _, line in lines if (record := line.public()) is not None]


def rules_of(place: Place, draft: bytes | None = None) -> Rules:
    """Those in force; a `draft` counts only where the maintainer has adopted nothing. Never raises."""
    try:
        found = CharterFile(place).in_force()
    except SortieError:
        found = None
    charter = found.charter if found else Charter()
    if draft is not None and (found is None or not found.standing.adopted):
        charter = parse_charter(draft)
    return Rules(charter=charter, roster=charter.roster if charter.roster.agents else roster_of(place))


def is_adopted(place: Place, digest: str) -> bool:
    """Whether the text of the charter with this digest is the one that the maintainer has put into force."""
    try:
        return CharterFile(place).standing().adopted == digest
    except SortieError:
        return False


def _journal(place: Place, document: Document) -> Path:
    return place.state / f"{path_of(place, document).name}.journal"


def _journal_sizes(place: Place) -> dict[Document, int]:
    sizes: dict[Document, int] = {}
    for document in _JOURNALED:
        try:
            sizes[document] = _journal(place, document).lstat().st_size
        except OSError:
            sizes[document] = 0
    return sizes


def _what_stands_at(path: Path, error: OSError) -> str:
    try:
        kind = stat.S_IFMT(path.lstat().st_mode)
    except OSError:
        kind = 0
    if kind == stat.S_IFREG and path.lstat().st_nlink == 1:
        return f"a file that cannot be read ({explain(error)})"
    return _KINDS.get(kind, "no regular file")
