"""Which kinds of tracker there are, and how to get one without importing the others."""

from __future__ import annotations

from typing import cast

from ..plugins import load_plugin, plugin_kinds
from .tracker import TrackerKind

GROUP = "sortie.trackers"
BUILTIN = {"file": "sortie.trackers.file:FileTracker"}


def kinds() -> tuple[str, ...]:
    return plugin_kinds(GROUP, BUILTIN)


def load(kind: str) -> TrackerKind:
    """The class of this kind; `ConfigurationError` naming all kinds where there is none."""
    return cast("TrackerKind", load_plugin(GROUP, BUILTIN, kind))
