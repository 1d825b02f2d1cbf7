"""What a turn did against the rules, from facts: files, charter, settings, archives, refs. No git is needed."""

from sortie.peers.charter.charter import parse_charter
from sortie.peers.turns.changes import ChangedFile, Changes
from sortie.peers.turns.documents import DOCUMENTS, Document, Documents, Rules
from sortie.peers.turns.ref_changes import RefChange
from sortie.peers.turns.review import Facts, review

from .repository import CHARTER, LOG

PATHS: dict[Document, str] = {
    "worklog": "WORKLOG.md",
    "mailbox": "MAILBOX.md",
    "charter": "CHARTER.md",
    "settings": "peers.yaml",
    "worklog_archive": "WORKLOG_ARCHIVE.md",
    "mailbox_archive": "MAILBOX_ARCHIVE.md",
}


def facts(*files, before=None, after=None, charter=CHARTER, agent="Alice", refs=(), **others):
    read = parse_charter(charter.encode())
    first = {name: content.encode() for name, content in (before or {}).items()}
    last = {**first, **{name: content.encode() for name, content in (after or {}).items() if content is not None}}
    for name, content in (after or {}).items():
        if content is None:
            del last[name]
    return Facts(
        agent=agent,
        rules=Rules(charter=read, roster=read.roster),
        before=Documents(content=first),
        after=Documents(content=last, instead={name: "nothing" for name in DOCUMENTS if name not in last}),
        changes=Changes(files=tuple(map(file, files)), refs=refs),
        paths=PATHS,
        **others,
    )


def file(path, how="modified"):
    return path if isinstance(path, ChangedFile) else ChangedFile(path=path, how=how)


def kinds(judged):
    return [(finding.kind, finding.subject, finding.owner) for finding in judged.findings]


def test_files_of_the_own_lane_and_of_everybodys_are_fine():
    judged = review(facts("alice/a.py", "alice/deep/new.py", "docs/guide.md", "WORKLOG.md", "MAILBOX.md"))
    assert judged.findings == []
    assert judged.to_revert == ()


def test_a_file_of_another_lane_is_named_with_its_owner():
    """LOG-05: an agent works in its own lane."""
    judged = review(facts("bob/b.py", "alice/a.py"))
    assert kinds(judged) == [("lane of another", "bob/b.py", "Bob")]
    assert (
        judged.findings[0].sentence == "`bob/b.py`, which is in the lane of Bob, was modified in the turn of Alice."
    )
    assert judged.violations == judged.findings
    assert judged.to_revert == ("bob/b.py",)


def test_names_of_agents_are_one_in_upper_and_lower_case():
    assert review(facts("alice/a.py", agent="ALICE")).findings == []


def test_a_file_in_no_lane_is_only_told():
    judged = review(facts("README.md"))
    assert kinds(judged) == [("no lane", "README.md", "")]
    assert judged.violations == []
    assert judged.to_revert == ()


def test_a_file_in_no_lane_may_be_anybodys_by_the_charter():
    open_charter = CHARTER.replace(
        "## Acceptance", "## Governance settings\n\nUnowned files: anyone\n\n## Acceptance"
    )
    assert review(facts("README.md", charter=open_charter)).findings == []


def test_without_lanes_no_file_is_anybodys():
    assert review(facts("bob/b.py", "README.md", charter="# Charter\n")).findings == []


def test_a_contract_is_its_owners_where_no_lane_has_it():
    contracts = (
        "## Shared contracts\n\n| Contract | Location | Owner |\n|---|---|---|\n| api | `api.json` | Bob |\n"
    )
    judged = review(facts("api.json", charter=CHARTER + "\n" + contracts))
    assert kinds(judged) == [("lane of another", "api.json", "Bob")]


def test_very_many_files_are_counted_and_all_of_them_taken_back():
    judged = review(facts(*(f"bob/{number}" for number in range(5000))))
    assert len(judged.findings) == 101
    assert judged.findings[-1].sentence == "4,900 more files in the lane of Bob were changed in the turn of Alice."
    assert len(judged.to_revert) == 5000


def test_what_is_not_kept_is_said():
    judged = review(facts(ChangedFile(path="bob/huge", how="added", unkept="it is larger than 100 MiB")))
    assert judged.findings[0].sentence.endswith("its content is not kept, because it is larger than 100 MiB.")


