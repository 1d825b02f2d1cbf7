"""A vendor's own description of its API, and whether a request or an answer keeps to it.

The descriptions are data that does not belong to this project: they lie in a folder beside the checkout, or where
`SORTIE_API_SPECS` says. Without the folder nothing is compared: the tests of behaviour run all the same, and
those of the servers, one file for each vendor, say `NOT TESTED`.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from openapi_core import Config, OpenAPI
from openapi_core.exceptions import OpenAPIError
from openapi_core.templating.responses.exceptions import ResponseNotFound
from openapi_core.testing import MockRequest, MockResponse

from .declared_names import undeclared

BESIDE = Path(__file__).parents[3] / "shared" / "specs"
SERVER = "http://api.invalid"
LONGEST_PROBLEM = 400


class ApiSchema:
    """`unknown` are the paths, as beginnings, that the copy at hand does not describe: nothing is said of those."""

    def __init__(self, api: OpenAPI, unknown: tuple[str, ...] = ()) -> None:
        self._api = api
        self._unknown = unknown or ("\0",)
        self._judged: dict[tuple[object, ...], list[str]] = {}

    @classmethod
    def need(cls, name: str, *unknown: str) -> ApiSchema:
        """The description of this name for a test; without the folder of descriptions the test ends here."""
        if found := cls.if_here(name, *unknown):
            return found
        pytest.skip(f"NOT TESTED: the vendors' API descriptions are not here ({_folder()}); set SORTIE_API_SPECS.")

    @classmethod
    def if_here(cls, name: str, *unknown: str) -> ApiSchema | None:
        """The same; None without the folder."""
        return cls(_loaded(_folder() / name), unknown) if _folder().is_dir() else None

    @classmethod
    def of(cls, description: dict[str, Any]) -> ApiSchema:
        """One that a test has itself."""
        return cls(_read(description))

    def request_problems(
        self, method: str, path_and_query: str, headers: Mapping[str, str], body: bytes | None
    ) -> list[str]:
        """What is wrong with a request; paths are relative to the root of the API."""
        if path_and_query.startswith(self._unknown):
            return []
        request = _request(method, path_and_query, headers, body)
        parts = urlsplit(path_and_query)

        def judged() -> list[str]:
            self._api.validate_request(request)
            return undeclared(self._api.spec, method, f"{SERVER}{parts.path}", parts.query, body)

        return self._once((method, path_and_query, body), f"{method} {path_and_query}", judged)

    def answer_problems(
        self, method: str, path_and_query: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> list[str]:
        """What is wrong with an answer to such a request; an empty one, and one that no description has, is not."""
        if path_and_query.startswith(self._unknown) or not body:
            return []
        answer = MockResponse(body, status_code=status, headers=dict(headers), content_type=_content_type(headers))
        request = _request(method, path_and_query, {}, None)

        def judged() -> list[str]:
            try:
                self._api.validate_response(request, answer)
            except ResponseNotFound:
                # A refusal may have a status that is not among those described; anything else may not.
                if status < 300:
                    raise
            return []

        key = (method, urlsplit(path_and_query).path, status, body)
        return self._once(key, f"the answer {status} to {method} {path_and_query}", judged)

    def _once(self, key: tuple[object, ...], what: str, judged: Callable[[], list[str]]) -> list[str]:
        """What was judged before is judged so again: it takes longer than all the rest of a call."""
        if key not in self._judged:
            try:
                found = judged()
            except OpenAPIError as error:
                found = [_told(error)]
            self._judged[key] = [f"{what}: {problem}" for problem in found]
        return [*self._judged[key]]


def _folder() -> Path:
    return Path(os.environ.get("SORTIE_API_SPECS", BESIDE))


def _request(method: str, path_and_query: str, headers: Mapping[str, str], body: bytes | None) -> MockRequest:
    parts = urlsplit(path_and_query)
    return MockRequest(
        SERVER,
        method.lower(),
        parts.path,
        args=dict(parse_qsl(parts.query, keep_blank_values=True)),
        headers=dict(headers),
        data=body or None,
        content_type=_content_type(headers),
    )


def _content_type(headers: Mapping[str, str]) -> str:
    found = next((value for name, value in headers.items() if name.lower() == "content-type"), "application/json")
    return found.partition(";")[0].strip()


def _told(error: BaseException) -> str:
    """The whole chain: the first sentence says only that something is wrong, and the whole value is in the next."""
    wrong = getattr(error, "schema_errors", None) or ()
    details = [f"{'.'.join(map(str, one.absolute_path))}: {one.message}" for one in wrong]
    parts = details or [str(error) or type(error).__name__]
    if error.__cause__ is not None:
        parts.append(_told(error.__cause__))
    return " <- ".join(part[:LONGEST_PROBLEM] for part in parts)


@functools.cache
def _loaded(path: Path) -> OpenAPI:
    return _read(json.loads(path.read_bytes()))


def _read(description: dict[str, Any]) -> OpenAPI:
    """Who may ask is for the server to say; here only the form counts."""
    description["servers"] = [{"url": SERVER}]
    for operations in description["paths"].values():
        operations.pop("servers", None)
        for operation in operations.values():
            if isinstance(operation, dict):
                operation.pop("security", None)
    description.pop("security", None)
    _allow_null(description)
    unchecked: Any = None  # to check the whole description first takes a minute
    return OpenAPI.from_dict(description, config=Config(spec_validator_cls=unchecked))


def _allow_null(part: Any) -> None:
    """A value that may be null may be so too where its words are listed: GitHub's lists forget to say it again."""
    if isinstance(part, dict):
        if part.get("nullable") is True and isinstance(part.get("enum"), list) and None not in part["enum"]:
            part["enum"] = [*part["enum"], None]
        for inner in part.values():
            _allow_null(inner)
    elif isinstance(part, list):
        for inner in part:
            _allow_null(inner)
