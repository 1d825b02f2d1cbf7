"""What a client would not send, and what it is answered."""

from __future__ import annotations

import json

import pytest

from .scene import Project, modern

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """One sidecar for all the bad frames: it has to survive them all."""
    with Project(tmp_path_factory.mktemp("project")).start() as running:
        yield running


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        ("{", PARSE_ERROR, None),
        ("nonsense", PARSE_ERROR, None),
        ('{"jsonrpc": "2.0", "id": 1, "method": NaN}', PARSE_ERROR, None),
        ("[" * 100_000, PARSE_ERROR, None),
        ('{"jsonrpc": "2.0", "id": ' + "9" * 10_000 + "}", PARSE_ERROR, None),
        ("1", INVALID_REQUEST, None),
        ('"text"', INVALID_REQUEST, None),
        ("null", INVALID_REQUEST, None),
        ('{"id": 7, "method": "ping"}', INVALID_REQUEST, 7),
        ('{"jsonrpc": "1.0", "id": "seven", "method": "ping"}', INVALID_REQUEST, "seven"),
        ('{"jsonrpc": "2.0", "id": 7}', INVALID_REQUEST, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": 5}', INVALID_REQUEST, 7),
        ('{"jsonrpc": "2.0", "id": null, "method": "ping"}', INVALID_REQUEST, None),
        ('{"jsonrpc": "2.0", "id": true, "method": "ping"}', INVALID_REQUEST, None),
        ('{"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}', INVALID_REQUEST, None),
        ('{"jsonrpc": "2.0", "id": 1e999, "method": "ping"}', INVALID_REQUEST, None),
        ('{"jsonrpc": "2.0", "id": 7, "method": "no/such/method"}', METHOD_NOT_FOUND, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "logging/setLevel", "params": {}}', METHOD_NOT_FOUND, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "resources/list"}', METHOD_NOT_FOUND, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": [1]}', INVALID_PARAMS, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "initialize"}', INVALID_PARAMS, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"cursor": "2"}}', INVALID_PARAMS, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "tools/call"}', INVALID_PARAMS, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": 1}}', INVALID_PARAMS, 7),
        (
            '{"jsonrpc": "2.0", "id": 7, "method": "tools/call",'
            ' "params": {"name": "tracker_api", "arguments": "{}"}}',
            INVALID_PARAMS,
            7,
        ),
        ('{"jsonrpc": "2.0", "id": 7, "method": "server/discover"}', INVALID_PARAMS, 7),
        ("[]", INVALID_REQUEST, None),
        ('[{"jsonrpc": "2.0", "id": 7, "method": "ping"}]', INVALID_REQUEST, None),
    ],
)
def test_a_bad_frame_gets_its_error_and_the_session_goes_on(patient, line, code, request_id):
    patient.send(line)
    answer = patient.receive()
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", request_id, code)
    assert patient.ask("ping")["result"] == {}


def test_bytes_that_are_not_utf_8_are_a_parse_error(sidecar):
    sidecar.send_bytes(b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}\n')
    assert sidecar.receive()["error"]["code"] == PARSE_ERROR


def test_an_unknown_tool_gets_an_error_and_the_session_goes_on(sidecar, project):
    """EXT-06"""
    answer = sidecar.ask("tools/call", {"name": "no_such_tool", "arguments": {}})
    assert answer["error"] == {"code": INVALID_PARAMS, "message": "Unknown tool: no_such_tool"}
    assert sidecar.call("tracker_api", {"operation": "fetch_comments", "issue_id": "abc123"})["success"]
    assert project.counted() == [("unknown", "error"), ("tracker_api", "success")]


