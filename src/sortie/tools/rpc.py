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
_INFINITE = (float("inf"), -float("inf"))


class ErrorResponse(Exception):
    """Why a request gets an error for its answer."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def invalid_request(what: str) -> ErrorResponse:
    return ErrorResponse(INVALID_REQUEST, f"Invalid request: {what}.")


def invalid_params(what: str) -> ErrorResponse:
    return ErrorResponse(INVALID_PARAMS, f"Invalid params: {what}.")


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
        raise invalid_request("not an object")
    if frame.get("jsonrpc") != "2.0":
        raise invalid_request('jsonrpc must be "2.0"')
    if "method" not in frame and ("result" in frame or "error" in frame):
        return None
    request_id, params = id_of(frame), frame.get("params", {})
    if "id" in frame and request_id is None:
        raise invalid_request("id must be a string or a number")
    if not isinstance(frame.get("method"), str):
        raise invalid_request("method must be a string")
    if not isinstance(params, dict):
        if request_id is not None:
            raise invalid_params("not an object")
        params = {}
    return Request(request_id, frame["method"], params)


def id_of(frame: Any) -> RequestId | None:
    """By what a frame is answered; None where that cannot be made out."""
    found = frame.get("id") if isinstance(frame, dict) else None
    # A number such as 1e999 is read as infinity, which cannot be sent back.
    is_id = isinstance(found, str | int | float) and not isinstance(found, bool) and found not in _INFINITE
    return found if is_id else None


def success(request_id: RequestId, result: Message) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def failure(request_id: RequestId | None, error: ErrorResponse) -> Message:
    body: Message = {"code": error.code, "message": str(error)}
    if error.data is not None:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": request_id, "error": body}


def shown(text: str) -> str:
    """A client's own words for an error message: not all of a megabyte, and no half characters."""
    short = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return short.encode("utf-8", "replace").decode("utf-8")
