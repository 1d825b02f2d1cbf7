"""OpenAI Codex by way of `codex app-server`, one process for a session: how it is started and configured.

What is said to it is in `codex_thread`, what it answers is read in `codex_stream`. A key from the environment is
handed over in the protocol and stays in the memory of the process; `~/.codex` gets nothing but Codex's own records
of the session.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from ...core.model import Finding
from ..agent import AgentSettings, SessionOrder
from ..per_session import PerSessionAgent
from ..program import Program
from .codex_thread import CodexOptions, CodexThread, codex_home, key_of, login_file

# Without this Codex would write a key that we log in with to its own file.
_IN_MEMORY = 'cli_auth_credentials_store="ephemeral"'


class Codex(PerSessionAgent[CodexOptions]):
    kind = "codex"
    program = Program(
        name="Codex",
        command="codex",
        install="npm install -g @openai/codex",
        tested=("0.166.0", "0.166.0"),
    )
    options_type = CodexOptions
    session_type = CodexThread
    keys = ("CODEX_API_KEY", "OPENAI_API_KEY")
    login_fix = "Run `codex login`, or set CODEX_API_KEY."
    settings = (
        "CODEX_HOME", "CODEX_CA_CERTIFICATE", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "SSL_CERT_FILE",
        "HTTPS_PROXY", "NO_PROXY",
    )  # fmt: skip
    fixed_environment: ClassVar[dict[str, str]] = {"NO_COLOR": "1"}

    @classmethod
    def check(cls, settings: AgentSettings) -> list[tuple[str, str]]:
        config = settings.options.get("config")
        flat = _flat(config if isinstance(config, dict) else {})
        sentence = "It must be a text, a number, true or false, or a list of these."
        wrong = [(f"codex.config.{key}", sentence) for key, value in flat if not _has_one_spelling(value)]
        return [*super().check(settings), *wrong]

    def login(self, environment: Mapping[str, str]) -> Finding:
        configured = {**dict(_flat(_config_file(environment))), **dict(_flat(self.options.config))}
        provider = configured.get("model_provider", "openai")
        own = f"model_providers.{provider}"
        if provider != "openai" and not configured.get(f"{own}.requires_openai_auth"):
            variable = configured.get(f"{own}.env_key")
            if variable and not environment.get(variable):
                fix = f"Set {variable}, and name it in agent.env."
                return Finding("FAIL", "login", f"the provider {provider} wants {variable}, which is not set.", fix)
            return Finding("PASS", "login", f"the provider {provider} needs no login with OpenAI")
        if login_file(environment).exists() and not environment.get("CODEX_API_KEY"):
            return Finding("PASS", "login", f"{login_file(environment)} is there")
        return super().login(environment)

    def arguments(self, order: SessionOrder) -> list[str]:
        # Plugins look for updates on the internet with each start.
        overrides = ["features.plugins=false"]
        if key_of(order.environment):
            overrides.append(_IN_MEMORY)
        overrides += [f"{key}={msgspec.json.encode(value).decode()}" for key, value in _flat(self.options.config)]
        command = [] if "app-server" in self.command.split() else ["app-server"]
        return command + [word for override in overrides for word in ("-c", override)]


def _config_file(environment: Mapping[str, str]) -> dict[str, Any]:
    """Codex itself says what is wrong with a file that cannot be read."""
    try:
        return tomllib.loads((codex_home(environment) / "config.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their values. Codex takes overrides key by key, so that the rest of a table stays."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _has_one_spelling(value: Any) -> bool:
    """Whether JSON and TOML write it the same way."""
    values = value if isinstance(value, list) else [value]
    return all(isinstance(each, str | int | float | bool) for each in values)
