"""The OpenAI Chat Completions wire, as OpenCode and Copilot speak it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from .wire import Asked, Heard, Json, Prompt, Reply, Result, Tool, event, inside, objects, string, words

NAME = "chat"

KINDS = {
    401: ("invalid_request_error", "invalid_api_key"),
    429: ("requests", "rate_limit_exceeded"),
}


def asked(path: str, body: Json) -> Asked:
    return Asked(
        model=string(body.get("model")),
        stream=body.get("stream") is True,
        heard=tuple(_heard(body)),
        tools=tuple(Tool(string(inside(tool.get("function"), "name"))) for tool in objects(body.get("tools"))),
    )


def whole(reply: Reply) -> Json:
    choice = {"index": 0, "message": {"role": "assistant", **_message(reply)}, "finish_reason": _finish(reply)}
    return {**_named(reply, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


def events(reply: Reply) -> Iterator[bytes]:
    chunk = _named(reply, "chat.completion.chunk")

    def part(delta: Json, finish: str | None = None) -> bytes:
        return event({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield part({"role": "assistant", "content": ""})
    yield part({name: value for name, value in _message(reply).items() if value is not None})
    yield part({}, _finish(reply))
    yield event({**chunk, "choices": [], "usage": _usage(reply)})
    yield b"data: [DONE]\n\n"


def failure(status: int, message: str) -> Json:
    usual = "server_error" if status >= 500 else "invalid_request_error"
    kind, code = KINDS.get(status, (usual, usual))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _heard(body: Json) -> Iterator[Heard]:
    for message in objects(body.get("messages")):
        if message.get("role") == "tool":
            yield Result(words(message.get("content")))
        elif message.get("role") == "user":
            yield Prompt(words(message.get("content")))


def _named(reply: Reply, kind: str) -> Json:
    return {"id": f"chatcmpl-{reply.id}", "object": kind, "created": int(time.time()), "model": reply.model}


def _message(reply: Reply) -> Json:
    if call := reply.call:
        function = {"name": call.tool.name, "arguments": json.dumps(call.arguments)}
        made = {"index": 0, "id": f"call_{reply.id}", "type": "function", "function": function}
        return {"content": None, "tool_calls": [made]}
    return {"content": reply.text}


def _finish(reply: Reply) -> str:
    if reply.refused:
        return "content_filter"
    return "tool_calls" if reply.call else "stop"


def _usage(reply: Reply) -> Json:
    usage = reply.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }
