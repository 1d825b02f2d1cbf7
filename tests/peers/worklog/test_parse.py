"""Work logs as people and tools write them: status block, index, sessions, entries of every form."""

from __future__ import annotations

import pytest

from sortie.peers.worklog.parse import Worklog, parse

FULL = """\
# WORKLOG

Shared log of the session.

Now Working (Claude): T-3 — parser
Now Working (Codex): idle — workspace bootstrapped
Maintainer Focus: ship the reader
Next Review Checkpoint: Friday
Maintainer Decision Queue (PRD-004 A1): nothing
Session 18 Planned Scope: reader
Heartbeat (Claude): ok

## Decision Index

| Decision | Owner | Timestamp | Section |
|---|---|---|---|
| Use `a\\|b` | Maintainer | 2026-03-01 | Claude: parser |
| Ship | Codex + Claude | 2026-03-02 | PRD-018 R3, MSG-20260302-001 |

## Session 3 — 2026-03-01

### Claude: parser

2026-03-01 — the reader keeps what it does not know.

| Decision | Rationale | Approver | Timestamp |
|---|---|---|---|
| no | index | at | all |

### 14:32 — fixed the build (Codex)

Words.

## Archived Sessions

| Session | Date | Summary |
|---|---|---|
| 1 | 2026-01-01 | Claude: it began |
"""


def read(text: str) -> Worklog:
    return parse(text.encode())


def headings(text: str) -> list[str]:
    return [entry.heading for entry in read(text).entries]


def test_the_status_block_and_its_extra_lines():
    """LOG-01: the pinned block, with the lines that real files have besides."""
    log = read(FULL)
    assert {agent: line.text for agent, line in log.now_working().items()} == {
        "Claude": "T-3 — parser",
        "Codex": "idle — workspace bootstrapped",
    }
    assert [line.is_idle for line in log.now_working().values()] == [False, True]
    assert log.pinned() == {
        "Maintainer Focus": "ship the reader",
        "Next Review Checkpoint": "Friday",
        "Maintainer Decision Queue (PRD-004 A1)": "nothing",
        "Session 18 Planned Scope": "reader",
        "Heartbeat (Claude)": "ok",
    }


def test_the_index_and_no_other_table():
    """LOG-01: rows by the four columns, with bars in cells."""
    log = read(FULL)
    assert [(row.decision, row.owner, row.timestamp, row.section) for row in log.index] == [
        ("Use `a|b`", "Maintainer", "2026-03-01", "Claude: parser"),
        ("Ship", "Codex + Claude", "2026-03-02", "PRD-018 R3, MSG-20260302-001"),
    ]
    assert log.remarks == ()


def test_every_part_has_its_range():
    """LOG-01: the order of the parts, by kind."""
    log = read(FULL)
    assert [part.kind for part in log.parts] == [
        *("preamble", "status", "index", "session", "entry", "entry", "archive")
    ]
    assert log.data[log.body_start :].startswith(b"## Session 3")


def test_a_row_with_another_number_of_cells_is_kept_and_remarked_upon():
    log = read(
        "## Decision Index\n\n| Decision | Owner | Timestamp | Section |\n|---|---|---|---|\n"
        "| a | b |\n| x | y | z | 1 | 2 |\n"
    )
    assert [(row.decision, row.owner, row.section, row.is_whole) for row in log.index] == [
        ("a", "b", "", False),
        ("x | y", "z", "2", False),
    ]
    assert [(remark.line, "cells instead of 4" in remark.sentence) for remark in log.remarks] == [
        (5, True),
        (6, True),
    ]


def test_a_table_with_other_columns_is_no_index():
    log = read("## Decision Index\n\n| Decision | Approver |\n|---|---|\n| a | b |\n")
    assert log.index == ()
    assert "no decision index" in log.remarks[0].sentence


def test_a_second_table_below_the_index_is_no_part_of_it():
    log = read(
        "## 2. Decision index (append-only)\nDecision | Owner | Timestamp | Section\n---|---|---|---\n"
        "a | b | c | d\n\n"
        "| Decision | Rationale | Approver | Timestamp |\n|---|---|---|---|\n| no | no | no | no |\n"
    )
    assert [row.decision for row in log.index] == ["a"]


