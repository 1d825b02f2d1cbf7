"""A home of its own for Gemini CLI, `.sortie/gemini`: its settings with our tools, its conversations; nothing else.

Gemini takes MCP servers from settings files only, and those named by its GEMINI_CLI_SYSTEM_* variables count only
where root owns every directory above them. So GEMINI_CLI_HOME leads here, the settings are the user's with ours
added, and all the rest of the user's (login, extensions, policies, memory) is linked. An administrator's settings
are where they were, above all others.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import AgentError
from ...protocol.safefiles import open_directory, read_bounded, write_atomic
from ...protocol.session_files import DIRECTORY, SERVER, session_directory, write_gitignore
from ..agent import SessionOrder
from ..mcp_servers import read_entries

Settings = dict[str, Any]

_NAME = "gemini"
_SETTINGS = "settings.json"
_SYSTEM_SETTINGS = "/etc/gemini-cli/settings.json"

# What belongs to one workspace: conversations, checkpoints, the register of workspaces.
_PER_WORKSPACE = (_SETTINGS, "tmp", "history", "projects.json")
_LINKED = (".agents", ".env")

# Ten attempts, Gemini's own number, hide for minutes that a provider is down.
_DEFAULTS: Settings = {"general": {"maxAttempts": 3}, "privacy": {"usageStatisticsEnabled": False}}

_FILE_LIMIT = 1024 * 1024
# Strings and comments; one without an end goes on to the end of the text.
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*+\\?(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.S)


def path_of(order: SessionOrder) -> Path:
    return order.workspace / DIRECTORY / _NAME


def user_home(environment: Mapping[str, str]) -> Path:
    """The directory in which the user's own `.gemini` is."""
    return Path(environment.get("GEMINI_CLI_HOME") or environment.get("HOME") or "/")


def write_home(order: SessionOrder, forced: Settings, servers: tuple[str, ...]) -> None:
    """Write what the first process needs; raises `AgentError` where that is impossible.

    `forced` holds whatever the user's settings say; `servers` are those of theirs that are offered beside ours.
    """
    theirs = user_home(order.environment)
    settings = _filled(_filled(forced, _read(theirs / ".gemini" / _SETTINGS)), _defaults(order.environment))
    offered = _offered(order)
    settings["mcpServers"] = {**settings.get("mcpServers", {}), **offered}
    settings["mcp"] = {**settings.get("mcp", {}), "allowed": sorted({SERVER, *offered, *servers})}
    if offered:
        _expect_ours_allowed(order)
    try:
        with session_directory(order.workspace_fd) as outer:
            write_gitignore(outer)
            with _subdirectory(outer, _NAME) as home, _subdirectory(home, ".gemini") as ours:
                write_atomic(ours, _SETTINGS, json.dumps(settings, indent=2).encode())
                _link(home, theirs, _LINKED)
                _link(ours, theirs / ".gemini", _names(theirs / ".gemini"))
    except OSError as error:
        where = f"{DIRECTORY}/{_NAME}"
        raise AgentError(
            AgentError.TOOLS, f"{where} in the workspace cannot be written: {error}.", fix=f"Remove {where}."
        ) from error


def _offered(order: SessionOrder) -> Settings:
    """The servers of the order: ours, and those of the workflow."""
    servers = read_entries(order)
    if SERVER not in servers:
        return servers
    return {**servers, SERVER: {**_unexpanded(servers[SERVER]), "trust": True}}


def _expect_ours_allowed(order: SessionOrder) -> None:
    """An administrator and the repository can each narrow which servers there are; Gemini says nothing of it."""
    system = Path(order.environment.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or _SYSTEM_SETTINGS)
    for where, settings in (
        (system, _read(system)),
        (f".gemini/{_SETTINGS} of the repository", _repository_settings(order)),
    ):
        mcp = settings.get("mcp")
        allowed = mcp.get("allowed") if isinstance(mcp, dict) else None
        if isinstance(allowed, list) and SERVER not in allowed:
            fix = f"Add {SERVER} to mcp.allowed there."
            raise AgentError(AgentError.TOOLS, f"{where} does not allow the MCP server {SERVER}.", fix=fix)


def _repository_settings(order: SessionOrder) -> Settings:
    """Whatever an agent may have put there instead; what is wrong with it Gemini itself will say."""
    try:
        with open_directory(order.workspace_fd, ".gemini") as directory:
            return _parsed(read_bounded(directory, _SETTINGS, _FILE_LIMIT).decode())
    except (OSError, ValueError, RecursionError):
        return {}


def _defaults(environment: Mapping[str, str]) -> Settings:
    """With a key, and no word of another way to log in, the key: beside an endpoint Gemini would not take it."""
    other = any(environment.get(name) == "true" for name in ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"))
    if other or not environment.get("GEMINI_API_KEY"):
        return _DEFAULTS
    return {**_DEFAULTS, "security": {"auth": {"selectedType": "gemini-api-key"}}}


def _filled(settings: Settings, more: Settings) -> Settings:
    """The settings, with what only the others say."""
    both = {**more, **settings}
    for name, value in settings.items():
        if isinstance(value, dict) and isinstance(more.get(name), dict):
            both[name] = _filled(value, more[name])
    return both


def _read(path: Path) -> Settings:
    try:
        return _parsed(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise AgentError(AgentError.CONFIG, f"{path} cannot be used: {error}.", fix="Correct it.") from error


def _parsed(text: str) -> Settings:
    """Settings may hold comments; raises ValueError for what are none."""
    settings = json.loads(_COMMENT.sub(lambda found: found[0] if found[0].startswith('"') else "", text))
    if not isinstance(settings, dict):
        raise ValueError("it holds no JSON object")
    return settings


def _unexpanded(server: Mapping[str, Any]) -> dict[str, Any]:
    """The entry as Gemini must read it to get every `$` back: it expands all strings, and the environment twice."""

    def once(text: str) -> str:
        return text.replace("$", "${SORTIE_NO_SUCH_VARIABLE:-$}")

    return {
        **server,
        "command": once(server["command"]),
        "args": [once(argument) for argument in server["args"]],
        "env": {name: once(value.replace("$", "\\$")) for name, value in server["env"].items()},
    }


@contextmanager
def _subdirectory(directory: int, name: str) -> Iterator[int]:
    try:
        os.mkdir(name, 0o700, dir_fd=directory)
    except FileExistsError:
        pass  # whether it is a directory shows when it is opened
    with open_directory(directory, name) as inner:
        yield inner


def _names(directory: Path) -> list[str]:
    try:
        return [path.name for path in directory.iterdir() if not path.name.startswith(_PER_WORKSPACE)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _link(directory: int, source: Path, names: tuple[str, ...] | list[str]) -> None:
    for name in names:
        if not (source / name).exists():
            continue
        try:
            os.symlink(source / name, name, dir_fd=directory)
        except FileExistsError:
            pass  # from an earlier session, or made by Gemini itself before the user had one
