"""Checks the signature of a webhook: GitHub and Jira Cloud sign them with a shared secret."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from ..protocol.signature import signature

# GitHub's and Jira's header; the first that is there decides. GitHub's older one has SHA-1, which is no proof.
SIGNATURES = ("x-hub-signature-256", "x-hub-signature")


def is_authentic(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the body, exactly as it came, was signed with this secret. Never raises; nothing is authentic without
    a secret. It takes as long for a wrong signature as for a right one."""
    named = {name.lower(): value for name, value in headers.items()}
    given = next((named[name] for name in SIGNATURES if name in named), "").strip()
    if not secret:
        return False
    expected = signature(secret, body).encode("ascii")
    return hmac.compare_digest(expected, given.encode("utf-8", "surrogatepass"))
