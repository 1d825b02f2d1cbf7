"""How each real agent is pointed at the fake model: nothing but an endpoint, a key, and what a person would set.

`{model}` stands for the address of the fake model, `{key}` for a key that it accepts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct


class Recipe(Struct, frozen=True, kw_only=True):
    """`command` has `{program}` for the installed program. `home` are files below HOME, `passed_on` is `agent.env`.

    `tells_reset`: the agent lets through how long the provider asks to wait, which is `retry_after`.
    `starts_within`: seconds in which its first request has come, on a busy machine too.
    """

    program: str
    kind: str
    command: str = "{program}"
    environment: Mapping[str, str] = {}
    home: Mapping[str, str] = {}
    options: Mapping[str, Any] = {}
    passed_on: tuple[str, ...] = ()
    counts: Literal["all steps", "last step"] = "all steps"
    resumes: bool = True
    tells_reset: bool = True
    retry_after: int = 12
    starts_within: int = 12


def _claude_environment() -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": "{model}",
        "ANTHROPIC_API_KEY": "{key}",
        # Tests may run as root, in a machine made for it.
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }


CODEX = {
    "model": "fake-model",
    "model_provider": "fake",
    "features": {"plugins": False},
    "analytics": {"enabled": False},
    "model_providers": {
        "fake": {"name": "fake", "base_url": "{model}/v1", "wire_api": "responses", "env_key": "OPENAI_API_KEY"}
    },
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

_GEMINI_ENVIRONMENT = {
    "GOOGLE_GEMINI_BASE_URL": "{model}",
    "GEMINI_API_KEY": "{key}",
    # Its shell tool hides ~/.gitconfig.
    "GIT_AUTHOR_NAME": "Agent",
    "GIT_AUTHOR_EMAIL": "agent@example.invalid",
    "GIT_COMMITTER_NAME": "Agent",
    "GIT_COMMITTER_EMAIL": "agent@example.invalid",
}
_OPENCODE_HOME = {".config/opencode/opencode.json": json.dumps(OPENCODE)}

RECIPES = {
    "claude-code": Recipe(
        program="claude-code",
        kind="claude-code",
        environment=_claude_environment(),
        # It tells when it tries again, which is its own decision.
        tells_reset=False,
        retry_after=1,
    ),
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
        environment=_GEMINI_ENVIRONMENT,
        # Left to itself it asks another model first which one to use, and the fake has no answer to that.
        options={"model": "pro"},
        # It looks for the wait in the body of the answer, and not in its header.
        tells_reset=False,
    ),
    "opencode": Recipe(
        program="opencode",
        kind="opencode",
        environment={"OPENCODE_DISABLE_MODELS_FETCH": "1"},
        home=_OPENCODE_HOME,
        # It tries six times, each after that wait.
        retry_after=1,
        starts_within=25,
    ),
    "acp-claude": Recipe(
        program="claude-agent-acp",
        kind="acp",
        environment=_claude_environment(),
        tells_reset=False,
        retry_after=1,
    ),
    "acp-codex": Recipe(
        program="codex-acp",
        kind="acp",
        environment={"OPENAI_API_KEY": "{key}", "CODEX_CONFIG": json.dumps(CODEX)},
    ),
    "acp-opencode": Recipe(
        program="opencode",
        kind="acp",
        command="{program} acp",
        environment={"OPENCODE_DISABLE_MODELS_FETCH": "1"},
        home=_OPENCODE_HOME,
        counts="last step",
    ),
    "acp-gemini": Recipe(
        program="gemini",
        kind="acp",
        command="{program} --acp -m gemini-2.5-pro",
        environment=_GEMINI_ENVIRONMENT,
        passed_on=tuple(name for name in _GEMINI_ENVIRONMENT if name.startswith("GIT_")),
        # Over this protocol it loses a conversation that is loaded in the minute in which it began.
        resumes=False,
    ),
}

# The first of each kind. What goes wrong goes wrong in the same way for the others.
ONE_OF_EACH_KIND = tuple({recipe.kind: name for name, recipe in reversed(RECIPES.items())}.values())
