"""What every wire is asked and answers; the wires differ only in how they spell it.

What comes in is never trusted to have the right shape: a part of the wrong type counts as a part that is not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

Json = dict[str, Any]


@dataclass(frozen=True)
class Prompt:
    text: str


@dataclass(frozen=True)
class Result:
    """What a tool of the agent answered."""

    text: str


Heard = Prompt | Result


@dataclass(frozen=True)
class Tool:
    name: str
    namespace: str = ""


@dataclass(frozen=True)
class Asked:
    model: str
    stream: bool
    heard: tuple[Heard, ...]
    tools: tuple[Tool, ...]


@dataclass(frozen=True)
class ToolCall:
    tool: Tool
    arguments: Json


@dataclass(frozen=True)
class Usage:
    """`cached` tokens are among the `input` tokens."""

    input: int
    output: int
    cached: int = 0


@dataclass(frozen=True)
class Reply:
    """Either a call of a tool or a text; `id` is unlike that of any other reply, of another server too."""

    id: str
    model: str
    usage: Usage
    text: str = ""
    refused: bool = False
    call: ToolCall | None = None


class Wire(Protocol):
    """One way to spell a request and a reply. The first of its events leaves the reply unfinished."""

    NAME: str

    def asked(self, path: str, body: Json) -> Asked: ...

    def whole(self, reply: Reply) -> Json: ...

    def events(self, reply: Reply) -> Iterator[bytes]: ...

    def failure(self, status: int, message: str) -> Json: ...


def objects(value: object) -> list[Json]:
    """The JSON objects in a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def inside(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def string(value: object) -> str:
    return value if isinstance(value, str) else ""


def words(content: object) -> str:
    """The text of a message that is one string, or a list of parts of which some are text."""
    if isinstance(content, list):
        return "\n".join(string(part.get("text")) for part in objects(content) if "text" in part)
    return string(content)


def event(data: Json, name: str = "") -> bytes:
    """One server-sent event."""
    return (f"event: {name}\n" if name else "").encode() + f"data: {json.dumps(data)}\n\n".encode()
