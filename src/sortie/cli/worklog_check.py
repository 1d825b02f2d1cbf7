"""`sortie worklog lint` and `verify`: what is wrong with a work log, what was done to it, and who did it."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import SortieError
from .format import clean, runnable
from .main import DONE, UNFINISHED, decided
from .peers_options import place_of, root_option, typed
from .printing import json_option, print_json
from .worklog import NAME, log_at, place_with_log
from .worklog_writing import create

if TYPE_CHECKING:
    from ..peers.finding import Finding
    from ..peers.place import Place
    from ..peers.worklog.file_history import Commit

ARCHIVE = "WORKLOG_ARCHIVE.md"
FOUND = UNFINISHED
_LARGEST = 512 * 1024 * 1024
_SHORT = 12


@click.command("lint")
@root_option
@json_option
def lint_command(root: Path | None, as_json: bool) -> int:
    """Show what is wrong with the work log by its own rules, with the fix.

    Exit code 0 where nothing is, 3 where something is. What was edited or removed is found by `verify`.
    """
    from ..peers.roster import roster_of
    from ..peers.worklog.lint import MILD, lint

    place = place_with_log(root)
    log = log_at(place)
    read, archive = log.read(), _content(place.root / ARCHIVE)
    findings = lint(read, roster=roster_of(place), now=time.time(), archive=archive, written_by=log.written_by())
    report = _Report(NAME, MILD)
    report.add(findings)
    if mail := _content(place.mailbox):
        from ..peers.mailbox.decisions import decisions_only_in_mail
        from ..peers.mailbox.parse import parse

        report.add(decisions_only_in_mail(parse(mail), read), file=place.mailbox.name)
    return report.tell("nothing is wrong", as_json=as_json)


@click.command("verify")
@click.argument("versions", nargs=-1, metavar="[OLD NEW]")
@click.option("--by", default="", metavar="NAME", help="Who made NEW of OLD: judge what this one may change.")
@click.option("--git", "revision", is_flag=False, flag_value="HEAD", metavar="[REV]", help="Look at each commit.")
@click.option("--restore", is_flag=True, help="Append again what was recorded and is gone.")
@root_option
@json_option
def verify_command(
    versions: tuple[str, ...], by: str, revision: str | None, restore: bool, root: Path | None, as_json: bool
) -> int:
    """Show what happened to a work log that is no append, and whose entries it concerns.

    Alone, it compares the work log with the record of who wrote what. With two files, the second with the first;
    `-` is standard input. With --git, every commit with those before it, up to REV or in a range FROM..TO, and the
    working tree with the last. Exit code 0 where nothing is wrong, 3 where something is.
    """
    if len(versions) not in (0, 2):
        raise click.UsageError("Name two files, the older one first, or none.")
    if sum((bool(versions), revision is not None, restore)) > 1:
        raise click.UsageError("Two files, --git and --restore are three different things; choose one.")
    if by and not versions:
        raise click.UsageError("--by is for two files.")
    if versions:
        return _compare(*versions, by=by, root=root, as_json=as_json)
    if revision is not None:
        return _git(root, revision, as_json=as_json)
    place = _place_with_log_or_record(root, restore=restore)
    return _restore(place, as_json=as_json) if restore else _journal(place, root, as_json=as_json)


def _place_with_log_or_record(root: Path | None, *, restore: bool) -> Place:
    """A work log that was removed is made anew where it is to be restored from the record."""
    from ..peers.shared_document import SharedDocument

    try:
        return place_with_log(root)
    except SortieError as error:
        try:
            place = place_of(root)
        except SortieError:
            raise error from None
        missing = SharedDocument(place.worklog).missing() if place.state.is_dir() else ()
        if not missing:
            raise
    if restore:
        create(root, (), "")
        return place
    many = "One entry is" if len(missing) == 1 else f"{len(missing):,} entries are"
    raise SortieError(
        f"There is no {NAME} in {place.root} any more. {many} on record.",
        fix=f"{typed('worklog verify --restore', root)} brings back what is on record.",
    )


def _compare(old: str, new: str, *, by: str, root: Path | None, as_json: bool) -> int:
    from ..peers.roster import Roster, roster_of
    from ..peers.worklog.verify import MILD, compare

    try:
        roster = roster_of(place_with_log(root))
    except SortieError:
        if root is not None:
            raise
        roster = Roster()  # two files can be compared anywhere
    archive = _content(Path(new).with_name(ARCHIVE)) if new != "-" else b""
    report = _Report("standard input" if new == "-" else new, MILD)
    report.add(
        compare(
            _version(old), _version(new), by=roster.find(by) or by, maintainer=roster.maintainer, archive=archive
        )
    )
    return report.tell("only appended to", as_json=as_json)


def _journal(place: Place, root: Path | None, *, as_json: bool) -> int:
    from ..peers.roster import roster_of
    from ..peers.shared_document import SharedDocument
    from ..peers.worklog.verify_journal import LOST, MILD, NO_RECORD, verify_journal

    log = log_at(place)
    missing = SharedDocument(place.worklog).missing()
    findings = verify_journal(log.read(), log.written_by(), missing, maintainer=roster_of(place).maintainer)
    report = _Report(NAME, MILD)
    report.add(findings)
    is_on_record = all(finding.kind != NO_RECORD for finding in findings)
    code = report.tell("as it was recorded" if is_on_record else "", as_json=as_json)
    if any(finding.kind == LOST for finding in findings):
        click.echo(clean(runnable(f"{typed('worklog verify --restore', root)} puts back what was lost.")), err=True)
    return code


def _restore(place: Place, *, as_json: bool) -> int:
    from ..peers.shared_document import SharedDocument
    from ..peers.worklog.event import entry_id_of
    from ..peers.worklog.verify_journal import is_as_written

    restored = SharedDocument(place.worklog).restore()
    code = decided(DONE)
    log = log_at(place).read() if restored else None
    by_id = {entry.entry_id: entry for entry in log.entries} if log else {}
    told: list[dict[str, Any]] = []
    for one in restored:
        title = one.text.strip().partition("\n")[0].lstrip("# ")
        entry = by_id.get(entry_id_of(one.subject.partition(" ")[0]))
        line = log.line_of(entry.start) if log and entry and not is_as_written(entry, one) else None
        told.append({"subject": one.subject, "author": one.author, "changed_at_line": line})
        if not as_json:
            click.echo(clean(f"put back {one.subject}, of {one.author}: {title}"))
        if line and entry and not as_json:
            click.echo(f"  what it was changed to stays: {entry.entry_id}, line {line}")
    if as_json:
        print_json(told)
    elif not restored:
        click.echo("nothing is lost")
    return code


def _git(root: Path | None, revision: str, *, as_json: bool) -> int:
    """The file need not be there any more: that is a finding too."""
    from ..peers.worklog.verify import MILD
    from ..peers.worklog.verify_git import verify_history

    place = _checkout(root)
    now = None
    if revision == "HEAD":
        now = log_at(place).read().data if os.path.lexists(place.worklog) else b""
    history = verify_history(place.worklog, revision=revision, now=now, archive=_content(place.root / ARCHIVE))
    for remark in history.remarks:
        click.echo(clean(f"sortie: {remark}"), err=True)
    report = _Report(NAME, MILD)
    for one in history.found:
        report.add([one.finding], commit=one.commit)
    commits = "one commit" if history.commits == 1 else f"{history.commits:,} commits"
    return report.tell(f"only appended to, in {commits}", as_json=as_json)


def _checkout(root: Path | None) -> Place:
    from ..peers.place import place_at

    if root is not None and root.is_dir():
        return place_at(root)
    return place_with_log(root)


class _Report:
    """Findings of one command, for people or programs."""

    def __init__(self, file: str, mild: Collection[str]) -> None:
        self._file = file
        self._mild = mild
        self._found: list[tuple[Finding, str, Commit | None]] = []

    def add(self, findings: Sequence[Finding], *, file: str = "", commit: Commit | None = None) -> None:
        self._found += [(finding, file or self._file, commit) for finding in findings]

    def tell(self, otherwise: str, *, as_json: bool) -> int:
        """The exit code is settled before it is told; `otherwise` is said where nothing bad was found."""
        is_bad = any(finding.kind not in self._mild for finding, _, _ in self._found)
        code = decided(FOUND if is_bad else DONE)
        if as_json:
            print_json([self._as_json(*one) for one in self._found])
            return code
        last = None
        for finding, file, commit in self._found:
            if commit is not None and commit != last:
                click.echo(clean(_called(commit)))
            last = commit
            place = f"{file}:{finding.line}" if finding.line else file
            subject = f" ({finding.subject})" if finding.subject else ""
            indent = "  " if commit is not None else ""
            click.echo(indent + clean(runnable(f"{place}: {finding.kind}: {finding.sentence}{subject}")))
        if not is_bad and otherwise:
            click.echo(f"{clean(self._file)}: {otherwise}")
        return code

    def _as_json(self, finding: Finding, file: str, commit: Commit | None) -> dict[str, Any]:
        found: dict[str, Any] = {
            "kind": finding.kind,
            "mild": finding.kind in self._mild,
            "file": file,
            "line": finding.line,
            "subject": finding.subject,
            "owner": finding.owner,
            "sentence": finding.sentence,
        }
        if commit is not None:
            found |= {"commit": commit.name, "author": commit.author, "date": commit.date}
        return found


def _called(commit: Commit) -> str:
    if not commit.name:
        return "not committed"
    return f"commit {commit.name[:_SHORT]} of {commit.author}, {commit.date}: {commit.subject}"


def _content(path: Path) -> bytes:
    """Nothing where there is no such file."""
    from ..peers.shared_document import SharedDocument

    return SharedDocument(path).read() if os.path.lexists(path) else b""


def _version(name: str) -> bytes:
    """A file that a person named: through links, but never waiting for whoever writes a FIFO."""
    if name == "-":
        return sys.stdin.buffer.read(_LARGEST)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        fix = "Name two files, the older one first."
        raise SortieError(f"{name} cannot be read: {(error.strerror or str(error)).lower()}.", fix=fix) from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SortieError(f"{name} is no regular file.", fix="Put the version into a file, or give it as `-`.")
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise SortieError(f"{name} has more than {_LARGEST >> 20} MiB.", fix="Archive entries that are over.")
    return data
