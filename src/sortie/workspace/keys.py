"""From an issue's identifier to the name of its directory: always one safe path component, never shared by two.

A key is either the identifier itself or ends in `-` and a digest of it. An identifier that already looks like
the second form gets a digest of its own, so the two forms never meet.
"""

from __future__ import annotations

import hashlib
import re

LONGEST_PLAIN_KEY = 100
_KEPT_BEFORE_DIGEST = 80
_DIGEST_LENGTH = 10

_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]")
_ENDS_LIKE_DIGEST = re.compile(rf"-[0-9a-f]{{{_DIGEST_LENGTH}}}\Z")


def workspace_key(identifier: str) -> str:
    """The directory name for an issue: letters, digits, `.`, `_` and `-` only."""
    cleaned = _FORBIDDEN.sub("_", identifier)
    if cleaned == identifier and _can_stand_alone(identifier):
        return identifier
    digest = hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{cleaned[:_KEPT_BEFORE_DIGEST]}-{digest}"


def _can_stand_alone(name: str) -> bool:
    # Plain names with a leading dot are left to us: `.` and `..` have a meaning, others are our own directories.
    return 0 < len(name) <= LONGEST_PLAIN_KEY and name[0] != "." and not _ENDS_LIKE_DIGEST.search(name)
