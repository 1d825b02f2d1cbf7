"""Work logs for tests: pieces that people and tools write, and hypothesis strategies that put them together."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from sortie.peers.finding import Finding
from sortie.peers.worklog.compose import (
    Amendment,
    AnyRecordable,
    Claim,
    Completion,
    Decision,
    Escalation,
    Handoff,
    Note,
    Objection,
    Proposal,
    QuickHandoff,
)
from sortie.peers.worklog.heading import strict_heading
from sortie.peers.worklog.verify import MILD

AT = 1_800_000_000.0
IDS = ("PROP-001", "wl-0123456789abcdef", "MSG-20260101-001")

# What could be taken for structure, or change how a terminal shows it.
HOSTILE = (
    "### 2026-11-18T02:00:00Z — Mallory: Decision: all mine",
    "\\### 2026-11-18T02:00:00Z — Mallory: escaped",
    "### Bob: title",
    "## Session 9 — 2026-01-01",
    "## Decision Index",
    "# Session 2",
    "# a comment of a script",
    "#### Reasoning",
    "```",
    "````text",
    "``` `x",
    "~~~",
    "   ```",
    "<!--",
    "-->",
    "text <!-- hidden --> text",
    "\\<!--",
    "| a | b |",
    "\\| a",
    "---",
    "***",
    "14:32 — Bob: all done (3 pass). Next: Alice review.",
    "2026-11-18 14:32 — Bob: x",
    "- 14:32 — Bob: x",
    "Now Working (Bob): everything",
    "Maintainer Focus: me",
    "Escalated: MSG-20260101-001 — x — y",
    "Handoff: other",
    "Owner: Mallory",
    "Next owner: Mallory",
    "Status: done",
    "- **Decision:** no",
    "- **Decision mode:** consensus",
    "**Bob recommended:** x",
    "**Bob's counter-recommendation:** y",
    "**Proposed compromise:** z",
    "- ID: PROP-001",
    "- item",
    "  - inner",
    "none",
    "Next: Bob. Next: Carol",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\u202eright to left",
    "\u2028",
    "\r",
    "\x00",
    "\ud800",
    "\ufeff",
    "escalated and escalation",
    "claimed: x",
    "Note: x",
    "\\",
    "",
    "  indented",
    "\ttab",
)


@st.composite
def _lines(draw: st.DrawFn) -> str:
    return draw(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=30)))


@st.composite
def _texts(draw: st.DrawFn) -> str:
    return "\n".join(draw(st.lists(lines, max_size=6)))


@st.composite
def _titles(draw: st.DrawFn) -> str:
    return draw(texts) + " x"


# As functions, so that hypothesis names them instead of writing out what they are made of.
lines, texts, titles = _lines(), _texts(), _titles()
names = st.sampled_from(["Alice", "Bob", "Claude Code", "gpt-5", "ünï", "A.B", "O'Hara", "R2"])
names_of_others = st.sampled_from(["Carol", "Dave E", "maintainer"])
items = st.lists(texts, max_size=4).map(tuple)

recordables: st.SearchStrategy[AnyRecordable] = st.one_of(
    st.builds(Claim, task=titles, note=texts),
    st.builds(
        Completion,
        task=titles,
        status=titles,
        changed_files=items,
        tests=texts,
        risks=texts,
        blocking=texts,
        note=texts,
    ),
    st.builds(
        Handoff,
        task=titles,
        next_owner=names_of_others,
        status=st.sampled_from(["Ready for review", "In progress", "done (Ready for merge)"]),
        changed_files=items,
        tests=texts,
        risks=texts,
        blocking=texts,
        note=texts,
    ),
    st.builds(QuickHandoff, what=titles, next_owner=names_of_others, next_task=titles, tests=texts),
    st.builds(
        Proposal,
        title=titles,
        proposal=texts,
        id=st.sampled_from(["PROP-001", "PROP-17"]),
        scope=texts,
        risks=texts,
        rollback=texts,
        objection_deadline=texts,
    ),
    st.builds(Amendment, id=st.just("PROP-001"), title=titles, change=texts, proposal=texts, risks=texts),
    st.builds(
        Objection,
        about=titles,
        recommended_by=names_of_others,
        recommended=texts,
        counter=texts,
        reasoning=items,
        compromise=texts,
    ),
    st.builds(
        Decision,
        title=titles,
        decision=titles,
        mode=st.sampled_from(["consensus", "counter-rec resolved", "maintainer adjudication"]),
        participants=st.lists(names, max_size=3).map(tuple),
        rationale=texts,
        outcome=texts,
        follow_up=texts,
        about=st.lists(st.sampled_from(IDS), max_size=3).map(tuple),
    ),
    st.builds(Escalation, subject=titles, reason=titles, message_id=st.sampled_from(["", "MSG-20260101-001"])),
    st.builds(Note, title=titles, text=texts),
)

PIECES = (
    b"# WORKLOG\n",
    b"\xef\xbb\xbf# WORKLOG\r\n",
    b"Now Working (Alice): T-3\n",
    b"Now Working (Bob): idle\nMaintainer Focus: x\nHeartbeat (Bob): y\n",
    b"## Decision Index\n\n| Decision | Owner | Timestamp | Section |\n|---|---|---|---|\n",
    b"| Use x | Maintainer | 2026-01-01 | Alice: x |\n",
    b"| a \\| b | c |\n",
    b"| Decision | Rationale | Approver | Timestamp |\n|---|---|---|---|\n| a | b | c | d |\n",
    b"## Session 3 \xe2\x80\x94 2026-03-01\n",
    b"## Archived Sessions\n\n| Session | Date | Summary |\n|---|---|---|\n| 1 | 2026-01-01 | x |\n",
    b"## Notes\n",
    b"### Alice: parser\n",
    b"### 14:32 \xe2\x80\x94 parser (Alice)\n",
    b"### 14:32 \xe2\x80\x94 Alice looked\r\n",
    b"### 2026-11-18T02:00:00Z \xe2\x80\x94 Alice: strict\n",
    b"### 2026-11-18T02:00:00Z \xe2\x80\x94 Alice: strict",
    b"```text\nHandoff: x\nOwner: Alice\nStatus: done\nNext owner: Bob\n```\n",
    b"Handoff: x\nOwner: Alice\nChanged files:\n  - a.py\nNext owner: Bob\n",
    b"14:32 \xe2\x80\x94 Alice: wired (47 pass). Next: Bob integration.\n",
    b"Claude (Opus 4.7): SESSION 1 OPEN at rev 1 (SIG-001). Words.\n",
    b"Alice: said something\n",
    b"Escalated: MSG-20260101-001 \xe2\x80\x94 x \xe2\x80\x94 y\n",
    b"```\n",
    b"```",
    b"~~~~\n",
    b"<!--\n### Bob: example\n-->\n",
    b"<!-- ",
    b"-->",
    b"---\n",
    b"\n",
    b"\n\n",
    b"\r\n",
    b"\r",
    b"plain prose of somebody.\n",
    b"- bullet\n",
    b"\x00\xff\xfe\xe2\x80",
    b"# comment\n",
    b"\\### Bob: escaped\n",
)

logs = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=12)), max_size=14).map(b"".join)


HEAD = (
    "# WORKLOG\n\nNow Working (Alice): idle\nNow Working (Bob): idle\n\n## Decision Index\n\n"
    "| Decision | Owner | Timestamp | Section |\n|---|---|---|---|\n\n## Session 1 — 2026-01-01\n\n"
)


def big_log(count: int) -> bytes:
    """A log with as many entries, one a minute."""
    words = "\n\nThe failure comes from a clock that goes back.\n\n"
    entries = (strict_heading("Bob", AT - (count - n) * 60, f"Looked into {n}") + words for n in range(count))
    return (HEAD + "".join(entries)).encode()


def serious(findings: Iterable[Finding]) -> list[Finding]:
    """Without those that are no harm by themselves."""
    return [finding for finding in findings if finding.kind not in MILD]
