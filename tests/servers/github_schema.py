"""GitHub's description of its API, and what in a request or answer breaks it.

The copy beside the checkout is cut to repositories and issues. What an App asks before it has a token is in the
whole description, which a package on npm has.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping

from tests import npm

from .api_schema import ApiSchema

OCTOKIT_VERSION = "23.0.2"
APP_PATHS = ("/repos/{owner}/{repo}/installation", "/app/installations/{installation_id}/access_tokens")


def app_description() -> ApiSchema:
    """Of what an App asks; raises `npm.NotInstalled` where the package cannot be had."""
    found = _app_description()
    if isinstance(found, npm.NotInstalled):
        raise found
    return found


@functools.cache
def _app_description() -> ApiSchema | npm.NotInstalled:
    """What cannot be had is not asked for with every call again."""
    package = f"@octokit/openapi@{OCTOKIT_VERSION}"
    try:
        path = npm.one_file(f"octokit-openapi-{OCTOKIT_VERSION}", package, "generated/api.github.com.json")
    except npm.NotInstalled as problem:
        return problem
    whole = json.loads(path.read_bytes())
    return ApiSchema.of({**whole, "paths": {name: whole["paths"][name] for name in APP_PATHS}})


class GitHubSchema:
    """Where a description cannot be had, nothing is said by it: that it was not tested is the word of the tests of
    this server."""

    def __init__(self) -> None:
        self._api = ApiSchema.if_here("github-rest.json")

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
        if not path.startswith("/app/") and not path.endswith("/installation"):
            return self._api
        try:
            return app_description()
        except npm.NotInstalled:
            return None
