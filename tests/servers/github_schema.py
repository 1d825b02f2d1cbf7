"""GitHub's description of its API, and what in a request or answer breaks it.

The copy beside the checkout is cut to repositories and issues. What an App asks before it has a token is described
in a file of ours, by what GitHub's documentation says of those two calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from .api_schema import ApiSchema


class GitHubSchema:
    """Where the copy is missing, nothing is said by it: that it was not tested is the word of the tests of this
    server."""

    def __init__(self) -> None:
        self._api = ApiSchema.if_here("github-rest.json")
        self._app = ApiSchema.of(json.loads(Path(__file__).with_name("github_app.json").read_bytes()))

    def request_problems(
        self, method: str, path_and_query: str, headers: Mapping[str, str], body: bytes | None
    ) -> list[str]:
        api = self._for(path_and_query)
        return api.request_problems(method, path_and_query, headers, body) if api else []

    def answer_problems(
        self, method: str, path_and_query: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> list[str]:
        api = self._for(path_and_query)
        return api.answer_problems(method, path_and_query, status, headers, body) if api else []

    def _for(self, path_and_query: str) -> ApiSchema | None:
        path = path_and_query.partition("?")[0]
        return self._app if path.startswith("/app/") or path.endswith("/installation") else self._api
