"""The settings in force, safe to show: every key with its value; for secrets only whether they are set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..core.redact import Hide
from ..workflow.config import Config, WorkflowSettings
from ..workflow.fields import Kind, Map, entries
from ..workflow.variables import is_secret_name

LONGEST_VALUE = 300
# In an address, in front of its host.
_LOGIN = re.compile(r"//[^/@\s]{1,200}@")
SET, NOT_SET = "set", "not set"


class Setting(Struct, frozen=True, kw_only=True):
    """`is_secret`: the value is not shown, only whether there is one."""

    key: str
    value: str
    is_secret: bool = False
    is_default: bool = False


def settings_of(config: Config, hide: Hide) -> list[Setting]:
    """Every setting in force; of secrets only whether they are set."""
    found = list(_section(config, WorkflowSettings(), "", hide))
    for kind, options in sorted(config.options.items()):
        found += _options(options, kind, hide)
    return found


def _section(section: Struct, default: Struct, path: str, hide: Hide) -> Iterator[Setting]:
    for key, (name, entry) in entries(type(default)).items():
        value, usual = getattr(section, name), getattr(default, name)
        if isinstance(entry, Kind):
            written = entry.written(value)
            yield _setting(path + key, written, hide, is_secret=entry.secret, is_default=value == usual)
        elif isinstance(entry, Map):
            for each, inner in value.items():
                if isinstance(inner, Struct):
                    yield from _section(inner, type(inner)(), f"{path}{key}.{each}.", hide)
                else:
                    yield _setting(f"{path}{key}.{each}", inner, hide)
        else:
            yield from _section(value, usual, f"{path}{key}.", hide)


def _options(value: Any, path: str, hide: Hide, *, is_secret: bool = False) -> Iterator[Setting]:
    """What stands below a secret is one too."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _options(inner, f"{path}.{key}", hide, is_secret=is_secret or is_secret_name(str(key)))
    elif isinstance(value, list) and any(isinstance(inner, Mapping | list) for inner in value):
        for number, inner in enumerate(value):
            yield from _options(inner, f"{path}.{number}", hide, is_secret=is_secret)
    else:
        yield _setting(path, value, hide, is_secret=is_secret)


def _setting(key: str, value: Any, hide: Hide, *, is_secret: bool = False, is_default: bool = False) -> Setting:
    if is_secret:
        return Setting(key=key, value=SET if value else NOT_SET, is_secret=True, is_default=is_default)
    text = hide(_shown(value))
    shown = text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
    return Setting(key=key, value=shown, is_default=is_default)


def _shown(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case Struct() | tuple() | list() | dict():
            return msgspec.json.encode(value).decode()
        case _:
            return _LOGIN.sub("//…@", str(value))
