"""Which tools this session has, from its environment alone where the worker prepared it.

`SORTIE_TOOLS` names the tools that are valid for the workflow, `SORTIE_TOOL_PLUGINS` the teams' tools,
`SORTIE_TRANSITIONS` which issues may be moved. Who starts the server by hand has none of them: then the workflow is
read and the installed packages are searched, which is slow.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from .definitions import (
    ANSWERED_BY_BROKER,
    SORTIE_STATUS,
    TRACKER_API,
    WORKSPACE_HISTORY,
    Definition,
    definition_of,
    tracker_api,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from .calls import Cancellation
    from .local_tracker import LocalTracker

    Run = Callable[[dict[str, Any], Cancellation], Any]

_DATABASE = b"SQLite format 3\0"


class SessionTool:
    """`run` may block, raise and hang; it stops when the cancellation says so, as far as it can."""

    def __init__(self, definition: Definition, run: Run) -> None:
        self.definition = definition
        self.run = run


class Toolbox:
    """`tools` by name; `problems` has a sentence for each tool that should be there and is not."""

    def __init__(self, workflow: str, environ: Mapping[str, str]) -> None:
        self._workflow = workflow
        self._environ = environ
        self._listed = environ.get("SORTIE_TOOLS")
        self._lock = allocate_lock()
        self._local: LocalTracker | None = None
        self.problems: list[str] = []
        self.tools: dict[str, SessionTool] = {}
        for tool in (*self._own(), *self._teams()):
            self.tools[tool.definition.name] = tool

    def close(self, seconds: float) -> bool:
        """Whether nothing that a tool held is left open."""
        return self._local is None or self._local.close(seconds)

    def _own(self) -> Iterator[SessionTool]:
        makers: dict[str, Callable[[], Iterator[SessionTool]]] = {
            TRACKER_API.name: self._tracker_api,
            SORTIE_STATUS.name: self._sortie_status,
            WORKSPACE_HISTORY.name: self._workspace_history,
        }
        for definition in ANSWERED_BY_BROKER:
            makers[definition.name] = lambda known=definition: self._answered_by_broker(known)  # type: ignore[misc]
        wanted = makers if self._listed is None else {name.strip() for name in self._listed.split(",")}
        for name, make in makers.items():
            if name in wanted:
                yield from make()

    def _answered_by_broker(self, definition: Definition) -> Iterator[SessionTool]:
        """A tool of which only the orchestrator knows anything."""
        socket, token = self._broker()
        if not socket:
            return

        def run(arguments: dict[str, Any], cancellation: Cancellation) -> Any:
            from . import broker_client

            return broker_client.call(socket, token, definition.name, arguments, cancellation)

        yield SessionTool(definition, run)

    def _broker(self) -> tuple[str, str]:
        return self._environ.get("SORTIE_BROKER", ""), self._environ.get("SORTIE_BROKER_TOKEN", "")

    def _tracker_api(self) -> Iterator[SessionTool]:
        socket, _ = self._broker()
        # For the description alone: whoever performs a call looks into the workflow.
        transitions = self._environ.get("SORTIE_TRANSITIONS", "project")
        if self._listed is None and not socket:
            if problem := self._local_tracker().problem():
                self.problems.append(f"tracker_api is left out: {problem}")
                return
            transitions = self._local_tracker().transitions()

        if socket:
            yield from self._answered_by_broker(tracker_api(transitions))
            return

        def run(arguments: dict[str, Any], cancellation: Cancellation) -> Any:
            return self._local_tracker().call(arguments, cancellation)

        yield SessionTool(tracker_api(transitions), run)

    def _local_tracker(self) -> LocalTracker:
        with self._lock:
            if self._local is None:
                from .local_tracker import LocalTracker

                environ = self._environ
                issue_id, database = environ.get("SORTIE_ISSUE_ID", ""), environ.get("SORTIE_DB_PATH", "")
                self._local = LocalTracker(self._workflow, issue_id, database)
            return self._local

    def _sortie_status(self) -> Iterator[SessionTool]:
        workspace = self._environ.get("SORTIE_WORKSPACE")
        if not workspace:
            return

        def answer() -> Any:
            from .sortie_status import session_status

            return session_status(workspace)

        yield _without_arguments(SORTIE_STATUS, answer)

    def _workspace_history(self) -> Iterator[SessionTool]:
        path, issue_id = self._environ.get("SORTIE_DB_PATH"), self._environ.get("SORTIE_ISSUE_ID")
        if not path or not issue_id:
            return
        if problem := _problem_with_database(path):
            self.problems.append(f"workspace_history is left out: {path} cannot be read: {problem}")
            return

        def answer() -> Any:
            from .workspace_history import run_history

            return run_history(path, issue_id)

        yield _without_arguments(WORKSPACE_HISTORY, answer)

    def _teams(self) -> Iterator[SessionTool]:
        prepared = self._environ.get("SORTIE_TOOL_PLUGINS")
        if prepared == "" or (prepared is None and self._listed is not None):
            return  # a worker has looked already, and there are none
        from .team import from_list, installed, load_tools, runner

        tools, problems = load_tools(from_list(prepared) if prepared else installed())
        self.problems += problems
        for tool in tools:
            yield SessionTool(definition_of(tool), runner(tool, self._environ))


def _problem_with_database(path: str) -> str:
    """Why it cannot be read, or an empty string; SQLite is loaded for what does not begin as a database does."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            beginning = os.read(file, len(_DATABASE))
        finally:
            os.close(file)
    except OSError:
        beginning = b""
    if beginning == _DATABASE:
        return ""
    from .store_reading import problem_with

    return problem_with(path)


def _without_arguments(definition: Definition, answer: Callable[[], Any]) -> SessionTool:
    def run(arguments: dict[str, Any], _cancellation: Cancellation) -> Any:
        return {"error": f"{definition.name} takes no arguments"} if arguments else answer()

    return SessionTool(definition, run)
