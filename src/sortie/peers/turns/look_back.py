"""Looks back at a turn that is over: what it changed, and what of that is against the rules.

Nothing that an agent did to the checkout keeps us from saying so: where the repository itself is damaged, that is
a finding, and the documents are compared all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...errors import SortieError
from ..charter.charter_file import digest_of
from ..finding import Finding
from ..journal import Record
from ..place import Place
from .changes import Changes, changes_between
from .documents import DOCUMENTS, Document, Documents, is_adopted, path_of, read_documents, written_since
from .ref_changes import keep_lost
from .review import REPOSITORY_DAMAGED, Facts, Review, review
from .snapshot import Snapshot, take_after, tree_path

_WITH_JOURNAL: tuple[Document, ...] = ("worklog", "mailbox", "charter")


class LookedBack(Struct, frozen=True, kw_only=True):
    """`after` is None where nothing could be learned of the files. `remarks` are for people."""

    before: Snapshot
    after: Snapshot | None
    facts: Facts
    review: Review
    remarks: tuple[str, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        return self.review.findings

    @property
    def violations(self) -> list[Finding]:
        return self.review.violations


def look_back(place: Place, agent: str, before: Snapshot, after: Snapshot | None = None) -> LookedBack:
    """Take the snapshot after the turn, unless it is there from before a crash, and judge. Blocks."""
    problem = ""
    changes = Changes()
    try:
        after = after or take_after(place, before, agent)
        changes = changes_between(before, after)
        changes = replace(changes, refs=tuple(keep_lost(after, changes.refs)))
    except SortieError as error:
        problem = str(error)
    documents = after.documents if after else read_documents(place)
    records, remarks = _records(place, before.documents)
    charter = documents.content.get("charter")
    facts = Facts(
        agent=agent,
        rules=before.rules,
        before=before.documents,
        after=documents,
        changes=changes,
        paths={document: tree_path(path_of(place, document), before.checkout.root) for document in DOCUMENTS},
        records=records,
        adopted=charter is not None and is_adopted(place, digest_of(charter)),
    )
    judged = review(facts)
    if problem:
        sentence = f"What changed in the turn of {agent} cannot be told in full. {problem}"
        finding = Finding(kind=REPOSITORY_DAMAGED, subject=str(place.root), sentence=sentence)
        judged = replace(judged, others=(finding, *judged.others))
    return LookedBack(before=before, after=after, facts=facts, review=judged, remarks=(*changes.remarks, *remarks))


def _records(place: Place, before: Documents) -> tuple[dict[Document, Sequence[Record]], list[str]]:
    found: dict[Document, Sequence[Record]] = {}
    remarks = []
    for document in _WITH_JOURNAL:
        try:
            found[document] = written_since(place, document, before)
        except SortieError as error:
            name = path_of(place, document).name
            remarks.append(f"Who else wrote to {name} meanwhile cannot be told: {error.message}")
    return found, remarks
