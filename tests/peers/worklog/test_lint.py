"""The rules of the document for a work log: each breach with its line, its rule and the fix."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from sortie.peers.journal import Record
from sortie.peers.roster import Roster
from sortie.peers.worklog.compose import compose
from sortie.peers.worklog.lint import MILD, lint
from sortie.peers.worklog.parse import parse

from .logs import AT, logs

ROSTER = Roster(agents=("Alice", "Bob"))
NOW = 1_795_000_000.0  # 2026-11-18
HEAD = """\
# WORKLOG

Now Working (Alice): idle
Now Working (Bob): idle
Maintainer Focus: none
Next Review Checkpoint: none

## Decision Index

| Decision | Owner | Timestamp | Section |
|---|---|---|---|
| Use TOML | Maintainer | 2026-11-17T10:00:00Z | Decision: Use TOML |

## Session 1 — 2026-11-17

### 2026-11-17T10:00:00Z — Maintainer: Decision: Use TOML

- **Decision:** Use TOML
- **Decision mode:** maintainer adjudication
"""
BEFORE = HEAD.count("\n")
BLOCK = """\
```text
Handoff: lexer
Owner: Bob
Status: Ready for review
Changed files: lex.py
Tests run: 47 pass
Risks/assumptions: none
Blocking items: none
Next owner: Alice
```
"""


def entry(title: str, body: str = "", *, who: str = "Bob", at: str = "2026-11-17T11:00:00Z") -> str:
    return f"\n### {at} — {who}: {title}\n\n{body}\n"


def rules(text: str, roster: Roster = ROSTER, **more: object) -> list[tuple[str, int]]:
    """Rule and line; lines of what was appended to the head are counted from 1."""
    found = lint(parse(text.encode()), roster=roster, now=NOW, **more)  # type: ignore[arg-type]
    assert all(one.sentence.endswith(".") for one in found)
    return [(one.kind, one.line - BEFORE if one.line > BEFORE else one.line) for one in found]


def test_a_log_by_the_rules_has_no_finding():
    quick = "\n14:32 — Alice: wired (47 pass). Next: Bob review.\n"
    talk_less = entry("Completed: lexer", BLOCK) + entry("findings", "The lexer is slow.", who="Alice")
    assert rules(HEAD + talk_less + "\n## Session 2 — 2026-11-17\n" + quick) == []
    assert rules(HEAD + entry("x"), Roster()) == []


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (HEAD.replace("Now Working (Alice): idle\nNow Working (Bob): idle\n", ""), [("no-status-block", 1)]),
        (HEAD.replace("Now Working (Bob): idle\n", ""), [("no-status-line", 3)]),
        (HEAD.replace("Maintainer F", "Now Working (Carol): x\nMaintainer F"), [("unknown-status-line", 5)]),
        (HEAD.replace("Focus: none", f"Focus: {'x ' * 100}"), [("long-status-line", 5)]),
        (HEAD.replace("Now Working (Bob)", "Now Working (Bob): x\nNow Working (Bob)"), [("not-understood", 5)]),
        (HEAD.partition("### 2026")[0], [("row-without-entry", 12)]),
        (HEAD.replace("Decision: Use TOML |", "PRD-018 R3 |"), []),
        (HEAD.replace("| Use TOML | Maint", "| Use YAML | Maint").replace("Decision: Use TOML |", "PRD-018 R3 |"),
         [("row-without-entry", 12), ("decision-without-row", 16)]),
        (HEAD.replace("| Use TOML | Maintainer | 2026-11-17T10:00:00Z | Decision: Use TOML |\n", ""),
         [("decision-without-row", 15)]),
        (HEAD.replace("## Decision Index", "## Decided"), [("no-decision-index", 1), ("decision-without-row", 16)]),
    ],
)  # fmt: skip
def test_the_head_of_the_log(broken, expected):
    """LOG-01, LOG-13: a status block with a line for each, and an index that has every decision."""
    assert rules(broken) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (entry("x", "Handoff: lexer\nOwner: Bob\nNext owner: Alice"), "handoff-keys"),
        (entry("Handoff: lexer", BLOCK.replace("Alice", "none")), "no-next-owner"),
        (entry("Handoff: lexer", BLOCK.replace("Alice", "Zoe")), "unknown-next-owner"),
        (entry("x", who="Mallory"), "unknown-actor"),
        ("\n### 2026-11-17T11:00:00Z something happened\n", "no-author"),
        (entry("x", at="2026-11-17T09:00:00Z"), "time-backwards"),
        (entry("x", at="2126-11-17T09:00:00Z"), "time-in-future"),
        (entry("x", "```\nnever closed"), "unclosed"),
        (entry("x", "word " * 5_000), "too-long"),
        (entry("x", "line\n" * 200), "too-long"),
        (entry("x", "see data:image/png;base64,iVBORw0KGgo"), "encoded"),
        (entry("x", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJz\n" * 5), "encoded"),
        (entry("x", "0123456789abcdefghijklmnopqrstuvwxyz" * 10), "encoded"),
        (entry("x", "\x1b[2J all gone"), "control-characters"),
        (entry("x", "\u202etxet"), "control-characters"),
        (entry("x", "As you saw yesterday, it fails."), "assumes-read"),
        (entry("x", "You\u2019ve already read that."), "assumes-read"),
        (entry("@Alice what do you think?"), "chat-room"),
        (entry("Alice, please look"), "chat-room"),
        (entry("sounds good"), "chat-room"),
    ],
)  # fmt: skip
def test_an_entry(text, expected):
    """LOG-04, LOG-13: the anti-patterns of the document, and what nobody can read."""
    (found,) = rules(HEAD + text)
    assert found[0] == expected
    assert found[1] == (4 if expected == "unclosed" else 2)


def test_a_conversation_is_one_finding():
    """LOG-13: the work log is no chat room."""
    talk = "".join(
        entry(f"point {n}", "yes", who=("Alice", "Bob")[n % 2], at=f"2026-11-17T11:0{n}:00Z") for n in range(4)
    )
    assert rules(HEAD + talk) == [("chat-room", 2)]
    structured = talk.replace("yes", "- a list\n- of facts")
    assert rules(HEAD + structured) == []
    monologue = talk.replace("Alice", "Bob")
    assert rules(HEAD + monologue) == []


def test_a_quick_handoff_has_a_few_lines():
    quick = "\n14:32 — Alice: wired (47 pass). Next: Bob review.\nmore\nand more\nand more\n"
    assert rules(HEAD + quick) == [("too-long", 2)]


def test_what_is_there_twice_and_whose_proposal_it_is():
    proposal = "- **ID:** PROP-001\n- **Scope:** all\n- **Proposal:** x"
    first = entry("Proposal PROP-001: x", proposal, who="Alice")
    assert rules(HEAD + entry("same", "words") * 2) == [("duplicate-entry", 6)]
    second = entry("Proposal PROP-001: y", proposal)
    assert rules(HEAD + first + second) == [("duplicate-proposal", 8)]
    amended = entry("Amended proposal PROP-001: x", proposal)
    assert rules(HEAD + first + amended) == [("amended-by-another", 8)]
    assert rules(HEAD + first + amended.replace("Bob", "Alice")) == []


def test_a_row_may_name_a_message_a_proposal_or_an_entry_of_the_archive():
    row = "| Tabs | Alice | 2026-11-17 | {} |\n"
    head = HEAD.replace("\n## Session", row + "\n## Session")
    assert rules(head.format("MSG-20261117-001")) == []
    assert rules(head.format("PRD-7 R3") + entry("about PRD-7")) == []
    assert rules(head.format("Alice: tabs")) == [("row-without-entry", 13)]
    assert rules(head.format("Alice: tabs"), archive=b"### Alice: tabs\n") == []


def test_who_is_on_record_as_no_agent_may_have_any_name():
    """LOG-14: the runs of the orchestrator are told in the names of their agents."""
    text = HEAD + entry("Claimed: T-1", who="claude-code")
    (read,) = parse(text.encode()).entries[1:]
    record = Record(at=AT, author="Sortie", role="orchestrator")
    assert rules(text) == [("unknown-actor", 2)]
    assert rules(text, written_by={read.entry_id: record}) == []


def test_a_long_log_gets_advice_and_no_fault():
    many = "".join(entry(f"point {n}", "text", at=f"2026-11-17T{11 + n // 60}:{n % 60:02}:00Z") for n in range(150))
    (one,) = rules(HEAD + many)
    assert one == ("compaction", 14)
    assert one[0] in MILD


@given(logs)
@settings(max_examples=200)
def test_any_file_is_looked_at_without_an_error(data):
    for roster in (ROSTER, Roster()):
        for one in lint(parse(data), roster=roster, now=NOW, archive=data):
            assert one.line >= 1
            assert one.sentence.endswith(".")


def test_what_we_write_ourselves_is_by_the_rules():
    """LOG-02: in every form."""
    from sortie.peers.worklog import compose as forms

    whats: list[forms.AnyRecordable] = [
        forms.Claim(task="parser"),
        forms.Completion(task="parser", changed_files=("a.py",), tests="3 pass"),
        forms.Handoff(task="parser", next_owner="Bob"),
        forms.QuickHandoff(what="wired", next_owner="Bob", next_task="review", tests="4 pass"),
        forms.Proposal(id="PROP-001", title="x", proposal="do x"),
        forms.Amendment(id="PROP-001", title="x", change="do y"),
        forms.Objection(about="x", recommended_by="Bob", recommended="x", counter="z", reasoning=("slow",)),
        forms.Escalation(subject="x", reason="no agreement"),
        forms.Note(title="finding", text="The parser is slow."),
    ]
    text = "".join(f"\n{compose(what, actor='Alice', at=NOW + n)}" for n, what in enumerate(whats))
    assert rules(HEAD + text) == []
