"""The proof that a message comes from whom it says, and is whole: GitHub's and Jira's, which is ours too."""

from __future__ import annotations

import hashlib
import hmac


def signature(secret: str, body: bytes) -> str:
    """What goes with this body, by those who share the secret."""
    proof = hmac.new(secret.encode("utf-8", "surrogatepass"), body, hashlib.sha256).hexdigest()
    return f"sha256={proof}"
