"""One line of the results."""

from __future__ import annotations

from msgspec import Struct


class Row(Struct, frozen=True):
    what: str
    value: float
    unit: str
    ratio: float
    yardstick: str
