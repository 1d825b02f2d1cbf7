"""The files a run puts into `.sortie/` for its agent: `.gitignore`, `mcp.json`, `state.json`. All owner-only.

`.gitignore` comes first, so that nothing of the others can ever be committed. Everything is written to a fresh name
and renamed, through the descriptor of a directory that is no link. Each session writes them anew, so none of them
waits for the disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from .safefiles import half_written, open_directory, write_atomic, write_if_changed

DIRECTORY = ".sortie"
MCP_CONFIG = "mcp.json"
STATE = "state.json"
SERVER = "sortie-tools"

# From the root of a workspace: how to start the server, with the tracker's key or the token of a broker. Gemini and
# OpenCode get it in a form of their own.
CREDENTIALS = (
    (DIRECTORY, MCP_CONFIG),
    (DIRECTORY, "opencode.json"),
    (DIRECTORY, "gemini", ".gemini", "settings.json"),
)
_OURS = {*CREDENTIALS, (DIRECTORY, STATE), (DIRECTORY, ".gitignore")}


class ReservedName(ValueError):
    """An operator's own configuration uses the name of our server."""


@contextmanager
def session_directory(workspace: int) -> Iterator[int]:
    """A descriptor of `.sortie`, made if need be and never a link."""
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(open_directory(workspace, DIRECTORY))
        except FileNotFoundError:
            os.mkdir(DIRECTORY, 0o700, dir_fd=workspace)
            directory = stack.enter_context(open_directory(workspace, DIRECTORY))
        yield directory


def write_gitignore(directory: int) -> None:
    """Before anything else is written: what follows may hold credentials and must not be committed."""
    write_if_changed(directory, ".gitignore", b"*\n")


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
    write_if_changed(directory, MCP_CONFIG, json.dumps(config, indent=2).encode() + b"\n")


def write_state(directory: int, state: Mapping[str, Any]) -> None:
    write_atomic(directory, STATE, json.dumps(state, separators=(",", ":")).encode())


def is_session_file(path: tuple[str, ...]) -> bool:
    """Whether this path, from the root of a workspace, is a file of a session, or what a crash left of one."""
    *above, name = path
    return (*above, half_written(name) or name) in _OURS


def remove_credentials(workspace: int) -> None:
    """At the end of a session, as far as possible: the next one writes its own. Half-written ones go too."""
    for above in {path[:-1] for path in CREDENTIALS}:
        # None may ever have been written there, and an agent may put something else in the place of any.
        with suppress(OSError), open_directory(workspace, *above) as opened:
            directory: int = opened
            for name in os.listdir(directory):
                if (*above, half_written(name) or name) in CREDENTIALS:
                    with suppress(OSError):
                        os.unlink(name, dir_fd=directory)
