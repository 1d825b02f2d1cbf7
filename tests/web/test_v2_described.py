"""`openapi.json` and `/api/v2` say the same: every answer of a busy store is of the type that is described."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from starlette.routing import Route

from sortie.web.api_v2_operations import OPERATIONS
from sortie.web.app import make_app
from sortie.web.stream import STREAM
from sortie.web.tokens import new_token

from ..cli.worklog_scene import CHARTER
from ..plans.sample import load_tasks
from .api_scene import ENDED_RUN, RUNNING_RUN, busy_server
from .live_server import Answer, LiveServer, new_store, served

ROOT = "/api/v2"
ADDRESSES = (
    *("/status", "/inbox", "/usage", "/usage?days=1", "/health", "/plans", "/peers"),
    *("/issues", "/issues?situation=parked", "/issues?page=2&size=2"),
    *(f"/issues/{name}" for name in ("D-1", "D-2", "D-3", "D-4", "D-5", "D-6", "D-9", "1")),
    *("/issues/D-4/why", "/issues/D-4/why?limit=2&all=true", "/issues/D-1/why?before=60", "/issues/D-1/changes"),
    *("/runs", "/runs?status=failed", "/runs?issue=D-4", "/runs?sort=cost&descending=false", "/runs?text=broke"),
    *(f"/runs/{ENDED_RUN}", f"/runs/{RUNNING_RUN}", f"/runs/{ENDED_RUN}/log", f"/runs/{RUNNING_RUN}/log?limit=1"),
    *(f"/runs/{ENDED_RUN}/prompts", f"/runs/{RUNNING_RUN}/prompts"),
    *("/events", "/events?after=5&limit=2", "/events?issue=D-1"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("busy")
    (folder / "CHARTER.md").write_text(CHARTER)
    with busy_server(folder) as started:
        yield started


@pytest.fixture(scope="module")
def document(server: LiveServer) -> dict[str, Any]:
    described: dict[str, Any] = server.get(f"{ROOT}/openapi.json").json
    return described


def operation_at(document: dict[str, Any], method: str, address: str) -> dict[str, Any]:
    """What is described of an address: the template with the most words of its own that fits it."""
    parts = address.partition("?")[0].split("/")
    fitting = [
        path
        for path in document["paths"]
        if len(path.split("/")) == len(parts)
        and all(ours == theirs or ours.startswith("{") for ours, theirs in zip(path.split("/"), parts, strict=True))
    ]
    best = min(fitting, key=lambda path: path.count("{"))
    found: dict[str, Any] = document["paths"][best][method.lower()]
    return found


def problems(document: dict[str, Any], method: str, address: str, answer: Answer) -> list[str]:
    """Where the answer is not of the type that is described for its status."""
    responses = operation_at(document, method, address)["responses"]
    assert str(answer.status) in responses, f"{answer.status} is not described: {answer.text[:300]}"
    schema = responses[str(answer.status)]["content"]["application/json"]["schema"]
    checked = Draft202012Validator({**schema, "components": document["components"]})
    return [f"{error.json_path}: {error.message[:200]}" for error in checked.iter_errors(answer.json)]


def test_the_description_is_valid_openapi(document):
    validate(document)
    assert document["openapi"] == "3.1.0"


def test_no_type_tells_in_which_module_it_is(document):
    assert [name for name in document["components"]["schemas"] if "." in name] == []


def test_every_address_that_is_answered_is_described(server, document):
    answered = {
        route.path.replace(":path}", "}")
        for route in make_app(server.site).routes
        if isinstance(route, Route) and route.path.startswith(ROOT)
    }
    assert document["paths"].keys() == answered - {f"{ROOT}/openapi.json"}


def test_the_stream_is_described_as_what_it_is(document):
    told = document["paths"][f"{ROOT}/events/stream"]["get"]
    assert [*told["responses"]["200"]["content"]] == ["text/event-stream"]
    assert {one["name"] for one in told["parameters"]} == {"after", "issue", "Last-Event-ID"}
    described = told["responses"]["200"]["description"]
    assert all(f"`{event}`" in described for event in ("change", "live", "stale", "reset", "failed"))


def test_every_operation_is_described_with_its_parameters_and_errors(document):
    described = {
        (method.upper(), path.removeprefix(ROOT)): told
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    }
    assert described.keys() == {(one.method, one.path) for one in (*OPERATIONS, STREAM)}
    for operation in (*OPERATIONS, STREAM):
        told = described[operation.method, operation.path]
        names = {one["name"] for one in told["parameters"] if one["in"] == "query"}
        assert names == {*operation.query.__struct_encode_fields__}
        assert ("requestBody" in told) == (operation.body is not None)
        for status, code in operation.errors:
            assert f"`{code}`" in told["responses"][str(status)]["description"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_answer_is_of_the_type_that_is_described(server, document, address):
    answer = server.get(ROOT + address)
    assert answer.status == 200, answer.text
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert problems(document, "GET", ROOT + address, answer) == []


def test_status_and_health_tell_in_one_form_what_the_tracker_allows(server):
    status, health = (server.get(f"{ROOT}/{name}").json for name in ("status", "health"))
    assert status["tracker"] == health["tracker"]
    assert status["tracker"]["remaining"] == 4321


def test_the_check_sees_an_answer_of_another_type(server, document):
    answer = server.get(f"{ROOT}/status")
    spoilt = Answer(200, {}, json.dumps({**answer.json, "running": [{"issue_id": 7}]}).encode())
    assert problems(document, "GET", f"{ROOT}/status", spoilt)


@pytest.mark.parametrize(
    ("address", "status", "code"),
    [
        ("/issues/nobody", 404, "issue_not_found"),
        ("/issues/nobody/why", 404, "issue_not_found"),
        ("/issues/nobody/changes", 404, "issue_not_found"),
        ("/runs?issue=nobody", 404, "issue_not_found"),
        ("/events?issue=nobody", 404, "issue_not_found"),
        ("/runs/nothing", 404, "run_not_found"),
        ("/runs/..%2f..%2fetc%2fpasswd", 404, "run_not_found"),
        ("/runs/nothing/log", 404, "run_not_found"),
        ("/runs/nothing/prompts", 404, "run_not_found"),
        (f"/runs/{ENDED_RUN}/log?after=1.2&before=3.4", 400, "invalid_parameter"),
        ("/commands/1", 404, "command_not_found"),
        ("/commands/none", 404, "command_not_found"),
        (f"/commands/{'9' * 40}", 404, "command_not_found"),
        ("/plans/tasks/none", 404, "task_not_found"),
        ("/issues?situation=odd", 400, "invalid_parameter"),
        ("/issues?page=0", 400, "invalid_parameter"),
        ("/issues?page=1&page=2", 400, "invalid_parameter"),
        ("/issues?colour=red", 400, "invalid_parameter"),
        ("/events?after=-1", 400, "invalid_parameter"),
        ("/events/stream?after=-1", 400, "invalid_parameter"),
        ("/events/stream?colour=red", 400, "invalid_parameter"),
        ("/events/stream?issue=nobody", 404, "issue_not_found"),
        (f"/events?after={'9' * 19}", 400, "invalid_parameter"),
        (f"/events?after={'9' * 5000}", 400, "invalid_parameter"),
        ("/usage?days=ten", 400, "invalid_parameter"),
        ("/usage?days=100000", 400, "invalid_parameter"),
        (f"/issues/{'x' * 1001}", 400, "invalid_parameter"),
    ],
)
def test_every_mistake_is_described_too(server, document, address, status, code):
    answer = server.get(ROOT + address)
    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    if "%2f" not in address:
        assert problems(document, "GET", ROOT + address, answer) == []


def test_a_command_and_its_reply_are_of_the_type_that_is_described(server, document):
    headers = {
        "Authorization": f"Bearer {new_token(server.site.database, 'operate')}",
        "Content-Type": "application/json",
    }
    given = server.request("POST", f"{ROOT}/commands", headers, b'{"verb": "refresh"}')
    assert given.status == 202
    assert problems(document, "POST", f"{ROOT}/commands", given) == []
    kept = server.get(f"{ROOT}/commands/{given.json['id']}")
    assert problems(document, "GET", f"{ROOT}/commands/1", kept) == []
    assert kept.json == given.json


def test_what_there_is_nothing_of_is_of_the_type_that_is_described(tmp_path, document):
    with served(new_store(tmp_path / "sortie.db")) as empty:
        for address in ("/status", "/inbox", "/issues", "/runs", "/usage", "/health", "/events", "/plans"):
            answer = empty.get(ROOT + address)
            assert answer.status == 200
            assert problems(document, "GET", ROOT + address, answer) == []
        assert empty.get(f"{ROOT}/peers").json["error"]["code"] == "no_peers"


def test_a_plan_and_its_tasks_are_of_the_type_that_is_described(tmp_path, document):
    plan = load_tasks(tmp_path, {"name": "one"}, {"name": "two", "depends_on": ["one"]})
    plan.store.parent.mkdir(parents=True)
    with served(new_store(plan.store), place=plan.path, is_plan=True) as server:
        for address in ("/plans", "/plans/tasks/two"):
            answer = server.get(ROOT + address)
            assert answer.status == 200
            assert problems(document, "GET", ROOT + address, answer) == []
        (shown,) = server.get(f"{ROOT}/plans").json["plans"]
        assert [node["name"] for node in shown["nodes"]] == ["one", "two"]
        assert server.get(f"{ROOT}/plans/tasks/two").json["waits_for"] == {"one": "ready"}
