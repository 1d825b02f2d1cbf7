"""The part of a first prompt that tells the agent which tools it has."""

from __future__ import annotations

import json
from collections.abc import Iterable

from .definitions import Definition

_HEADING = """\
## Available Sortie tools

The MCP server `sortie-tools` offers these tools. Call them through your MCP client."""


def advertise(definitions: Iterable[Definition], project: str) -> str:
    """Markdown without a line end at its end; empty where there are no tools."""
    sections = [_section(definition) for definition in definitions]
    if not sections:
        return ""
    about = [f"Tracker project: `{project}`"] if project else []
    return "\n\n".join([_HEADING, *about, *sections])


def _section(definition: Definition) -> str:
    schema = json.dumps(definition.input_schema, indent=2, ensure_ascii=False)
    return (
        f"### {definition.name}\n\n{definition.description}\n\n"
        f"Input schema:\n\n```json\n{schema}\n```\n\n"
        f"Response: {definition.response}"
    )
