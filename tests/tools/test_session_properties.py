"""Whatever comes down the wire, every request is answered once, nothing else is, and nothing breaks."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sortie.tools.definitions import SORTIE_STATUS
from sortie.tools.mcp_session import McpSession
from sortie.tools.mcp_versions import VERSIONS, tool_result
from sortie.tools.toolbox import SessionTool

from .scene import modern

DEADLINE = 30.0

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
methods = st.sampled_from(
    ["initialize", "ping", "tools/list", "tools/call", "server/discover", "notifications/cancelled", "x"]
)
params = (
    values
    | st.fixed_dictionaries(
        {}, optional={"name": st.just("sortie_status") | values, "arguments": values, "_meta": values}
    )
    | st.builds(modern, st.just({"name": "sortie_status"}), st.sampled_from(VERSIONS) | values)
    | st.fixed_dictionaries({"protocolVersion": st.sampled_from(VERSIONS) | values})
    | st.fixed_dictionaries({"requestId": values})
)
frames = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | values, "method": methods | values},
    optional={"id": values, "params": params, "result": values},
)


class Client:
    def __init__(self) -> None:
        self.answers: list[Any] = []
        tool = SessionTool(SORTIE_STATUS, lambda _arguments, _cancellation: {"turn_number": 1})
        self.session = McpSession({"sortie_status": tool}, self._keep, {})

    def _keep(self, answer: object) -> None:
        self.answers.append(json.loads(json.dumps(answer)))

    def send(self, line: bytes | None) -> list[Any]:
        self.answers.clear()
        self.session.take(line)
        assert self.session.wait(DEADLINE)
        return self.answers


def is_id(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


@settings(max_examples=100, deadline=None)
@given(st.lists(frames, max_size=5))
def test_a_request_is_answered_once_and_anything_else_at_most_with_an_error(sent):
    client = Client()
    for frame in sent:
        answers = client.send(json.dumps(frame).encode())
        if "id" in frame and is_id(frame["id"]) and isinstance(frame["method"], str) and frame["jsonrpc"] == "2.0":
            (answer,) = answers
            assert answer["id"] == frame["id"]
            assert ("result" in answer) != ("error" in answer)
        else:
            assert len(answers) <= 1
            assert all("error" in answer for answer in answers)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200) | values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_survived(line):
    client = Client()
    answers = client.send(line)
    assert len(answers) <= 1
    assert client.send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')[0]["result"] == {}


@given(values, st.sampled_from(VERSIONS))
def test_the_text_of_a_result_is_its_json_and_the_object_beside_it_is_the_same(answer, version):
    result = tool_result(answer, version)
    text = result["content"][0]["text"]
    if not isinstance(answer, str):
        assert json.loads(text) == json.loads(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"))
    assert ("structuredContent" in result) == (isinstance(answer, dict) and version >= "2025-06-18")
    if "structuredContent" in result:
        assert result["structuredContent"] == json.loads(text)
