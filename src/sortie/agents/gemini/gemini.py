"""Gemini CLI, one process for each turn: how it is called. What it answers is read in `gemini_stream`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from ...core.model import Finding
from ...errors import AgentError
from ..agent import SessionOrder
from ..cli_agent import NETWORK_VARIABLES
from ..options import Text
from ..per_turn import Invocation, PerTurnAgent, Turn
from ..program import Program
from . import gemini_home
from .gemini_stream import GeminiReader


class GeminiOptions(Struct, frozen=True, kw_only=True):
    """Everything is approved unless a mode is chosen: nobody is there to ask. Paths start at the workflow file."""

    model: Text | None = None
    approval_mode: Literal["default", "auto_edit", "yolo", "plan"] = "yolo"
    max_turns: Annotated[int, Meta(ge=1)] | None = None
    allowed_tools: tuple[Text, ...] = ()
    policies: tuple[Text, ...] = ()
    allowed_mcp_server_names: tuple[Text, ...] = ()
    extensions: tuple[Text, ...] = ()
    include_directories: tuple[Text, ...] = ()


class Gemini(PerTurnAgent[GeminiOptions]):
    kind = "gemini"
    program = Program(
        name="Gemini CLI",
        command="gemini",
        install="npm install -g @google/gemini-cli",
        tested=("0.61.0", "0.61.0"),
    )
    options_type = GeminiOptions
    keys = (
        "GEMINI_API_KEY",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_GENAI_USE_GCA",
        "GEMINI_CLI_USE_COMPUTE_ADC",
    )
    login_files = (".gemini/oauth_creds.json", ".gemini/gemini-credentials.json", ".gemini/.env")
    login_fix = "Set GEMINI_API_KEY, or run `gemini` once and log in."
    settings = (
        "GEMINI_CLI_CUSTOM_HEADERS", "GEMINI_CLI_HOME", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH", "GEMINI_API_KEY_AUTH_MECHANISM", "GEMINI_MODEL",
        "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_ACCESS_TOKEN",
        "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_PROJECT_ID",
        "GOOGLE_CLOUD_QUOTA_PROJECT", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_API_VERSION",
        "GOOGLE_VERTEX_BASE_URL", "CLOUDSDK_CONFIG",
        # Gemini's shell does not see ~/.gitconfig: who commits can be told by these alone.
        "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_NAME",
        *NETWORK_VARIABLES,
    )  # fmt: skip
    # Relaunched, it lets no signal through to its second process; without trust there are neither tools nor yolo.
    fixed_environment: ClassVar[dict[str, str]] = {
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "NO_COLOR": "1",
    }

    def prepare(self, order: SessionOrder) -> None:
        for name in ("policies", "include_directories"):
            for path in getattr(self.options, name):
                if not (self.base / path).exists():
                    # Gemini passes over a missing policy without a word.
                    said = f"gemini.{name} names {path}, which is not there."
                    raise AgentError(AgentError.CONFIG, said, fix="Paths start at the workflow file.")
        limit = self.options.max_turns
        forced = {"model": {"maxSessionTurns": limit}} if limit else {}
        gemini_home.write_home(order, forced, self.options.allowed_mcp_server_names)

    def invocation(self, turn: Turn) -> Invocation:
        resume = ["--resume", turn.session_id] if turn.session_id else []
        return Invocation(
            arguments=["--output-format", "stream-json", *resume, *self._flags()],
            # What begins with a slash is a command of Gemini's own.
            stdin=f" {turn.prompt}" if turn.prompt.startswith("/") else turn.prompt,
            environment={"GEMINI_CLI_HOME": str(gemini_home.path_of(turn.order))},
        )

    def reader(self, turn: Turn) -> GeminiReader:
        return GeminiReader(turn.session_id)

    def login(self, environment: Mapping[str, str]) -> Finding:
        return super().login({**environment, "HOME": str(gemini_home.user_home(environment))})

    def _flags(self) -> list[str]:
        options = self.options
        flags = ["--approval-mode", options.approval_mode]
        if options.model:
            flags += ["--model", options.model]
        for flag, values in (
            ("--allowed-tools", options.allowed_tools),
            ("--extensions", options.extensions),
            ("--policy", (str(self.base / path) for path in options.policies)),
            ("--include-directories", (str(self.base / path) for path in options.include_directories)),
        ):
            flags += [f"{flag}={value}" for value in values]
        return flags
