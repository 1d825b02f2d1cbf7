"""HMAC-SHA256 signatures of webhooks, in the form that GitHub and Jira use, and our own notifications too."""

from __future__ import annotations

import hashlib
import hmac


def signature(secret: str, body: bytes) -> str:
    """What goes with this body, by those who share the secret."""
    proof = hmac.new(secret.encode("utf-8", "surrogatepass"), body, hashlib.sha256).hexdigest()
    return f"sha256={proof}"
