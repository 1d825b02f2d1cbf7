"""The whole history of a work log in git, commit by commit: what each did that is no append, and who made it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..finding import Finding
from .file_history import LARGEST, Commit, FileHistory, Version
from .log import Worklog
from .parse import parse
from .verify import EDITED, LOSSES, REMOVED, compare
from .verify_head import ROW_EDITED, STATUS_CHANGED

WORKING_TREE = Commit(name="")
ARCHIVE = "WORKLOG_ARCHIVE.md"
# Versions that are asked of git at once.
_AT_ONCE = 200
_AT_ONCE_BYTES = 8 * 1024 * 1024
_SHORT = 12


class InCommit(Struct, frozen=True, kw_only=True):
    """A finding, and the commit that did it; the name of that is empty for the working tree."""

    finding: Finding
    commit: Commit


class History(Struct, frozen=True, kw_only=True):
    """What was found, in how many commits, and what could not be looked at."""

    found: tuple[InCommit, ...]
    commits: int
    remarks: tuple[str, ...] = ()


def verify_history(
    path: Path, *, revision: str = "HEAD", now: bytes | None = None, archive: bytes = b""
) -> History:
    """`now` is what the file says today, None for a history that is not to be judged by that; `archive` is what the
    archive says today."""
    return _Walk(path, archive).whole(revision, now)


class _Walk:
    def __init__(self, path: Path, archive: bytes) -> None:
        self._history = FileHistory(path)
        self._archives = FileHistory(path.with_name(ARCHIVE))
        self._archive = archive
        self._told: set[tuple[str, str]] = set()

    def whole(self, revision: str, now: bytes | None) -> History:
        if now is not None and self._history.tip(revision) is None:
            return History(found=(), commits=0, remarks=("There is no commit yet.",))
        commits = self._history.commits(revision)
        names = dict.fromkeys(commit.name for commit in commits)
        outside = dict.fromkeys(parent for commit in commits for parent in commit.parents if parent not in names)
        self._versions = self._history.versions([*outside, *names])
        self._effective: dict[str, Version | None] = {name: self._versions.get(name) for name in outside}
        order = [self._versions[name] for name in (*outside, *names) if name in self._versions]
        self._logs = _Logs(self._history, order)
        found = [one for commit in commits for one in self._commit(commit)]
        if now is not None:
            found += self._today(self._effective[commits[-1].name] if commits else None, now)
        return History(found=tuple(found), commits=len(commits), remarks=tuple(self._remarks(commits)))

    def _today(self, tip: Version | None, now: bytes) -> Iterator[InCommit]:
        last = parse(now)
        if tip is not None and not now.strip():
            yield self._whole_file_removed(self._logs.get(tip), WORKING_TREE)
            return
        if tip is not None:
            yield from self._judged(self._logs.get(tip), last, WORKING_TREE)
        yield from self._rewritten(last)

    def _commit(self, commit: Commit) -> Iterator[InCommit]:
        before = [version for parent in commit.parents if (version := self._effective[parent])]
        here = self._versions.get(commit.name)
        self._effective[commit.name] = here or next(iter(before), None)
        if here is None:
            if any(parent in self._versions for parent in commit.parents):
                yield self._whole_file_removed(self._logs.get(before[0]), commit)
            return
        for version in before:
            if version.blob == here.blob:
                continue
            for one in self._judged(self._logs.get(version), self._logs.get(here), commit):
                key = _key(one.finding)
                # What a branch did was told of the branch; two branches that come together look reordered.
                if len(commit.parents) == 1 or (one.finding.kind in LOSSES and key not in self._told):
                    self._told.add(key)
                    yield one

    def _judged(self, old: Worklog, new: Worklog, commit: Commit) -> list[InCommit]:
        findings = compare(old, new)
        if any(finding.kind == REMOVED for finding in findings):
            findings = compare(old, new, archive=self._archive_in(commit) + b"\n" + self._archive)
        # Whose line a commit may change is not known: who commits is not who wrote.
        return [InCommit(finding=one, commit=commit) for one in findings if one.kind != STATUS_CHANGED]

    def _archive_in(self, commit: Commit) -> bytes:
        there = self._archives.versions([commit.name]) if commit.name else {}
        return b"".join(self._archives.contents(there.values()))

    def _rewritten(self, last: Worklog) -> Iterator[InCommit]:
        """What stood in commits that are in no branch any more, and is gone with them."""
        dropped = self._history.dropped()
        versions = self._history.versions([one.commit.name for one in dropped])
        for one in dropped:
            version = versions.get(one.commit.name)
            if version is None:
                continue
            (content,) = self._history.contents([version])
            for finding in compare(content, last, archive=self._archive):
                if finding.kind not in LOSSES or _key(finding) in self._told:
                    continue
                self._told.add(_key(finding))
                name = one.commit.name[:_SHORT]
                said = f"{finding.sentence} It stood so in commit {name}, which was dropped ({one.move})."
                yield InCommit(
                    finding=replace(finding, sentence=said),
                    commit=replace(one.commit, author=one.by or one.commit.author),
                )

    def _whole_file_removed(self, log: Worklog, commit: Commit) -> InCommit:
        entries = "one entry" if len(log.entries) == 1 else f"{len(log.entries):,} entries"
        finding = Finding(kind=REMOVED, sentence=f"The whole work log was removed, with {entries}.")
        return InCommit(finding=finding, commit=commit)

    def _remarks(self, commits: Sequence[Commit]) -> Iterator[str]:
        if self._history.is_shallow:
            yield "The clone is shallow: what happened before its first commit is not known."
        if not commits:
            yield "No commit has this file."


class _Logs:
    """Versions of the file, read once in the order in which they come and kept as long as there is room."""

    def __init__(self, history: FileHistory, order: Sequence[Version]) -> None:
        self._history = history
        self._order = list({version.blob: version for version in order}.values())
        self._next = 0
        self._raw: dict[str, bytes] = {}
        self._parsed: OrderedDict[str, Worklog] = OrderedDict()

    def get(self, version: Version) -> Worklog:
        if version.blob in self._parsed:
            self._parsed.move_to_end(version.blob)
            return self._parsed[version.blob]
        if version.blob not in self._raw:
            self._fetch(version)
        log = self._parsed[version.blob] = parse(self._raw.pop(version.blob))
        while len(self._parsed) > 2 and sum(len(one.data) for one in self._parsed.values()) > LARGEST:
            self._parsed.popitem(last=False)
        return log

    def _fetch(self, version: Version) -> None:
        """With those that are wanted soon."""
        group, size = [version], version.size
        following = self._order[self._next : self._next + _AT_ONCE]
        if version in following:
            self._next += following.index(version) + 1
            for other in self._order[self._next : self._next + _AT_ONCE]:
                size += other.size
                if size > _AT_ONCE_BYTES:
                    break
                group.append(other)
            self._next += len(group) - 1
        for one, content in zip(group, self._history.contents(group), strict=True):
            self._raw[one.blob] = content


def _key(finding: Finding) -> tuple[str, str]:
    """By which the same thing is known again, seen from another commit."""
    is_edit = finding.kind in (EDITED, ROW_EDITED)
    return finding.kind + (f" {finding.sentence}" if is_edit else ""), finding.subject
