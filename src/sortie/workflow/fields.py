"""What a single setting may be: each kind turns a YAML value into ours, or says in words what would fit."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Struct

from .problems import listed

# Stands for any key: the names of states and of agent kinds are the user's.
ANY = "*"

_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Unfit(Exception):
    """The value does not fit. The message says what would, `item` which entry of a list is at fault."""

    def __init__(self, message: str, item: int | None = None) -> None:
        super().__init__(message)
        self.item = item


class Kind(Struct, frozen=True, kw_only=True):
    """The annotation of a setting. `env`: a `SORTIE_*` variable overrides it; `secret`: it is never shown;
    `expand`: where `$VAR` is replaced: nowhere, in a value that begins with `$`, or anywhere.
    """

    env: bool = False
    secret: bool = False
    expand: Literal["nowhere", "whole", "anywhere"] = "nowhere"

    def read(self, value: Any) -> Any:
        """What YAML gave, as the type of the field; raises `Unfit`."""
        raise NotImplementedError

    def from_text(self, text: str) -> Any:
        """The value of an environment variable, as YAML would have given it."""
        return text

    def written(self, value: Any) -> Any:
        """The reverse of `read`, for who knows the setting by what the workflow says."""
        return value


class PlainText(Kind, frozen=True, kw_only=True):
    """`filled`: written down, it says something; `shortest`: of so many characters at least, or empty."""

    filled: bool = False
    shortest: int = 0

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            plain = isinstance(value, dict | list | None)
            raise Unfit("must be text" if plain else "must be text (put it in quotes)")
        if self.filled and not value.strip():
            raise Unfit("must be text that says something")
        if 0 < len(value) < self.shortest:
            raise Unfit(f"must have at least {self.shortest} characters")
        return value


class Token(PlainText, frozen=True, kw_only=True):
    """What programs show in a header, which has no other characters, and whose spaces at the ends do not count."""

    def read(self, value: Any) -> str:
        text = super().read(value.strip() if isinstance(value, str) else value)
        if not (text.isascii() and text.isprintable()):
            raise Unfit("must be printable ASCII, because it is sent in a header")
        return text


class Address(PlainText, frozen=True, kw_only=True):
    """Where something listens: a literal, because what a name stands for can change."""

    def read(self, value: Any) -> str:
        from ipaddress import ip_address

        text = super().read(value).strip()
        try:
            return str(ip_address(text))
        except ValueError:
            raise Unfit('must be an IP address, such as "127.0.0.1" or "::1"') from None


class WebAddress(PlainText, frozen=True, kw_only=True):
    """Of a whole site, as people open it; always with a slash at its end."""

    def read(self, value: Any) -> str:
        from urllib.parse import urlsplit

        text = super().read(value).strip()
        example = 'must be the address of a whole site, such as "https://sortie.example.com"'
        try:
            parts = urlsplit(text)
            named, _ = _HOST.fullmatch(parts.netloc), parts.port
        except ValueError:
            raise Unfit(example) from None
        rest = (parts.path.strip("/"), parts.query, parts.fragment)
        if text and (parts.scheme not in ("http", "https") or not named or any(rest)):
            raise Unfit(example)
        return f"{parts.scheme}://{parts.netloc.lower()}/" if text else ""


class FilePath(PlainText, frozen=True, kw_only=True):
    """Relative to the workflow; an empty one stands for the default, which may be none."""

    def read(self, value: Any) -> str:
        text = super().read(value)
        if text.startswith("~") and text != "~" and not text.startswith("~/"):
            raise Unfit("must be a whole path, a path beside the workflow or one that begins with ~/")
        return text


class Texts(Kind, frozen=True, kw_only=True):
    """`of_variables`: each is the name of an environment variable; `options`: each is one of these."""

    of_variables: bool = False
    options: tuple[str, ...] = ()

    def read(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise Unfit("must be a list of texts")
        for index, item in enumerate(value):
            if not isinstance(item, str):
                raise Unfit(f"must be a list of texts (put {shown(item)} in quotes)", index)
            if not item.strip():
                raise Unfit("must not contain an empty text", index)
        for index, item in enumerate(value if self.of_variables else ()):
            if not VARIABLE_NAME.fullmatch(item):
                raise Unfit("must be a list of names of environment variables", index)
        for index, item in enumerate(value if self.options else ()):
            if item not in self.options:
                raise Unfit(f"must be a list of {listed(self.options)}, not {shown(item)}", index)
        return tuple(value)

    def from_text(self, text: str) -> Any:
        return [item.strip() for item in text.split(",") if item.strip()]


class Flag(Kind, frozen=True):
    def read(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        raise Unfit("must be true or false")

    def from_text(self, text: str) -> Any:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower(), text)


class OneOf(Kind, frozen=True, kw_only=True):
    options: tuple[str, ...]

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.options:
            raise Unfit(f"must be {listed(self.options)}")
        return value


class Whole(Kind, frozen=True, kw_only=True):
    least: int
    most: int | None = None

    def read(self, value: Any) -> Any:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or value < self.least or (self.most is not None and value > self.most):
            bounds = f"of at least {self.least}" if self.most is None else f"from {self.least} to {self.most}"
            raise Unfit(f"must be a whole number {bounds}")
        return value

    def from_text(self, text: str) -> Any:
        return int(text) if re.fullmatch(r"\s*[-+]?[0-9]{1,15}\s*", text) else text


class Milliseconds(Whole, frozen=True, kw_only=True):
    """Kept in seconds."""

    def read(self, value: Any) -> float:
        return float(super().read(value) / 1000)

    def written(self, value: float) -> int:
        return round(value * 1000)


class Number(Kind, frozen=True):
    def read(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise Unfit("must be a number of at least 0")
        return float(value)


class Limit(Kind, frozen=True, kw_only=True):
    """Such a number; 0 and `unlimited` stand for none."""

    of: Whole | Number

    def read(self, value: Any) -> Any:
        if value == "unlimited" or (value == 0 and not isinstance(value, bool)):
            return None
        try:
            return self.of.read(value)
        except Unfit as unfit:
            raise Unfit(f'{unfit}, or "unlimited"') from unfit


class Options(Kind, frozen=True):
    """A map that only the agent understands."""

    def read(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Unfit("must be a map of options")
        return value


class Map(Struct, frozen=True):
    """Keys of the user's, each with such a value."""

    values: Kind | type[Struct]


