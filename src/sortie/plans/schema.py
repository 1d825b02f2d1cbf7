"""The JSON Schema of plan files, for editors: made of the same tables that the reading uses.

What a schema can tell it tells: keys, types, bounds, forms of names and paths. What only the whole plan shows, such
as names that do not exist, cycles and missing files, is left to `examine`.
"""

from __future__ import annotations

from typing import Any

from ..workflow.document import LARGEST_NUMBER
from ..workflow.fields import VARIABLE_NAME, Flag, Kind, Limit, Number, OneOf, Options, PlainText, Texts, Whole
from .keys import PLAN
from .shape import (
    LONGEST_TEXT,
    NAME,
    RELATIVE_PATH,
    BoxPath,
    BoxPaths,
    Key,
    Lines,
    Many,
    Name,
    Section,
    SourcePath,
    Text,
)

TITLE = "A plan of Sortie"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_FILLED = {"type": "string", "pattern": r"\S"}


def plan_schema() -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    whole = _section(PLAN, definitions)
    return {
        "$schema": DIALECT,
        "title": TITLE,
        "description": "Tasks for coding agents, what each is given, waits for and owes.",
        **whole,
        "$defs": definitions,
    }


def _section(section: Section, definitions: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _key(section, name, key, definitions) for name, key in section.keys.items()},
        "additionalProperties": False,
    }
    if section.required:
        schema["required"] = list(section.required)
    if section.exactly_one:
        schema |= {"minProperties": 1, "maxProperties": 1}
    return schema


def _key(section: Section, name: str, key: Key, definitions: dict[str, Any]) -> dict[str, Any]:
    schema = {"title": name, "description": key.meaning, **_content(key.content, definitions)}
    default = section.default_of(name)
    return schema if default is None else {**schema, "default": default}


def _content(content: Kind | Section | Many, definitions: dict[str, Any]) -> dict[str, Any]:
    if isinstance(content, Kind):
        return _value(content)
    if isinstance(content, Many):
        least = {"minItems": content.least} if content.least else {}
        return {"type": "array", "items": _reference(content.of, definitions), **least}
    return _reference(content, definitions)


def _reference(section: Section, definitions: dict[str, Any]) -> dict[str, Any]:
    """Sections are described once. A text alone may stand for one; one that needs no key may be left empty."""
    if section.name not in definitions:
        definitions[section.name] = {}
        full = _section(section, definitions)
        if section.short:
            full = {"anyOf": [_short(section), full]}
        elif section.may_be_empty:
            full["type"] = ["object", "null"]
        definitions[section.name] = full
    return {"$ref": f"#/$defs/{section.name}"}


def _short(section: Section) -> dict[str, Any]:
    key = section.keys[section.short]
    assert isinstance(key.content, Kind), "a text stands for a value, not for a section"
    return {"title": section.short, "description": key.meaning, **_value(key.content)}


def _value(kind: Kind) -> dict[str, Any]:
    match kind:
        case Name():
            names: dict[str, Any] = {"type": "string", "pattern": NAME}
            return {**names, "not": {"enum": list(kind.reserved)}} if kind.reserved else names
        case BoxPath():
            return {"type": "string", "pattern": RELATIVE_PATH}
        case SourcePath():
            return {"type": "string", "pattern": r"^[^\u0000-\u001f\u007f]*\S[^\u0000-\u001f\u007f]*$"}
        case Text():
            return {**_FILLED, "maxLength": LONGEST_TEXT}
        case PlainText():
            return _FILLED if kind.filled else {"type": "string"}
        case BoxPaths():
            return {"type": "array", "items": {"type": "string", "pattern": RELATIVE_PATH}}
        case Lines():
            items = {**_FILLED, "maxLength": LONGEST_TEXT}
            return {"type": "array", "items": items, **({"minItems": kind.least} if kind.least else {})}
        case Texts():
            pattern = f"^{VARIABLE_NAME.pattern}$" if kind.of_variables else r"\S"
            return {"type": "array", "items": {"type": "string", "pattern": pattern}}
        case OneOf():
            return {"enum": list(kind.options)}
        case Flag():
            return {"type": "boolean"}
        case Options():
            return {"type": "object"}
        case Limit():
            return {"anyOf": [{"const": "unlimited"}, {**_value(kind.of), "minimum": 0}]}
        case Whole():
            return {"type": "integer", "minimum": kind.least, "maximum": LARGEST_NUMBER}
        case Number():
            return {"type": "number", "minimum": 0, "maximum": LARGEST_NUMBER}
    raise AssertionError(f"no schema for {kind}")