def test_names_of_files_cannot_write_on_the_screen():
    judged = review(facts("bob/\x1b[31m\nred"))
    assert judged.findings[0].sentence.isprintable()


def test_a_charter_changed_in_a_turn_is_found_and_gives_no_lane():
    """LOG-08: the lanes are those of the charter from before the turn, whatever the agent made of it."""
    greedy = CHARTER.replace("| Bob | `bob/` |", "| Alice | `bob/` |")
    judged = review(facts("bob/b.py", "CHARTER.md", before={"charter": CHARTER}, after={"charter": greedy}))
    assert kinds(judged) == [("charter changed", "CHARTER.md", ""), ("lane of another", "bob/b.py", "Bob")]
    assert judged.to_revert == ("CHARTER.md", "bob/b.py")


def test_a_charter_that_the_maintainer_has_adopted_meanwhile_is_fine():
    """LOG-08: amended by a recorded decision of the maintainer, and by nothing else."""
    changed = {"before": {"charter": CHARTER}, "after": {"charter": CHARTER + "\nmore\n"}}
    assert review(facts("CHARTER.md", adopted=True, **changed)).findings == []


def test_line_ends_of_the_charter_are_no_change():
    crlf = CHARTER.replace("\n", "\r\n")
    assert review(facts("CHARTER.md", before={"charter": CHARTER}, after={"charter": crlf})).findings == []


def test_a_charter_is_nobodys_lane():
    mine = CHARTER.replace("`alice/`", "`alice/`, `CHARTER.md`, `peers.yaml`")
    changed = {"before": {"charter": mine, "settings": "a: 1"}, "after": {"charter": "x", "settings": "b: 1"}}
    judged = review(facts("CHARTER.md", "peers.yaml", charter=mine, **changed))
    assert kinds(judged) == [("charter changed", "CHARTER.md", "")]


def test_settings_changed_in_a_turn():
    changed = {"before": {"settings": "violations: revert\n"}, "after": {"settings": "violations: report\n"}}
    judged = review(facts("peers.yaml", **changed))
    assert kinds(judged) == [("settings changed", "peers.yaml", "")]
    assert judged.to_revert == ("peers.yaml",)
    created = review(facts("peers.yaml", after={"settings": "violations: report\n"}))
    assert kinds(created) == [("settings changed", "peers.yaml", "")]


def test_documents_that_are_gone_or_something_else():
    """LOG-04: a work log that is removed or replaced is named."""
    judged = review(facts("WORKLOG.md", before={"worklog": LOG, "mailbox": "x"}, after={"worklog": None}))
    assert kinds(judged) == [("document gone", "WORKLOG.md", "")]
    assert judged.to_revert == ("WORKLOG.md",)


def test_an_archive_is_only_added_to():
    """LOG-04: also in the archive nothing goes."""
    more = {"before": {"worklog_archive": "old\n"}, "after": {"worklog_archive": "old\nmore\n"}}
    assert review(facts("WORKLOG_ARCHIVE.md", **more)).findings == []
    less = {"before": {"worklog_archive": "old\n"}, "after": {"worklog_archive": "more\n"}}
    assert kinds(review(facts("WORKLOG_ARCHIVE.md", **less))) == [("archive changed", "WORKLOG_ARCHIVE.md", "")]


def test_branches_tags_and_our_own_refs():
    refs = (
        RefChange(name="refs/heads/gone", before="1", after=""),
        RefChange(name="refs/heads/main", before="1", after="2", lost=True, kept="refs/sortie/lost/1/heads/main"),
        RefChange(name="refs/heads/new", before="", after="2"),
        RefChange(name="refs/heads/on", before="1", after="2"),
        RefChange(name="refs/sortie/reverted/1", before="1", after="", kept="refs/sortie/reverted/1"),
    )
    judged = review(facts(refs=refs))
    assert [finding.kind for finding in judged.findings] == [
        "branch deleted",
        "history rewritten",
        "snapshot deleted",
    ]
    assert "kept as refs/sortie/lost/1/heads/main" in judged.findings[1].sentence
    assert [finding.kind for finding in judged.violations] == ["history rewritten", "snapshot deleted"]
