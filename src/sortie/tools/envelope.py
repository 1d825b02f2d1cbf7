"""What tools answer: the shapes of a `tracker_api` answer, the names of what can go wrong, and no secret in any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..core.redact import Redactor

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

_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")


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


def is_error(answer: Any) -> bool:
    """Whether an answer is one of the two documented forms of an error."""
    return isinstance(answer, dict) and (answer.get("success") is False or set(answer) == {"error"})


def secrets_in(environ: Mapping[str, str]) -> list[str]:
    """The values of all `SORTIE_*` variables that are named like a secret."""
    return [
        value
        for name, value in environ.items()
        if name.startswith("SORTIE_") and any(word in name for word in _SECRET_WORDS)
    ]


def redacted(answer: Any, secrets: Iterable[str]) -> Any:
    """The same JSON with no secret in any of its texts; the names of fields stay as they are."""
    known = [secret for secret in secrets if secret]
    return _redacted(answer, Redactor(known)) if known else answer


def _redacted(value: Any, redactor: Redactor) -> Any:
    match value:
        case str():
            return redactor.text(value)
        case dict():
            return {name: _redacted(inner, redactor) for name, inner in value.items()}
        case list() | tuple():
            return [_redacted(inner, redactor) for inner in value]
        case _:
            return value
