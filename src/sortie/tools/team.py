"""Tools of teams: what a team writes one with, how they are found and loaded.

One that is of no use is left out, and said so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ConfigurationError
from ..plugins import load_plugin
from .calls import Cancellation, GivenUp, run_limited
from .definitions import BUILTIN

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[[dict[str, Any], "ToolContext"], Any]

GROUP = "sortie.tools"
DEFAULT_TIMEOUT = 30.0

_IMPORT_SECONDS = 10.0

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

    return lambda run: Tool(name, description, schema, run, timeout)


def runner(tool: Tool, environ: Mapping[str, str]) -> Callable[[dict[str, Any], Cancellation], Any]:
    """How the server calls a tool in the session that has this environment."""

    def run(arguments: dict[str, Any], cancellation: Cancellation) -> Any:
        context = _context(environ)
        return run_limited(lambda: tool.run(arguments, context), tool.timeout, cancellation)

    return run


def _context(environ: Mapping[str, str]) -> ToolContext:
    from pathlib import Path

    attempt = environ.get("SORTIE_ATTEMPT", "")
    return ToolContext(
        issue_id=environ.get("SORTIE_ISSUE_ID", ""),
        identifier=environ.get("SORTIE_ISSUE_IDENTIFIER", ""),
        workspace=Path(environ.get("SORTIE_WORKSPACE") or "."),
        run_id=environ.get("SORTIE_RUN_ID", ""),
        attempt=int(attempt) if attempt.isdecimal() else 0,
    )


def installed() -> dict[str, str]:
    """Every installed tool of a team by name, with the `module:attribute` it is loaded from."""
    from ..plugins import installed as offered

    return offered(GROUP)


def listed(targets: Mapping[str, str]) -> str:
    """Several tools as one value of `SORTIE_TOOL_PLUGINS`: `name=module:attribute,…`."""
    return ",".join(f"{name}={target}" for name, target in targets.items())


def from_list(text: str) -> dict[str, str]:
    """The reverse of `listed`."""
    pairs = (entry.partition("=") for entry in text.split(",") if entry.strip())
    return {name.strip(): target.strip() for name, _, target in pairs}


def load_tools(targets: Mapping[str, str]) -> tuple[list[Tool], list[str]]:
    """The tools, and a sentence for each that is left out."""
    tools: dict[str, Tool] = {}
    problems: list[str] = []
    for name in targets:
        found = _load(name, targets)
        if isinstance(found, str):
            problems.append(found)
        elif found.name in (taken := {*BUILTIN, *tools}):
            names = ", ".join(sorted(taken))
            problems.append(f"The tool {name} is left out: its name {found.name} is taken ({names}).")
        else:
            tools[found.name] = found
    return list(tools.values()), problems


def _load(name: str, targets: Mapping[str, str]) -> Tool | str:
    try:
        found = run_limited(lambda: load_plugin(GROUP, targets, name), _IMPORT_SECONDS)
    except ConfigurationError as error:
        return f"The tool {name} is left out. {error}"
    except GivenUp:
        return f"The tool {name} is left out: importing {targets[name]} takes longer than {_IMPORT_SECONDS:g} s."
    except SystemExit:
        return f"The tool {name} is left out: importing {targets[name]} wants to end the program."
    if not isinstance(found, Tool):
        return (
            f"The tool {name} is left out: {targets[name]} is no tool. Put @sortie.tools.tool(…) on its function."
        )
    return found
