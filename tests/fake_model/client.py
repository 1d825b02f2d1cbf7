"""How a test talks to a fake model: each wire spelled and read back by the rules of its vendor."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from . import FakeModel

DEADLINE = 20.0
TOOLS = ("Bash", "mcp__probe__probe_echo")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def events(self) -> list[Any]:
        blocks = self.content.decode().split("\n\n")
        assert blocks.pop() == ""
        data = [block.rpartition("data: ")[2] for block in blocks]
        return [json.loads(text) for text in data if text != "[DONE]"]

    @property
    def names(self) -> list[str]:
        return [line[7:] for line in self.content.decode().splitlines() if line.startswith("event: ")]


@dataclass(frozen=True)
class Said:
    """What a wire's own client makes of an answer. `usage`: input, output and cached, as the wire counts them."""

    text: str
    call: tuple[str, Any] | None
    stop: str
    usage: tuple[int, int, int]


def connect(model: FakeModel) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", model.port, timeout=DEADLINE)


def post(model: FakeModel, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with closing(connect(model)) as connection:
        connection.request("POST", path, content, dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, dict(response.headers), response.read())


def wait_for(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < give_up, f"not true within {DEADLINE} s"
        time.sleep(0.01)


def scripted(*steps: Mapping[str, Any]) -> str:
    return f"Work. <script>{json.dumps(steps)}</script>"


class Dialect:
    """History is what the agent tells: prompts as strings, results of tools as one-element lists."""

    name: str

    def path(self, stream: bool) -> str:
        raise NotImplementedError

    def body(self, history: Sequence[str | list[str]], stream: bool = False, tools: Sequence[str] = TOOLS) -> Any:
        raise NotImplementedError

    def whole(self, body: Any) -> Said:
        raise NotImplementedError

    def streamed(self, events: list[Any]) -> Said:
        raise NotImplementedError

    def ask(self, model: FakeModel, *history: str | list[str], stream: bool = False) -> Said:
        answer = post(model, self.path(stream), self.body(history, stream))
        assert answer.status == 200, answer.content
        return self.streamed(answer.events) if stream else self.whole(answer.json)


class Anthropic(Dialect):
    name = "anthropic"

    def path(self, stream):
        return "/prefix/v1/messages?beta=true"

    def body(self, history, stream=False, tools=TOOLS):
        said = [
            {"role": "user", "content": item}
            if isinstance(item, str)
            else {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": item[0]}]}
            for item in history
        ]
        return {"model": "m", "stream": stream, "messages": said, "tools": [{"name": name} for name in tools]}

    def whole(self, body):
        block, usage = body["content"][0], body["usage"]
        call = (block["name"], block["input"]) if block["type"] == "tool_use" else None
        counts = (usage["input_tokens"], usage["output_tokens"], usage["cache_read_input_tokens"])
        return Said(block.get("text", ""), call, body["stop_reason"], counts)

    def streamed(self, events):
        start, block, delta, _, end, _ = events
        content = {**block["content_block"]}
        if content["type"] == "text":
            content["text"] += delta["delta"]["text"]
        else:
            content["input"] = json.loads(delta["delta"]["partial_json"])
        usage = {**start["message"]["usage"], **end["usage"]}
        return self.whole({"content": [content], "usage": usage, "stop_reason": end["delta"]["stop_reason"]})


class Responses(Dialect):
    name = "responses"

    def path(self, stream):
        return "/v1/responses"

    def body(self, history, stream=False, tools=TOOLS):
        said = [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": item}]}
            if isinstance(item, str)
            else {"type": "function_call_output", "call_id": "x", "output": item[0]}
            for item in history
        ]
        offered = [{"type": "function", "name": name} for name in tools]
        return {"model": "m", "stream": stream, "input": said, "tools": offered}

    def whole(self, body):
        item, usage = body["output"][0], body["usage"]
        text, call = "", None
        if item["type"] == "function_call":
            call = (item["name"], json.loads(item["arguments"]))
        else:
            text = item["content"][0]["text"]
        counts = (usage["input_tokens"], usage["output_tokens"], usage["input_tokens_details"]["cached_tokens"])
        return Said(text, call, body["status"], counts)

    def streamed(self, events):
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        said = self.whole(events[-1]["response"])
        delta = next(event["delta"] for event in events if event["type"].endswith(".delta"))
        assert delta == said.text or json.loads(delta) == said.call[1]
        return said


class Chat(Dialect):
    name = "chat"

    def path(self, stream):
        return "/v1/chat/completions"

    def body(self, history, stream=False, tools=TOOLS):
        said = [
            {"role": "user", "content": item}
            if isinstance(item, str)
            else {"role": "tool", "tool_call_id": "x", "content": item[0]}
            for item in history
        ]
        offered = [{"type": "function", "function": {"name": name}} for name in tools]
        return {"model": "m", "stream": stream, "messages": said, "tools": offered}

    def whole(self, body):
        return self._said(body["choices"][0]["message"], body["choices"][0]["finish_reason"], body["usage"])

    def streamed(self, events):
        *parts, last = events
        assert last["choices"] == []
        message: dict[str, Any] = {}
        for part in parts:
            message |= part["choices"][0]["delta"]
        return self._said(message, parts[-1]["choices"][0]["finish_reason"], last["usage"])

    def _said(self, message, stop, usage):
        call = None
        for made in message.get("tool_calls", []):
            call = (made["function"]["name"], json.loads(made["function"]["arguments"]))
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return Said(
            message["content"] or "", call, stop, (usage["prompt_tokens"], usage["completion_tokens"], cached)
        )


class Gemini(Dialect):
    name = "gemini"

    def path(self, stream):
        return f"/v1beta/models/m:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"

    def body(self, history, stream=False, tools=TOOLS):
        said = [
            {"role": "user", "parts": [{"text": item}]}
            if isinstance(item, str)
            else {"role": "user", "parts": [{"functionResponse": {"name": "x", "response": {"output": item[0]}}}]}
            for item in history
        ]
        return {"contents": said, "tools": [{"functionDeclarations": [{"name": name} for name in tools]}]}

    def whole(self, body):
        return self.streamed([body])

    def streamed(self, events):
        parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        usage = events[-1]["usageMetadata"]
        return Said(
            "".join(part.get("text", "") for part in parts),
            (calls[0]["name"], calls[0]["args"]) if calls else None,
            events[-1]["candidates"][0]["finishReason"],
            (usage["promptTokenCount"], usage["candidatesTokenCount"], usage["cachedContentTokenCount"]),
        )


DIALECTS: tuple[Dialect, ...] = (Anthropic(), Responses(), Chat(), Gemini())
