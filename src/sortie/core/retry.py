"""How long to wait before the next try. The jitter is a function of the issue, so that a log can be replayed."""

from __future__ import annotations

import hashlib

CONTINUATION_DELAY = 1.0
FIRST_DELAY = 10.0
JITTER = 0.2


def backoff(failures: int, cap: float, key: str) -> float:
    """Seconds before try number `failures` + 1: doubling from ten seconds, at most `cap`, up to 20 % less.

    The jitter only shortens, so `cap` is a promise; it spreads out issues that failed together.
    """
    doublings = min(max(failures, 1) - 1, 30)
    nominal = min(FIRST_DELAY * 2.0**doublings, cap)
    return nominal * (1.0 - JITTER * _fraction(f"{key}:{failures}"))


def _fraction(seed: str) -> float:
    return int.from_bytes(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()[:8], "big") / 2.0**64
