"""`sortie mcp-server`: the process an agent starts beside itself, from its first frame to the end of its input.

The way of a call: a line (`stdio`) holds a frame (`rpc`), which asks (`mcp_session`) for a tool of this session
(`toolbox`); that is run, and what it answers is redacted, recorded and sent (`calls`).
"""

from __future__ import annotations

import os
import sys
import time

from .mcp_session import McpSession
from .stdio import StdioChannel, log_line
from .toolbox import Toolbox

USAGE = """\
Usage: sortie mcp-server --workflow PATH

  Serves Sortie's tools to an agent, as an MCP server on standard input and
  output. Agents start it themselves, from the .sortie/mcp.json in their
  workspace. PATH is the workflow or its directory.
"""

# After the end of the input: how long calls in flight may take, as long as somebody still reads.
_LAST_ANSWERS_SECONDS = 2.0
_WATCH_SECONDS = 0.05


def main(argv: list[str]) -> int:
    if argv in (["-h"], ["--help"]):
        sys.stdout.write(USAGE)
        return 0
    workflow = _workflow_in(argv)
    if not workflow:
        sys.stderr.write("sortie: mcp-server needs `--workflow PATH` and nothing else.\n")
        return 2
    try:
        serve(StdioChannel.claim(), workflow)
    except KeyboardInterrupt:
        # An agent that is interrupted takes us along; that is no error to print a traceback for.
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
    return 0


def serve(channel: StdioChannel, workflow: str) -> None:
    """Until the client closes its end."""
    environ = dict(os.environ)
    toolbox = Toolbox(workflow, environ)
    if toolbox.problems:
        from .envelope import redacted, secrets_in

        for problem in redacted(toolbox.problems, secrets_in(environ)):
            log_line(problem)
    session = McpSession(toolbox.tools, channel.send, environ)
    for line in channel.lines():
        session.take(line)
    if not (_last_answers(channel, session) and toolbox.close(_LAST_ANSWERS_SECONDS)):
        # Threads that hang would keep the interpreter from ending.
        os._exit(0)


def _last_answers(channel: StdioChannel, session: McpSession) -> bool:
    deadline = time.monotonic() + _LAST_ANSWERS_SECONDS
    while not session.wait(_WATCH_SECONDS):
        if channel.is_client_gone() or time.monotonic() > deadline:
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
