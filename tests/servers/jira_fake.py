"""A Jira Cloud site on loopback, with a memory. Every request to it and every answer of it is checked against
Atlassian's own descriptions; what breaks them is in `problems`, and a test that leaves one there has failed.

Whatever can go wrong on the way to a server can be ordered with `fault`.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from .jira_answers import Answers, refusal
from .jira_jql import JqlError, search
from .jira_schema import JiraSchema
from .jira_store import BOT, JiraStore
from .loopback_http import LoopbackHTTP

EMAIL, TOKEN = "bot@example.com", "ATATT3xFfGF0-secret-token"
KEY = f"{EMAIL}:{TOKEN}"
LONGEST_COMMENT = 32_767
MOST_RECONCILED = 50


class Fault(Struct):
    """`deed` happens to requests whose method and path match `where`, `times` times, but to none of the first
    `spared`; `after` it was carried out."""

    where: re.Pattern[str]
    deed: Callable[[Exchange], None]
    times: int = 1
    after: bool = False
    spared: int = 0


class Exchange:
    """One request and its answer, which a fault may spoil."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self.method = handler.command
        self.path = handler.path
        self.headers = dict(handler.headers)
        self.body = body
        self.connection = handler.connection
        self.status = 200
        self.answer: Any = None
        self.answer_headers: dict[str, str] = {"Content-Type": "application/json;charset=UTF-8"}
        self.raw: bytes | None = None
        self.is_spoiled = False

    @property
    def query(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.path).query).items()}

    @property
    def content(self) -> bytes:
        if self.raw is not None:
            return self.raw
        return b"" if self.answer is None else json.dumps(self.answer).encode()


