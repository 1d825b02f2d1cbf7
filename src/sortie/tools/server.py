"""`sortie mcp-server`: the process an agent starts beside itself, from its first frame to the end of its input."""

from __future__ import annotations

import os
import signal
import sys
import time

from .calls import Calls
from .record import Record
from .redaction import Veil, secrets_in
from .session import Session
from .toolbox import Toolbox
from .wire import Wire, say

USAGE = """\
Usage: sortie mcp-server --workflow PATH

  Serves Sortie's tools to an agent, as an MCP server on standard input and
  output. Agents start it themselves, from the .sortie/mcp.json in their
  workspace. PATH is the workflow or its directory.
"""

# After the end of the input: how long calls in flight may take, as long as somebody still reads.
_LAST_ANSWERS_SECONDS = 2.0
_GLANCE_SECONDS = 0.05


def main(argv: list[str]) -> int:
    if argv in (["-h"], ["--help"]):
        sys.stdout.write(USAGE)
        return 0
    workflow = _workflow_in(argv)
    if not workflow:
        sys.stderr.write("sortie: mcp-server needs `--workflow PATH` and nothing else.\n")
        return 2
    # An agent that is interrupted takes us along; that is no error to print a traceback for.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve(Wire.claim(), workflow)
    return 0


def serve(wire: Wire, workflow: str) -> None:
    """Until the client closes its end."""
    environ = dict(os.environ)
    veil = Veil(secrets_in(environ))
    toolbox = Toolbox(workflow, environ)
    for problem in toolbox.problems:
        say(veil.text(problem))
    calls = Calls()
    record = Record(environ.get("SORTIE_TOOL_LOG", ""), environ.get("SORTIE_RUN_ID", ""))
    session = Session(toolbox.entries, wire.send, calls, record, veil)
    for line in wire.lines():
        session.take(line)
    if not _last_answers(wire, calls):
        # Threads that hang would keep the interpreter from ending.
        os._exit(0)


def _last_answers(wire: Wire, calls: Calls) -> bool:
    deadline = time.monotonic() + _LAST_ANSWERS_SECONDS
    while not calls.wait(_GLANCE_SECONDS):
        if wire.is_client_gone() or time.monotonic() > deadline:
            return False
    return True


def _workflow_in(argv: list[str]) -> str:
    match argv:
        case ["--workflow" | "-w", path]:
            pass
        case [option] if option.startswith("--workflow="):
            path = option.removeprefix("--workflow=")
        case [path] if not path.startswith("-"):
            pass
        case _:
            return ""
    return os.path.join(path, "WORKFLOW.md") if os.path.isdir(path) else path  # noqa: PTH112, PTH118
