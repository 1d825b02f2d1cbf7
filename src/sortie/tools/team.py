"""What a team writes a tool with: a function, its description and the schema of its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[[dict[str, Any], "ToolContext"], Any]

DEFAULT_TIMEOUT = 30.0

# What every agent's model accepts; some allow fewer characters than the protocol does.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolContext(NamedTuple):
    """For whom the tool is called. It holds no credentials.

    `attempt` counts the runs of the issue from 1; it is 0 where a person started the server, without a run.
    """

    issue_id: str
    identifier: str
    workspace: Path
    run_id: str
    attempt: int


class Tool(NamedTuple):
    """`run` answers with something JSON can hold, or with text.

    It may raise and it may hang: the agent gets an error, after `timeout` seconds at the latest. Calls may overlap.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    run: Run
    timeout: float = DEFAULT_TIMEOUT


def tool(
    *,
    name: str,
    description: str,
    input_schema: Mapping[str, Any] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> Callable[[Run], Tool]:
    """Make a function a tool. Without a schema it takes no arguments."""
    schema = {"type": "object", "properties": {}} if input_schema is None else dict(input_schema)
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no tool name; use 1 to 64 letters, digits, '_' and '-'.")
    if schema.get("type") != "object":
        raise ValueError(f'The input schema of {name} must have "type": "object".')
    if timeout <= 0:
        raise ValueError(f"The timeout of {name} must be more than 0 seconds.")

    def make(run: Run) -> Tool:
        return Tool(name, description, schema, run, timeout)

    return make
