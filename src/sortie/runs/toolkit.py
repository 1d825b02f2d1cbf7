"""What one run offers its agent beside the prompt: the files in `.sortie/`, and the tools they lead to.

The worker writes the configuration and walks away: the agent's runtime starts, owns and ends the server.
A workspace that cannot be written costs the agent its tools and nothing else.
"""

from __future__ import annotations

import os
import secrets
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from anyio import to_thread
from anyio.abc import TaskGroup

from ..core.model import Usage
from ..process.identity import RUN_MARK, STORE_MARK, WORKSPACE_MARK
from ..protocol import session_files as files
from ..tools.broker_server import Broker, Handler
from ..tools.definitions import BUILTIN, Definition, advertise, definition_of, tracker_api
from ..tools.team import installed, listed, load_tools
from ..workspace.directory import Workspace
from .spec import RunSpec, ToolsSpec


class Toolkit:
    """The files of one run, and the broker where its tools hold no credentials."""

    def __init__(self, spec: RunSpec, tools: ToolsSpec, workspace: Workspace, tool_log: Path) -> None:
        self._spec = spec
        self._tools = tools
        self._workspace = workspace
        self._tool_log = tool_log
        self._started = datetime.now(UTC).isoformat().replace("+00:00", "Z")

    def offer(self, broker: dict[str, str]) -> Path:
        """Write the configuration; its path is what the agent is told. Raises OSError where that is impossible.

        `broker` are the variables that lead to it; empty where the tools have credentials of their own.
        """
        environment = {**({} if broker else self._tools.environment), **self._server_environment(), **broker}
        entry = files.server_entry(list(server_command()), Path(self._tools.workflow), environment)
        config = files.merged_config(entry, self._tools.servers)
        with files.session_directory(self._workspace.fd) as directory:
            files.write_gitignore(directory)
            files.write_mcp_config(directory, config)
        return self._workspace.path / files.DIRECTORY / files.MCP_CONFIG

    def write_state(self, turn: int, usage: Usage) -> None:
        """What `sortie_status` answers; raises OSError where the workspace cannot be written."""
        state = {
            "turn_number": turn,
            "max_turns": self._spec.limits.max_turns,
            "attempt": self._spec.attempt - 1 or None,
            "started_at": self._started,
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "total_tokens": usage.total,
            "cache_read_tokens": usage.cache_read,
        }
        with files.session_directory(self._workspace.fd) as directory:
            files.write_state(directory, state)

    def _server_environment(self) -> dict[str, str]:
        spec = self._spec
        return {
            **module_path(),
            STORE_MARK: spec.store_id,
            RUN_MARK: spec.run_id,
            "SORTIE_ISSUE_ID": spec.issue.id,
            "SORTIE_ISSUE_IDENTIFIER": spec.issue.identifier,
            WORKSPACE_MARK: str(self._workspace.path),
            "SORTIE_DB_PATH": self._tools.database,
            "SORTIE_ATTEMPT": str(spec.attempt),
            "SORTIE_SESSION_ID": spec.resume.session_id,
            "SORTIE_TOOL_LOG": str(self._tool_log),
            # The workflow was checked, the workspace exists, and so does the store.
            "SORTIE_TOOLS": ",".join(self._tools.names),
            "SORTIE_TOOL_PLUGINS": listed(_team_tools()),
            "SORTIE_TRANSITIONS": self._tools.transitions,
        }


async def start_broker(background: TaskGroup, handler: Handler, socket: Path) -> dict[str, str]:
    """Answer the tools of one run; the variables by which they find the way."""
    token = secrets.token_hex(32)
    await background.start(Broker(token, handler).serve, socket)
    return {"SORTIE_BROKER": str(socket), "SORTIE_BROKER_TOKEN": token}


_advertised: dict[tuple[tuple[str, ...], str, str], str] = {}


async def advertisement(tools: ToolsSpec) -> str:
    """The section of the first prompt about the tools. Made once: to load those of a team may take its time."""
    key = (tools.names, tools.transitions, tools.project)
    if key not in _advertised:
        text = await to_thread.run_sync(_advertise, *key)
        _advertised.setdefault(key, text)  # many runs may begin at once, and shall not have many copies of it
    return _advertised[key]


@cache
def _advertise(names: tuple[str, ...], transitions: str, project: str) -> str:
    known = {**BUILTIN, "tracker_api": tracker_api(transitions)}
    return advertise([*(known[name] for name in names), *_team_definitions()], project)


@cache
def _team_tools() -> dict[str, str]:
    """What was installed when we started: looking through all packages takes longer than a turn's own work."""
    return installed()


@cache
def _team_definitions() -> tuple[Definition, ...]:
    tools, _ = load_tools(_team_tools())
    return tuple(definition_of(tool) for tool in tools)


@cache
def tool_names() -> frozenset[str]:
    """Every tool a session can have. What else an agent claims to have called is not worth a counter of its own."""
    return frozenset({*BUILTIN, *(definition.name for definition in _team_definitions())})


def server_command() -> list[str]:
    """The absolute command of this very installation, whatever PATH the agent will have.

    The server starts once for every session: `-m` and the scripts that installers write would have it load what it
    does not need. With `-P` nothing that lies in the workspace is mistaken for a module.
    """
    return [sys.executable, "-P", "-c", "import sys; from sortie.__main__ import main; sys.exit(main())"]


@cache
def module_path() -> dict[str, str]:
    """The variable by which the server has the very modules that we have.

    It finds by itself what was installed. A checkout, and what our own `PYTHONPATH` leads to, it would not find:
    an agent's runtime passes little of its environment on.
    """
    home = Path(__file__).absolute().parents[2]
    places = [] if home.name in ("site-packages", "dist-packages") else [home]
    places += [Path(place).absolute() for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    return {"PYTHONPATH": os.pathsep.join(map(str, places))} if places else {}
