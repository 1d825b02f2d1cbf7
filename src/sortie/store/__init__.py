"""The only memory: SQLite, one writer, every change an event and its rows in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .open import Store

__all__ = ["Store"]


def __getattr__(name: str) -> object:
    # Readers such as the tool server start often and must not pay for the async half.
    if name == "Store":
        from .open import Store

        return Store
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