def test_notifications_responses_and_empty_lines_are_never_answered(sidecar):
    for frame in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "no/such/method"},
        {"jsonrpc": "2.0", "method": "tools/list", "params": "wrong"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
        {"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "no"}},
        "",
        "   \r",
    ):
        sidecar.send(frame)
    assert sidecar.ask("ping")["result"] == {}


def test_ids_come_back_as_they_were(sidecar):
    for request_id in (0, -1, "", "ü", 2**60, 1.5):
        sidecar.send({"jsonrpc": "2.0", "id": request_id, "method": "ping"})
        assert sidecar.receive()["id"] == request_id


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_published_version_is_agreed_to(sidecar, version):
    answer = sidecar.initialize(version)
    assert answer["protocolVersion"] == version
    assert answer["capabilities"] == {"tools": {}}
    assert answer["serverInfo"]["name"] == "sortie-tools"


def test_an_unknown_version_is_answered_with_the_newest_that_has_a_handshake(sidecar):
    assert sidecar.initialize("2199-01-01")["protocolVersion"] == "2025-11-25"


def test_results_have_only_what_their_version_knows(sidecar):
    sidecar.initialize("2024-11-05")
    (status,) = [tool for tool in sidecar.ask("tools/list")["result"]["tools"] if tool["name"] == "sortie_status"]
    assert set(status) == {"name", "description", "inputSchema"}
    assert set(sidecar.ask("tools/call", {"name": "sortie_status"})["result"]) == {"content"}
    sidecar.initialize("2025-06-18")
    result = sidecar.ask("tools/call", {"name": "sortie_status"})["result"]
    assert set(result) == {"content", "structuredContent"}
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


def test_the_newer_generation_needs_no_handshake(sidecar):
    found = sidecar.ask("server/discover", modern())["result"]
    assert "2026-07-28" in found["supportedVersions"]
    assert found["resultType"] == "complete"
    assert found["capabilities"] == {"tools": {}}
    listed = sidecar.ask("tools/list", modern())["result"]
    assert listed["ttlMs"] > 0
    assert listed["cacheScope"] == "private"
    result = sidecar.ask("tools/call", modern({"name": "sortie_status", "arguments": {}}))["result"]
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "sortie-tools"
    assert result["structuredContent"]["turn_number"] == 3


def test_an_envelope_that_is_wrong_is_refused(sidecar):
    unsupported = sidecar.ask("server/discover", modern(version="2199-01-01"))["error"]
    assert unsupported["code"] == -32022
    assert unsupported["data"]["requested"] == "2199-01-01"
    assert "2026-07-28" in unsupported["data"]["supported"]
    assert sidecar.ask("tools/list", modern(version=5))["error"]["code"] == INVALID_PARAMS
    lacking = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    assert sidecar.ask("tools/list", lacking)["error"]["code"] == INVALID_PARAMS


def test_a_batch_is_answered_as_one_in_the_version_that_has_them(sidecar):
    sidecar.initialize("2025-03-26")
    sidecar.send(
        [
            {"jsonrpc": "2.0", "id": "a", "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "sortie_status"}},
            {"jsonrpc": "2.0", "id": "c", "method": "no/such/method"},
            5,
        ]
    )
    answers = {answer["id"]: answer for answer in sidecar.receive()}
    assert answers["a"]["result"] == {}
    assert "content" in answers["b"]["result"]
    assert answers["c"]["error"]["code"] == METHOD_NOT_FOUND
    assert answers[None]["error"]["code"] == INVALID_REQUEST
    sidecar.send("[]")
    assert sidecar.receive()["error"]["code"] == INVALID_REQUEST
    sidecar.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
    assert sidecar.ask("ping")["result"] == {}


def test_the_listed_schemas_are_those_of_the_document(sidecar):
    """EXT-07, EXT-11, EXT-13: the input schemas."""
    schemas = {tool["name"]: tool["inputSchema"] for tool in sidecar.ask("tools/list")["result"]["tools"]}
    assert list(schemas) == ["tracker_api", "sortie_status", "workspace_history"]
    tracker = schemas["tracker_api"]
    assert tracker["required"] == ["operation"]
    assert tracker["additionalProperties"] is False
    assert {name: field["type"] for name, field in tracker["properties"].items()} == {
        "operation": "string",
        "issue_id": "string",
        "target_state": "string",
    }
    assert tracker["properties"]["operation"]["enum"] == [
        "fetch_issue",
        "fetch_comments",
        "search_issues",
        "transition_issue",
    ]
    nothing = {"type": "object", "properties": {}, "additionalProperties": False}
    assert schemas["sortie_status"] == schemas["workspace_history"] == nothing
