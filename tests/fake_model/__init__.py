"""A model that does what the prompt says: it lets real coding agents run with no account and no network."""

from __future__ import annotations

from .memory import Request
from .server import FakeModel
from .steps import ScriptError

__all__ = ["FakeModel", "Request", "ScriptError"]