class JiraFake:
    """`is_expired`: the token is no longer good, and whoever comes with it is treated as nobody in particular, who
    sees nothing of the site. `is_hidden`: the account may not browse the projects any more."""

    def __init__(self, schema: JiraSchema | None = None, *, key: str = KEY) -> None:
        self.store = JiraStore()
        self.requests: list[tuple[str, str, Any]] = []
        self.problems: list[str] = []
        self.permissions = {"BROWSE_PROJECTS", "ADD_COMMENTS", "TRANSITION_ISSUES"}
        self.unreadable: set[int] = set()
        self.is_expired = False
        self.is_hidden = False
        self.prefix = ""
        self.key = key
        self._schema = schema
        self._faults: list[Fault] = []
        self.released = threading.Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                exchange = Exchange(self, body)
                try:
                    fake._handle(exchange)
                except Exception as error:  # a defect of this server is a failed test
                    fake.problems.append(f"{exchange.method} {exchange.path}: {type(error).__name__}: {error}")
                    exchange.status, exchange.answer = 500, refusal("the test server failed")
                if exchange.is_spoiled:
                    self.close_connection = True
                    return
                self.send_response(exchange.status)
                for name, value in exchange.answer_headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(exchange.content)))
                self.end_headers()
                self.wfile.write(exchange.content)

            do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - names that http.server looks for

            def log_message(self, *_: object) -> None:
                """What is asked is kept, not printed."""

        self._http = LoopbackHTTP(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._answers = Answers(self.store, self.url)

    @contextmanager
    def running(self) -> Iterator[JiraFake]:
        thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            self._http.shutdown()
            self._http.server_close()

    def fault(
        self, where: str, deed: Callable[[Exchange], None], *, times: int = 1, after: bool = False, spared: int = 0
    ) -> None:
        self._faults.append(Fault(re.compile(where), deed, times, after, spared))

    def calls(self, where: str = "") -> list[str]:
        found = (f"{method} {path}" for method, path, _ in self.requests)
        return [call for call in found if re.search(where, call)]

    def _handle(self, exchange: Exchange) -> None:
        asked = json.loads(exchange.body) if exchange.body else None
        exchange.path = exchange.path.removeprefix(self.prefix)
        self.requests.append((exchange.method, exchange.path, asked))
        if self._schema:
            self.problems += self._schema.request_problems(
                exchange.method, exchange.path, exchange.headers, exchange.body
            )
        if fault := self._fault_for(exchange, after=False):
            return fault.deed(exchange)
        if exchange.headers.get("Authorization") != expected_authorization(self.key):
            message = "Client must be authenticated to access this resource."
            exchange.status, exchange.answer = 401, {"message": message, "status-code": 401}
        else:
            with self.store.lock:
                exchange.status, exchange.answer = self._answer(exchange, asked)
        if self.is_expired:
            exchange.answer_headers["X-Seraph-LoginReason"] = "AUTHENTICATED_FAILED"
        if fault := self._fault_for(exchange, after=True):
            return fault.deed(exchange)
        if self._schema:
            self.problems += self._schema.answer_problems(
                exchange.method, exchange.path, exchange.status, exchange.answer_headers, exchange.content
            )
        return None

    def _fault_for(self, exchange: Exchange, *, after: bool) -> Fault | None:
        for fault in self._faults:
            matches = fault.where.search(f"{exchange.method} {exchange.path}")
            if not matches or not fault.times or fault.after != after:
                continue
            if fault.spared:
                fault.spared -= 1
                continue
            fault.times -= 1
            return fault
        return None

    def _answer(self, exchange: Exchange, asked: Any) -> tuple[int, Any]:
        path = urlsplit(exchange.path).path.removeprefix("/rest/api/3")
        if (self.is_expired or self.is_hidden) and (answer := self._as_seen_from_outside(path)):
            return answer
        match [exchange.method, *path.strip("/").split("/")]:
            case ["POST", "search", "jql"]:
                return self._search(asked)
            case ["POST", "issue", "bulkfetch"]:
                return self._bulk_fetch(asked)
            case ["GET", "myself"]:
                return 200, self._answers.user(BOT)
            case ["GET", "serverInfo"]:
                return 200, {"baseUrl": "https://your-domain.atlassian.net", "version": "1001.0.0-SNAPSHOT"}
            case ["GET", "mypermissions"]:
                return self._permissions(exchange.query)
            case ["GET", "issueLinkType"]:
                return 200, self._answers.link_types()
            case ["GET", "project", key, *rest]:
                return self._project(key, rest)
            case [method, "issue", name, *rest]:
                return self._issue(method, name, rest, exchange.query, asked)
        return 404, refusal("No such resource.")

    def _as_seen_from_outside(self, path: str) -> tuple[int, Any] | None:
        """None for what is no secret."""
        match path.strip("/").split("/"):
            case ["search", "jql"] if self.is_expired:
                return 200, {"issues": [], "isLast": True}
            case ["search", "jql"]:
                return 400, refusal("The value 'PROJ' does not exist for the field 'project'.")
            case ["issue", "bulkfetch"]:
                return 200, {"issues": [], "issueErrors": []}
            case ["issue", *_]:
                return 404, refusal("Issue does not exist or you do not have permission to see it.")
            case ["project", key, *_]:
                return 404, refusal(f"No project could be found with key '{key}'.")
            case ["myself"] if self.is_expired:
                return 401, refusal("Client must be authenticated to access this resource.")
        return None

    def _search(self, asked: Mapping[str, Any]) -> tuple[int, Any]:
        reconciled = asked.get("reconcileIssues", [])
        if len(reconciled) > MOST_RECONCILED:
            return 400, refusal("Too many issue ids to reconcile.")
        known = {
            "project": [*self.store.projects],
            "status": [*self.store.states],
            "statusCategory": ["To Do", "In Progress", "Done"],
            "labels": [label for issue in self.store.issues.values() for label in issue.labels],
            "issuetype": ["Task", "Bug"],
        }
        try:
            found = search(asked["jql"], self.store.searchable(reconciled), known)
        except JqlError as error:
            return 400, refusal(str(error))
        start = 0
        if token := asked.get("nextPageToken"):
            start = int(base64.b64decode(token).decode().partition(":")[2])
        size = min(asked.get("maxResults", 50), 100)
        page = [self._answers.issue(issue, asked["fields"]) for issue in found[start : start + size]]
        if start + size >= len(found):
            return 200, {"issues": page, "isLast": True}
        token = base64.b64encode(f"page:{start + size}".encode()).decode()
        return 200, {"issues": page, "nextPageToken": token, "isLast": False}

    def _bulk_fetch(self, asked: Mapping[str, Any]) -> tuple[int, Any]:
        names = asked["issueIdsOrKeys"]
        if not 0 < len(names) <= 100:
            return 400, refusal("You can request up to 100 issues.")
        found = sorted({issue.id for name in names if (issue := self.store.find(name))})
        issues = [self._answers.issue(self.store.issues[number], asked["fields"]) for number in found]
        readable = [told for told in issues if int(told["id"]) not in self.unreadable]
        errors = [{"id": told["id"], "errorMessage": "Try again."} for told in issues if told not in readable]
        return 200, {"issues": readable, "issueErrors": errors}

    def _permissions(self, query: Mapping[str, str]) -> tuple[int, Any]:
        if query.get("projectKey") not in self.store.projects:
            return 404, refusal("No project could be found with that key.")
        told = {
            name: {
                "id": "1",
                "key": name,
                "name": name,
                "type": "PROJECT",
                "havePermission": name in self.permissions,
            }
            for name in query["permissions"].split(",")
        }
        return 200, {"permissions": told}

    def _project(self, key: str, rest: list[str]) -> tuple[int, Any]:
        key = self.store.renamed.get(key, key)
        if key not in self.store.projects:
            return 404, refusal(f"No project could be found with key '{key}'.")
        return 200, self._answers.issue_types() if rest == ["statuses"] else self._answers.project(key)

    def _issue(
        self, method: str, name: str, rest: list[str], query: Mapping[str, str], asked: Any
    ) -> tuple[int, Any]:
        issue = self.store.find(name)
        if issue is None:
            return 404, refusal("Issue does not exist or you do not have permission to see it.")
        match [method, *rest]:
            case ["GET"]:
                return 200, self._answers.issue(issue, query["fields"].split(","))
            case ["GET", "comment"]:
                start, size = int(query.get("startAt", 0)), min(int(query.get("maxResults", 100)), 100)
                page = [self._answers.comment(issue, each) for each in issue.comments[start : start + size]]
                total = len(issue.comments)
                return 200, {"startAt": start, "maxResults": size, "total": total, "comments": page}
            case ["POST", "comment"]:
                return self._add_comment(issue, asked["body"])
            case ["GET", "transitions"]:
                offered = self.store.transitions(issue) if "TRANSITION_ISSUES" in self.permissions else []
                told = enumerate(offered, 11)
                fields = query.get("expand") == "transitions.fields"
                return 200, {
                    "expand": "transitions",
                    "transitions": [self._answers.transition(at, each, with_fields=fields) for at, each in told],
                }
            case ["POST", "transitions"]:
                return self._transition(issue, asked["transition"]["id"])
        return 404, refusal("No such resource.")

    def _add_comment(self, issue: Any, body: Any) -> tuple[int, Any]:
        if self._schema and self._schema.document_problems(body):
            return 400, refusal(comment="INVALID_INPUT")
        if not body.get("content"):
            return 400, refusal("Comment body can not be empty!")
        if len(json.dumps(body, ensure_ascii=False, separators=(",", ":"))) > LONGEST_COMMENT:
            return 400, refusal(comment="CONTENT_LIMIT_EXCEEDED")
        if "ADD_COMMENTS" not in self.permissions:
            return 403, refusal("You do not have the permission to comment on this issue.")
        return 201, self._answers.comment(issue, self.store.comment(issue, body, BOT))

    def _transition(self, issue: Any, number: str) -> tuple[int, Any]:
        offered = {str(at): each for at, each in enumerate(self.store.transitions(issue), 11)}
        transition = offered.get(number)
        if transition is None:
            return 400, refusal("It is not on the appropriate screen, or unknown.")
        if transition.refusal:
            status, message = transition.refusal
            transition.refusal = None if status == 409 else transition.refusal
            return status, refusal(message)
        if transition.fields:
            return 400, refusal(**{name.lower(): f"{name} is required." for name in transition.fields})
        self.store.move(issue, transition.to)
        return 204, None


def expected_authorization(key: str) -> str:
    return f"Basic {base64.b64encode(key.encode()).decode()}" if ":" in key else f"Bearer {key}"


# -- what can go wrong --------------------------------------------------------------------------------------------


def answers(status: int, body: Any = None, **headers: str) -> Callable[[Exchange], None]:
    """`headers` with underscores for their dashes."""

    def deed(exchange: Exchange) -> None:
        exchange.status = status
        exchange.raw = body if isinstance(body, bytes) else json.dumps(body or refusal("no")).encode()
        exchange.answer_headers |= {name.replace("_", "-"): value for name, value in headers.items()}

    return deed


def drops(exchange: Exchange) -> None:
    """The connection is reset."""
    exchange.is_spoiled = True
    exchange.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    exchange.connection.close()


def breaks_off(exchange: Exchange) -> None:
    """It promises more than it sends."""
    exchange.is_spoiled = True
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    exchange.connection.sendall(head + b'{"issues": [')
    exchange.connection.shutdown(socket.SHUT_RDWR)


def cut_short(exchange: Exchange) -> None:
    """A whole answer, but no whole JSON."""
    exchange.raw = exchange.content[: len(exchange.content) // 2]


def waits(event: threading.Event) -> Callable[[Exchange], None]:
    """No answer before the event."""

    def deed(_exchange: Exchange) -> None:
        event.wait(50)

    return deed
