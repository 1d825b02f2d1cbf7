"""Finds trackers, agents and tools by kind: our own by name, everybody else's through entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from .errors import ConfigurationError


def plugin_kinds(group: str, builtin: Mapping[str, str]) -> tuple[str, ...]:
    """Every kind that can be loaded from this entry point group, in alphabetical order."""
    return tuple(sorted({*builtin, *_installed(group)}))


def load_plugin(group: str, builtin: Mapping[str, str], kind: str) -> Any:
    """The class behind a kind; `builtin` maps kinds to `module:name` and wins over entry points.

    Entry points are read only for kinds that are not ours: looking through all installed packages is slow.
    """
    target = builtin.get(kind)
    if target is None:
        target = _installed(group).get(kind)
    if target is None:
        known = ", ".join(plugin_kinds(group, builtin))
        raise ConfigurationError(f'There is no {_noun(group)} of kind "{kind}".', fix=f"Use one of: {known}.")
    return _resolve(group, kind, target)


def _installed(group: str) -> dict[str, str]:
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=group)}


def _resolve(group: str, kind: str, target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # importing somebody's package can fail in any way
        raise ConfigurationError(
            f'The {_noun(group)} of kind "{kind}" cannot be loaded from {target}: {type(error).__name__}: {error}.',
            fix="Install or repair the package that provides it.",
        ) from error


def _noun(group: str) -> str:
    return group.rpartition(".")[2].removesuffix("s")
