"""What happened to a work log between two versions that is no append: named with entry, line, owner and kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sortie.peers.finding import Finding
from sortie.peers.journal import Record
from sortie.peers.worklog.compose import compose
from sortie.peers.worklog.parse import parse
from sortie.peers.worklog.verify import MILD, compare

from .logs import AT, logs, names, recordables, serious

LOG = """\
# WORKLOG

Now Working (Alice): parser
Now Working (Bob): idle
Maintainer Focus: release
Next Review Checkpoint: Friday
Heartbeat (Bob): 10:00

## Decision Index

| Decision | Owner | Timestamp | Section |
|---|---|---|---|
| Use TOML | Maintainer | 2026-11-17T10:00:00Z | Decision: Use TOML |
| Tabs | Alice + Bob | 2026-11-17T10:30:00Z | Decision: Tabs |

## Session 1 — 2026-11-17

### 2026-11-17T09:00:00Z — Alice: Claimed: parser

start

### 2026-11-17T10:00:00Z — Bob: Completed: lexer

```text
Handoff: lexer
Owner: Bob
Status: Ready for review
Changed files:
  - lex.py
Tests run: 47 pass
Risks/assumptions: none
Blocking items: none
Next owner: none
```

### 2026-11-17T11:00:00Z — Alice: findings

The lexer is slow.
"""
BOB = "### 2026-11-17T10:00:00Z — Bob: Completed: lexer"
NEW_OF_ALICE = "\n### 2026-11-17T12:00:00Z — Alice: more\n\ntext\n"
DECISION = """
### 2026-11-17T12:00:00Z — {who}: Decision: rewrite