def test_scattered_status_lines_of_which_the_latest_counts():
    """LOG-01: the oldest files have no block; a pinned line counts before any of them."""
    body = (
        "## Session 1\n\n### Claude: x\n\nNow Working (Claude): a — 2026-01-01T10:00:00Z\n\n"
        "### Codex: y\nNow Working (claude): b\n"
    )
    assert read(body).now_working()["claude"].text == "b"
    assert read("Now Working (Claude): pinned\n\n" + body).now_working()["Claude"].text == "pinned"


def test_two_pinned_lines_of_one_agent():
    log = read("Now Working (A): one\nNow Working (a): two\n")
    assert log.now_working()["a"].text == "two"
    assert "more than one line" in log.remarks[0].sentence


@pytest.mark.parametrize(
    ("line", "actor", "timestamp", "title"),
    [
        ("### 2026-11-18T02:00:00Z — Alice: the title", "Alice", "2026-11-18T02:00:00Z", "the title"),
        (
            "### 2026-11-18T02:00:00Z — claude code 2: the title",
            "claude code 2",
            "2026-11-18T02:00:00Z",
            "the title",
        ),
        ("### Alice: the title", "Alice", "2026-03-01", "the title"),
        ("### Claude (Opus 4.7): the title", "Claude", "2026-03-01", "the title"),
        ("### 14:32 — the title (Alice)", "Alice", "2026-03-01T14:32", "the title"),
        ("### 9:05 — Alice: the title", "Alice", "2026-03-01T09:05", "the title"),
        ("### 14:32 — Alice the title", "Alice", "2026-03-01T14:32", "the title"),
        ("### 2026-02-03 14:32 UTC — Alice: the title", "Alice", "2026-02-03T14:32Z", "the title"),
        ("### [2026-02-03 14:32] Alice: the title", "Alice", "2026-02-03T14:32", "the title"),
        ("### 2026-02-03 - Alice - the title", "Alice", "2026-02-03", "the title"),
        ("### 2026-02-31 — Alice: the title", "Alice", "", "the title"),
        ("## 2026-02-03 14:32 — Alice: the title", "Alice", "2026-02-03T14:32", "the title"),
        ("### the title", "", "2026-03-01", "the title"),
        ("### Summary: the title", "", "2026-03-01", "Summary: the title"),
        ("14:32 — Alice: the title", "Alice", "2026-03-01T14:32", "the title"),
        ("- 14:32 — Alice: the title", "Alice", "2026-03-01T14:32", "the title"),
        ("Alice (Opus 4.7): the title", "Alice", "2026-03-01", "the title"),
        ("Alice: the title", "Alice", "2026-03-01", "the title"),
    ],
)
def test_who_when_and_what_by_the_first_line(line, actor, timestamp, title):
    """LOG-02, LOG-03: every heading form; a time of day has the day of its session."""
    log = read(f"Now Working (Alice): idle\n\n## Session 3 — 2026-03-01\n\n{line}\n")
    [entry] = log.entries
    assert (entry.actor, entry.timestamp, entry.title) == (actor, timestamp, title)
    assert entry.session.label == "Session 3"


def test_no_time_is_invented():
    """LOG-03: a time of day without a day is no timestamp."""
    assert [one.timestamp for one in read("### 14:32 — Alice: x\n\n### Alice: y\n").entries] == ["", ""]


def test_actor_and_time_of_a_heading_that_has_none_come_from_the_block_or_the_text():
    block = "```\nHandoff: x\nOwner: Claude (awaiting review) / Codex\nStatus: done\n```\n"
    text = f"### Work\n\n2026-03-01 — done.\n\n{block}"
    [entry] = read(text).entries
    assert (entry.actor, entry.timestamp) == ("Claude", "2026-03-01")


def test_paragraphs_of_a_log_without_headings():
    text = (
        "Claude (Opus 4.7): SESSION 1 OPEN at rev 1 (SIG-001). Words.\nMore of it.\n\nStill the same.\n\n"
        "Codex: acknowledged.\n\nClaude (Opus 4.7): SESSION 1 CLOSED.\n"
    )
    log = read(text)
    assert [entry.actor for entry in log.entries] == ["Claude", "Codex", "Claude"]
    assert log.entries[0].text.endswith("Still the same.")


def test_a_document_about_the_log_is_no_entry():
    """LOG-01: title, introduction, rules, comments."""
    text = (
        "# WORKLOG\n\nProject: x\nAgents: Claude, Codex\n\nIt is append-only.\n\n## Rules\n\nWrite little.\n\n"
        "<!--\n### Claude: an example\n\n14:32 — Claude: x\n-->\n\n## Session 1\n"
    )
    assert headings(text) == []


