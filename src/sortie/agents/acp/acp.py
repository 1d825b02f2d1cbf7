"""Any agent that speaks the Agent Client Protocol over stdio, one process for each session."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import anyio

from ...core.model import Finding
from ...errors import AgentError
from ..agent import SessionOrder
from ..cli_agent import NETWORK_VARIABLES
from ..per_session import PerSessionAgent
from ..program import Program
from .acp_session import AcpOptions, AcpSession

_MCP_CONFIG = "SORTIE_MCP_CONFIG"


class AcpAgent(PerSessionAgent[AcpOptions]):
    kind = "acp"
    program = Program(
        name="Claude Agent over ACP",
        command="claude-agent-acp",
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        tested=("0.99.1", "0.99.1"),
    )
    options_type = AcpOptions
    session_type = AcpSession
    settings = (
        # claude-agent-acp
        "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS",
        "ANTHROPIC_MODEL", "API_TIMEOUT_MS", "CLAUDE_CODE_EXECUTABLE", "CLAUDE_CODE_MAX_RETRIES",
        "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CONFIG_DIR",
        "IS_SANDBOX",
        # codex-acp
        "CODEX_API_KEY", "CODEX_CONFIG", "CODEX_HOME", "CODEX_PATH", "MODEL_PROVIDER", "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        # opencode acp
        "OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR",
        "OPENCODE_DISABLE_MODELS_FETCH", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
        # copilot --acp
        "COPILOT_GITHUB_TOKEN", "COPILOT_HOME", "COPILOT_MODEL", "COPILOT_OFFLINE",
        "COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_BEARER_TOKEN",
        "COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_WIRE_API", "GH_TOKEN", "GITHUB_TOKEN",
        # gemini --acp
        "GEMINI_API_KEY", "GEMINI_CLI_HOME", "GEMINI_MODEL", "GOOGLE_API_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI",
        # all of them
        *NETWORK_VARIABLES,
    )  # fmt: skip
    # No updates, no telemetry, no tools behind a search, no second process that swallows signals, no questions
    # whether the workspace is to be trusted.
    fixed_environment: ClassVar[dict[str, str]] = {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "COPILOT_AUTO_UPDATE": "false",
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }

    def environment(self, order: SessionOrder) -> dict[str, str]:
        # Claude Code repeats even a request whose key was refused, for minutes and without a word.
        return {"CLAUDE_CODE_MAX_RETRIES": "2", **super().environment(order)}

    def login(self, environment: Mapping[str, str]) -> Finding:  # noqa: ARG002 - every agent has its own
        return Finding("PASS", "login", "the agent logs in by itself; whether it can shows in the first turn")

    async def examine(self, environment: Mapping[str, str]) -> list[Finding]:
        """Start it and let it introduce itself: that is more than a version on a command line."""
        with tempfile.TemporaryDirectory(prefix="sortie-") as directory:
            # The command may name the file of a session.
            config = Path(directory) / "mcp.json"
            config.write_text('{"mcpServers": {}}')
            try:
                session = await self._probe({**environment, _MCP_CONFIG: str(config)})
            except AgentError as error:
                fix = error.fix or f"Run it by hand; for {self.program.name}: {self.program.install}"
                return [Finding("FAIL", "program", f"`{self.command}`: {error.message}", fix)]
        return [*self._findings(session), self.login(environment)]

    async def _probe(self, environment: Mapping[str, str]) -> AcpSession:
        cwd_fd = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY)
        order = SessionOrder(
            run_id=uuid.uuid4().hex,
            issue_id="",
            identifier="",
            attempt=0,
            workspace=self.base,
            workspace_fd=cwd_fd,
            environment=environment,
        )
        try:
            child = await self.start(order)
        finally:
            os.close(cwd_fd)
        session = AcpSession(self, order, child, lambda _: None)
        try:
            await session.shake_hands()
        finally:
            with anyio.CancelScope(shield=True):
                await child.end(grace=1.0)
                await session.close()
        return session

    def _findings(self, session: AcpSession) -> list[Finding]:
        who, agent = session.agent_info, session.agent
        program = Finding("PASS", "program", f"{self.command}: {who.name or 'an agent'} {who.version}".strip())
        if not agent.tested:
            version = Finding("WARN", "version", "this agent was not tested; it is taken at the protocol's word.")
        elif agent.tested != who.version:
            version = Finding("WARN", "version", f"{who.version} was not tested; tested with {agent.tested}.")
        else:
            version = Finding("PASS", "version", f"{who.version}; tested with {agent.tested}")
        findings = [program, version]
        if agent.mcp_argument and agent.mcp_argument not in self.command:
            fix = f'Add `{agent.mcp_argument} @"${_MCP_CONFIG}"` to agent.command.'
            findings.append(Finding("WARN", "tools", "it takes no stdio MCP servers from its client.", fix))
        return findings
