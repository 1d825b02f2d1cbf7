"""The names in a request that its operation does not declare.

A description of an API lets other names pass, because its servers ignore them. So a misspelt name is no error, and
what it was to say is lost without a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

from jsonschema_path import SchemaPath
from openapi_core.templating.paths.finders import APICallPathFinder


def undeclared(spec: SchemaPath, method: str, url: str, query: str, body: bytes | None) -> list[str]:
    """One sentence for each, of the query and of the uppermost level of the body; raises `OpenAPIError` where there
    is no such operation."""
    if not query and not body:
        return []
    found = APICallPathFinder(spec).find(method.lower(), url)
    known = {*_parameters(found.path), *_parameters(found.operation)}
    asked = dict.fromkeys(name for name, _ in parse_qsl(query, keep_blank_values=True))
    problems = [f"the query has no `{name}`, only {sorted(known)}" for name in asked if name not in known]
    keys = {*_keys(found.operation / "requestBody" / "content" / "application/json" / "schema")}
    content = json.loads(body) if body and keys else None
    wrong = [key for key in content if key not in keys] if isinstance(content, dict) else []
    return [*problems, *(f"the body has no `{key}`, only {sorted(keys)}" for key in wrong)]


def _parameters(place: SchemaPath) -> Iterator[str]:
    for one in _parts(place, "parameters"):
        if (one / "in").read_value() == "query":
            yield (one / "name").read_str()


def _keys(schema: SchemaPath) -> Iterator[str]:
    """Those of all forms that a body may have; none where none is named: then any may be there."""
    if not schema.exists():
        return
    if (schema / "properties").exists():
        yield from (schema / "properties").str_keys()
    for forms in ("oneOf", "anyOf", "allOf"):
        for form in _parts(schema, forms):
            yield from _keys(form)


def _parts(place: SchemaPath, name: str) -> Iterator[Any]:
    if (place / name).exists():
        yield from place / name
