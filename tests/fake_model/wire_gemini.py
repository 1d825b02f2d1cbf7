"""The Gemini wire, as Gemini CLI speaks it. The path names the model and says whether to stream."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .wire import Asked, Heard, Json, Prompt, Reply, Result, Tool, event, inside, objects, string

NAME = "gemini"

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def asked(path: str, body: Json) -> Asked:
    model, _, method = path.rpartition("/")[2].partition(":")
    return Asked(
        model=model,
        stream=method == "streamGenerateContent",
        heard=tuple(_heard(body)),
        tools=tuple(
            Tool(string(function.get("name")))
            for tool in objects(body.get("tools"))
            for function in objects(tool.get("functionDeclarations"))
        ),
    )


def whole(reply: Reply) -> Json:
    return _chunk(reply, [_part(reply)], finished=True)


def events(reply: Reply) -> Iterator[bytes]:
    yield event(_chunk(reply, [_part(reply)], finished=False))
    yield event(_chunk(reply, [{"text": ""}], finished=True))


def failure(status: int, message: str) -> Json:
    return {"error": {"code": status, "message": message, "status": STATUSES.get(status, "INTERNAL")}}


def _heard(body: Json) -> Iterator[Heard]:
    for content in objects(body.get("contents")):
        for part in objects(content.get("parts")):
            if "functionResponse" in part:
                yield Result(_result(inside(part["functionResponse"], "response")))
            elif content.get("role", "user") == "user" and "text" in part:
                yield Prompt(string(part["text"]))


def _result(response: object) -> str:
    output = inside(response, "output")
    return output if isinstance(output, str) else json.dumps(response)


def _chunk(reply: Reply, parts: list[Json], *, finished: bool) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    chunk: Json = {"candidates": [candidate], "modelVersion": reply.model, "responseId": reply.id}
    if finished:
        candidate["finishReason"] = "SAFETY" if reply.refused else "STOP"
        chunk["usageMetadata"] = _usage(reply)
    return chunk


def _part(reply: Reply) -> Json:
    if reply.call:
        return {"functionCall": {"name": reply.call.tool.name, "args": reply.call.arguments}}
    return {"text": reply.text}


def _usage(reply: Reply) -> Json:
    usage = reply.usage
    return {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": usage.input + usage.output,
    }
