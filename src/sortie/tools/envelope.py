"""The two shapes every `tracker_api` answer has, and the names of what can go wrong."""

from __future__ import annotations

from typing import Any

INVALID_INPUT = "invalid_input"
UNSUPPORTED_OPERATION = "unsupported_operation"
PROJECT_SCOPE_VIOLATION = "project_scope_violation"
TRANSPORT_ERROR = "tracker_transport_error"
AUTH_ERROR = "tracker_auth_error"
API_ERROR = "tracker_api_error"
NOT_FOUND = "tracker_not_found"
PAYLOAD_ERROR = "tracker_payload_error"
RATE_LIMITED = "tracker_rate_limited"
INTERNAL_ERROR = "internal_error"

TRACKER_KINDS = frozenset({TRANSPORT_ERROR, AUTH_ERROR, API_ERROR, NOT_FOUND, PAYLOAD_ERROR, RATE_LIMITED})


def unexpected(error: BaseException) -> dict[str, Any]:
    """For what is a mistake of ours: where it happened, and nothing of what the error itself says."""
    place, last = "", error.__traceback__
    while last is not None:
        place, last = f" at {last.tb_frame.f_globals.get('__name__')}:{last.tb_lineno}", last.tb_next
    return failure(INTERNAL_ERROR, f"Unexpected internal failure ({type(error).__name__}{place}). Report a bug.")


def success(data: Any) -> dict[str, Any]:
    return {"success": True, "data": data}


def failure(kind: str, message: str) -> dict[str, Any]:
    return {"success": False, "error": {"kind": kind, "message": message}}
