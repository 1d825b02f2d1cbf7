"""What GitHub has and its emulation lacks: dependencies, sub-issues, deleted issues, Apps, tokens that are wrong.

It is kept here and laid over the answers, so that a test sees one GitHub.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from .emulate import NAME, OWNER, REPOSITORY, Emulate
from .fault_proxy import Answer, Asked, bad_credentials, refused

ROLES = ("admin", "maintain", "push", "triage", "pull")
JSON = {"content-type": "application/json; charset=utf-8"}
_ISSUE = re.compile(rf"/repos/{REPOSITORY}/issues/([0-9]+)(/.*)?")


class GitHubOverlay:
    """`accepted` are the tokens that are let in, None for any. Without `has_features` it is an older server of a
    company, which knows neither dependencies nor sub-issues."""

    def __init__(self, emulate: Emulate) -> None:
        self.accepted: set[str] | None = None
        self.has_features = True
        self.blocked_by: dict[int, list[str]] = {}
        self.sub_issues: dict[int, list[str]] = {}
        self.hidden_blockers: dict[int, int] = {}
        self.gone: set[int] = set()
        self.moved: set[int] = set()
        self.search: dict[str, Any] = {}
        self.drops_labels = False
        self.associations: dict[str, str] = {}
        self.spoiled: dict[int, Callable[[dict[str, Any]], Any]] = {}
        self.repository: dict[str, Any] = {}
        self.headers: dict[str, str] = {}
        self.app: AppAtGitHub | None = None
        self._emulate = emulate
        self._token = f"test-{time.time_ns()}"  # emulate counts the calls of each token

    def answer(self, asked: Asked) -> Answer | None:
        path = urlsplit(asked.path).path
        if self.app and (path.startswith("/app/") or path.endswith("/installation")):
            return self.app.answer(asked, path)
        token = _token(asked)
        if (self.accepted is not None and token not in self.accepted) or (self.app and not self.app.knows(token)):
            return bad_credentials()
        issue = _ISSUE.fullmatch(path)
        if not issue:
            return None
        number, rest = int(issue[1]), issue[2] or ""
        if number in self.gone:
            return refused(410, "This issue was deleted")
        if number in self.moved:
            return refused(301, "Moved Permanently", location="https://api.github.com/repositories/1/issues/1")
        if self.drops_labels and asked.method == "POST" and rest == "/labels":
            return Answer(200, json.dumps(self._record(f"{REPOSITORY}#{number}")["labels"]).encode(), JSON)
        if self.has_features and rest in ("/dependencies/blocked_by", "/sub_issues"):
            places = (self.blocked_by if rest.startswith("/dep") else self.sub_issues).get(number, [])
            return Answer(200, json.dumps([self._record(place) for place in places]).encode(), JSON)
        return None

    def passed_on(self, asked: Asked) -> Asked:
        return replace(asked, headers={**asked.headers, "authorization": f"Bearer {self._token}"})

    def completed(self, asked: Asked, answer: Answer) -> Answer:
        path = urlsplit(asked.path).path
        if answer.status >= 300 or not answer.body:
            return answer
        said = json.loads(answer.body)
        if path == f"/repos/{REPOSITORY}":
            if _token(asked).startswith("ghs_"):
                # An installation has permissions of its own, and no role in any repository.
                said["permissions"] = dict.fromkeys(ROLES, False)
            # What emulate leaves out of a repository.
            said |= {"network_count": 0, "subscribers_count": 0} | self.repository
            said["permissions"] = dict.fromkeys(ROLES, False) | said["permissions"]
        elif path == "/search/issues":
            said = {**said, "items": self._found(said["items"]), "search_type": "lexical", **self.search}
        elif isinstance(said, list) and path.endswith("/issues"):
            said = self._all(said)
        elif _ISSUE.fullmatch(path) and isinstance(said, dict) and "number" in said:
            said = self._whole(said)
        elif path.endswith("/comments"):
            for comment in said if isinstance(said, list) else [said]:
                comment["author_association"] = self._association(comment)
        return replace(answer, body=json.dumps(said).encode(), headers={**answer.headers, **self.headers})

    def is_vouched_for(self, asked: Asked, answer: Answer) -> bool:
        """All but what a test spoils on purpose, and lists with a pull request, which emulate tells in a shape of
        its own, and of which nothing is read."""
        return not self.spoiled and b'"pull_request"' not in answer.body

    def _all(self, records: list[dict[str, Any]]) -> list[Any]:
        left = self.gone | self.moved
        return [self._whole(record) for record in records if record["number"] not in left]

    def _found(self, records: list[dict[str, Any]]) -> list[Any]:
        """As a search tells them, with what emulate leaves out. A body that is null GitHub's description does not
        allow here, and does elsewhere."""
        found = self._all([{**record, "score": 1.0} for record in records])
        for record in found:
            if isinstance(record, dict) and record.get("body", "") is None:
                del record["body"]
        return found

    def _whole(self, record: dict[str, Any]) -> Any:
        number = record["number"]
        record["author_association"] = self._association(record)
        if self.has_features and "pull_request" not in record:
            blockers = [self._record(place) for place in self.blocked_by.get(number, [])]
            children = [self._record(place) for place in self.sub_issues.get(number, [])]
            hidden = self.hidden_blockers.get(number, 0)
            done = sum(child["state"] == "closed" for child in children)
            record["issue_dependencies_summary"] = {
                "blocked_by": sum(blocker["state"] == "open" for blocker in blockers) + hidden,
                "total_blocked_by": len(blockers) + hidden,
                "blocking": 0,
                "total_blocking": 0,
            }
            percent = 100 * done // len(children) if children else 0
            record["sub_issues_summary"] = {"total": len(children), "completed": done, "percent_completed": percent}
            for parent, places in self.sub_issues.items():
                if f"{REPOSITORY}#{number}" in places:
                    record["parent_issue_url"] = f"{record['repository_url']}/issues/{parent}"
        return self.spoiled[number](record) if number in self.spoiled else record

    def _association(self, record: dict[str, Any]) -> str:
        login = (record.get("user") or {}).get("login", "")
        return self.associations.get(login, "OWNER" if login == OWNER else "NONE")

    def _record(self, place: str) -> dict[str, Any]:
        repository, _, number = place.partition("#")
        record: dict[str, Any] = self._emulate.call("GET", f"/repos/{repository}/issues/{number}")
        return record


class AppAtGitHub:
    """One App with one installation; it checks what is signed, as GitHub does."""

    def __init__(self, app_id: str, public_key: Any, *, installation: int = 77) -> None:
        self.given: list[str] = []
        self.revoked: set[str] = set()
        self.lasts = 3600.0
        self.is_installed = True
        self.permissions = {"issues": "write", "metadata": "read"}
        self.repositories = [NAME]
        self._app_id = app_id
        self._key = public_key
        self._installation = installation

    def knows(self, token: str) -> bool:
        return token in self.given and token not in self.revoked

    def answer(self, asked: Asked, path: str) -> Answer:
        if not self._is_signed(_token(asked)):
            return refused(401, "A JSON web token could not be decoded")
        if not self.is_installed:
            return refused(404, "Not Found")
        if path == f"/repos/{REPOSITORY}/installation":
            return Answer(200, json.dumps(self._told()).encode(), JSON)
        if path != f"/app/installations/{self._installation}/access_tokens" or asked.method != "POST":
            return refused(404, "Not Found")
        wanted = json.loads(asked.body or b"{}")
        if set(wanted.get("repositories", [])) - {*self.repositories}:
            return refused(
                422, "There is at least one repository that is not accessible to the parent installation."
            )
        permissions = wanted.get("permissions", self.permissions)
        if any(self.permissions.get(name) not in (level, "write") for name, level in permissions.items()):
            return refused(422, "The permissions requested are not granted to this installation.")
        self.given.append(f"ghs_{len(self.given)}{time.time_ns()}secret")
        ends_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.lasts))
        told = {"token": self.given[-1], "expires_at": ends_at, "permissions": permissions}
        return Answer(201, json.dumps(told).encode(), JSON)

    def _told(self) -> dict[str, Any]:
        place = f"https://api.github.com/app/installations/{self._installation}"
        return {
            "id": self._installation,
            "account": _account(),
            "repository_selection": "selected",
            "access_tokens_url": f"{place}/access_tokens",
            "repositories_url": "https://api.github.com/installation/repositories",
            "html_url": f"https://github.com/settings/installations/{self._installation}",
            "app_id": int(self._app_id),
            "app_slug": "sortie",
            "target_id": 1,
            "target_type": "User",
            "permissions": self.permissions,
            "events": [],
            "created_at": "2026-01-05T09:00:00Z",
            "updated_at": "2026-01-05T09:00:00Z",
            "single_file_name": None,
            "suspended_by": None,
            "suspended_at": None,
        }

    def _is_signed(self, token: str) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.hashes import SHA256

        head, _, rest = token.partition(".")
        claims, _, proof = rest.partition(".")
        try:
            self._key.verify(_decoded(proof), f"{head}.{claims}".encode(), PKCS1v15(), SHA256())
            said, form = json.loads(_decoded(claims)), json.loads(_decoded(head))
        except (InvalidSignature, ValueError):
            return False
        now = time.time()
        in_time = said["iat"] <= now < said["exp"] <= now + 600
        return in_time and str(said["iss"]) == self._app_id and form == {"alg": "RS256", "typ": "JWT"}


def _account() -> dict[str, Any]:
    """The owner, with all that GitHub tells of one."""
    place = f"https://api.github.com/users/{OWNER}"
    lists = (
        *("followers", "following", "gists", "starred", "subscriptions"),
        *("organizations", "repos", "events", "received_events"),
    )
    return {
        "login": OWNER,
        "id": 1,
        "node_id": "MDQ6VXNlcjE=",
        "avatar_url": f"https://avatars.githubusercontent.com/{OWNER}",
        "gravatar_id": "",
        "url": place,
        "html_url": f"https://github.com/{OWNER}",
        **{f"{name}_url": f"{place}/{name}" for name in lists},
        "type": "User",
        "site_admin": False,
    }


def _token(asked: Asked) -> str:
    return asked.headers.get("authorization", "").removeprefix("Bearer ")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def query_of(asked: Asked) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(asked.path).query))
