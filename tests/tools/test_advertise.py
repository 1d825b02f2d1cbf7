"""The tool section of a first prompt."""

from __future__ import annotations

import json
import re

from sortie.tools.definitions import BUILTIN, advertise, definition_of, tracker_api

from .team_tools import greet


def test_every_tool_is_documented_with_its_schema_and_its_answer():
    """EXT-05"""
    definitions = [*BUILTIN.values(), definition_of(greet)]
    text = advertise(definitions, "PROJ")
    assert text.startswith("## ")
    assert "Tracker project: `PROJ`" in text
    headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert headings == [*BUILTIN, "greet"]
    schemas = [json.loads(block) for block in re.findall(r"```json\n(.*?)\n```", text, re.DOTALL)]
    assert schemas == [definition.input_schema for definition in definitions]
    assert len(re.findall(r"^Response: ", text, re.MULTILINE)) == len(definitions)
    assert '{"success": false, "error": {"kind": "…", "message": "…"}}' in text
    assert all(definition.description in text for definition in definitions)


def test_without_a_project_none_is_named():
    assert "project:" not in advertise(BUILTIN.values(), "")


def test_without_tools_there_is_nothing_to_say():
    assert advertise([], "PROJ") == ""


def test_what_may_be_moved_is_told_as_the_workflow_says():
    """EXT-05: the word of `tools.transitions`."""
    assert "move the issue of this session, and no other" in advertise([tracker_api("own")], "")
    silent = advertise([tracker_api("none")], "")
    assert "Issues cannot be moved" in silent
    assert "transition_issue" not in silent and "target_state" not in silent
