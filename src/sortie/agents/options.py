"""The option block of an agent: one frozen Struct is its schema, its defaults and its checks."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
from msgspec import Meta, Struct

Model = TypeVar("Model", bound=Struct)

# Left out, an option has its default; written down, it says something.
Text = Annotated[str, Meta(min_length=1)]

Problems = list[tuple[str, str]]


def read_options(model: type[Model], options: Mapping[str, Any]) -> Model:
    """The options as facts; `check_options` has found nothing wrong with them."""
    return msgspec.convert(dict(options), model)


def check_options(kind: str, model: type[Struct], options: Mapping[str, Any]) -> Problems:
    """Every wrong option at once, as (key path, sentence)."""
    types = get_type_hints(model, include_extras=True)
    problems: Problems = []
    for key, value in options.items():
        if key not in types:
            problems.append((f"{kind}.{key}", _unknown(kind, str(key), list(types))))
            continue
        try:
            msgspec.convert(value, types[key])
        except msgspec.ValidationError as error:
            problems.append((f"{kind}.{key}", f"{error}."))
    return problems


def _unknown(kind: str, key: str, known: list[str]) -> str:
    close = get_close_matches(key, known, 1)
    hint = f'did you mean "{close[0]}"?' if close else f"it knows {', '.join(sorted(known))}."
    return f"The {kind} agent has no such option; {hint}"
