"""Every error Sortie raises on purpose: one sentence for a person, and the fix where one is known.

SortieError
├── ConfigurationError     the workflow, a flag or the environment is wrong; carries every problem found
│   └── PromptError        the template gives no prompt for an issue; names the line
├── StoreError             the database cannot be used
│   ├── StoreLocked        another orchestrator holds it; names the holder
│   ├── StoreLost          its files were deleted or replaced while it was open
│   └── StoreTooNew        a newer Sortie wrote it
├── TrackerError           a tracker call failed; `kind` says how
├── AgentError             an agent could not start or a turn failed; `kind` says how
├── WorkspaceError         a workspace could not be made, verified or removed
└── HookError              a hook failed, timed out or could not start
"""

from __future__ import annotations

from collections.abc import Sequence


class SortieError(Exception):
    """Something a person can act on. `str(error)` is the whole message, fix included."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        self.message = message
        self.fix = fix
        super().__init__(f"{message} {fix}".strip())


class ConfigurationError(SortieError):
    """The configuration cannot be used; `problems` has one line for each thing that is wrong."""

    def __init__(self, message: str, *, problems: Sequence[str] = (), fix: str = "") -> None:
        super().__init__(message, fix=fix)
        self.problems = tuple(problems)


class PromptError(ConfigurationError):
    """The template gives no prompt for an issue, and would not on a second try either."""

    KIND = "prompt_error"

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(f"{file}:{line}: the prompt cannot be rendered: {reason}.", fix="Correct the template.")
        self.line = line
        self.reason = reason


class StoreError(SortieError):
    """The database cannot be opened, read or written."""


class StoreLocked(StoreError):
    """Another orchestrator owns this store."""


class StoreLost(StoreError):
    """The files of the store went away under a running orchestrator."""


class StoreTooNew(StoreError):
    """The database has a schema from a later version."""


class TrackerError(SortieError):
    """A tracker call failed. The kinds are those agents see from the `tracker_api` tool.

    `until` is the time, in seconds since the epoch, before which a tracker that is asked too often
    (`tracker_rate_limited`) wants no further call; None where it does not say. `passing`: the same call may work in
    a moment. `status` is that of an HTTP answer, where a server refused.
    """

    TRANSPORT = "tracker_transport_error"
    AUTH = "tracker_auth_error"
    API = "tracker_api_error"
    NOT_FOUND = "tracker_not_found"
    PAYLOAD = "tracker_payload_error"
    RATE_LIMITED = "tracker_rate_limited"

    def __init__(self, kind: str, message: str, *, fix: str = "", until: float | None = None) -> None:
        super().__init__(message, fix=fix)
        self.kind = kind
        self.until = until
        self.passing = kind in (self.TRANSPORT, self.RATE_LIMITED)
        self.status: int | None = None

    def with_fix(self, fix: str) -> TrackerError:
        """The same failure, to be raised in its place by who knows what to do about it."""
        told = TrackerError(self.kind, self.message, fix=fix, until=self.until)
        told.passing, told.status = self.passing, self.status
        return told


class AgentError(SortieError):
    """An agent could not be started or did not complete its turn.

    `retry` is False for what a second try cannot mend (configuration, login, missing program, refusals);
    `until` is the time at which a provider's limit ends, for kind `rate_limited`.
    """

    NOT_FOUND = "agent_not_found"
    NOT_EXECUTABLE = "agent_not_executable"
    AUTH = "agent_auth"
    CONFIG = "agent_config"
    PERMISSION = "permission_denied"
    REFUSED = "model_refused"
    RATE_LIMITED = "rate_limited"
    PROVIDER = "provider_error"
    TOOLS = "tools_unavailable"
    SESSION = "session_refused"
    SILENT = "response_timeout"
    UNFINISHED = "turn_unfinished"
    CANCELLED = "turn_cancelled"
    TURN_FAILED = "turn_failed"

    NEVER_RETRY = frozenset({NOT_FOUND, NOT_EXECUTABLE, AUTH, CONFIG, PERMISSION, REFUSED})

    def __init__(self, kind: str, message: str, *, fix: str = "", until: float | None = None) -> None:
        super().__init__(message, fix=fix)
        self.kind = kind
        self.until = until

    @property
    def retry(self) -> bool:
        return self.kind not in self.NEVER_RETRY


class WorkspaceError(SortieError):
    """A workspace could not be created, verified, archived or removed."""


class HookError(SortieError):
    """A hook did not succeed; `output` is the end of what it printed."""

    def __init__(self, message: str, *, output: str = "", fix: str = "") -> None:
        super().__init__(message, fix=fix)
        self.output = output
