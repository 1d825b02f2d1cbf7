"""How each real agent is pointed at the fake model: nothing but an endpoint, a key, and what a person would set.

`{model}` stands for the address of the fake model, `{key}` for a key that it accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Recipe(Struct, frozen=True, kw_only=True):
    """`command` has `{program}` for the installed program. `home` are files below HOME.

    `tells_reset`: the agent lets through how long the provider asks to wait, which is `retry_after`. `gives_up`: it ends by itself when the
    provider keeps failing; one that does not is ended for its silence.
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


RECIPES = {
    "claude-code": Recipe(program="claude-code", kind="claude-code", environment=_claude_environment()),
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
}