def test_prose_in_a_session_is_an_entry():
    assert headings("## Session 1\n\nWe began with a plan.\n\nAnd went on.\n\n---\n") == ["We began with a plan."]


def test_a_handoff_in_a_session_without_a_heading():
    log = read("## Session 1\n\n```text\nHandoff: x\nOwner: Alice\n```\n\nHandoff: y\nOwner: Bob\n")
    assert [(entry.heading, entry.actor) for entry in log.entries] == [
        ("Handoff: x", "Alice"),
        ("Handoff: y", "Bob"),
    ]


def test_what_stands_in_fences_and_comments_is_no_entry():
    text = (
        "### A: x\n\n~~~md\n### B: in a fence\n~~~\n\n````\n```\n### C: x\n```\n````\n\n"
        "<!-- ### D: x\n### E: y -->\n\n### F: z\n"
    )
    assert headings(text) == ["A: x", "F: z"]


def test_what_looks_like_a_fence_in_a_line_is_none():
    assert headings("### A: x\n\n```code``` in a line\n\n### B: y\n") == ["A: x", "B: y"]


def test_an_open_fence_lasts_until_a_strict_heading_and_is_remarked_upon():
    """LOG-01: nothing that is open can swallow what our tools append."""
    for opening in ("```", "~~~~", "<!--"):
        log = read(f"### A: x\n\n{opening}\n### B: swallowed\n\n### 2026-11-18T02:00:00Z — C: y\n\n### D: z\n")
        assert [entry.actor for entry in log.entries] == ["A", "C", "D"]
        assert [(remark.line, "not closed" in remark.sentence) for remark in log.remarks] == [(3, True)]


def test_subheadings_and_pasted_scripts_do_not_end_an_entry():
    [entry] = read("### A: x\n\n#### Reasoning\n\n# install\npip install x\n").entries
    assert entry.text.endswith("pip install x")


def test_rules_and_blank_lines_between_entries_are_no_text_of_theirs():
    """LOG-03: what follows an entry changes neither its id nor its digest."""
    one = read("### A: x\n\ntext\n").entries[0]
    other = read("### A: x\n\ntext\n\n---\n\n### B: y\n").entries[0]
    assert (one.entry_id, one.digest, one.text) == (other.entry_id, other.digest, other.text)


def test_line_ends_and_byte_order_mark_make_no_difference():
    """LOG-03: an editor that changes them changes no id."""
    plain = read(FULL)
    for changed in ("\ufeff" + FULL, FULL.replace("\n", "\r\n"), FULL.rstrip("\n")):
        log = read(changed)
        assert [(one.entry_id, one.digest) for one in log.entries] == [
            (one.entry_id, one.digest) for one in plain.entries
        ]
        assert [row.row_id for row in log.index] == [row.row_id for row in plain.index]
        assert log.now_working().keys() == plain.now_working().keys()


def test_equal_first_lines_have_ids_by_their_order():
    """LOG-03: an id comes from the first line and its ordinal, never from what follows."""
    once = read("### A: x\n\none\n").entries
    twice = read("### A: x\n\nother\n\n### A: x\n\ntwo\n").entries
    assert twice[0].entry_id == once[0].entry_id != twice[1].entry_id
    assert twice[0].digest != once[0].digest


def test_bytes_that_are_no_text():
    log = parse(b"### A: x\n\n\x00\xff\xfe\n\n### B: y\n")
    assert [entry.actor for entry in log.entries] == ["A", "B"]
    assert [remark.line for remark in log.remarks] == [3, 3]


def test_a_line_of_ten_megabytes_is_one_line():
    for start in (
        b"### A: ",
        b"14:32 \xe2\x80\x94 A: ",
        b"A: ",
        b"| ",
        b"```",
        b"<!--",
        b"Now Working (A): ",
        b"- **Decision:** ",
    ):
        data = start + b"x [" * 3_500_000
        log = parse(b"## Decision Index\n\n" + data + b"\n\n### 2026-11-18T02:00:00Z \xe2\x80\x94 B: y\n")
        assert log.entries[-1].actor == "B"


def test_remarks_are_bounded():
    log = parse(b"## Decision Index\n|Decision|Owner|Timestamp|Section|\n" + b"| x |\n" * 10_000)
    assert len(log.index) == 10_000
    assert len(log.remarks) < 1000
