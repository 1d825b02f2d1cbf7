"""A decision that stands only in the mailbox is found; one that the work log has too is not."""

from __future__ import annotations

from typing import Any

import pytest

from sortie.peers.mailbox.decisions import decisions_only_in_mail
from sortie.peers.mailbox.edits import one_card, with_answer
from sortie.peers.mailbox.parse import parse as parse_mail
from sortie.peers.mailbox.write_card import answer_line
from sortie.peers.worklog.compose import Decision, Note, compose
from sortie.peers.worklog.parse import parse as parse_log

from .samples import BOLD, NAMES, NOW, add, empty


def mail(said: str = "approved, go on", **words: Any) -> bytes:
    words = {"type": "decision-required", "subject": "Which database", **words}
    data, message = add(empty(), "Maintainer", **words)
    mailbox = parse_mail(data)
    line = answer_line("Maintainer", NOW, said, form="table")
    return with_answer(mailbox, one_card(mailbox, message.id), [("actioned", line)], NAMES) if said else data


def log(**words: str) -> bytes:
    decision = Decision(**{"title": "Storage", "decision": "SQLite", "mode": "consensus", **words})  # type: ignore[arg-type]
    return b"# Work log\n\n" + compose(decision, actor="Alice", at=NOW).encode()


def only_in_mail(mailbox: bytes, worklog: bytes) -> list[tuple[str, str]]:
    return [(one.kind, one.subject) for one in decisions_only_in_mail(parse_mail(mailbox), parse_log(worklog))]


FOUND = [("decision only in mail", "MSG-20261118-001")]


@pytest.mark.parametrize("said", ["approved, go on", "Maintainer says REJECTED", "actioned: deferred until May"])
def test_a_verdict_on_a_question_that_the_log_does_not_have(said):
    """LOG-13"""
    assert only_in_mail(mail(said), log()) == FOUND
    assert only_in_mail(mail(said), b"") == FOUND


def test_a_line_that_says_what_was_decided():
    """LOG-13: in a message of any type."""
    for text in ("Decision: we take SQLite", "so\n**Decision:** SQLite", "- Decision: x"):
        assert only_in_mail(mail("", type="notify", body=text), log()) == FOUND
    assert only_in_mail(mail("", type="notify", body="Decision needed: which one?"), log()) == []


def test_a_decision_that_the_log_has():
    """LOG-13: it names the message, or its subject."""
    assert only_in_mail(mail(), log(rationale="see MSG-20261118-001")) == []
    assert only_in_mail(mail(), log(title="Which database")) == []
    row = b"## Decision Index\n\n| Decision | Owner | Timestamp | Section |\n|---|---|---|---|\n"
    row += b"| SQLite | Maintainer | 2026-11-18 | MSG-20261118-001 |\n"
    assert only_in_mail(mail(), row) == []


def test_what_only_mentions_the_message_is_no_decision():
    """LOG-13"""
    note = compose(Note(title="MSG-20261118-001", text="we talked"), actor="Alice", at=NOW)
    assert only_in_mail(mail(), note.encode()) == FOUND


def test_questions_without_a_verdict_and_other_mail():
    """LOG-13"""
    assert only_in_mail(mail("acknowledged: will look"), b"") == []
    assert only_in_mail(mail(type="request"), b"") == []


def test_cards_of_people():
    """LOG-13"""
    assert only_in_mail(BOLD.encode(), b"") == [("decision only in mail", "MSG-20260211-002")]