Content = Kind | Map | type[Struct]

_PLAIN: dict[Any, Kind] = {
    str: PlainText(),
    bool: Flag(),
    float: Number(),
    int | None: Limit(of=Whole(least=1)),
    float | None: Limit(of=Number()),
}


def kind_of(annotation: Any) -> Content:
    """What the annotation of a field says; a Struct is a section."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        kind: Kind = arguments[1]
        return kind
    if origin is Literal:
        return OneOf(options=arguments)
    if origin is dict:
        values = kind_of(arguments[1])
        assert not isinstance(values, Map)
        return Map(values)
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    return _PLAIN[annotation]


@functools.cache
def entries(model: type[Struct]) -> dict[str, tuple[str, Content]]:
    """For each key of a section the name of its field, and what may stand there."""
    annotations = get_type_hints(model, include_extras=True)
    found = {name: kind_of(annotations[name]) for name in model.__struct_fields__}
    return {
        f"{name}_ms" if isinstance(entry, Milliseconds) else name: (name, entry) for name, entry in found.items()
    }


def leaves(section: Struct, path: str = "") -> Iterator[tuple[str, Kind, Any]]:
    """Every setting below: its key path, its kind, and its value in this section."""
    for key, (name, entry) in entries(type(section)).items():
        value = getattr(section, name)
        if isinstance(entry, Kind):
            yield path + key, entry, value
        elif not isinstance(entry, Map):
            yield from leaves(value, f"{path}{key}.")
        elif isinstance(entry.values, Kind):
            yield f"{path}{key}.{ANY}", entry.values, None
        else:
            yield from leaves(entry.values(), f"{path}{key}.{ANY}.")


def shown(value: Any, *, secret: bool = False) -> str:
    """A value as it may appear in a message."""
    nouns = {type(None): "nothing", dict: "a map", list: "a list"}
    if type(value) in nouns:
        return nouns[type(value)]
    if secret:
        return "this text" if isinstance(value, str) else "a number or a truth value"
    if isinstance(value, str):
        import json

        return json.dumps(value if len(value) <= 40 else value[:39] + "…", ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else str(value)