- **Decision:** rewrite
- **Decision mode:** {mode}
"""


def bob_entry() -> str:
    start = LOG.index(BOB)
    return LOG[start : LOG.index("### 2026-11-17T11", start)]


def found(new: str, **by: Any) -> list[tuple[str, str, int]]:
    """Kind, owner and line of every finding."""
    return [(one.kind, one.owner, one.line) for one in compare(LOG.encode(), new.encode(), **by)]


def entry_ids(data: bytes) -> list[str]:
    return [entry.entry_id for entry in parse(data).entries]


def test_what_the_document_allows_is_no_finding():
    """LOG-04, LOG-05: appends, rows of the index, the own status line."""
    assert found(LOG) == []
    assert found(LOG + NEW_OF_ALICE, by="Alice") == []
    assert found(LOG.replace("Alice): parser", "Alice): lexer"), by="alice") == []
    row = "| Spaces | Alice | 2026-11-18 | x |\n"
    assert found(LOG.replace("| Tabs", row + "| Tabs"), by="Alice") == []
    assert found(LOG.replace("\n\n## Session", f"\n{row}\n## Session"), by="Alice") == []


def test_an_edit_is_named_with_its_entry_line_owner_and_words():
    """LOG-04: an edit of an earlier entry is detected and named."""
    (one,) = compare(LOG.encode(), LOG.replace("47 pass", "48 pass").encode())
    assert one == Finding(
        kind="edited",
        subject=entry_ids(LOG.encode())[1],
        line=LOG[: LOG.index(BOB)].count("\n") + 1,
        sentence='The entry "Completed: lexer" of Bob was edited: '
        '"Tests run: 47 pass" became "Tests run: 48 pass".',
        owner="Bob",
    )


def test_of_long_lines_the_place_is_shown_where_they_differ():
    """LOG-04: in entries, rows of the index and status lines."""
    long = "a very long line of words " * 10
    for old, new in (
        (LOG.replace("start", f"{long}one"), LOG.replace("start", f"{long}two three")),
        (
            LOG.replace("Tabs", f"{long}one"),
            LOG.replace("Tabs", f"{long}two three", 1).replace("Tabs", f"{long}one"),
        ),
        (LOG.replace("): parser", f"): {long}one"), LOG.replace("): parser", f"): {long}two three")),
        (LOG.replace("start", f"{long}one{long}"), LOG.replace("start", f"{long}two three{long}")),
    ):
        (one,) = compare(old.encode(), new.encode())
        was, became = one.sentence.rpartition(": ")[2].split(" became ")
        assert "words one" in was
        assert "words two three" in became
        assert was.startswith('"…') and became.startswith('"…')
        assert len(one.sentence) < 400


@pytest.mark.parametrize("by", ["", "Alice", "Bob", "Maintainer"])
@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (LOG.replace("47 pass", "48 pass"), ("edited", "Bob", 22)),
        (LOG.replace("Bob: Completed: lexer", "Bob: Completed: lexers"), ("edited", "Bob", 22)),
        (LOG.replace("  - lex.py\n", ""), ("edited", "Bob", 22)),
        (LOG.replace("Alice: findings", "Alice: my findings"), ("edited", "Alice", 36)),
        (LOG.replace("start", "start\n\nagain"), ("edited", "Alice", 18)),
        (LOG.replace(bob_entry(), ""), ("removed", "Bob", 22)),
        (LOG.replace(bob_entry(), "") + "\n" + bob_entry(), ("reordered", "Bob", 26)),
        (LOG.replace("| Use TOML | Maint", "| Use YAML | Maint"), ("index row edited", "Maintainer", 13)),
        (LOG.replace("| Tabs | Alice + Bob | 2026-11-17T10:30:00Z | Decision: Tabs |\n", ""),
         ("index row removed", "Alice + Bob", 14)),
    ],
)  # fmt: skip
def test_nobody_edits_or_removes_what_was_there(new, expected, by):
    """LOG-04: whoever did it, the author of the entry included."""
    assert found(new, by=by) == [expected]


def test_an_entry_between_earlier_ones_is_told():
    """LOG-04: new entries go to the end."""
    new = LOG.replace(BOB, NEW_OF_ALICE.strip() + "\n\n" + BOB)
    assert found(new, by="Alice") == [("inserted", "Alice", 22)]


def test_each_agent_changes_its_own_status_line_only():
    """LOG-05: the lines of others, and those of the maintainer."""
    new = LOG.replace("Bob): idle", "Bob): lexer").replace("Focus: release", "Focus: tests")
    assert found(new, by="Alice") == [
        ("status line of another", "Bob", 4),
        ("maintainer's line", "Maintainer", 5),
    ]
    assert found(new, by="Bob") == [("maintainer's line", "Maintainer", 5)]
    assert found(new, by="Mira", maintainer="Mira") == []
    assert found(LOG.replace("Now Working (Bob): idle\n", ""), by="Alice") == [("status line of another", "Bob", 4)]
    added = LOG.replace("Maintainer Focus", "Now Working (Carol): x\nMaintainer Focus")
    assert found(added, by="Alice") == [("status line of another", "Carol", 5)]
    assert found(LOG.replace("10:00\n", "11:00\n", 1), by="Alice") == []  # a line of nobody's


def test_without_a_name_changed_status_lines_are_told_and_no_fault():
    new = LOG.replace("Bob): idle", "Bob): lexer").encode()
    (one,) = compare(LOG.encode(), new)
    assert (one.kind, one.owner, one.line) == ("status line changed", "Bob", 4)
    assert serious([one]) == []


def test_who_signs_with_another_name_is_told():
    """LOG-05: authority is who wrote, not what the text says."""
    new = LOG + NEW_OF_ALICE
    assert found(new, by="Bob") == [("impersonated", "Alice", 40)]
    assert found(new.replace("Alice: more", "Findings: more"), by="Bob") == []  # a word, and nobody's name
    as_maintainer = LOG + NEW_OF_ALICE.replace("Alice", "Maintainer")
    assert found(as_maintainer, by="Bob") == [("impersonated", "Maintainer", 40)]


def test_only_the_maintainer_decides_for_the_maintainer():
    """LOG-05: a maintainer decision in the words of an agent, in an entry or in the index."""
    kind = "false maintainer decision"
    adjudicated = LOG + DECISION.format(who="Alice", mode="maintainer adjudication")
    assert found(adjudicated, by="Alice") == [(kind, "Alice", 40)]
    assert found(LOG + DECISION.format(who="Alice", mode="consensus"), by="Alice") == []
    signed = LOG + DECISION.format(who="Maintainer", mode="consensus")
    assert found(signed, by="Alice") == [(kind, "Maintainer", 40)]  # which says also who wrote it
    row = LOG.replace("| Tabs", "| All mine | Maintainer | 2026-11-18 | x |\n| Tabs")
    assert found(row, by="Alice") == [(kind, "Maintainer", 14)]
    assert found(row, by="Maintainer") == []
    assert found(signed, by="Mira", maintainer="Mira") == []


def test_what_others_wrote_meanwhile_is_not_laid_to_an_agent():
    """LOG-05: the maintainer decides while Alice works; the journal knows."""
    decided = DECISION.format(who="Maintainer", mode="maintainer adjudication")
    row = "| rewrite | Maintainer | 2026-11-17T12:00:00Z | Decision: rewrite |\n"
    new = LOG.replace("| Tabs", row + "| Tabs").replace("Focus: release", "Focus: tests") + decided
    by_maintainer: dict[str, Any] = {"at": AT, "author": "Maintainer", "role": "maintainer"}
    records = [
        Record(text=decided.lstrip(), **by_maintainer),
        Record(subject="Maintainer Focus: tests", **by_maintainer),
    ]
    assert len(found(new, by="Alice")) == 3
    assert found(new, by="Alice", records=records) == []


def test_text_without_a_heading_of_its_own_speaks_in_the_name_of_another():
    """LOG-05: it reads as said by the author of the last entry."""
    new = LOG + "\nI agree with all of that.\n"
    assert found(new, by="Bob") == [("extended", "Alice", 36)]
    assert found(new, by="Alice") == found(new) == [("continued", "Alice", 36)]
    assert serious(compare(LOG.encode(), new.encode())) == []


def test_line_ends_are_one_mild_finding_and_no_edit():
    """LOG-04: an editor that changes line ends or blanks at them has edited nothing."""
    crlf = LOG.replace("\n", "\r\n")
    blanks = LOG.replace("pass\n", "pass  \n").replace("findings\n", "findings\t\n")
    for new, many in ((crlf, 3), (blanks, 2)):
        (one,) = compare(LOG.encode(), new.encode())
        assert one.kind == "line ends"
        assert one.sentence.startswith(f"{many} entries")
        assert serious([one]) == []
    (edit,) = serious(compare(LOG.encode(), crlf.replace("47", "48").encode()))
    assert edit.kind == "edited"


def test_entries_that_moved_to_the_archive_word_for_word_are_legal():
    """LOG-04: compaction is no removal; a word that got lost on the way is."""
    new = LOG.replace(bob_entry(), "").encode()
    archive = f"# Archive\n\n{bob_entry()}".encode()
    (one,) = compare(LOG.encode(), new, archive=archive.replace(b"\n", b"\r\n"))
    assert (one.kind, one.owner) == ("archived", "Bob")
    assert serious([one]) == []
    (other,) = compare(LOG.encode(), new, archive=archive.replace(b"47", b"48"))
    assert other.kind == "removed"


def test_words_outside_of_entries_are_told_as_mild():
    (one,) = compare(LOG.encode(), LOG.replace("# WORKLOG", "# Log").encode())
    assert (one.kind, one.line) == ("other text", 1)
    assert "# WORKLOG" in one.sentence
    assert one.kind in MILD


def test_of_equal_entries_the_missing_one_is_counted():
    note = "\n### 2026-11-17T12:00:00Z — Alice: same\n"
    (one,) = compare((LOG + note + note).encode(), (LOG + note).encode())
    assert (one.kind, one.subject) == ("removed", entry_ids((LOG + note + note).encode())[-1])


def test_a_file_that_was_emptied_names_everything_in_it():
    kinds = [one.kind for one in compare(LOG.encode(), b"")]
    assert kinds.count("removed") == 3
    assert kinds.count("index row removed") == 2


@pytest.mark.timeout(30)
def test_tens_of_thousands_of_rows_and_entries_are_compared_in_little_time():
    head = LOG.partition("| Use TOML")[0].encode()
    rows = [b"| d%d | Alice | 2026-11-17 | s%d |\n" % (n, n % 7) for n in range(15_000)]
    other = [row.replace(b"Alice", b"Bob") for row in rows]
    entries = [b"\n### Alice: same title\n\nx%d\n" % (n % 50) for n in range(15_000)]
    kinds = [one.kind for one in compare(head + b"".join(rows + entries), head + b"".join(other + entries[::-1]))]
    assert kinds.count("index row edited") == len(rows)
    assert "reordered" in kinds


# -- any log at all -----------------------------------------------------------------------------------------------

written = st.lists(st.tuples(recordables, names), min_size=1, max_size=6)


def texts_of(recorded: list[Any]) -> list[str]:
    """Each a minute after the one before, so that no two have the same first line."""
    return [compose(what, actor=name, at=AT + 60 * n) for n, (what, name) in enumerate(recorded)]


@given(logs, logs)
@settings(max_examples=200)
def test_any_two_files_are_compared_without_an_error(old, new):
    """LOG-04: nothing that anybody writes stops the check."""
    assert compare(old, old) == []
    for by in ("", "Alice"):
        assert all(one.sentence.endswith(".") and one.line >= 0 for one in compare(old, new, by=by))


@given(logs.map(lambda log: log + b"\n"), written)
@example(b"```\n", [])
def test_what_is_appended_is_never_taken_for_an_edit(old, recorded):
    """LOG-04: whatever the log was, and whatever is appended by us."""
    new = old + "".join(f"\n{text}" for text in texts_of(recorded)).encode()
    assert serious(compare(old, new)) == []


@given(written, st.data())
def test_every_edit_and_removal_of_any_entry_is_named(recorded, data):
    """LOG-04: each by the id that its entry had, and nothing else is."""
    texts = texts_of(recorded)
    old = "\n".join(texts).encode()
    number = data.draw(st.integers(0, len(texts) - 1))
    name = entry_ids(old)[number]
    edited = [*texts[:number], texts[number].replace("\n", " (edited)\n", 1), *texts[number + 1 :]]
    removed = [*texts[:number], *texts[number + 1 :]]
    assert [(one.kind, one.subject) for one in serious(compare(old, "\n".join(removed).encode()))] == [
        ("removed", name)
    ]
    (one,) = serious(compare(old, "\n".join(edited).encode()))
    assert one.subject == name
    # The last one, if it is only a heading, has nothing else to be known by.
    assert one.kind == "edited" or (number == len(texts) - 1 and one.kind == "removed")
