"""The one place that says what each of our tools is called, takes and answers: for clients and for prompts."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .team import Tool

TRANSITION = "transition_issue"
OPERATIONS = ("fetch_issue", "fetch_comments", "search_issues", TRANSITION)


class Definition:
    """`tier` 1 reads what lies on this machine, 2 may reach outside and change things there."""

    def __init__(
        self, name: str, description: str, input_schema: Mapping[str, Any], response: str, tier: int
    ) -> None:
        self.name = name
        self.description = description
        self.input_schema = input_schema
        self.response = response
        self.tier = tier


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

MESSAGE_TYPES = ("data_ready", "question", "answer", "update")

MESSAGE_SEND = Definition(
    name="message_send",
    description=(
        "Send a message to the agent of another task of the same plan. It is told at the beginning of its next "
        "turn; one that is over is told nothing. What another task needs belongs into the outbox; a message is for "
        "the rest."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "to": {"type": "string", "description": "The name of the task whose agent is to read it."},
            "type": {"type": "string", "enum": list(MESSAGE_TYPES), "description": "What kind of message it is."},
            "content": {
                "type": "object",
                "description": "What it says, as JSON; the whole message at most 64 KiB.",
            },
            "in_reply_to": {"type": "string", "description": "The name of the message that this one answers."},
        },
        "required": ["to", "type", "content"],
        "additionalProperties": False,
    },
    response=(
        '`{"success": true, "data": {"file": "…", "seq": …}}`, or '
        '`{"success": false, "error": {"kind": "…", "message": "…"}}`.'
    ),
    tier=2,
)

MESSAGE_LIST = Definition(
    name="message_list",
    description=(
        "All messages to the agent of this task so far, the oldest first; of more than a mebibyte, the last ones. "
        "Takes no parameters."
    ),
    input_schema=_NOTHING,
    response=(
        '`{"success": true, "data": {"messages": […], "earlier": …}}`, each with `from`, `to`, `timestamp`, `type` '
        "and `content`; `earlier` is how many are left out, where some are."
    ),
    tier=1,
)

# Where there is a broker, the orchestrator makes these calls: a tool server only passes them on.
BROKERED = frozenset({TRACKER_API.name, MESSAGE_SEND.name, MESSAGE_LIST.name})

BUILTIN = {
    definition.name: definition
    for definition in (TRACKER_API, SORTIE_STATUS, WORKSPACE_HISTORY, MESSAGE_SEND, MESSAGE_LIST)
}


# Which of them the agent of an issue has, and which that of a task of a plan.
FOR_ISSUES = (TRACKER_API.name, SORTIE_STATUS.name, WORKSPACE_HISTORY.name)
FOR_TASKS = (SORTIE_STATUS.name, WORKSPACE_HISTORY.name, MESSAGE_SEND.name, MESSAGE_LIST.name)


def definition_of(tool: Tool) -> Definition:
    """A team's tool, as clients and prompts see it."""
    response = 'what the tool answers, or `{"error": "message"}`.'
    return Definition(tool.name, tool.description, tool.input_schema, response, tier=2)


_HEADING = """\
## Available Sortie tools

The MCP server `sortie-tools` offers these tools. Call them through your MCP client."""


def advertise(definitions: Iterable[Definition], project: str) -> str:
    """The part of a first prompt that tells the agent which tools it has; empty where there are none.

    Markdown without a line end at its end.
    """
    sections = [_section(definition) for definition in definitions]
    if not sections:
        return ""
    about = [f"Tracker project: `{project}`"] if project else []
    return "\n\n".join([_HEADING, *about, *sections])


def _section(definition: Definition) -> str:
    import json

    schema = json.dumps(definition.input_schema, indent=2, ensure_ascii=False)
    return (
        f"### {definition.name}\n\n{definition.description}\n\n"
        f"Input schema:\n\n```json\n{schema}\n```\n\n"
        f"Response: {definition.response}"
    )
