"""How each real agent is pointed at the fake model: nothing but an endpoint, a key, and what a person would set.

`{model}` stands for the address of the fake model, `{key}` for a key that it accepts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Recipe(Struct, frozen=True, kw_only=True):
    """`command` has `{program}` for the installed program. `home` are files below HOME.

    `tells_reset`: the agent lets through how long the provider asks to wait, which is `retry_after`.
    `gives_up`: it ends by itself when the provider keeps failing; one that does not is ended for its silence.
    """

    program: str
    kind: str
    command: str = "{program}"
    environment: Mapping[str, str] = {}
    home: Mapping[str, str] = {}
    options: Mapping[str, Any] = {}
    tells_reset: bool = True
    retry_after: int = 12
    gives_up: bool = True


def _claude_environment() -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": "{model}",
        "ANTHROPIC_API_KEY": "{key}",
        # Tests may run as root, in a machine made for it.
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }


OPENCODE = {
    "$schema": "https://opencode.ai/config.json",
    "model": "fake/fake-model",
    "enabled_providers": ["fake"],
    "provider": {
        "fake": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Fake",
            "options": {"baseURL": "{model}/v1", "apiKey": "{key}"},
            "models": {
                "fake-model": {
                    "name": "fake-model",
                    "tool_call": True,
                    "limit": {"context": 200_000, "output": 8_000},
                    "cost": {"input": 2, "output": 10, "cache_read": 0.5},
                }
            },
        }
    },
}

RECIPES = {
    "claude-code": Recipe(program="claude-code", kind="claude-code", environment=_claude_environment()),
    "codex": Recipe(
        program="codex",
        kind="codex",
        environment={"CODEX_API_KEY": "{key}"},
        home={".codex/config.toml": 'model = "fake-model"\nopenai_base_url = "{model}/v1"\n'},
        # It tries five times, each after that wait, and does not tell how long that was.
        tells_reset=False,
        retry_after=1,
    ),
    "copilot-cli": Recipe(
        program="copilot",
        kind="copilot-cli",
        environment={
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": "{model}/v1",
            "COPILOT_PROVIDER_API_KEY": "{key}",
            "COPILOT_MODEL": "fake-model",
        },
        # It tries six times, each after that wait.
        tells_reset=False,
        retry_after=1,
    ),
    "gemini": Recipe(
        program="gemini",
        kind="gemini",
        environment={
            "GOOGLE_GEMINI_BASE_URL": "{model}",
            "GEMINI_API_KEY": "{key}",
            # Its shell tool hides ~/.gitconfig.
            "GIT_AUTHOR_NAME": "Agent",
            "GIT_AUTHOR_EMAIL": "agent@example.invalid",
            "GIT_COMMITTER_NAME": "Agent",
            "GIT_COMMITTER_EMAIL": "agent@example.invalid",
        },
        # Left to itself it asks another model first which one to use, and the fake has no answer to that.
        options={"model": "pro"},
        # It looks for the wait in the body of the answer, and not in its header.
        tells_reset=False,
    ),
    "opencode": Recipe(
        program="opencode",
        kind="opencode",
        environment={"OPENCODE_DISABLE_MODELS_FETCH": "1"},
        home={".config/opencode/opencode.json": json.dumps(OPENCODE)},
        # It tries six times, each after that wait.
        retry_after=1,
    ),
}
