"""Charters are read in every form that people write, with the line of every mistake; nothing makes that fail."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortie.peers.charter.charter import Charter, parse_charter

WHOLE = """\
# Session Charter — Webshop

- **Session ID:** 2026-11-18-webshop
- **Date**: 2026-11-18
- Project: webshop

## 1) Roster

| Role | Agent | Model/Provider | Lane |
|---|---|---|---|
| Maintainer | Rob | human | |
| Implementer | `alice` | claude-code | API |
| Reviewer | **Bob** (nights) | codex | UI |

## 2. Lane ownership

| Lane | Owner | Files/Scope |
|---|---|---|
| API | Alice | `src/api/**`, `Makefile` |
| UI | bob | src/ui/<br>docs/\\*.md, !docs/api.md |
| Log | shared (append-only), all | [WORKLOG.md](WORKLOG.md), MAILBOX.md |
| Rest | maintainer | CHARTER.md (and nothing else) |

## Shared contracts

| Contract | Location | Owner | Validation command | Status |
|---|---|---|---|---|
| API schema | `schemas/api.json` | alice | `python -m json.tool schemas/api.json \\| tail -1` | Draft |
| Wire | proto/ | shared | none | Not started |

## Governance settings
- Decision mode: consent
- **Unowned files:** anyone

## Acceptance criteria
- [x] the shop opens
- [ ] it sells

## Approval gates
1. A release

## Conflict escalation
- One rebuttal each, then the maintainer.

