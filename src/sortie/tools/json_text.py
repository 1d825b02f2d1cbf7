"""JSON as the start of the server needs it: what `json` does, by the same C code, without loading `json`.

That package loads `re` and `enum`, which takes as long as all else that the server does until its first answer.
Where this Python has no such C code, or another one, the package does the work.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def decode(text: str) -> Any:
    """The value; ValueError or RecursionError for what is not JSON, `NaN` and its like included."""
    text = text.strip(" \t\n\r")
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError):
        # Wrong somewhere. Before `json` is loaded, Python 3.11 knows no error for that but the second of these.
        return _plain_decoder().decode(text)
    if end != len(text):
        raise ValueError("more than one value")
    return value


def encode(value: object) -> str:
    """ASCII only, and in one line."""
    return "".join(_encoder()(value, 0))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _refuse_value(value: object) -> None:
    raise TypeError(f"{type(value).__name__} is not JSON")


class _Settings:
    """What the scanner asks of a `json.JSONDecoder`."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_refuse_constant)


def _fast_encoder() -> Any:
    # Its first argument finds values that contain themselves, so it belongs to one call.
    return _json.make_encoder({}, _refuse_value, _json.encode_basestring_ascii, None, ":", ",", False, False, True)


def _plain_decoder() -> Any:
    from json import JSONDecoder

    return JSONDecoder(parse_constant=_refuse_constant)


def _plain_encoder() -> Any:
    from json import JSONEncoder

    return JSONEncoder(separators=(",", ":")).iterencode


try:
    import _json

    if hasattr(sys, "gettotalrefcount"):
        raise ImportError("a Python for debugging ends at a SystemError")
    _scan: Any = _json.make_scanner(_Settings)  # type: ignore[arg-type]
    _encoder = _fast_encoder
    encode({"": [0, 0.5, None]})
except (ImportError, AttributeError, TypeError):  # the inside of another Python than we know
    _scan = _plain_decoder().raw_decode
    _encoder = _plain_encoder
