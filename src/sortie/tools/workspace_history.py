"""`workspace_history`: how earlier runs of this issue ended, from the store."""

from __future__ import annotations

from typing import Any

from .store_reading import rows_of

MOST = 10

_FIELDS = ("attempt", "agent_adapter", "started_at", "completed_at", "status", "error")
_QUERY = f"SELECT {', '.join(_FIELDS)} FROM run_history WHERE issue_id = ? ORDER BY id DESC LIMIT {MOST}"


def run_history(path: str, issue_id: str) -> dict[str, Any]:
    """The answer of the tool."""
    rows, problem = rows_of(path, _QUERY, issue_id)
    if problem:
        return {"error": f"query failed: {problem}"}
    return {"issue_id": issue_id, "entries": [dict(zip(_FIELDS, row, strict=True)) for row in rows]}
