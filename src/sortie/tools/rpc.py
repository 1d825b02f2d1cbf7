"""JSON-RPC 2.0 as plain values: from a line to a request, and from an outcome to an answer."""

from __future__ import annotations

from .json_text import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    RequestId = str | int | float
    Message = dict[str, Any]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
BUSY = -32000
UNSUPPORTED_VERSION = -32022

_SHOWN = 100


class ErrorResponse(Exception):
    """An error response; `request_id` is None where the request's own could not be made out."""

    def __init__(
        self, code: int, message: str, *, data: object = None, request_id: RequestId | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.request_id = request_id


class Request:
    """`id` is None for a notification, which is never answered."""

    def __init__(self, request_id: RequestId | None, method: str, params: dict[str, Any]) -> None:
        self.id = request_id
        self.method = method
        self.params = params


def parse(line: bytes) -> Any:
    try:
        return decode(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ErrorResponse(PARSE_ERROR, "Parse error: the line is not JSON in UTF-8.") from error


def read_request(frame: Any) -> Request | None:
    """The request in a frame; None for a response, which nobody here waits for."""
    if not isinstance(frame, dict):
        raise ErrorResponse(INVALID_REQUEST, "Invalid request: not an object.")
    request_id = frame.get("id")
    known_id = request_id if _is_id(request_id) else None
    if frame.get("jsonrpc") != "2.0":
        raise ErrorResponse(INVALID_REQUEST, 'Invalid request: jsonrpc must be "2.0".', request_id=known_id)
    if "method" not in frame and ("result" in frame or "error" in frame):
        return None
    if "id" in frame and known_id is None:
        raise ErrorResponse(INVALID_REQUEST, "Invalid request: id must be a string or a number.")
    if not isinstance(frame.get("method"), str):
        raise ErrorResponse(INVALID_REQUEST, "Invalid request: method must be a string.", request_id=known_id)
    params = frame.get("params", {})
    if isinstance(params, dict):
        return Request(known_id, frame["method"], params)
    if known_id is None:
        return Request(None, frame["method"], {})
    raise ErrorResponse(INVALID_PARAMS, "Invalid params: not an object.", request_id=known_id)


def success(request_id: RequestId, result: Message) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def failure(request_id: RequestId | None, error: ErrorResponse) -> Message:
    body: Message = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": request_id, "error": body}


def shown(text: str) -> str:
    """A client's own words for an error message: not all of a megabyte, and no half characters."""
    short = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return short.encode("utf-8", "replace").decode("utf-8")


def _is_id(value: object) -> bool:
    if isinstance(value, float):
        # A number such as 1e999 is read as infinity, which cannot be sent back.
        return abs(value) != float("inf")
    return isinstance(value, str | int) and not isinstance(value, bool)
