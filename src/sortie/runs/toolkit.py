"""What one run offers its agent beside the prompt: the files in `.sortie/`, and the tools they lead to.

The worker writes the configuration and walks away: the agent's runtime starts, owns and ends the server.
A workspace that cannot be written costs the agent its tools and nothing else.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from anyio.abc import TaskGroup

from ..core.model import Usage
from ..errors import ConfigurationError
from ..hosts.run_order import RunOrder
from ..process.identity import RUN_MARK, STORE_MARK
from ..protocol import session_files as files
from ..tools.broker_server import Broker, Handler
from ..tools.definitions import BUILTIN, Definition, advertise, definition_of, tracker_api
from ..tools.team import installed, listed, load_tools
from ..workflow.config import Config
from ..workspace.directory import Workspace

# The overrides by which the server gets what `$VARIABLES` in the workflow stood for here; one that is not set there
# would make the workflow unusable for it.
_RESOLVED = ("kind", "endpoint", "api_key", "project", "query_filter", "handoff_state", "in_progress_state")


class Toolkit:
    """The files of one run, and the broker where the workflow asks for one."""

    def __init__(self, order: RunOrder, workspace: Workspace) -> None:
        self._order = order
        self._config = order.workflow.config
        self._workspace = workspace
        self._started = datetime.now(UTC)
        self._offered = False

    async def start_broker(self, background: TaskGroup, handler: Handler) -> tuple[Path, str] | None:
        """Socket and one-run token by which tools work without credentials; None where they have their own."""
        if self._config.tools.credentials != "broker":
            return None
        token = secrets.token_hex(32)
        await background.start(Broker(token, handler).serve, self._order.broker_socket)
        return self._order.broker_socket, token

    def offer(self, broker: tuple[Path, str] | None) -> Path:
        """Write the configuration; its path is what the agent is told. Raises OSError where that is impossible."""
        entry = files.server_entry(server_command(), self._config.path, self._server_environment(broker))
        config = files.merged_config(entry, operator_config(self._config))
        with files.session_directory(self._workspace.fd) as directory:
            files.write_gitignore(directory)
            files.write_mcp_config(directory, config)
        self._offered = True
        return self._workspace.path / files.DIRECTORY / files.MCP_CONFIG

    def advertisement(self) -> str:
        """The section of the first prompt about the tools; empty where none could be offered."""
        if not self._offered:
            return ""
        ours = {**BUILTIN, "tracker_api": tracker_api(self._config.tools.transitions)}
        return advertise([*ours.values(), *_team_definitions()], self._config.tracker.project)

    def write_state(self, turn: int, usage: Usage) -> None:
        """What `sortie_status` answers; raises OSError where the workspace cannot be written."""
        if not self._offered:
            return
        state = {
            "turn_number": turn,
            "max_turns": self._config.agent.max_turns,
            "attempt": self._order.attempt - 1 or None,
            "started_at": self._started.isoformat().replace("+00:00", "Z"),
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "total_tokens": usage.total,
            "cache_read_tokens": usage.cache_read,
        }
        with files.session_directory(self._workspace.fd) as directory:
            files.write_state(directory, state)

    def _server_environment(self, broker: tuple[Path, str] | None) -> dict[str, str]:
        issue, order = self._order.issue, self._order
        environment = {
            **module_path(),
            STORE_MARK: order.store_id,
            RUN_MARK: order.run_id,
            "SORTIE_ISSUE_ID": issue.id,
            "SORTIE_ISSUE_IDENTIFIER": issue.identifier,
            "SORTIE_WORKSPACE": str(self._workspace.path),
            "SORTIE_DB_PATH": str(self._config.db_path),
            "SORTIE_ATTEMPT": str(order.attempt),
            "SORTIE_SESSION_ID": order.session_id,
            "SORTIE_TOOL_LOG": str(order.tool_log),
            # All of ours: the workflow was checked, the workspace exists, and so does the store.
            "SORTIE_TOOLS": ",".join(BUILTIN),
            "SORTIE_TOOL_PLUGINS": listed(_team_tools()),
            "SORTIE_TRANSITIONS": self._config.tools.transitions,
        }
        if broker:
            path, token = broker
            return {**environment, "SORTIE_BROKER": str(path), "SORTIE_BROKER_TOKEN": token}
        return {**self._credentials(), **environment}

    def _credentials(self) -> dict[str, str]:
        resolved = {f"SORTIE_TRACKER_{key.upper()}": getattr(self._config.tracker, key) for key in _RESOLVED}
        resolved["SORTIE_WORKSPACE_ROOT"] = str(self._config.workspace.root)
        return {**self._config.overrides, **{name: value for name, value in resolved.items() if value}}


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


def operator_config(config: Config) -> dict[str, Any]:
    """The operator's own servers, from the file that `mcp_config` in the agent's block names."""
    name = config.options.get(config.agent.kind, {}).get("mcp_config")
    if not name:
        return {}
    path = config.base / str(name)
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.", fix="It must be a JSON object.") from error
    if not isinstance(found, dict) or not isinstance(found.get("mcpServers", {}), dict):
        raise ConfigurationError(f"{path} must be a JSON object, and so must its mcpServers.")
    if files.SERVER in found.get("mcpServers", {}):
        raise ConfigurationError(
            f'{path} uses the server name "{files.SERVER}", which is reserved.',
            fix="Give that server another name.",
        )
    return found
