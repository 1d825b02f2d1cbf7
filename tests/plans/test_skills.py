"""The built-in skills keep to the protocol, and are where a plan looks for them."""

from __future__ import annotations

import re

import pytest

from sortie.plans.markdown import placeholders
from sortie.plans.skills import TEMPLATES, template, whole

# What each delivers by custom, besides summary.md.
DELIVERS = {
    "research": ["findings.md"],
    "code": ["changelog.md"],
    "analysis": ["analysis.md", "insights.md"],
    "writer": ["draft.md"],
    "review": ["feedback.md", "approved.json"],
    "integration": ["merge_report.md"],
}


@pytest.mark.parametrize("name", [*TEMPLATES, "protocol"])
def test_a_skill_is_complete_and_assumes_nothing_that_the_protocol_does_not_promise(name):
    """BOX-01, TBX-18"""
    text = template(name)
    assert placeholders(text) == []
    assert not re.search(r"\{[A-Za-z_]+\}", text)
    assert "inbox/data/" not in text
    assert "manifest.json" not in text
    assert not re.search(r'\{"state"', text), "the whole status file would be replaced"
    assert text.count("\n# ") == 0
    assert text.startswith("# ")


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_skill_names_what_it_reads_and_what_it_delivers(name):
    """BOX-05"""
    text = template(name)
    assert "`inbox/instructions.md`" in text
    for file in (*DELIVERS[name], "summary.md"):
        assert f"`outbox/{file}`" in text
    for section in ("## What to read", "## How to work", "## What to deliver"):
        assert section in text


def test_every_agent_is_told_the_rules_whoever_wrote_its_skill():
    """BOX-01, BOX-02, BOX-06"""
    for skill in (template("code"), "You do it.", ""):
        text = whole(skill)
        assert text.startswith(skill.strip() or "# Skill: general")
        for word in (
            "`started`",
            "rename",
            "`outbox/summary.md`",
            "`outbox/error_report.md`",
            "`recoverable`",
            "read-only",
        ):
            assert word in text
        for heading in ("Error Type", "Description", "Attempted Recovery", "Suggested Resolution", "Partial Work"):
            assert f"`## {heading}`" in text
