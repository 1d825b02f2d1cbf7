"""Whether the agent of a workflow could work: its own findings, the tool server, and on request one real turn.

The turn goes the way of every run (same host, same environment, same tools), but in a workspace of its own that is
removed again, without hooks, and without a word to store or tracker.
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace

from ..agents.agent import Agent, Finding
from ..agents.program import run_command
from ..core.conclude import Outcome
from ..core.events import AnyEvent, Level
from ..core.model import Issue, Usage
from ..hosts.local import LocalHost
from ..hosts.run_order import RunOrder
from ..process.spawn import prepare
from ..runs.environment import passed_on
from ..runs.tool_log import ToolLog
from ..runs.toolkit import module_path, server_command
from ..tools import envelope
from ..tools.definitions import SORTIE_STATUS
from ..workflow.config import HooksConfig
from ..workflow.loader import Workflow
from ..workflow.template import PromptTemplate
from .adapters import build_agent

DEADLINE = 180.0

PROMPT = (
    f"This is a test of the connection, there is no work to do. Call the tool `{SORTIE_STATUS.name}` of the server "
    "`sortie-tools` once, then answer with the single word: ready. Change no file and run no command."
)


async def examine_agent(workflow: Workflow, environ: Mapping[str, str], *, probe: bool) -> list[Finding]:
    prepare()
    agent = build_agent(workflow.config)
    environment = passed_on(environ, (*agent.variables, *workflow.config.agent.env))
    findings = [*await agent.examine(environment), await _tool_server(workflow, environment)]
    if probe and not any(found.verdict == "FAIL" for found in findings):
        findings += await _exchange(workflow, agent, environ)
    return findings


async def _tool_server(workflow: Workflow, environment: Mapping[str, str]) -> Finding:
    """Start our own server as an agent's runtime would, and ask it what it offers."""
    questions = (
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    )
    stdin = b"".join(json.dumps({"jsonrpc": "2.0", **question}).encode() + b"\n" for question in questions)
    command = [*server_command(), "mcp-server", "--workflow", str(workflow.config.path)]
    base = workflow.config.base
    environment = {**environment, **module_path(), "SORTIE_WORKSPACE": str(base)}
    answer = await run_command(command, base, environment, stdin)
    try:
        lines = answer.stdout.splitlines() if answer else []
        names = [tool["name"] for tool in json.loads(lines[-1])["result"]["tools"]]
    except (IndexError, KeyError, TypeError, ValueError):
        detail = "the tool server does not answer."
        return Finding("FAIL", "tools", detail, f"Run it by hand and see: {' '.join(command)}")
    return Finding("PASS", "tools", f"the tool server answers and offers {', '.join(names)}")


async def _exchange(workflow: Workflow, agent: Agent, environ: Mapping[str, str]) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="sortie-probe-") as name:
        directory = Path(name)
        calls = ToolLog(directory / "tools" / "log")
        calls.prepare()
        order = _order(workflow, agent, directory, calls.path)
        link = _Link(order.issue)
        execution = LocalHost(environ).prepare(order, link)
        started = time.monotonic()
        outcome = None
        with anyio.move_on_after(DEADLINE):
            outcome = await execution.execute()
        seconds = time.monotonic() - started
        called = any(call.tool == SORTIE_STATUS.name for call in calls.news())
    return [_answered(outcome, link, seconds), *([_used_tools(called)] if outcome and outcome.turns else [])]


def _answered(outcome: Outcome | None, link: _Link, seconds: float) -> Finding:
    if outcome is None:
        return Finding("FAIL", "exchange", f"no answer within {DEADLINE:g} s.", "Try the agent by hand.")
    if outcome.status != "succeeded":
        return Finding("FAIL", "exchange", f"{outcome.error_kind}: {outcome.error}")
    return Finding("PASS", "exchange", f"{link.last!r} after {seconds:.1f} s, {link.usage.total} tokens")


def _used_tools(called: bool) -> Finding:
    if called:
        return Finding("PASS", "agent's tools", f"the agent called {SORTIE_STATUS.name} over MCP")
    fix = "Ask again; if it never does, see docs/agents.md for how this agent is given its tools."
    return Finding("WARN", "agent's tools", f"the agent answered without calling {SORTIE_STATUS.name}.", fix)


def _order(workflow: Workflow, agent: Agent, directory: Path, tool_log: Path) -> RunOrder:
    config = workflow.config
    state = next(iter(config.tracker.active_states), "active")
    return RunOrder(
        store_id=uuid.uuid4().hex,
        run_id=uuid.uuid4().hex,
        attempt=1,
        issue=Issue(id="probe", identifier="PROBE-1", title="A test of the connection", state=state),
        workflow=replace(
            workflow,
            config=replace(
                config,
                workspace=replace(config.workspace, root=directory / "workspaces"),
                hooks=HooksConfig(),
                agent=replace(config.agent, max_turns=1),
            ),
            template=_template(),
        ),
        agent=agent,
        archive=directory / "archive",
        tool_log=tool_log,
        broker_socket=directory / "broker",
    )


def _template() -> PromptTemplate:
    return PromptTemplate(PROMPT, "probe")


class _Link:
    """Stands in for the engine: listens, remembers the last line, allows the one turn."""

    def __init__(self, issue: Issue) -> None:
        self._issue = issue
        self.last = ""
        self.usage = Usage()

    async def record(self, *events: AnyEvent) -> None: ...

    def post(self, *events: AnyEvent) -> None: ...

    async def begin_turn(self, turn: int) -> str:  # noqa: ARG002 - there is only one
        return ""

    async def end_turn(self, turn: int) -> None: ...

    async def refresh_issue(self) -> Issue:
        return self._issue

    def note(self, level: Level, message: str, detail: str = "") -> None: ...

    def sign(self, source: str, text: str) -> None:
        if source == "agent":
            self.last = text

    def alive(self) -> None: ...

    def at_work(self) -> None: ...

    def used(self, usage: Usage, *, cost_follows: bool = False) -> None:  # noqa: ARG002 - the sum is what counts
        self.usage = self.usage.plus(usage)

    async def call_tool(self, tool: str, arguments: object) -> dict[str, Any]:  # noqa: ARG002
        return envelope.failure(envelope.INTERNAL_ERROR, f"{tool} cannot be used in a test of the connection.")

    def now(self) -> float:
        return time.time()
