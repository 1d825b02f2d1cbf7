"""What the environment adds: `SORTIE_*` overrides, the `.env` file, `$VAR` and `~` in values; what is secret."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from .document import decode, read_file
from .fields import VARIABLE_NAME
from .problems import Problems

PREFIX = "SORTIE_"
ENV_FILE = "SORTIE_ENV_FILE"
# Those that override no setting: where others are, and what agents, hooks and tools are told.
OURS = frozenset(
    PREFIX + name
    for name in (
        "ATTEMPT", "BROKER", "BROKER_TOKEN", "ENV_FILE", "ISSUE_ID", "ISSUE_IDENTIFIER", "MCP_CONFIG", "RUN_ID",
        "SESSION_ID", "STORE_ID", "TOOLS", "TOOL_LOG", "TOOL_PLUGINS", "TRANSITIONS", "TURN", "WORKFLOW_DIR",
        "WORKSPACE",
    )
)  # fmt: skip

_REFERENCE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
# A number of tokens is no secret, unlike a token.
_SECRET_NAME = re.compile(r"(API_?KEY|TOKEN(?!S)|SECRET|PASSWORD|PASSWD|CREDENTIAL)", re.IGNORECASE)


class Variables(Struct, frozen=True):
    """The process environment over the `.env` file. An empty variable counts as not set.

    `origins` has file and line of those that come from the `.env` file; `file_content` is that file.
    """

    values: dict[str, str]
    origins: dict[str, tuple[str, int]] = {}
    file_content: bytes = b""

    def origin(self, name: str) -> tuple[str, int]:
        return self.origins.get(name, ("environment", 0))


def env_file_of(environ: Mapping[str, str], env_file: Path | None) -> Path | None:
    """The `.env` file to use: only one that was asked for, never one that happens to be there."""
    named = environ.get(ENV_FILE)
    return env_file or (Path(named) if named else None)


def gather(environ: Mapping[str, str], env_file: Path | None, problems: Problems) -> Variables:
    values: dict[str, str] = {}
    origins: dict[str, tuple[str, int]] = {}
    content = b""
    env_file = env_file_of(environ, env_file)
    if env_file is not None:
        content = read_file(env_file, problems, missing="warning") or b""
        for line, name, value in _assignments(content, str(env_file), problems):
            values[name] = value
            origins[name] = (str(env_file), line)
    for name, value in environ.items():
        if value:
            values[name] = value
            origins.pop(name, None)
    return Variables({name: value for name, value in values.items() if value}, origins, content)


def _assignments(content: bytes, file: str, problems: Problems) -> Iterable[tuple[int, str, str]]:
    text = decode(content, problems, file=file)
    for number, line in enumerate((text or "").split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not VARIABLE_NAME.fullmatch(name) or "\0" in value:
            # The line itself is not shown: it may hold half a password.
            problems.error("this line must have the form NAME=value", file=file, line=number)
        elif name.startswith(PREFIX):
            is_quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'"
            yield number, name, value[1:-1] if is_quoted else value


def override_name(key: str) -> str:
    """The variable that overrides a key: `agent.max_turns` is `SORTIE_AGENT_MAX_TURNS`."""
    return PREFIX + key.upper().replace(".", "_")


def expand(text: str, variables: Mapping[str, str]) -> tuple[str, list[str]]:
    """`$VAR` and `${VAR}` replaced, once; and the names of those that are not set."""
    missing: list[str] = []

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if not variables.get(name):
            missing.append(name)
        return variables.get(name, "")

    return _REFERENCE.sub(value, text), missing


def secret_values(variables: Mapping[str, str], names: Iterable[str]) -> set[str]:
    """The values of those variables that are named like a secret."""
    return {variables[name] for name in names if name in variables and _SECRET_NAME.search(name)}


def is_secret_name(name: str) -> bool:
    """Whether what is called so must not be shown."""
    return bool(_SECRET_NAME.search(name))


def secrets_of(
    variables: Mapping[str, str],
    passed: Iterable[str],
    options: Mapping[str, Any],
    api_key: str,
    *others: str,
) -> tuple[str, ...]:
    """Every value that must not be shown: the tracker's key, `others` that are known, and what is named like a
    secret."""
    names = {name for name in variables if name.startswith(PREFIX)} | set(passed)
    named = {*secret_values(variables, names), *_secret_options(options)}
    return tuple(sorted({*named, *_of_key(api_key), *others} - {""}))


def _of_key(api_key: str) -> set[str]:
    """The token of `name:token` opens as much alone, and so does the form in which both are sent."""
    key = api_key.strip()
    encoded = b64encode(key.encode("utf-8", "surrogateescape")).decode("ascii")
    return {api_key, key.partition(":")[2], encoded} if ":" in key else {api_key}


def _secret_options(value: Any, name: str = "") -> Iterable[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _secret_options(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _secret_options(inner, name)
    elif isinstance(value, str) and _SECRET_NAME.search(name):
        yield value
