"""The conformance page is true, and every rule has a proof from end to end."""

from __future__ import annotations

from .page import PAGE, proofs, render, rules


def test_the_page_is_up_to_date():
    assert PAGE.read_text("utf-8") == render(), "run: python -m tests.conformance.page"


def test_every_rule_is_proved_from_end_to_end():
    found = proofs()
    without = [rule for rule in rules() if not any(test.startswith("tests/e2e/") for test in found.get(rule, []))]
    assert without == []


def test_all_rules_of_the_status_protocol_are_on_the_page():
    assert [rule for rule in sorted(rules()) if rule.startswith("A2O-")] == [f"A2O-{n:02}" for n in range(1, 27)]


def test_no_test_names_a_status_rule_that_does_not_exist():
    assert {rule for rule in proofs() if rule.startswith("A2O-")} <= set(rules())
