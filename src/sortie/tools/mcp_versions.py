"""The versions of the protocol: which version a request speaks, and what a result looks like in it.

Up to 2025-11-25 a handshake settles the version for the connection; since 2026-07-28 each request names its own.
"""

from __future__ import annotations

from .. import __version__
from .rpc import UNSUPPORTED_VERSION, ErrorResponse, invalid_params, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .definitions import Definition
    from .rpc import Message, Request

# Dates: the later version is the greater text.
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = ("2026-07-28",)
VERSIONS = (*HANDSHAKE, *MODERN)
WITH_BATCHES = "2025-03-26"

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"

_SERVER = {"name": "sortie-tools", "version": __version__}
_CAPABILITIES: Message = {"tools": {}}

# The tools of a session never change; a client may keep what it was told as long as it likes.
_CACHE: Message = {"ttlMs": 3_600_000, "cacheScope": "private"}


def version_of(request: Request, agreed: str) -> str:
    """The version this request is made in: its own, or the one agreed on for the connection."""
    meta = request.params.get("_meta")
    if not isinstance(meta, dict) or _VERSION_KEY not in meta:
        if request.method == "server/discover":
            raise invalid_params(f"_meta lacks {_VERSION_KEY}")
        return agreed
    version = meta[_VERSION_KEY]
    if not isinstance(version, str) or not isinstance(meta.get(_CAPABILITIES_KEY), dict):
        raise invalid_params(f"_meta needs {_VERSION_KEY} as a string and {_CAPABILITIES_KEY} as an object")
    if version not in MODERN:
        data = {"supported": list(VERSIONS), "requested": shown(version)}
        raise ErrorResponse(UNSUPPORTED_VERSION, "Unsupported protocol version.", data)
    return version


def agree_on(params: dict[str, Any]) -> str:
    """The answer to a client's proposal: the same if we know it, else the newest that has a handshake."""
    proposed = params.get("protocolVersion")
    if not isinstance(proposed, str):
        raise invalid_params("protocolVersion must be a string")
    return proposed if proposed in HANDSHAKE else HANDSHAKE[-1]


def finished(result: Message, version: str) -> Message:
    """A result with what its version adds to every one."""
    if version not in MODERN:
        return result
    return {**result, "resultType": "complete", "_meta": {_SERVER_KEY: _SERVER}}


def welcome(version: str) -> Message:
    return {"protocolVersion": version, "capabilities": _CAPABILITIES, "serverInfo": _SERVER}


def discovery() -> Message:
    return {"supportedVersions": list(VERSIONS), "capabilities": _CAPABILITIES, **_CACHE}


def tool_list(definitions: Iterable[Definition], version: str) -> Message:
    tools: list[Message] = []
    for one in definitions:
        tools.append({"name": one.name, "description": one.description, "inputSchema": one.input_schema})
        if one.tier == 1 and version >= "2025-03-26":
            tools[-1]["annotations"] = {"readOnlyHint": True, "openWorldHint": False}
    return {"tools": tools, **(_CACHE if version in MODERN else {})}


def tool_result(answer: Any, version: str) -> Message:
    """A tool's answer. The text is exactly its JSON; clients that can get the object beside it.

    Raises ValueError or TypeError for what JSON cannot hold.
    """
    import json

    from .envelope import is_error

    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, allow_nan=False)
    # Half characters are no text for most clients, which would drop the whole answer.
    text = text.encode("utf-8", "replace").decode("utf-8")
    result: Message = {"content": [{"type": "text", "text": text}]}
    if isinstance(answer, dict) and version >= "2025-06-18":
        result["structuredContent"] = json.loads(text)
    if is_error(answer):
        result["isError"] = True
    return result
