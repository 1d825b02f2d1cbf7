"""Atlassian's own descriptions of Jira's API and of its documents, and what in a request or answer breaks them.

The copy beside the checkout has no `mypermissions`, and no package has a newer one: that call alone is compared
with a file of ours, by what Atlassian's documentation says of it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft4Validator

from tests import npm

from .api_schema import ApiSchema

ADF_VERSION = "57.7.22"
_ZONE = re.compile(rb'(T[0-9:.]+[+-][0-9]{2})([0-9]{2})"')
PERMISSIONS = "/rest/api/3/mypermissions"


@functools.cache
def document_validator() -> Draft4Validator:
    """Of documents; raises `npm.NotInstalled` where Atlassian's package cannot be had."""
    package = f"@atlaskit/adf-schema@{ADF_VERSION}"
    path = npm.installed(
        f"adf-schema-{ADF_VERSION}", [package], "@atlaskit/adf-schema/dist/json-schema/v1/full.json"
    )
    return Draft4Validator(json.loads(path.read_bytes()))


def document_problems(document: Any) -> list[str]:
    return [*_problems_of(json.dumps(document))]


@functools.lru_cache(maxsize=1000)
def _problems_of(document: str) -> tuple[str, ...]:
    """A document comes with a request and again in answers, and a long one takes seconds."""
    found = document_validator().iter_errors(json.loads(document))
    return tuple(f"the document at {[*error.path]}: {error.message[:300]}" for error in found)


class JiraSchema:
    """Where a description cannot be had, nothing is said by it: that it was not tested is the word of the tests of
    this server."""

    def __init__(self) -> None:
        self._api = ApiSchema.if_here("jira-rest-v3.json", PERMISSIONS)
        fragment = json.loads((Path(__file__).parent / "jira_permissions.json").read_bytes())
        self._permissions = ApiSchema.of(fragment)
        try:
            document_validator()
        except npm.NotInstalled:
            self._has_documents = False
        else:
            self._has_documents = True

    def request_problems(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> list[str]:
        api = self._for(path)
        found = api.request_problems(method, path, headers, body or None) if api else []
        if method == "POST" and path.partition("?")[0].endswith("/comment"):
            found += self.document_problems(json.loads(body)["body"])
        return found

    def answer_problems(
        self, method: str, path: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> list[str]:
        api = self._for(path)
        # Jira writes times without the colon that the format which its description names wants.
        formal = _ZONE.sub(rb'\1:\2"', body)
        found = api.answer_problems(method, path, status, headers, formal) if api else []
        for document in _documents(json.loads(body or b"{}")):
            found += self.document_problems(document)
        return found

    def document_problems(self, document: Any) -> list[str]:
        return document_problems(document) if self._has_documents else []

    def _for(self, path: str) -> ApiSchema | None:
        return self._permissions if path.startswith(PERMISSIONS) else self._api


def _documents(value: Any) -> list[Any]:
    """All documents in an answer."""
    if isinstance(value, list):
        return [found for each in value for found in _documents(each)]
    if not isinstance(value, dict):
        return []
    if value.get("type") == "doc":
        return [value]
    return [found for each in value.values() for found in _documents(each)]
