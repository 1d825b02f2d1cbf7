"""Which agent kinds there are, and the class behind each. Nothing is imported before it is asked for."""

from __future__ import annotations

from typing import cast

from ..plugins import load_plugin, plugin_kinds
from .agent import Agent

GROUP = "sortie.agents"
BUILT_IN = {
    "acp": "sortie.agents.acp.acp:AcpAgent",
    "claude-code": "sortie.agents.claude.claude_code:ClaudeCode",
    "codex": "sortie.agents.codex.codex:Codex",
    "copilot-cli": "sortie.agents.copilot.copilot_cli:CopilotCli",
    "gemini": "sortie.agents.gemini.gemini:Gemini",
    "opencode": "sortie.agents.opencode.opencode:OpenCode",
    "command": "sortie.agents.command:CommandAgent",
    "mock": "sortie.agents.mock:MockAgent",
}


def kinds() -> tuple[str, ...]:
    return plugin_kinds(GROUP, BUILT_IN)


def load(kind: str) -> type[Agent]:
    """The class of this kind; raises `ConfigurationError` where there is none, or where it cannot be imported."""
    return cast("type[Agent]", load_plugin(GROUP, BUILT_IN, kind))
