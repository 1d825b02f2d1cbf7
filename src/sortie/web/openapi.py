"""`openapi.json`: the OpenAPI description of `/api/v2`, generated from the types in the code."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
from msgspec import NODEFAULT

from .. import __version__
from .json_api import STORE_UNAVAILABLE, ErrorAnswer
from .operation import Described

REFERENCE = "#/components/schemas/{name}"
TITLE = "Sortie"
ABOUT = """What runs, waits and needs a person, why, and what it cost; and commands to steer it. Times are UTC.
Reading on loopback needs no token; everything else does: `Authorization: Bearer …`, or the dashboard's cookie."""

# What every operation can answer, whatever it is asked for; most of it is decided before the operation is known.
COMMON = (
    (400, "invalid_parameter"),
    (400, "bad_host"),
    (400, "two_lengths"),
    (401, "no_token"),
    (401, "bad_token"),
    (403, "scope"),
    (405, "method_not_allowed"),
    (421, "wrong_host"),
    (500, "internal_error"),
    (503, STORE_UNAVAILABLE),
)
OF_CHANGES = ((403, "other_site"), (403, "no_origin"), (403, "agent"), (403, "gone"), (403, "read_only"))
WITH_A_BODY = (
    (400, "invalid_json"),
    (408, "too_slow"),
    (413, "too_large"),
    (415, "unsupported_media_type"),
    (422, "invalid_body"),
)


@cache
def described(operations: tuple[Described, ...], root: str) -> dict[str, Any]:
    kinds = [ErrorAnswer, *_kinds(operations)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    schema_of = dict(zip(map(id, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        told = _operation(operation, schema_of, components)
        paths.setdefault(root + operation.path, {})[operation.method.lower()] = told
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": __version__, "description": ABOUT},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Made by `sortie token`."},
            },
        },
    }


def _kinds(operations: Iterable[Described]) -> list[Any]:
    found = []
    for operation in operations:
        found += [operation.answer, operation.query, *([operation.body] if operation.body else [])]
    return found


def _operation(operation: Described, schema_of: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    told = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*_in_path(operation.path), *_in_query(operation, components), *_in_head(operation)],
        "responses": {
            str(operation.status): {
                "description": operation.told,
                "content": {operation.media: {"schema": schema_of[id(operation.answer)]}},
            },
            **_errors(operation, schema_of[id(ErrorAnswer)]),
        },
        # Reading is open on loopback; elsewhere it needs a token of the same kind.
        "security": [{"token": []}] if operation.scope == "operate" else [{}, {"token": []}],
    }
    if operation.body:
        content = {"application/json": {"schema": schema_of[id(operation.body)]}}
        told["requestBody"] = {"required": True, "content": content}
    return told


def _in_path(path: str) -> list[dict[str, Any]]:
    names = [part.strip("{}") for part in path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _in_query(operation: Described, components: dict[str, Any]) -> list[dict[str, Any]]:
    schema = components[operation.query.__name__]
    fields = msgspec.structs.fields(operation.query)
    return [
        {
            "name": field.encode_name,
            "in": "query",
            "required": field.default is NODEFAULT,
            "schema": schema["properties"][field.encode_name],
        }
        for field in fields
    ]


def _in_head(operation: Described) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "required": False, "description": meaning, "schema": {"type": "string"}}
        for name, meaning in operation.headers
    ]


def _errors(operation: Described, schema: Any) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    possible = [*COMMON, *operation.errors]
    possible += OF_CHANGES if operation.scope == "operate" else ()
    possible += WITH_A_BODY if operation.body else ()
    for status, code in possible:
        by_status.setdefault(status, []).append(code)
    return {
        str(status): {
            "description": " or ".join(f"`{code}`" for code in codes),
            "content": {"application/json": {"schema": schema}},
        }
        for status, codes in sorted(by_status.items())
    }
