"""The table of all settings: key, kind, default, and whether the environment may override it."""

from __future__ import annotations

from collections.abc import Iterator

from .fields import (
    AMOUNT,
    AMOUNT_LIMIT,
    COUNT_LIMIT,
    FILLED_TEXT,
    FLAG,
    NAMES,
    PATH,
    TEXT,
    TEXTS,
    Field,
    milliseconds,
    one_of,
    whole,
)

Schema = dict[str, "Field | Schema"]

# Stands for any key: the names of states and of agent kinds are the user's.
ANY = "*"

_COMMENT = Field(kind=FLAG, default=False, overridable=True)
_HOOK = Field(kind=TEXT, default="")
_RATE = Field(kind=AMOUNT, default=0.0)

SCHEMA: Schema = {
    "tracker": {
        "kind": Field(kind=FILLED_TEXT, default="", overridable=True),
        "endpoint": Field(kind=TEXT, default="", overridable=True, expansion="whole"),
        "api_key": Field(kind=TEXT, default="", overridable=True, expansion="anywhere", secret=True),
        "project": Field(kind=TEXT, default="", overridable=True, expansion="whole"),
        "active_states": Field(kind=TEXTS, default=(), overridable=True),
        "terminal_states": Field(kind=TEXTS, default=(), overridable=True),
        "query_filter": Field(kind=TEXT, default="", overridable=True, expansion="whole"),
        "handoff_state": Field(kind=FILLED_TEXT, default="", overridable=True, expansion="whole"),
        "in_progress_state": Field(kind=FILLED_TEXT, default="", overridable=True, expansion="whole"),
        "comments": {"on_dispatch": _COMMENT, "on_completion": _COMMENT, "on_failure": _COMMENT},
    },
    "polling": {"interval_ms": Field(kind=milliseconds(100), default=30.0, overridable=True)},
    "workspace": {
        "root": Field(kind=PATH, default="", overridable=True, expansion="anywhere"),
        "archive_keep_days": Field(kind=whole(0), default=14),
    },
    "hooks": {
        "after_create": _HOOK,
        "before_run": _HOOK,
        "after_run": _HOOK,
        "before_remove": _HOOK,
        "timeout_ms": Field(kind=milliseconds(1), default=60.0),
    },
    "agent": {
        "kind": Field(kind=FILLED_TEXT, default="claude-code", overridable=True),
        "command": Field(kind=TEXT, default="", overridable=True),
        "turn_timeout_ms": Field(kind=milliseconds(1), default=3600.0, overridable=True),
        "read_timeout_ms": Field(kind=milliseconds(1), default=60.0, overridable=True),
        "stall_timeout_ms": Field(kind=milliseconds(0), default=300.0, overridable=True),
        "max_concurrent_agents": Field(kind=whole(1), default=10, overridable=True),
        "max_turns": Field(kind=whole(1), default=20, overridable=True),
        "max_retry_backoff_ms": Field(kind=milliseconds(1), default=300.0, overridable=True),
        "max_concurrent_agents_by_state": {ANY: Field(kind=whole(1))},
        "max_sessions": Field(kind=whole(0), default=0, overridable=True),
        "env": Field(kind=NAMES, default=()),
    },
    # In a budget, 0 and `unlimited` both mean: no bound.
    "budget": {
        "per_issue": {
            "sessions": Field(kind=COUNT_LIMIT, default=10),
            "turns": Field(kind=COUNT_LIMIT, default=100),
            "tokens": Field(kind=COUNT_LIMIT, default=20_000_000),
            "usd": Field(kind=AMOUNT_LIMIT, default=20.0),
        },
        "per_day": {
            "sessions": Field(kind=COUNT_LIMIT, default=200),
            "turns": Field(kind=COUNT_LIMIT, default=2000),
            "tokens": Field(kind=COUNT_LIMIT, default=200_000_000),
            "usd": Field(kind=AMOUNT_LIMIT, default=200.0),
        },
    },
    "tools": {
        "credentials": Field(kind=one_of("workspace", "broker"), default="workspace"),
        "transitions": Field(kind=one_of("project", "own", "none"), default="project"),
    },
    "db_path": Field(kind=PATH, default="", overridable=True, expansion="anywhere"),
    "logging": {
        "level": Field(kind=one_of("debug", "info", "warn", "error"), default="info"),
        "format": Field(kind=one_of("text", "json"), default="text"),
    },
    "token_rates": {
        ANY: {"input_per_mtok": _RATE, "output_per_mtok": _RATE, "cache_read_per_mtok": _RATE},
    },
}

UNSUPPORTED = frozenset({"self_review", "reactions", "ci_feedback", "worker"})
NO_EFFECT = {
    "server": "this version has no HTTP server; the section has no effect",
    "worklog": "this version writes no work log; the key has no effect",
}
MOVED = {"tracker.path": "write the path into a block of its own: file: {path: ...}"}


def leaves(schema: Schema = SCHEMA, path: str = "") -> Iterator[tuple[str, Field]]:
    """Every setting with its key path."""
    for name, entry in schema.items():
        key = f"{path}.{name}" if path else name
        if isinstance(entry, Field):
            yield key, entry
        else:
            yield from leaves(entry, key)
