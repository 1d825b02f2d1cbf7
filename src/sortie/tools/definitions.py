"""The one place that says what each of our tools is called, takes and answers: for clients and for prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .team import Tool

OPERATIONS = ("fetch_issue", "fetch_comments", "search_issues", "transition_issue")


class Definition(NamedTuple):
    """`tier` 1 reads what lies on this machine, 2 may reach outside and change things there."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    response: str
    tier: int


TRANSITION = "transition_issue"

# What an agent is told about moving issues, by the word of `tools.transitions`.
_MOVING = {
    "project": f", {TRANSITION} (move an issue to another state).",
    "own": f", {TRANSITION} (move the issue of this session, and no other, to another state).",
    "none": ". Issues cannot be moved with it.",
}


def tracker_api(transitions: str) -> Definition:
    """The tool as `tools.transitions` leaves it; a word nobody knows promises nothing."""
    operations = [name for name in OPERATIONS if name != TRANSITION or transitions in ("project", "own")]
    about_one = [name for name in operations if name != "search_issues"]
    properties = {
        "operation": {"type": "string", "enum": operations, "description": "What to do."},
        "issue_id": {
            "type": "string",
            "description": (
                f"The tracker-internal issue ID. Required for {', '.join(about_one[:-1])} and {about_one[-1]}."
            ),
        },
    }
    if TRANSITION in operations:
        properties["target_state"] = {
            "type": "string",
            "description": f'The target state name, such as "In Review". Required for {TRANSITION}.',
        }
    return Definition(
        name="tracker_api",
        description=(
            "Read and change issues of the configured tracker project. Operations: fetch_issue (one issue with all "
            "fields), fetch_comments (the comments of an issue), search_issues (all issues in an active state)"
            f"{_MOVING.get(transitions, _MOVING['none'])} No credentials are needed."
        ),
        input_schema={
            "type": "object",
            "properties": properties,
            "required": ["operation"],
            "additionalProperties": False,
        },
        response=(
            '`{"success": true, "data": …}`, or `{"success": false, "error": {"kind": "…", "message": "…"}}` '
            "where `kind` is a category for programs and `message` is for people."
        ),
        tier=2,
    )


TRACKER_API = tracker_api("project")

_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}

SORTIE_STATUS = Definition(
    name="sortie_status",
    description=(
        "How far this session is: the current turn, turns remaining, the attempt, how long it has been running "
        "and the tokens it has consumed. Takes no parameters."
    ),
    input_schema=_NOTHING,
    response=(
        "an object with `turn_number`, `max_turns`, `turns_remaining`, `attempt`, `session_duration_seconds` "
        'and `tokens`, or `{"error": "message"}`.'
    ),
    tier=1,
)

WORKSPACE_HISTORY = Definition(
    name="workspace_history",
    description=(
        "What happened in earlier runs for this issue, the newest first, at most 10: their status (succeeded, "
        "failed, timed_out, stalled or cancelled) and error. Takes no parameters."
    ),
    input_schema=_NOTHING,
    response='`{"issue_id": "…", "entries": […]}`, or `{"error": "message"}`.',
    tier=1,
)

BUILTIN = {definition.name: definition for definition in (TRACKER_API, SORTIE_STATUS, WORKSPACE_HISTORY)}


def definition_of(tool: Tool) -> Definition:
    """A team's tool, as clients and prompts see it."""
    response = 'what the tool answers, or `{"error": "message"}`.'
    return Definition(tool.name, tool.description, tool.input_schema, response, tier=2)