## Handshakes
| Signed | Role | Handshake status | Notes | Timestamp |
|---|---|---|---|---|
| alice | Implementer | Accepted | | 2026-11-18T02:00:00Z |
"""


def read(text: str) -> Charter:
    return parse_charter(text.encode())


def told(charter: Charter) -> list[tuple[int, str]]:
    return [(remark.line, remark.message) for remark in charter.remarks]


def test_a_charter_is_read_whole():
    """LOG-08 LOG-09: everything that a charter has, and no word that it was not understood."""
    charter = read(WHOLE)
    assert told(charter) == []
    assert charter.session_id == "2026-11-18-webshop"
    assert charter.metadata == {"Session ID": "2026-11-18-webshop", "Date": "2026-11-18", "Project": "webshop"}
    assert (charter.roster.agents, charter.roster.maintainer) == (("alice", "Bob"), "Rob")
    assert [(lane.name, lane.owner, lane.globs, lane.line) for lane in charter.lanes] == [
        ("API", "alice", ("src/api/**", "Makefile"), 19),
        ("UI", "Bob", ("src/ui/", "docs/*.md", "!docs/api.md"), 20),
        ("Log", "shared", ("WORKLOG.md", "MAILBOX.md"), 21),
        ("Rest", "Rob", ("CHARTER.md",), 22),
    ]
    schema, wire = charter.contracts
    assert (schema.name, schema.locations, schema.owner) == ("API schema", ("schemas/api.json",), "alice")
    assert schema.command == "python -m json.tool schemas/api.json | tail -1"
    assert schema.is_begun and not wire.is_begun and wire.command == ""
    assert charter.governance["Decision mode"] == "consent"
    assert charter.unowned == "anyone"
    assert [(each.text, each.done) for each in charter.criteria] == [("the shop opens", True), ("it sells", False)]
    assert charter.gates == ("A release",)
    assert charter.escalation == ("One rebuttal each, then the maintainer.",)
    assert [(each.name, each.role) for each in charter.handshakes] == [("alice", "Accepted")]
    assert [lane.name for lane in charter.lanes_of("ALICE")] == ["API"]


@pytest.mark.parametrize(
    "written",
    [
        WHOLE.replace("\n", "\r\n"),
        "\ufeff" + WHOLE,
        WHOLE.replace("## 1) Roster", "## Agent Roster").replace("## 2. Lane", "### 2.1 Lane"),
        WHOLE.replace("`src/api/**`, `Makefile`", "everything in `src/api/**` and the `Makefile`"),
        WHOLE.replace("\\| tail -1`", "| tail -1`"),
        "---\nsession_id: x\n---\n" + WHOLE,
        WHOLE.replace("| Lane | Owner | Files/Scope |\n|---|---|---|", "Lane | Owner | Files/Scope\n:--|:-:|--:"),
    ],
)
def test_the_same_in_another_form(written):
    """LOG-08"""
    expected, charter = read(WHOLE), read(written)
    assert told(charter) == []
    assert [(lane.owner, lane.globs) for lane in charter.lanes] == [(x.owner, x.globs) for x in expected.lanes]
    assert [x.command for x in charter.contracts] == [x.command for x in expected.contracts]
    assert charter.roster == expected.roster


def test_columns_stand_in_any_order_and_more_are_welcome():
    """LOG-08"""
    charter = read(
        "## Lanes\n| At | Files | Note | Owner | Lane |\n|--|--|--|--|--|\n| May | `a/**` | x | alice | A | b |\n"
    )
    assert [(lane.name, lane.owner, lane.globs) for lane in charter.lanes] == [("A", "alice", ("a/**",))]
    assert charter.remarks == ()


def test_contracts_as_labels():
    """LOG-09: the form of a template that has one contract, and headings for several."""
    one = read(
        "## Shared contract\n- Contract location: `a.json`\n- Contract owner: bob\n- Validation tests: `make t`\n"
        "- Status: Locked\n"
    )
    (contract,) = one.contracts
    assert (contract.locations, contract.owner, contract.command, contract.status) == (
        *(("a.json",), "bob", "make t", "Locked"),
    )
    several = read("## Contracts\n### Wire\nLocation: a\nStatus: Draft\n### Disk\nLocation: b\n").contracts
    assert [(each.name, each.locations) for each in several] == [("Wire", ("a",)), ("Disk", ("b",))]


def test_a_roster_as_a_list():
    roster = read("## Participants\n- Maintainer: Rob\n- alice: writes\n- **Bob** — reviews\n").roster
    assert (roster.agents, roster.maintainer) == (("alice", "Bob"), "Rob")


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("## Lanes\n| Lane | Owner | Files |\n|--|--|--|\n| A | | `x` |\n", 4, "no owner"),
        ("## Lanes\n| Lane | Owner | Files |\n|--|--|--|\n| A | a + b | `x` |\n", 4, "2 owners"),
        ("## Lanes\n| Lane | Owner | Files |\n|--|--|--|\n| A | a | |\n", 4, "no files"),
        ("## Lanes\n| Lane | Owner | Files |\n|--|--|--|\n| A | a | TBD |\n", 4, "no files"),
        ("## Lanes\n| Lane | Owner | Files |\n|--|--|--|\n| A | a | ../up |\n", 4, "leads elsewhere"),
        ("## Lanes\n| Lane | Owner | Files |\n|--|--|--|\n| A | a | all the rest |\n", 4, "is no path"),
        ("## Lanes\nalice owns everything\n", 1, "from a table"),
        ("## Roster\n| Agent |\n|--|\n| Bob |\n| bob |\n", 5, "upper and lower case alone"),
        ("## Roster\n| Agent |\n|--|\n| all |\n", 4, "a meaning of its own"),
        ("## Roster\n| Agent | Role |\n|--|--|\n| A | maintainer |\n| B | Maintainer |\n", 5, "one maintainer"),
        ("## Acceptance criteria\n- {WHAT MUST WORK}\n", 2, "still to be filled in"),
        ("## Contracts\n| Location | Validation |\n|--|--|\n| a | run the tests |\n", 4, "is not run"),
        ("text\n```\nnever ends\n", 2, "never ends"),
        ("text\n\n<!-- never ends\n", 3, "never ends"),
        ("## Roster\n## Budget\n", 2, "has no meaning"),
    ],
)
def test_every_mistake_has_its_line(text, line, word):
    """LOG-08"""
    assert [(at, True) for at, message in told(read(text)) if word in message] == [(line, True)]


def test_code_blocks_and_comments_say_nothing():
    charter = read(f"# X\n````text\n{WHOLE}```\n````\n<!--\n{WHOLE}\n--> <!-- {{NOT A PLACEHOLDER}} -->\n")
    assert (charter.lanes, charter.contracts, charter.remarks) == ((), (), ())


def test_bytes_that_are_no_text():
    charter = parse_charter(b"## Roster\n\xff\xfe\0\n| Agent |\n|--|\n| bob |\n")
    assert charter.roster.agents == ("bob",)
    assert told(charter)[0] == (2, "this is not UTF-8 text; save the file as UTF-8")


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "piece",
    [
        b"| a | b | c |\n|--|--|--|\n",
        b"## Lanes\n| Lane | Owner | Files |\n|-|-|-|\n| a | b | `*`, `c/**` |\n",
        b"- [ ] `a` [x](y) **b**: (",
        b"`|",
        b"<!--",
        b"{A",
        b"\x00\xff",
        b"#",
    ],
)
def test_ten_megabytes_of_anything_are_read(piece):
    charter = parse_charter(piece * (10 * 1024 * 1024 // len(piece)))
    assert len(charter.lanes) <= 300


fragments = st.sampled_from(
    [
        *WHOLE.splitlines(keepends=True),
        "| ",
        "|",
        "`",
        "**",
        "- ",
        "## Lanes\n",
        "```\n",
        "<!--",
        "-->",
        "\r\n",
        "\\|",
    ]
)


@settings(max_examples=300)
@given(st.one_of(st.binary(max_size=300), st.lists(fragments, max_size=40).map(lambda x: "".join(x).encode())))
def test_nothing_makes_it_fail_and_every_line_is_one_of_the_text(data):
    """LOG-08"""
    charter = parse_charter(data)
    assert all(0 <= remark.line <= data.count(b"\n") + data.count(b"\r") + 1 for remark in charter.remarks)
    assert all(lane.owner and lane.globs for lane in charter.lanes)
