"""Which text of CHARTER.md counts: the one that the maintainer adopted last, by a decision in the work log.

Every adopted text is kept in the state directory, and the journal of the document says which is the last. The
decision comes first and has a key with the version and the digest: whoever comes after a crash sees that it was
made, completes the journal, and decides nothing twice.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ...errors import SortieError
from ...protocol.safefiles import open_directory, open_regular, read_bounded, write_if_changed
from ..author import Author, AuthorityError
from ..journal import Record
from ..place import Place, make_state_directory
from ..shared_document import Held, SharedDocument
from ..state_file import problem_of
from .charter import Charter, parse_charter
from .markdown import LARGEST

State = Literal["missing", "draft", "adopted", "changed"]

ADOPTED = "adopted"
_KEPT = "charter"
_SHOWN_DIGEST = 12
_BOM = b"\xef\xbb\xbf"


class Standing(Struct, frozen=True, kw_only=True):
    """`version` counts the adopted ones. `unsettled`: the decision is made, and the journal does not say so yet."""

    state: State
    digest: str = ""
    adopted: str = ""
    version: int = 0
    unsettled: bool = False

    @property
    def problem(self) -> str:
        """A sentence with its fix, where the text is not the one that the maintainer adopted; else empty."""
        back = "`sortie charter restore` gives back the adopted text, `sortie charter show --adopted` shows it"
        match self.state:
            case "changed":
                return (
                    "It was changed without a decision of the maintainer; `sortie charter amend --decision WHY` "
                    f"records one, {back}."
                )
            case "missing" if self.adopted:
                return f"It is gone; {back}."
            case "missing":
                return "There is none; `sortie charter init` writes one to begin with."
            case "draft":
                return "It is a draft; once it says what was agreed on, `sortie charter adopt` puts it into force."
            case _:
                return ""


class InForce(Struct, frozen=True, kw_only=True):
    """The charter that counts: the adopted one, also while another text stands in the file; else the draft."""

    charter: Charter
    text: bytes
    standing: Standing


class Adoption(Struct, frozen=True, kw_only=True):
    """What putting a text into force did. `lost` are entries that somebody's editor threw out of the work log."""

    standing: Standing
    is_new: bool
    lost: tuple[Record, ...] = ()


