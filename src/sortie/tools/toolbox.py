"""Which tools this session has, from its environment alone where the worker prepared it.

`SORTIE_TOOLS` names the tools that are valid for the workflow, `SORTIE_TOOL_PLUGINS` the teams' tools,
`SORTIE_TRANSITIONS` which issues may be moved. Who starts the server by hand has none of them: then the workflow is
read and the installed packages are searched, which is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from .cancellation import Cancellation
from .definitions import SORTIE_STATUS, TRACKER_API, WORKSPACE_HISTORY, Definition, definition_of, tracker_api
from .limited import GivenUp, run_limited
from .team import Tool, ToolContext

Run = Callable[[dict[str, Any], Cancellation], Any]


class Entry(NamedTuple):
    definition: Definition
    run: Run


class Toolbox:
    """`entries` by name; `problems` has a sentence for each tool that should be there and is not."""

    def __init__(self, workflow: str, environ: Mapping[str, str]) -> None:
        self._workflow = workflow
        self._environ = environ
        self._listed = environ.get("SORTIE_TOOLS")
        self.problems: list[str] = []
        self.entries: dict[str, Entry] = {}
        for entry in (*self._own(), *self._teams()):
            self.entries[entry.definition.name] = entry

    def _own(self) -> Iterator[Entry]:
        makers = (
            (TRACKER_API, self._tracker_api),
            (SORTIE_STATUS, self._sortie_status),
            (WORKSPACE_HISTORY, self._workspace_history),
        )
        wanted = None if self._listed is None else {name.strip() for name in self._listed.split(",")}
        for definition, make in makers:
            run = make() if wanted is None or definition.name in wanted else None
            if run is not None and definition == TRACKER_API:
                yield Entry(tracker_api(self._transitions()), run)
            elif run is not None:
                yield Entry(definition, _without_arguments(definition.name, run))

    def _transitions(self) -> str:
        """For the description alone: whoever performs a call looks into the workflow."""
        if self._listed is None and not self._environ.get("SORTIE_BROKER"):
            from . import local

            return local.transitions_in(self._workflow)
        return self._environ.get("SORTIE_TRANSITIONS", "project")

    def _tracker_api(self) -> Run | None:
        workflow, socket = self._workflow, self._environ.get("SORTIE_BROKER")
        if socket:
            return _brokered(socket, self._environ.get("SORTIE_BROKER_TOKEN", ""))
        if self._listed is None:
            from . import local

            if problem := local.problem_with(workflow):
                self.problems.append(f"tracker_api is left out: {problem}")
                return None
        return _local(workflow, self._environ.get("SORTIE_ISSUE_ID", ""))

    def _sortie_status(self) -> Run | None:
        workspace = self._environ.get("SORTIE_WORKSPACE")
        if not workspace:
            return None

        def run(_arguments: dict[str, Any], _cancellation: Cancellation) -> Any:
            from pathlib import Path

            from .sortie_status import session_status

            return session_status(Path(workspace))

        return run

    def _workspace_history(self) -> Run | None:
        path, issue_id = self._environ.get("SORTIE_DB_PATH"), self._environ.get("SORTIE_ISSUE_ID")
        if not path or not issue_id:
            return None
        from .workspace_history import problem_with, run_history

        if problem := problem_with(path):
            self.problems.append(f"workspace_history is left out: {path} cannot be read: {problem}")
            return None
        return lambda _arguments, _cancellation: run_history(path, issue_id)

    def _teams(self) -> Iterator[Entry]:
        prepared = self._environ.get("SORTIE_TOOL_PLUGINS")
        if prepared == "" or (prepared is None and self._listed is not None):
            return  # a worker has looked already, and there are none
        from .loading import from_list, installed, load_tools

        tools, problems = load_tools(from_list(prepared) if prepared else installed())
        self.problems += problems
        for tool in tools:
            yield Entry(definition_of(tool), _teamwork(tool, self._environ))


def _without_arguments(name: str, run: Run) -> Run:
    def run_or_refuse(arguments: dict[str, Any], cancellation: Cancellation) -> Any:
        return {"error": f"{name} takes no arguments"} if arguments else run(arguments, cancellation)

    return run_or_refuse


def _brokered(socket: str, token: str) -> Run:
    def run(arguments: dict[str, Any], cancellation: Cancellation) -> Any:
        from . import broker

        return broker.call(socket, token, TRACKER_API.name, arguments, cancellation)

    return run


def _local(workflow: str, issue_id: str) -> Run:
    def run(arguments: dict[str, Any], cancellation: Cancellation) -> Any:
        from . import local

        return local.call(workflow, issue_id, arguments, cancellation)

    return run


def _teamwork(tool: Tool, environ: Mapping[str, str]) -> Run:
    def run(arguments: dict[str, Any], cancellation: Cancellation) -> Any:
        context = _context(environ)
        try:
            return run_limited(lambda: tool.run(arguments, context), tool.timeout, cancellation)
        except GivenUp:
            return {"error": f"{tool.name} did not answer within {tool.timeout:g} s"}
        except (Exception, SystemExit) as error:
            return {"error": f"{tool.name} failed: {type(error).__name__}: {error}"}

    return run


def _context(environ: Mapping[str, str]) -> ToolContext:
    from pathlib import Path

    attempt = environ.get("SORTIE_ATTEMPT", "")
    return ToolContext(
        issue_id=environ.get("SORTIE_ISSUE_ID", ""),
        identifier=environ.get("SORTIE_ISSUE_IDENTIFIER", ""),
        workspace=Path(environ.get("SORTIE_WORKSPACE") or "."),
        run_id=environ.get("SORTIE_RUN_ID", ""),
        attempt=int(attempt) if attempt.isdecimal() else 0,
    )
