"""What a turn did against the rules, from facts alone: in files, in the shared documents, to branches and tags.

The rules are those from before the turn: no agent gives itself a lane by editing the charter. What is said is what
happened during the turn; whoever else worked in the checkout meanwhile is known only by our own commands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ..charter.charter_file import digest_of
from ..charter.lanes import LaneMap
from ..finding import Finding
from ..journal import Record
from ..mailbox import compare as mailbox_compare
from ..mailbox.decisions import ONLY_IN_MAIL, decisions_only_in_mail
from ..mailbox.parse import parse as parse_mailbox
from ..roster import fold
from ..worklog import verify
from ..worklog.parse import parse as parse_worklog
from .changes import ChangedFile, Changes
from .checkout import shown
from .documents import NOTHING, Document, Documents, Rules
from .hidden import lane_map

LANE_OF_ANOTHER = "lane of another"
NO_LANE = "no lane"
CHARTER_CHANGED = "charter changed"
SETTINGS_CHANGED = "settings changed"
DOCUMENT_GONE = "document gone"
DOCUMENT_REPLACED = "document replaced"
ARCHIVE_CHANGED = "archive changed"
HISTORY_REWRITTEN = "history rewritten"
BRANCH_DELETED = "branch deleted"
SNAPSHOT_DELETED = "snapshot deleted"
REPOSITORY_DAMAGED = "repository damaged"
IGNORED_CHANGED = "ignored files changed"
IGNORED_ELSEWHERE = "ignored files changed elsewhere"
# Told, and no reason to take anything back.
MILD = frozenset(
    {
        *(NO_LANE, BRANCH_DELETED, ONLY_IN_MAIL, IGNORED_ELSEWHERE),
        *verify.MILD,
        *(mailbox_compare.TABLES, mailbox_compare.UNKNOWN_RECIPIENT),
    }
)

_MOST_NAMED = 100


class Facts(Struct, frozen=True, kw_only=True):
    """`paths` are the documents as paths of the tree, empty for one outside of it. `records` are the writes through
    our own commands since the turn began; `adopted` says that the maintainer put the new charter into force."""

    agent: str
    rules: Rules
    before: Documents
    after: Documents
    changes: Changes
    paths: Mapping[Document, str]
    records: Mapping[Document, Sequence[Record]] = {}
    adopted: bool = False


class Review(Struct, frozen=True, kw_only=True):
    """`to_revert` are all files that are to be put back whole, also where few findings speak for many files."""

    files: tuple[Finding, ...] = ()
    worklog: tuple[Finding, ...] = ()
    mailbox: tuple[Finding, ...] = ()
    others: tuple[Finding, ...] = ()
    to_revert: tuple[str, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        return [*self.others, *self.files, *self.worklog, *self.mailbox]

    @property
    def violations(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind not in MILD]


def review(facts: Facts) -> Review:
    foreign, files = _files(facts)
    replaced = [document for document in facts.before.content if document in facts.after.instead]
    worklog, mailbox = facts.after.content.get("worklog"), facts.after.content.get("mailbox")
    back = {facts.paths.get(document, "") for document in replaced} | {file.path for file in foreign}
    for document in ("charter", "settings", "worklog_archive", "mailbox_archive"):
        if _is_broken(facts, document):
            back.add(facts.paths.get(document, ""))
    return Review(
        files=tuple(files),
        worklog=() if worklog is None else tuple(judge_worklog(facts, worklog)),
        mailbox=() if mailbox is None else (*judge_mailbox(facts, mailbox), *_decisions(facts)),
        others=(*_documents(facts, replaced), *_refs(facts), *_excludes(facts)),
        to_revert=tuple(sorted(back - {""})),
    )


def _files(facts: Facts) -> tuple[list[ChangedFile], list[Finding]]:
    """Those of another's lane, and a finding for each file that the agent had no business with."""
    charter = facts.rules.charter
    documents = {*facts.paths.values()}
    if not charter.lanes:
        return [], []
    lanes = lane_map(charter)
    foreign: dict[str, list[ChangedFile]] = defaultdict(list)
    nobodys: list[ChangedFile] = []
    for file in facts.changes.files:
        if file.path in documents:
            continue
        having = lanes.lanes_of(file.path)
        if not having:
            nobodys.append(file)
        elif not having[0].is_shared and fold(having[0].owner) != fold(facts.agent):
            foreign[having[0].owner].append(file)
    found = [
        finding
        for owner, files in sorted(foreign.items())
        for finding in _named(facts, LANE_OF_ANOTHER, files, owner)
    ]
    if charter.unowned == "maintainer":
        found += _named(facts, NO_LANE, nobodys, "")
    return [file for files in foreign.values() for file in files], found


def _named(facts: Facts, kind: str, files: Sequence[ChangedFile], owner: str) -> Iterator[Finding]:
    whose = f"which is in the lane of {owner}" if owner else "which is in no lane"
    for file in files[:_MOST_NAMED]:
        how = "changed into something else" if file.how == "type changed" else file.how
        kept = f"; its content is not kept, because {file.unkept}" if file.unkept else ""
        sentence = f"{shown(file.path)}, {whose}, was {how} in the turn of {facts.agent}{kept}."
        yield Finding(kind=kind, subject=file.path, sentence=sentence, owner=owner)
    if len(files) > _MOST_NAMED:
        where = f"in the lane of {owner}" if owner else "in no lane"
        sentence = f"{len(files) - _MOST_NAMED:,} more files {where} were changed in the turn of {facts.agent}."
        yield Finding(kind=kind, sentence=sentence, owner=owner)


