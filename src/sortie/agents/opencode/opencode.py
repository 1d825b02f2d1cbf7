"""OpenCode, one process for each turn: how it is called. What it answers is read in `opencode_stream`.

A conversation belongs to the directory in which it began: resumed from anywhere else, OpenCode works in that other
directory and tells nothing of it. So it is asked beforehand where the conversation to resume has its place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from ...core.model import Finding
from ...protocol.safefiles import write_atomic
from ...protocol.session_files import DIRECTORY, SERVER, session_directory
from ..agent import AgentSettings, ErrorReported, Reporter, SessionOrder
from ..cli_agent import NETWORK_VARIABLES
from ..command_line import shell_command
from ..mcp_servers import McpServer, read_servers
from ..options import Text, read_options
from ..per_turn import Invocation, PerTurnAgent, PerTurnSession, Turn
from ..program import Program, run_command
from .opencode_stream import OpenCodeReader

# What OpenCode can be permitted; whatever else it knows are the tools of MCP servers, named server_tool.
_TOOLS = (
    "bash", "doom_loop", "edit", "external_directory", "glob", "grep", "list", "lsp", "question", "read",
    "skill", "task", "todowrite", "webfetch", "websearch",
)  # fmt: skip
_CONFIG_FILE = "opencode.json"
# The kernel takes no variable of more than 128 KiB, its name included.
_VARIABLE_LIMIT = 127 * 1024
_SESSIONS = 10_000


class OpenCodeOptions(Struct, frozen=True, kw_only=True):
    """By default nothing is asked and everything is allowed that opencode.json does not deny."""

    model: Text | None = None
    agent: Text | None = None
    variant: Text | None = None
    thinking: bool = False
    pure: bool = False
    disable_autocompact: bool = False
    dangerously_skip_permissions: bool = True
    allowed_tools: tuple[Text, ...] = ()
    denied_tools: tuple[Text, ...] = ()


class _Listed(Struct, frozen=True):
    id: str = ""
    directory: str = ""


class OpenCode(PerTurnAgent[OpenCodeOptions]):
    kind = "opencode"
    program = Program(
        name="OpenCode",
        command="opencode",
        install="npm install -g opencode-ai",
        tested=("1.18.33", "1.18.33"),
    )
    options_type = OpenCodeOptions
    keys = (
        "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY",
        "GOOGLE_GENERATIVE_AI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY",
        "XAI_API_KEY", "AZURE_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "OPENCODE_API_KEY",
        "OPENCODE_AUTH_CONTENT",
    )  # fmt: skip
    login_files = (".local/share/opencode/auth.json",)
    login_fix = "Set a key such as ANTHROPIC_API_KEY, or run `opencode auth login`."
    settings = (
        "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_DISABLE_PROJECT_CONFIG",
        "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_MODELS_URL", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
        "XDG_STATE_HOME", "XDG_CACHE_HOME", "AWS_PROFILE", "AWS_REGION", "AZURE_RESOURCE_NAME",
        *NETWORK_VARIABLES,
    )  # fmt: skip
    fixed_environment: ClassVar[dict[str, str]] = {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }

    @classmethod
    def check(cls, settings: AgentSettings) -> list[tuple[str, str]]:
        problems = super().check(settings)
        return problems or _contradictions(read_options(OpenCodeOptions, settings.options))

    def login(self, environment: Mapping[str, str]) -> Finding:
        """One can do without: opencode.json may hold a key, and its makers give some models away."""
        found = super().login(environment)
        if found.verdict != "FAIL":
            return found
        said = "there is neither a key nor a login: what opencode.json says is used, or a free model of its makers."
        return Finding("WARN", "login", said, found.fix)

    async def open(self, order: SessionOrder, reporter: Reporter) -> PerTurnSession:
        async with self.first_start.gate():
            # Any command brings its database up to date; turns would do that too, several at once.
            here = await self._begun_here(order) if order.resume or not self.first_start.open else False
        if order.resume and not here:
            said = f"OpenCode has no conversation {order.resume} in this workspace. A fresh conversation begins."
            reporter.report(ErrorReported(said))
            order = msgspec.structs.replace(order, resume="")
        return await super().open(order, reporter)

    def invocation(self, turn: Turn) -> Invocation:
        # With a title of its own it does not ask a model for one, whose tokens it would not tell.
        session = f"--session={turn.session_id}" if turn.session_id else f"--title={turn.order.identifier}"
        arguments = ["run", "--format=json", "--print-logs", "--log-level=WARN", session, *self._flags()]
        environment = {**self._configuration(turn.order), **self._permissions()}
        return Invocation(arguments=arguments, stdin=turn.prompt, environment=environment)

    def reader(self, turn: Turn) -> OpenCodeReader:
        return OpenCodeReader(turn.session_id)

    def environment(self, order: SessionOrder) -> dict[str, str]:
        compaction = {"OPENCODE_DISABLE_AUTOCOMPACT": "1"} if self.options.disable_autocompact else {}
        return {**super().environment(order), **compaction}

    def _flags(self) -> list[str]:
        options = self.options
        named = (("--model", options.model), ("--agent", options.agent), ("--variant", options.variant))
        switches = (
            ("--auto", options.dangerously_skip_permissions),
            ("--thinking", options.thinking),
            ("--pure", options.pure),
        )
        return [f"{flag}={value}" for flag, value in named if value] + [flag for flag, on in switches if on]

    def _permissions(self) -> dict[str, str]:
        """Later than every configuration file. An allow-list denies each known tool by its name too, or a file that
        allows one by name would win."""
        rules: dict[str, str] = {}
        if self.options.allowed_tools:
            rules = {"*": "deny", **dict.fromkeys(_TOOLS, "deny"), f"{SERVER}_*": "allow"}
            rules |= dict.fromkeys(self.options.allowed_tools, "allow")
        rules |= dict.fromkeys(self.options.denied_tools, "deny")
        return {"OPENCODE_PERMISSION": msgspec.json.encode(rules).decode()} if rules else {}

    def _configuration(self, order: SessionOrder) -> dict[str, str]:
        """The variable that brings our tools; what it says is added to the configuration files."""
        config: dict[str, Any] = {}
        if servers := read_servers(order):
            config["mcp"] = {name: _in_opencode(server) for name, server in servers.items()}
        if self.options.allowed_tools:
            # Comes before all permissions, where `*` must stand: of several rules that fit, the last one counts.
            config["tools"] = {"*": False}
        if not config:
            return {}
        text = msgspec.json.encode({"$schema": "https://opencode.ai/config.json", **config})
        # So that OpenCode puts no variable and no file into our values.
        text = text.replace(b"{env:", b"\\u007benv:").replace(b"{file:", b"\\u007bfile:")
        if len(text) <= _VARIABLE_LIMIT:
            return {"OPENCODE_CONFIG_CONTENT": text.decode()}
        with session_directory(order.workspace_fd) as directory:
            write_atomic(directory, _CONFIG_FILE, text)
        return {"OPENCODE_CONFIG": str(order.workspace / DIRECTORY / _CONFIG_FILE)}

    async def _begun_here(self, order: SessionOrder) -> bool:
        arguments = ["session", "list", "--format=json", f"--max-count={_SESSIONS}"]
        command = shell_command(self.located(order), arguments)
        answer = await run_command(command, order.workspace, self.environment(order), cwd_fd=order.workspace_fd)
        try:
            listed = msgspec.json.decode(answer.stdout if answer else "", type=list[_Listed])
        except msgspec.DecodeError:
            return False
        here = os.path.realpath(order.workspace)
        return any(session.id == order.resume and session.directory == here for session in listed)


def _in_opencode(server: McpServer) -> dict[str, Any]:
    if server.url:
        return {"type": "remote", "url": server.url, "headers": server.headers, "enabled": True}
    command = [server.command, *server.args]
    return {"type": "local", "command": command, "environment": server.env, "enabled": True}


def _contradictions(options: OpenCodeOptions) -> list[tuple[str, str]]:
    problems = []
    if options.model and not all(options.model.partition("/")):
        problems.append(("opencode.model", "Name the provider too, as in anthropic/claude-sonnet-4-5."))
    if both := sorted({*options.allowed_tools} & {*options.denied_tools}):
        problems.append(("opencode.denied_tools", f"{', '.join(both)} is allowed and denied; name it once."))
    for key in ("allowed_tools", "denied_tools"):
        strange = [tool for tool in getattr(options, key) if tool not in _TOOLS and not {"_", "*"} & {*tool}]
        if strange:
            known = ", ".join(_TOOLS)
            problems.append((f"opencode.{key}", f"OpenCode has no tool {', '.join(strange)}; it knows {known}."))
    return problems
