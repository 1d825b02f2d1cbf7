"""Webhooks are believed only with the signature of the secret."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie import verify_webhook

SECRET = "It's a Secret to Everybody"
BODY = b"Hello, World!"
# The example in GitHub's own documentation.
SIGNATURE = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


@pytest.mark.parametrize("header", ["X-Hub-Signature-256", "x-hub-signature-256", "X-Hub-Signature"])
def test_what_github_and_jira_sign_is_authentic(header: str) -> None:
    assert verify_webhook(SECRET, {header: SIGNATURE}, BODY)


@pytest.mark.parametrize(
    ("secret", "headers", "body"),
    [
        (SECRET, {}, BODY),
        (SECRET, {"X-Hub-Signature-256": ""}, BODY),
        (SECRET, {"X-Hub-Signature-256": SIGNATURE[:-1]}, BODY),
        (SECRET, {"X-Hub-Signature-256": SIGNATURE.removeprefix("sha256=")}, BODY),
        (SECRET, {"X-Hub-Signature-256": "sha256=\udcff\u00fc"}, BODY),
        (SECRET, {"X-Hub-Signature-256": SIGNATURE}, BODY + b"!"),
        ("another", {"X-Hub-Signature-256": SIGNATURE}, BODY),
        # The stronger header counts, whatever else is there.
        (SECRET, {"X-Hub-Signature": SIGNATURE, "X-Hub-Signature-256": "sha256=0"}, BODY),
    ],
)
def test_anything_else_is_not(secret: str, headers: dict[str, str], body: bytes) -> None:
    assert not verify_webhook(secret, headers, body)


def test_sha1_is_no_proof_though_github_still_sends_it() -> None:
    weak = "sha1=" + hmac.new(SECRET.encode(), BODY, hashlib.sha1).hexdigest()
    assert not verify_webhook(SECRET, {"X-Hub-Signature": weak}, BODY)


def test_without_a_secret_nothing_is_authentic() -> None:
    empty = "sha256=" + hmac.new(b"", BODY, hashlib.sha256).hexdigest()
    assert not verify_webhook("", {"X-Hub-Signature-256": empty}, BODY)


@given(secret=st.text(), headers=st.dictionaries(st.text(), st.text()), given=st.text(), body=st.binary())
def test_whatever_comes_it_answers(secret: str, headers: dict[str, str], given: str, body: bytes) -> None:
    assert not verify_webhook(secret, {**headers, "X-Hub-Signature-256": given}, body)
