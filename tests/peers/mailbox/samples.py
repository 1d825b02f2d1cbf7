"""Mailboxes as people and other tools write them, one for each form of a card, and a hand to build our own."""

from __future__ import annotations

from sortie.peers.author import Author
from sortie.peers.mailbox.draft import Draft, message_of
from sortie.peers.mailbox.edits import new_mailbox, next_id, with_message
from sortie.peers.mailbox.message import Message
from sortie.peers.mailbox.parse import parse
from sortie.peers.mailbox.transitions import People
from sortie.peers.roster import Roster

NOW = 1_795_000_000.0  # 2026-11-18T11:06:40Z
ROSTER = Roster(agents=("Alice", "Bob", "Carol"))
NAMES = ROSTER.names
PEOPLE = People(ROSTER.agents, ROSTER.maintainer)
ALICE = Author(name="Alice", role="agent")
BOB = Author(name="Bob", role="agent")
CAROL = Author(name="Carol", role="agent")
MAINTAINER = Author(name="Maintainer", role="maintainer")

TABLES = """\
# Mailbox

## Inbox Snapshot

| Agent | Unread | Oldest unread | Needs response by |
|-------|--------|---------------|-------------------|
| Alice | 0 | none | none |
| Bob | 1 | MSG-20260301-001 | next session |

## Open Queue (Newest First)

| ID | From -> To | Priority | Subject |
|----|------------|----------|---------|
| MSG-20260301-002 | Bob -> Alice | P2 | Read\\|write split |
| MSG-20260301-001 | Alice -> Bob | P1 | Review the parser |

## Active Messages (Newest First)

### MSG-20260301-002

| Field | Value |
|-------|-------|
| Date | 2026-03-01T09:30:00Z |
| From | Bob |
| To | Alice |
| Type | request |
| Priority | P2 |
| Related | none |
| Context | a | b | c |
| Closure owner | sender |
| Review scope | none |
| Response needed by | none |
| Status | acknowledged |
| Subject | Read\\|write split |

Summary:
- one point
- another

Ack:
- Alice — 2026-03-01 — reading it today
- Alice — 2026-03-02 — still at it

### MSG-20260301-001

| Field | Value |
|-------|-------|
| Date | 2026-03-01 |
| From | Alice |
| To | Bob |
| Type | request |
| Priority | P1 |
| Closure owner | sender |
| Response needed by | next session |
| Status | unread |
| Subject | Review the parser |

Summary:
- please

## Closed Summary (Newest First)

| ID | Date | From -> To | Final status | Outcome |
|----|------|------------|--------------|---------|
| MSG-20260228-001 | 2026-02-28 | Bob -> Alice | resolved | done |
"""

BOLD = """\
# Mailbox (Project, Compact)

## Quick Reply

1. Find the message.

## Inbox Snapshot

| Agent | Unread | Oldest unread | Needs response by |
|-------|--------|---------------|-------------------|

<!--
Example row:
| Claude | 0 | none | none |
-->

## Open Queue (Newest First)

| ID | From -> To | Priority | Subject |
|----|------------|----------|---------|

## Active Messages (Newest First)

<!--
### MSG-YYYYMMDD-001

**From:** Claude -> Gemini
**Status:** unread
-->

---

### MSG-20260211-003

**From:** Alice -> Bob
**Date:** 2026-02-11
**Type:** request
**Mode:** delivery-mirror
**Priority:** P1
**Status:** unread
**Subject:** Lane complete | for review
**Closure owner:** Bob
**Response needed by:** next session turn

Work is complete.

### Deliverables

**D-1: the boot file**
- path

---

**Context:** why this is here.

```text
### MSG-20260211-009

**From:** Mallory -> Bob
**Status:** unread
## Active Messages
```

### Review ask

1. Verify.

**Ack:** Alice — 2026-02-11 — posted for Bob.

---

### MSG-20260211-002 — An older one

**From:** Bob -> Alice
**Date:** 2026-02-11
**Type:** decision-required
**Priority:** P0
**Status:** superseded
**Closure owner:** Maintainer

Body.

**Ack:** Alice | 2026-02-11 | fine by me | approved
**Ack (Bob):** Bob | 2026-02-12 | closed it

**Reply (Alice):**
- first
- second

## Closed Summary

| ID | From -> To | Subject | Final status | Closed by |
|----|------------|---------|--------------|-----------|
| MSG-20260210-001 | Bob -> Alice | old | actioned | Bob |
"""

PLAIN = """\
# Mailbox

## Active Messages (Newest First)

### MSG-20260101-001
From: Alex -> Blake
Status: unread
Subject: Feature X contract — apply or counter
Closure owner: Alex

Please read it.

**Ack:** Blake 2026-01-01 — counter C1: handle null.
"""

RULES = """\
# Mailbox (Pilot)

---

Message ID: MSG-20260208-001
Date: 2026-02-08T20:15:00-07:00
From: Codex
To: Claude
Type: request
Priority: P1
Status: replied
Subject: Review the draft

Body:
Please review:
1) this,

---

and that.

Ack:
Claude — 2026-02-08. Reviewed and accepted:
- with this,
- and that.

---

To: Codex
From: Claude
Date: 2026-02-08
Subject: No ID here
Status: unread

Just text.
"""

FORMS = {"tables": TABLES, "bold": BOLD, "plain": PLAIN, "rules": RULES}


def empty() -> bytes:
    return new_mailbox(NAMES, NOW)


def add(
    data: bytes, to: str = "Bob", *, sender: Author = ALICE, at: float = NOW, **draft: str
) -> tuple[bytes, Message]:
    """One more message in a mailbox, as pure functions send it."""
    mailbox = parse(data)
    words = {"subject": "Hello", **draft}
    wanted = Draft(to=tuple(to.split("+")), **words)
    message = message_of(wanted, next_id(mailbox, at), sender, wanted.to, at)
    return with_message(mailbox, message, NAMES), message