def judge_worklog(facts: Facts, new: bytes) -> list[Finding]:
    """A version of the work log against the one from before the turn."""
    return verify.compare(
        facts.before.content.get("worklog", b""),
        new,
        by=facts.agent,
        maintainer=facts.rules.roster.maintainer,
        archive=facts.after.content.get("worklog_archive", b""),
        records=facts.records.get("worklog", ()),
    )


def judge_mailbox(facts: Facts, new: bytes) -> list[Finding]:
    return mailbox_compare.compare(
        facts.before.content.get("mailbox", b""),
        new,
        by=facts.agent,
        roster=facts.rules.roster,
        archive=facts.after.content.get("mailbox_archive", b""),
        records=facts.records.get("mailbox", ()),
    )


def _decisions(facts: Facts) -> Iterator[Finding]:
    """That belong into the work log; those that were missing there before are no news of this turn."""
    known = {finding.subject for finding in _only_in_mail(facts.before)}
    yield from (finding for finding in _only_in_mail(facts.after) if finding.subject not in known)


def _only_in_mail(documents: Documents) -> list[Finding]:
    mail, log = documents.content.get("mailbox", b""), documents.content.get("worklog", b"")
    return decisions_only_in_mail(parse_mailbox(mail), parse_worklog(log))


def _is_broken(facts: Facts, document: Document) -> bool:
    """Whether it was changed in a way that nobody but the maintainer may."""
    old, new = facts.before.content.get(document), facts.after.content.get(document)
    if new is None or new == old:
        return False
    match document:
        case "charter":
            return not facts.adopted and (old is None or digest_of(old) != digest_of(new))
        case "settings":
            owner = LaneMap(facts.rules.charter.lanes).owner_of(facts.paths.get(document, ""))
            return owner is None or fold(owner) != fold(facts.agent)
        case "worklog_archive" | "mailbox_archive":
            return old is not None and not new.rstrip().startswith(old.rstrip())
        case _:
            return False


_SENTENCES: dict[Document, tuple[str, str]] = {
    "charter": (CHARTER_CHANGED, "was changed in the turn of {}, and the maintainer has not decided that"),
    "settings": (SETTINGS_CHANGED, "says how agents are run, and was changed in the turn of {}"),
    "worklog_archive": (ARCHIVE_CHANGED, "is only ever added to, and text went from it in the turn of {}"),
    "mailbox_archive": (ARCHIVE_CHANGED, "is only ever added to, and text went from it in the turn of {}"),
}


def _documents(facts: Facts, replaced: Iterable[Document]) -> Iterator[Finding]:
    for document in replaced:
        name = facts.paths.get(document) or document
        instead = facts.after.instead[document]
        if instead == NOTHING:
            sentence = f"{shown(name)} was removed in the turn of {facts.agent}."
            yield Finding(kind=DOCUMENT_GONE, subject=name, sentence=sentence)
        else:
            sentence = f"{shown(name)} was replaced in the turn of {facts.agent}: there is {instead} now."
            yield Finding(kind=DOCUMENT_REPLACED, subject=name, sentence=sentence)
    for document, (kind, words) in _SENTENCES.items():
        if _is_broken(facts, document):
            name = facts.paths.get(document) or document
            yield Finding(kind=kind, subject=name, sentence=f"{shown(name)} {words.format(facts.agent)}.")


def _excludes(facts: Facts) -> Iterator[Finding]:
    """New files that these hide are seen in this turn all the same, and in no later one."""
    for change in facts.changes.excludes:
        kind = IGNORED_ELSEWHERE if change.person else IGNORED_CHANGED
        sentence = f"Which files git ignores was changed in the turn of {facts.agent}, by {shown(change.where)}."
        yield Finding(kind=kind, subject=change.where, sentence=sentence)


def _refs(facts: Facts) -> Iterator[Finding]:
    for change in facts.changes.refs:
        if not change.before:
            continue
        kept = f"; what it had is kept as {change.kept}" if change.kept else ""
        became = "was moved" if change.after else "was deleted"
        if change.is_ours:
            back = ", and is back" if change.kept else " and could not be put back"
            sentence = f"{change.called}, which is ours, {became} in the turn of {facts.agent}{back}."
            yield Finding(kind=SNAPSHOT_DELETED, subject=change.name, sentence=sentence)
        elif change.lost:
            sentence = f"{change.called} {became} in the turn of {facts.agent}, and commits of it are on no branch"
            yield Finding(kind=HISTORY_REWRITTEN, subject=change.name, sentence=f"{sentence} any more{kept}.")
        elif not change.after:
            sentence = f"{change.called} was deleted in the turn of {facts.agent}; its commits are on others."
            yield Finding(kind=BRANCH_DELETED, subject=change.name, sentence=sentence)
