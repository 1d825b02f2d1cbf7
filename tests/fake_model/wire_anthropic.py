"""The Anthropic Messages wire, as Claude Code speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .wire import Asked, Heard, Json, Prompt, Reply, Result, Tool, event, objects, string, words

NAME = "anthropic"

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def asked(path: str, body: Json) -> Asked:
    return Asked(
        model=string(body.get("model")),
        stream=body.get("stream") is True,
        heard=tuple(_heard(body)),
        tools=tuple(Tool(string(tool.get("name"))) for tool in objects(body.get("tools"))),
    )


def whole(reply: Reply) -> Json:
    return {**_opened(reply), "content": [_block(reply)], "stop_reason": _stop(reply), "usage": _usage(reply)}


def events(reply: Reply) -> Iterator[bytes]:
    block = _block(reply)
    if reply.call:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.call.arguments)}
    else:
        empty = {**block, "text": ""}
        delta = {"type": "text_delta", "text": reply.text}
    yield _event("message_start", message=_opened(reply))
    yield _event("content_block_start", index=0, content_block=empty)
    yield _event("content_block_delta", index=0, delta=delta)
    yield _event("content_block_stop", index=0)
    end = {"stop_reason": _stop(reply), "stop_sequence": None}
    yield _event("message_delta", delta=end, usage={"output_tokens": reply.usage.output})
    yield _event("message_stop")


def failure(status: int, message: str) -> Json:
    kind = KINDS.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"}


def _heard(body: Json) -> Iterator[Heard]:
    for message in objects(body.get("messages")):
        if message.get("role") != "user":
            continue
        content = message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else objects(content):
            if block.get("type") == "tool_result":
                yield Result(words(block.get("content")))
            elif block.get("type") == "text":
                yield Prompt(string(block.get("text")))


def _opened(reply: Reply) -> Json:
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_usage(reply), "output_tokens": 1},
    }


def _block(reply: Reply) -> Json:
    if call := reply.call:
        return {"type": "tool_use", "id": f"toolu_{reply.id}", "name": call.tool.name, "input": call.arguments}
    return {"type": "text", "text": reply.text}


def _stop(reply: Reply) -> str:
    if reply.refused:
        return "refusal"
    return "tool_use" if reply.call else "end_turn"


def _usage(reply: Reply) -> Json:
    """This wire counts the cached tokens apart from the other input."""
    return {
        "input_tokens": reply.usage.input - reply.usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reply.usage.cached,
        "output_tokens": reply.usage.output,
    }


def _event(kind: str, **fields: object) -> bytes:
    return event({"type": kind, **fields}, kind)
