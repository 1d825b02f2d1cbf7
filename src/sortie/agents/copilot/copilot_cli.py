"""GitHub Copilot CLI, one process for each turn: how it is called. What it answers is read in `copilot_stream`.

Left alone, a resumed session goes back to the directory that it was begun in, wherever it is started: `-C .` holds
it to the workspace.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from ...core.model import Finding
from ...errors import AgentError
from ...protocol.safefiles import open_directory, read_bounded
from ...protocol.session_files import SERVER
from ..cli_agent import NETWORK_VARIABLES
from ..options import Text
from ..per_turn import Invocation, PerTurnAgent, Turn
from ..program import Program
from .copilot_journal import Journal, copilot_home
from .copilot_stream import CopilotReader

_SESSION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
_TOKENS = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN")
_SIGNED_IN = re.compile(rb'"(?:loggedInUsers|logged_in_users|copilotTokens|copilot_tokens)"\s*:\s*[\[{]\s*[^\s\]}]')
_FILE_LIMIT = 1024 * 1024


class CopilotOptions(Struct, frozen=True, kw_only=True):
    """Without `allow_tools` everything is allowed that `deny_tools` does not name: nobody is there to ask."""

    model: Text | None = None
    agent: Text | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    max_autopilot_continues: Annotated[int, Meta(ge=1)] | None = None
    allow_tools: tuple[Text, ...] = ()
    deny_tools: tuple[Text, ...] = ()
    available_tools: tuple[Text, ...] = ()
    excluded_tools: tuple[Text, ...] = ()
    disable_builtin_mcps: bool = False
    no_custom_instructions: bool = False
    experimental: bool = False


class CopilotCli(PerTurnAgent[CopilotOptions]):
    kind = "copilot-cli"
    program = Program(
        name="GitHub Copilot CLI",
        command="copilot",
        install="npm install -g @github/copilot",
        tested=("1.0.102", "1.0.102"),
    )
    options_type = CopilotOptions
    keys = (
        *_TOKENS,
        "COPILOT_PROVIDER_API_KEY",
        "COPILOT_PROVIDER_API_KEY_COMMAND",
        "COPILOT_PROVIDER_BEARER_TOKEN",
    )
    login_fix = "Set COPILOT_GITHUB_TOKEN, run `copilot login`, or set COPILOT_PROVIDER_BASE_URL."
    settings = (
        "COPILOT_HOME", "COPILOT_MODEL", "COPILOT_OFFLINE", "COPILOT_PROVIDER_BASE_URL",
        "COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_WIRE_API", "COPILOT_PROVIDER_TRANSPORT",
        "COPILOT_PROVIDER_AZURE_API_VERSION", "COPILOT_PROVIDER_HEADERS", "COPILOT_PROVIDER_MODEL_ID",
        "COPILOT_PROVIDER_WIRE_MODEL", "COPILOT_PROVIDER_MAX_PROMPT_TOKENS",
        "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS", "COPILOT_CUSTOM_INSTRUCTIONS_DIRS", "COPILOT_GH_HOST",
        "GH_HOST", *NETWORK_VARIABLES,
    )  # fmt: skip
    fixed_environment: ClassVar[dict[str, str]] = {"COPILOT_AUTO_UPDATE": "false"}

    def invocation(self, turn: Turn) -> Invocation:
        resumed = turn.session_id
        if resumed and not _SESSION_ID.fullmatch(resumed):
            # Copilot takes it for the name of a session or the beginning of one, and could find another's.
            raise AgentError(AgentError.SESSION, f"{resumed[:80]!r} is not the id of a Copilot session.")
        chosen = "" if resumed else str(uuid.uuid4())
        session = f"--resume={resumed}" if resumed else f"--session-id={chosen}"
        arguments = ["-C", ".", "--output-format", "json", "--no-ask-user", "--disable-client-telemetry", session]
        arguments += [*self._flags(), *self._permissions(with_ours=turn.order.mcp_config is not None)]
        if turn.order.mcp_config:
            arguments += ["--additional-mcp-config", f"@{turn.order.mcp_config}"]
        return Invocation(arguments=arguments, stdin=turn.prompt, session_id=chosen)

    def reader(self, turn: Turn) -> CopilotReader:
        # What its journal holds by now was used by earlier turns.
        journal = Journal(copilot_home(self.environment(turn.order)), turn.session_id)
        return CopilotReader(turn.session_id, journal.fresh_calls)

    def login(self, environment: Mapping[str, str]) -> Finding:
        if environment.get("COPILOT_PROVIDER_BASE_URL"):
            return self._own_provider(environment)
        token = next((name for name in _TOKENS if environment.get(name)), None)
        if token and environment[token].startswith("ghp_"):
            fix = "Make a fine-grained token with the permission “Copilot Requests”."
            return Finding("FAIL", "login", f"{token} is a classic token, which Copilot does not accept.", fix)
        if token:
            return Finding("PASS", "login", f"{token} is set")
        home = copilot_home(environment)
        if _SIGNED_IN.search(_content(home, "config.json")):
            return Finding("PASS", "login", f"{home}/config.json names a login")
        directory = Path(environment.get("GH_CONFIG_DIR") or Path(environment.get("HOME", "/")) / ".config" / "gh")
        hosts = _content(directory, "hosts.yml")
        if b"oauth_token:" in hosts:
            return Finding("PASS", "login", f"{directory}/hosts.yml has the token of a gh login")
        if b"user:" in hosts:
            return Finding("WARN", "login", "gh is logged in; its token is where only gh finds it.", self.login_fix)
        return Finding("FAIL", "login", "there is neither a token nor a login.", self.login_fix)

    def _own_provider(self, environment: Mapping[str, str]) -> Finding:
        if self.options.model or environment.get("COPILOT_MODEL") or environment.get("COPILOT_PROVIDER_MODEL_ID"):
            return Finding("PASS", "login", "COPILOT_PROVIDER_BASE_URL is set: a model provider of your own")
        fix = "Set copilot-cli.model or COPILOT_MODEL."
        return Finding("FAIL", "login", "COPILOT_PROVIDER_BASE_URL is set without a model.", fix)

    def _flags(self) -> list[str]:
        options = self.options
        named = (
            ("--model", options.model),
            ("--agent", options.agent),
            ("--reasoning-effort", options.reasoning_effort),
        )
        most = options.max_autopilot_continues
        switches = (
            ("--autopilot", most),
            (f"--max-autopilot-continues={most}", most),
            ("--disable-builtin-mcps", options.disable_builtin_mcps),
            ("--no-custom-instructions", options.no_custom_instructions),
            ("--experimental", options.experimental),
        )
        return [f"{flag}={value}" for flag, value in named if value] + [flag for flag, on in switches if on]

    def _permissions(self, *, with_ours: bool) -> list[str]:
        """Our own tools stay allowed and visible wherever the operator names those that are."""
        options = self.options
        ours = (SERVER,) if with_ours else ()
        flags = [] if options.allow_tools else ["--allow-all"]
        for flag, names, added in (
            ("--allow-tool", options.allow_tools, ours),
            ("--deny-tool", options.deny_tools, ()),
            ("--available-tools", options.available_tools, ours),
            ("--excluded-tools", options.excluded_tools, ()),
        ):
            if names:
                flags += [f"{flag}={name}" for name in (*names, *added)]
        return flags


def _content(directory: Path, name: str) -> bytes:
    try:
        with open_directory(Path(os.path.realpath(directory))) as descriptor:
            return read_bounded(descriptor, name, _FILE_LIMIT)
    except OSError:
        return b""
