"""The OpenAI Responses wire, as Codex speaks it."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator

from . import wire_chat
from .wire import Asked, Heard, Json, Prompt, Reply, Result, Tool, event, objects, string, words

NAME = "responses"

RESULTS = frozenset(
    {
        "function_call_output",
        "custom_tool_call_output",
        "mcp_tool_call_output",
        "local_shell_call_output",
        "tool_search_output",
    }
)

failure = wire_chat.failure


def asked(path: str, body: Json) -> Asked:
    return Asked(
        model=string(body.get("model")),
        stream=body.get("stream") is True,
        heard=tuple(_heard(body.get("input"))),
        tools=tuple(_tools(body)),
    )


def whole(reply: Reply) -> Json:
    ending: Json = {"status": "completed", "incomplete_details": None}
    if reply.refused:
        ending = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    return {**_opened(reply), **ending, "output": [_item(reply)], "usage": _usage(reply)}


def events(reply: Reply) -> Iterator[bytes]:
    numbers = itertools.count()
    for kind, fields in _happenings(reply):
        yield event({"type": kind, "sequence_number": next(numbers), **fields}, kind)


def _happenings(reply: Reply) -> Iterator[tuple[str, Json]]:
    item = _item(reply)
    yield "response.created", {"response": _opened(reply)}
    yield from _call_happenings(item) if reply.call else _message_happenings(item)
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield f"response.{'incomplete' if reply.refused else 'completed'}", {"response": whole(reply)}


def _call_happenings(item: Json) -> Iterator[tuple[str, Json]]:
    where = {"item_id": item["id"], "output_index": 0}
    begun = {**item, "status": "in_progress", "arguments": ""}
    yield "response.output_item.added", {"output_index": 0, "item": begun}
    yield "response.function_call_arguments.delta", {**where, "delta": item["arguments"]}
    yield "response.function_call_arguments.done", {**where, "arguments": item["arguments"]}


def _message_happenings(item: Json) -> Iterator[tuple[str, Json]]:
    part = item["content"][0]
    where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    begun = {**item, "status": "in_progress", "content": []}
    yield "response.output_item.added", {"output_index": 0, "item": begun}
    yield "response.content_part.added", {**where, "part": {**part, "text": ""}}
    yield "response.output_text.delta", {**where, "delta": part["text"]}
    yield "response.output_text.done", {**where, "text": part["text"]}
    yield "response.content_part.done", {**where, "part": part}


def _heard(given: object) -> Iterator[Heard]:
    if isinstance(given, str):
        yield Prompt(given)
    for item in objects(given):
        if item.get("type") in RESULTS:
            yield Result(words(item.get("output")))
        elif item.get("role") == "user":
            yield Prompt(words(item.get("content")))


def _tools(body: Json) -> Iterator[Tool]:
    """Tools of an MCP server come together in a namespace, and are called by both names."""
    for tool in objects(body.get("tools")):
        if tool.get("type") == "namespace":
            for member in objects(tool.get("tools")):
                yield Tool(string(member.get("name")), string(tool.get("name")))
        else:
            yield Tool(string(tool.get("name")))


def _opened(reply: Reply) -> Json:
    return {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": int(time.time()),
        "model": reply.model,
        "status": "in_progress",
        "output": [],
    }


def _item(reply: Reply) -> Json:
    if call := reply.call:
        item = {
            "type": "function_call",
            "id": f"fc_{reply.id}",
            "call_id": f"call_{reply.id}",
            "name": call.tool.name,
            "arguments": json.dumps(call.arguments),
            "status": "completed",
        }
        return {**item, "namespace": call.tool.namespace} if call.tool.namespace else item
    return {
        "type": "message",
        "id": f"msg_{reply.id}",
        "role": "assistant",
        "status": "incomplete" if reply.refused else "completed",
        "content": [{"type": "output_text", "text": reply.text, "annotations": []}],
    }


def _usage(reply: Reply) -> Json:
    usage = reply.usage
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input + usage.output,
    }