class CharterFile:
    def __init__(self, place: Place, *, patience: float = 30.0) -> None:
        self._place = place
        self._document = SharedDocument(place.charter, patience=patience)

    def read(self) -> bytes:
        return _bounded(self._document.read(), self._place.charter)

    def standing(self) -> Standing:
        """Without the lock. Raises for a file that cannot be read, not for a missing one."""
        current = digest_of(self.read()) if os.path.lexists(self._place.charter) else ""
        version, adopted = self._last_adopted()
        if not current:
            return Standing(state="missing", adopted=adopted, version=version)
        if current == adopted:
            return Standing(state="adopted", digest=current, adopted=adopted, version=version)
        if self._decision(version + 1, current) is not None:
            return Standing(state="adopted", digest=current, adopted=current, version=version + 1, unsettled=True)
        return Standing(state="changed" if adopted else "draft", digest=current, adopted=adopted, version=version)

    def adopted_text(self) -> bytes | None:
        """As it was adopted last; None where nothing was, or where it is not kept here any more."""
        return self._kept(self.standing().adopted)

    def in_force(self) -> InForce | None:
        """None where there is no charter at all. Raises where the text that counts is nowhere any more: another one
        must not count instead, whoever wrote it."""
        standing = self.standing()
        if standing.state in ("draft", "adopted"):
            text = self.read()
        elif not standing.adopted:
            return None
        elif (kept := self._kept(standing.adopted)) is not None:
            text = kept
        else:
            raise _not_kept(self._place.charter)
        return InForce(charter=parse_charter(text), text=text, standing=standing)

    def create(self, content: bytes, author: Author, at: float) -> None:
        """A draft, where there is no charter."""
        with self._document.held() as held:
            held.create(content, _record(author, at, subject="draft", digest=digest_of(content)))

    def adopt(self, why: str, author: Author, *, at: float, new: bytes | None = None) -> Adoption:
        """Put the text of the file, or this new one, into force, with a decision in the work log.

        A text that is in force already needs none. Only the maintainer decides.
        """
        _refuse_agents(author, "put a charter into force")
        with self._document.held() as held:
            if new is not None and digest_of(new) != digest_of(self._current(held)):
                self._replace(held, new, author, at)
            text = self._current(held)
            digest = digest_of(text)
            version, adopted = self._last_adopted()
            if digest == adopted:
                standing = Standing(state="adopted", digest=digest, adopted=digest, version=version)
                return Adoption(standing=standing, is_new=False)
            self._keep(text)
            lost = self._decide(text, why, version + 1, author, at)
            key = _key(version + 1, digest)
            held.note(_record(author, at, subject=ADOPTED, digest=digest, key=key))
        standing = Standing(state="adopted", digest=digest, adopted=digest, version=version + 1)
        return Adoption(standing=standing, is_new=True, lost=lost)

    def settle(self, at: float) -> None:
        """Say in the journal what the maintainer has decided, where a crash kept that from being said."""
        with self._document.held() as held:
            standing = self.standing()
            decision = self._decision(standing.version, standing.digest) if standing.unsettled else None
            if decision is not None:
                author = Author(name=decision.author, role="maintainer")
                key = _key(standing.version, standing.digest)
                held.note(_record(author, at, subject=ADOPTED, digest=standing.digest, key=key))

    def restore(self, author: Author, *, at: float) -> Path | None:
        """Put the adopted text back. What stood there is kept in the file whose path is the answer."""
        _refuse_agents(author, "restore the charter")
        with self._document.held() as held:
            standing = self.standing()
            if not standing.adopted:
                raise SortieError(
                    "No charter was adopted yet.", fix="`sortie charter adopt` adopts the one there is."
                )
            text = self._kept(standing.adopted)
            if text is None:
                raise _not_kept(self._place.charter)
            if standing.state == "missing":
                held.create(text, _record(author, at, subject="restored", digest=standing.adopted))
                return None
            return self._replace(held, text, author, at) if standing.state == "changed" else None

    # -- inner ----------------------------------------------------------------------------------------------

    def _current(self, held: Held) -> bytes:
        return _bounded(held.read(), self._place.charter)

    def _replace(self, held: Held, new: bytes, author: Author, at: float) -> Path:
        """The old text stays in the state directory, whoever wrote it and whenever."""
        kept: list[Path] = []

        def edit(old: bytes) -> bytes:
            kept.append(self._keep(_bounded(old, self._place.charter)))
            return new

        held.rewrite(edit, _record(author, at, subject="replaced", digest=digest_of(new)))
        return kept[-1]

    def _last_adopted(self) -> tuple[int, str]:
        """How many were adopted, and the digest of the last."""
        found = [record.digest for record in self._document.records() if _is_decided(record, ADOPTED)]
        return len(found), found[-1] if found else ""

    def _decision(self, version: int, digest: str) -> Record | None:
        """The maintainer's decision for this text, in the journal of the work log.

        Its last record may be of an entry that a dead writer did not come to write. So one that is found is looked
        for again after the lock has been taken: whoever takes it finishes such an entry, or drops its record.
        """
        key, worklog = _key(version, digest), SharedDocument(self._place.worklog)

        def recorded() -> Record | None:
            found = (record for record in worklog.records() if record.key == key and record.role == "maintainer")
            return next(found, None)

        if recorded() is None:
            return None
        try:
            worklog.missing()
        except SortieError:
            return None  # nobody can say
        return recorded()

    def _decide(self, text: bytes, why: str, version: int, author: Author, at: float) -> tuple[Record, ...]:
        """Once, however often it is asked for. The answer is what the log has lost meanwhile."""
        from ..worklog.compose import Decision
        from ..worklog.worklog_file import WorklogFile

        digest = digest_of(text)
        session = parse_charter(text).session_id
        what = "Charter amended" if version > 1 else "Charter adopted"
        decision = Decision(
            title=f"{what}, version {version}",
            decision=f"Version {version} of CHARTER.md is in force (sha256 {digest[:_SHOWN_DIGEST]}).",
            mode="maintainer adjudication",
            participants=(author.name,),
            rationale=why,
            outcome=f"Lanes, contracts and rules of version {version} count from now on.",
        )
        log = WorklogFile(self._place.worklog, session_id=session)
        return log.record(decision, author, at=at, key=_key(version, digest), tell_lost=True).lost

    def _keep(self, text: bytes) -> Path:
        """On disk when it returns."""
        name = f"{digest_of(text)}.md"
        directory = make_state_directory(self._place.root) / _KEPT
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            with open_directory(directory) as opened:
                write_if_changed(opened, name, text)
                with open_regular(opened, name) as descriptor:
                    os.fsync(descriptor)
                os.fsync(opened)
        except OSError as error:
            raise problem_of(directory / name, error) from error
        return directory / name

    def _kept(self, digest: str) -> bytes | None:
        try:
            with open_directory(self._place.state / _KEPT) as directory:
                text = read_bounded(directory, f"{digest}.md", LARGEST + 1)
        except OSError:
            return None
        return text if digest_of(text) == digest else None


def digest_of(text: bytes) -> str:
    """Of what is written, whatever git and editors do to line ends, the byte order mark and the end of the file."""
    normal = text.removeprefix(_BOM).replace(b"\r\n", b"\n").rstrip(b"\n")
    return hashlib.sha256(normal).hexdigest()


def _key(version: int, digest: str) -> str:
    return f"charter {version} {digest}"


def _is_decided(record: Record, subject: str) -> bool:
    return record.subject == subject and record.role == "maintainer" and bool(record.digest)


def _record(author: Author, at: float, *, subject: str, digest: str, key: str = "") -> Record:
    return Record(
        at=at, author=author.name, role=author.role, run_id=author.run_id, subject=subject, digest=digest, key=key
    )


def _refuse_agents(author: Author, what: str) -> None:
    if author.role != "maintainer":
        raise AuthorityError(
            f"Only the maintainer can {what}, and this command runs as {author.name}.",
            fix="Propose the change in the work log; the maintainer decides.",
        )


def _not_kept(path: Path) -> SortieError:
    return SortieError(
        f"{path} is not the adopted text, and that is not kept here any more.",
        fix="Take it from git, or put this one into force with `sortie charter amend --decision WHY`.",
    )


def _bounded(text: bytes, path: Path) -> bytes:
    if len(text) > LARGEST:
        raise SortieError(
            f"{path} is larger than {LARGEST >> 20} MiB, which is no charter.", fix="Write a shorter one."
        )
    return text
