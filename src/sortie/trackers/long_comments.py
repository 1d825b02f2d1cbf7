"""Cuts long comments: anybody may write thousands that are as long as the server allows.

A digest of the full text is kept, so that a change in the part that was cut off is noticed too.
"""

from __future__ import annotations

import hashlib

from ..core.observe import mark_of

LONGEST_KEPT = 16 * 1024
# A comment of ours is known by its last line; a longer one is none of ours.
LONGEST_MARK = 1000


def kept(body: str) -> str:
    """The body; of a long one its beginning, a line that stands for the rest, and our mark where it has one."""
    if len(body) <= LONGEST_KEPT:
        return body
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    end = f"\n\n[The rest of its {len(body):,} characters is left out; all of them: {digest}.]"
    if mark_of(body):
        last = body.rstrip().splitlines()[-1].strip()
        end += f"\n\n{last}" if len(last) <= LONGEST_MARK else ""
    return body[: LONGEST_KEPT - len(end)] + end
