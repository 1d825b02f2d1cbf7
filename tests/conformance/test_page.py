"""The conformance page is true, and every rule has a proof; those of the status protocol from end to end."""

from __future__ import annotations

import pytest

from .page import PAGE, proofs, render, rules


def test_the_page_is_up_to_date():
    assert PAGE.read_text("utf-8") == render(), "run: python -m tests.conformance.page"


def test_every_rule_is_proved():
    assert set(rules()) - set(proofs()) == set()


def test_every_rule_of_the_status_protocol_is_proved_from_end_to_end():
    found = proofs()
    ours = [rule for rule in rules() if rule.startswith("A2O-")]
    assert [rule for rule in ours if not any(test.startswith("tests/e2e/") for test in found.get(rule, []))] == []


@pytest.mark.parametrize("families", [("BOX-", "TBX-"), ("LOG-",)], ids=["plans", "peers"])
def test_every_rule_of_plans_and_peers_is_proved_with_real_processes(families):
    found, real = proofs(), ("tests/e2e/", "tests/cli/", "tests/chaos/", "tests/examples/")
    ours = [rule for rule in rules() if rule.startswith(families)]
    assert [rule for rule in ours if not any(test.startswith(real) for test in found.get(rule, []))] == []


@pytest.mark.parametrize(
    ("family", "last"), [("A2O", 26), ("COM", 3), ("EXT", 15), ("BOX", 12), ("TBX", 19), ("LOG", 14)]
)
def test_all_rules_of_a_family_are_on_the_page(family, last):
    found = [rule for rule in sorted(rules()) if rule.startswith(f"{family}-")]
    assert found == [f"{family}-{number:02}" for number in range(1, last + 1)]


def test_no_test_names_a_rule_that_does_not_exist():
    known = ("A2O-", "COM-", "EXT-", "BOX-", "TBX-", "LOG-")
    assert {rule for rule in proofs() if rule.startswith(known)} <= set(rules())
