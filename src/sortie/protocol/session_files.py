"""The files a run puts into `.sortie/` for its agent: `.gitignore`, `mcp.json`, `state.json`. All owner-only.

`.gitignore` comes first, so that nothing of the others can ever be committed. Everything is written to a fresh name
and renamed, through the descriptor of a directory that is no link. Each session writes them anew, so none of them
waits for the disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .safefiles import open_directory, write_atomic

DIRECTORY = ".sortie"
MCP_CONFIG = "mcp.json"
STATE = "state.json"
SERVER = "sortie-tools"


class ReservedName(ValueError):
    """An operator's own configuration uses the name of our server."""


@contextmanager
def session_directory(workspace: int) -> Iterator[int]:
    """A descriptor of `.sortie`, made if need be and never a link."""
    try:
        os.mkdir(DIRECTORY, 0o700, dir_fd=workspace)
    except FileExistsError:
        pass  # whether it is a directory shows when it is opened
    with open_directory(workspace, DIRECTORY) as directory:
        yield directory


def write_gitignore(directory: int) -> None:
    """Before anything else is written: what follows may hold credentials and must not be committed."""
    write_atomic(directory, ".gitignore", b"*\n", durable=False)


def merged_config(server: Mapping[str, Any], operator: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's configuration with our server added; raises `ReservedName` where it has one of that name."""
    theirs = operator.get("mcpServers", {})
    if SERVER in theirs:
        raise ReservedName(f'the server name "{SERVER}" is reserved')
    return {**operator, "mcpServers": {**theirs, SERVER: dict(server)}}


def server_entry(command: list[str], workflow: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """How an agent's runtime starts our server: absolute command, workflow, and an environment of its own."""
    program, *arguments = command
    return {
        "type": "stdio",
        "command": program,
        "args": [*arguments, "mcp-server", "--workflow", str(workflow)],
        "env": dict(env),
    }


def write_mcp_config(directory: int, config: Mapping[str, Any]) -> None:
    write_atomic(directory, MCP_CONFIG, json.dumps(config, indent=2).encode() + b"\n", durable=False)


def write_state(directory: int, state: Mapping[str, Any]) -> None:
    write_atomic(directory, STATE, json.dumps(state, separators=(",", ":")).encode(), durable=False)
