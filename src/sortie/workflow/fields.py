"""What a single setting may be: each kind turns a YAML value into ours, or says in words what would fit."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from .problems import listed
from .variables import NAME

Expansion = Literal["none", "whole", "anywhere"]


class Unfit(Exception):
    """The value does not fit. The message says what would, `item` which entry of a list is at fault."""

    def __init__(self, message: str, item: int | None = None) -> None:
        super().__init__(message)
        self.item = item


class Kind(Struct, frozen=True):
    """`read` takes what YAML gave; `from_text` first turns an environment variable into such a value."""

    read: Callable[[Any], Any]
    from_text: Callable[[str], Any] = str


class Field(Struct, frozen=True, kw_only=True):
    """One setting. `overridable` by a `SORTIE_*` variable; `expansion` says where `$VAR` is replaced:
    nowhere, in a value that begins with `$`, or anywhere."""

    kind: Kind
    default: Any = None
    overridable: bool = False
    expansion: Expansion = "none"
    secret: bool = False


def shown(value: Any, *, secret: bool = False) -> str:
    """A value as it may appear in a message."""
    match value:
        case None:
            return "nothing"
        case dict():
            return "a map"
        case list():
            return "a list"
        case str() if secret:
            return "this text"
        case bool() | int() | float() if secret:
            return "a number or a truth value"
        case str():
            return json.dumps(value if len(value) <= 40 else value[:39] + "…", ensure_ascii=False)
        case bool():
            return "true" if value else "false"
    return str(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise Unfit("must be text" if isinstance(value, dict | list | None) else "must be text (put it in quotes)")


def _filled_text(value: Any) -> str:
    if not _text(value).strip():
        raise Unfit("must be text that says something")
    return _text(value)


def _path(value: Any) -> str:
    if _text(value).startswith("~") and value != "~" and not value.startswith("~/"):
        raise Unfit("must be a whole path, a path beside the workflow or one that begins with ~/")
    return _text(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Unfit("must be a list of texts")
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise Unfit(f"must be a list of texts (put {shown(item)} in quotes)", index)
        if not item.strip():
            raise Unfit("must not contain an empty text", index)
    return tuple(value)


def _names(value: Any) -> tuple[str, ...]:
    names = _texts(value)
    for index, name in enumerate(names):
        if not NAME.fullmatch(name):
            raise Unfit("must be a list of names of environment variables", index)
    return names


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise Unfit("must be true or false")


def _whole(value: Any, minimum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise Unfit(f"must be a whole number of at least {minimum}")
    return value


def _amount(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise Unfit("must be a number of at least 0")
    return float(value)


def _is_unlimited(value: Any) -> bool:
    return value == "unlimited" or (value == 0 and not isinstance(value, bool))


def _count_limit(value: Any) -> int | None:
    if _is_unlimited(value):
        return None
    try:
        return _whole(value, 1)
    except Unfit as unfit:
        raise Unfit(f'{unfit}, or "unlimited"') from unfit


def _amount_limit(value: Any) -> float | None:
    if _is_unlimited(value):
        return None
    try:
        return _amount(value)
    except Unfit as unfit:
        raise Unfit(f'{unfit}, or "unlimited"') from unfit


def _number_from_text(text: str) -> Any:
    return int(text) if re.fullmatch(r"\s*[-+]?[0-9]{1,15}\s*", text) else text


def _flag_from_text(text: str) -> Any:
    return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower(), text)


def _list_from_text(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


TEXT = Kind(_text)
FILLED_TEXT = Kind(_filled_text)
PATH = Kind(_path)
TEXTS = Kind(_texts, _list_from_text)
NAMES = Kind(_names)
FLAG = Kind(_flag, _flag_from_text)
AMOUNT = Kind(_amount)
COUNT_LIMIT = Kind(_count_limit)
AMOUNT_LIMIT = Kind(_amount_limit)


def whole(minimum: int) -> Kind:
    return Kind(lambda value: _whole(value, minimum), _number_from_text)


def milliseconds(minimum: int) -> Kind:
    """Written in milliseconds, kept in seconds."""
    return Kind(lambda value: _whole(value, minimum) / 1000, _number_from_text)


def one_of(*options: str) -> Kind:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in options:
            raise Unfit(f"must be {listed(options)}")
        return value

    return Kind(read)
