"""What people can change about an issue, as one short digest; and the mark that tells our comments from theirs.

A parked issue stays parked while its digest stays the same, so everything we write ourselves must leave
the digest alone: our comments end in a mark line and do not count.
"""

from __future__ import annotations

import hashlib
import re

from .model import Issue

_MARK = re.compile(r"^<!-- sortie:([0-9A-Za-z._:-]+) -->$")


def mark(body: str, effect_id: str) -> str:
    """The comment text with the line by which we recognise it later."""
    return f"{body.rstrip()}\n\n<!-- sortie:{effect_id} -->"


def mark_of(body: str) -> str | None:
    """The effect id of a comment of ours, None for anybody else's.

    Only the last line counts, so a person who quotes our comment and answers below it is heard.
    """
    lines = body.rstrip().splitlines()
    found = _MARK.match(lines[-1].strip()) if lines else None
    return found.group(1) if found else None


def fingerprint(issue: Issue) -> str:
    """A digest of state, title, description, labels, assignee and the comments that are not ours."""
    parts = [issue.state.lower(), issue.title, issue.description, issue.assignee]
    parts += [str(len(issue.labels)), *sorted(issue.labels)]
    for comment in issue.comments or ():
        if mark_of(comment.body) is None:
            parts += [comment.id, comment.author, comment.body]
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.hexdigest()[:32]
