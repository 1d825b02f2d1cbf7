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

import anyio
from msgspec.structs import replace

from ..agents.program import run_command
from ..core.model import Finding, Issue
from ..core.records import Claim
from ..hosts.local_host import LocalHost
from ..hosts.run_once import Finished, run_once
from ..process.spawn import prepare
from ..runs.environment import passed_on
from ..runs.spec import HooksSpec, PromptSpec, RunSpec, WorkspaceSpec
from ..runs.tool_log import ToolCall
from ..runs.toolkit import module_path, server_command
from ..sources.issues import IssueSource
from ..sources.source import RunFacts
from ..tools.definitions import SORTIE_STATUS
from ..workflow.loader import Workflow

DEADLINE = 180.0

PROMPT = (
    f"This is a test of the connection, there is no work to do. Call the tool `{SORTIE_STATUS.name}` of the server "
    "`sortie-tools` once, then answer with the single word: ready. Change no file and run no command."
)


async def examine_agent(
    path: Path, environ: Mapping[str, str], env_file: Path | None = None, *, probe: bool
) -> list[Finding]:
    prepare()
    source = IssueSource.open(path, environ, env_file)
    try:
        environment = passed_on(environ, (*source.agent.variables, *source.config.agent.env))
        findings = [*await source.agent.examine(environment), await _tool_server(source.workflow, environment)]
        if probe and not any(found.verdict == "FAIL" for found in findings):
            findings += await _exchange(source, environ)
        return findings
    finally:
        await source.aclose()


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


async def _exchange(source: IssueSource, environ: Mapping[str, str]) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="sortie-probe-") as name:
        directory = Path(name)
        host = LocalHost(directory / "probe.db", environ)
        started = time.monotonic()
        finished = None
        with anyio.move_on_after(DEADLINE):
            finished = await run_once(host, _spec(source, directory))
        seconds = time.monotonic() - started
        await host.aclose()
    if finished is None:
        return [Finding("FAIL", "exchange", f"no answer within {DEADLINE:g} s.", "Try the agent by hand.")]
    return [_answered(finished, seconds), *([_used_tools(finished)] if finished.outcome.turns else [])]


def _answered(finished: Finished, seconds: float) -> Finding:
    outcome = finished.outcome
    if outcome.status != "succeeded":
        return Finding("FAIL", "exchange", f"{outcome.error_kind}: {outcome.error}")
    detail = f"{finished.last_line!r} after {seconds:.1f} s, {finished.usage.total} tokens"
    return Finding("PASS", "exchange", detail)


def _used_tools(finished: Finished) -> Finding:
    calls = [ToolCall.recorded(line) for line in finished.tool_lines]
    if any(call is not None and call.tool == SORTIE_STATUS.name for call in calls):
        return Finding("PASS", "agent's tools", f"the agent called {SORTIE_STATUS.name} over MCP")
    fix = "Ask again; if it never does, see docs/agents.md for how this agent is given its tools."
    return Finding("WARN", "agent's tools", f"the agent answered without calling {SORTIE_STATUS.name}.", fix)


def _spec(source: IssueSource, directory: Path) -> RunSpec:
    state = next(iter(source.policy.active_states), "active")
    issue = Issue(id="probe", identifier="PROBE-1", title="A test of the connection", state=state)
    claim = Claim(
        issue_id=issue.id, identifier=issue.identifier, run_id=uuid.uuid4().hex, attempt=1, claimed_at=time.time()
    )
    spec = source.spec_for(issue, RunFacts(store_id=uuid.uuid4().hex, claim=claim))
    return replace(
        spec,
        prompt=PromptSpec(text=PROMPT, is_template=False),
        workspace=WorkspaceSpec(root=str(directory / "workspaces"), key=spec.workspace.key),
        hooks=HooksSpec(),
        limits=replace(spec.limits, max_turns=1),
    )
