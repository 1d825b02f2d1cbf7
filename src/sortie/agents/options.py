"""The option block of an agent: one frozen Struct is its schema, its defaults and its checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

Model = TypeVar("Model", bound=Struct)

# Left out, an option has its default; written down, it says something.
Text = Annotated[str, Meta(min_length=1)]

Problem = tuple[str, str]


def read_options(model: type[Model], options: Mapping[str, Any]) -> Model:
    """The options as facts; `check_options` has found nothing wrong with them."""
    return msgspec.convert(dict(options), model)


def check_options(kind: str, model: type[Struct], options: Mapping[str, Any]) -> list[Problem]:
    """Every wrong option at once, as (key path, sentence)."""
    return list(_wrong_fields(kind, kind, model, options))


def _wrong_fields(kind: str, path: str, model: type[Struct], options: Mapping[str, Any]) -> Iterator[Problem]:
    types = get_type_hints(model, include_extras=True)
    for key, value in options.items():
        if key in types:
            yield from _wrong_value(kind, f"{path}.{key}", types[key], value)
        else:
            yield f"{path}.{key}", _unknown(kind, str(key), list(types))


def _wrong_value(kind: str, path: str, wanted: Any, value: Any) -> Iterator[Problem]:
    """Lists and mappings of Structs entry by entry, everything else as a whole."""
    plain = get_args(wanted)[0] if get_origin(wanted) is Annotated else wanted
    if _is_struct(plain) and isinstance(value, Mapping):
        yield from _wrong_fields(kind, path, plain, value)
    elif get_origin(plain) is tuple and _is_nested(plain) and isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from _wrong_value(kind, f"{path}[{number}]", get_args(plain)[0], each)
    elif get_origin(plain) is dict and _is_nested(plain) and isinstance(value, Mapping):
        for name, each in value.items():
            yield from _wrong_value(kind, f"{path}.{name}", get_args(plain)[1], each)
    else:
        try:
            msgspec.convert(value, wanted)
        except msgspec.ValidationError as error:
            yield path, f"{error}."


def _is_nested(wanted: Any) -> bool:
    """Whether it holds a Struct at any depth."""
    return any(_is_struct(each) or _is_nested(each) for each in get_args(wanted))


def _is_struct(wanted: Any) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, Struct)


def _unknown(kind: str, key: str, known: list[str]) -> str:
    from difflib import get_close_matches  # loaded for those alone who made a mistake

    close = get_close_matches(key, known, 1)
    hint = f'; did you mean "{close[0]}"?' if close else f"; it knows {', '.join(sorted(known))}." if known else "."
    return f"The {kind} agent has no such option{hint}"
