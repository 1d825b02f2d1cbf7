"""Claude Code, one process for each turn: how it is called. What it answers is read in `claude_stream`."""

from __future__ import annotations

import uuid
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from ..options import Text
from ..per_turn import Invocation, PerTurnAgent, Turn
from ..program import Program
from .claude_stream import ClaudeReader


class ClaudeOptions(Struct, frozen=True, kw_only=True):
    """Without a permission mode nothing is asked and everything is allowed: nobody is there to answer."""

    permission_mode: (
        Literal["acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan"] | None
    ) = None
    model: Text | None = None
    fallback_model: Text | None = None
    max_turns: Annotated[int, Meta(ge=1)] | None = None
    max_budget_usd: Annotated[float, Meta(gt=0)] | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    allowed_tools: tuple[Text, ...] = ()
    disallowed_tools: tuple[Text, ...] = ()
    system_prompt: Text | None = None
    session_persistence: bool = True
    other_mcp_servers: bool = False


class ClaudeCode(PerTurnAgent[ClaudeOptions]):
    kind = "claude-code"
    program = Program(
        name="Claude Code",
        command="claude",
        install="npm install -g @anthropic-ai/claude-code",
        tested=("2.1.197", "2.1.325"),
    )
    options_type = ClaudeOptions
    keys = (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
    )
    login_files = (".claude/.credentials.json",)
    login_fix = "Set ANTHROPIC_API_KEY, or run `claude` once and log in."
    settings = (
        "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_MAX_RETRIES", "API_TIMEOUT_MS", "IS_SANDBOX", "HTTPS_PROXY", "NO_PROXY",
        "NODE_EXTRA_CA_CERTS",
    )  # fmt: skip
    # Tools behind a search are tools that a model does not find; updates and telemetry are not for a service.
    fixed_environment: ClassVar[dict[str, str]] = {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }

    def invocation(self, turn: Turn) -> Invocation:
        chosen = "" if turn.session_id else str(uuid.uuid4())
        session = ["--resume", turn.session_id] if turn.session_id else ["--session-id", chosen]
        arguments = ["-p", "--output-format", "stream-json", "--verbose", *session, *self._flags()]
        if turn.order.mcp_config:
            arguments += ["--mcp-config", str(turn.order.mcp_config)]
            if not self.options.other_mcp_servers:
                arguments.append("--strict-mcp-config")
        return Invocation(arguments=arguments, stdin=turn.prompt, session_id=chosen)

    def reader(self, turn: Turn) -> ClaudeReader:
        return ClaudeReader(turn.session_id)

    def _flags(self) -> list[str]:
        options = self.options
        mode = options.permission_mode
        flags = ["--permission-mode", mode] if mode else ["--dangerously-skip-permissions"]
        for flag, value in (
            ("--model", options.model),
            ("--fallback-model", options.fallback_model),
            ("--max-turns", options.max_turns),
            ("--max-budget-usd", options.max_budget_usd),
            ("--effort", options.effort),
            ("--allowedTools", ",".join(options.allowed_tools)),
            ("--disallowedTools", ",".join(options.disallowed_tools)),
            ("--append-system-prompt", options.system_prompt),
        ):
            if value:
                flags += [flag, str(value)]
        return flags if options.session_persistence else [*flags, "--no-session-persistence"]
